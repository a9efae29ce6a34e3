"""The root command. Subcommands are imported only when they run, so that ``--help`` is fast."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import IO, Any

import click
from click.exceptions import NoArgsIsHelpError

from spark_sched import __version__
from spark_sched.errors import BadInputError, did_you_mean

# Section of --help -> name -> (module, its line in --help). A module has one click command, `command`, or its
# name follows a colon.
_SECTIONS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Attach": {
        "conf": ("spark_sched.cli.conf", "Print the properties that attach the scheduler to spark-submit."),
        "submit": ("spark_sched.cli.submit", "Run spark-submit with those properties."),
        "doctor": ("spark_sched.cli.doctor", "Check the installation; name a remedy for each problem."),
        "demo": ("spark_sched_lab.cli.demo", "Compare stock Spark and spark_sched on a local cluster."),
    },
    "Watch a live application": {
        "top": ("spark_sched.cli.top", "Show the jobs of a live application: who runs, who waits, why."),
        "explain": ("spark_sched.cli.explain", "Tell the story of one job of a live application."),
    },
    "Steer it": {
        "set": (
            "spark_sched.cli.steer:set_command",
            "Change the priority, deadline or isolation of a live job.",
        ),
        "hold": ("spark_sched.cli.steer:hold", "Start no further task of a live job."),
        "resume": ("spark_sched.cli.steer:resume", "Let a job on hold start tasks again."),
        "cancel": ("spark_sched.cli.steer:cancel", "Cancel the Spark jobs that run for a live job."),
        "end": ("spark_sched.cli.steer:end", "End a live job that does not end by itself."),
        "queue": ("spark_sched.cli.queues", "Show and change the tenants' queues of a live application."),
        "pause": ("spark_sched.cli.steer:pause", "Release all held slots of an application; hold none."),
        "unpause": ("spark_sched.cli.steer:unpause", "Let the jobs of an application hold slots again."),
        "policy": ("spark_sched.cli.steer:policy_command", "Switch a live application to another policy."),
        "policies": ("spark_sched.cli.policies", "List the policies that there are."),
        "mode": (
            "spark_sched.cli.steer:mode_command",
            "Switch a live application on, off or to shadow mode.",
        ),
    },
    "Analyse what ran": {
        "usage": ("spark_sched_lab.cli.usage", "Charge the executors' slot time to users, classes or jobs."),
        "whatif": ("spark_sched_lab.cli.whatif", "Replay a Spark event log under other policies."),
        "recommend": (
            "spark_sched_lab.cli.recommend",
            "Size executors, slots and priorities from event logs.",
        ),
        "predict": (
            "spark_sched_lab.cli.predict",
            "Learn runtimes from history; measure the accuracy of predictions.",
        ),
        "energy": ("spark_sched_lab.cli.energy", "Run a command and measure the energy of this host (RAPL)."),
    },
    "Research": {
        "simulate": ("spark_sched_lab.cli.simulate", "Run any policy on any trace, on a virtual clock."),
        "trace": (
            "spark_sched_lab.cli.trace",
            "Read, generate and measure workloads: traces and Spark event logs.",
        ),
        "bench": ("spark_sched_lab.cli.bench", "Run suites of SparkBench's workloads."),
        "ab": ("spark_sched_lab.cli.ab", "Compare settings by paired runs, with confidence intervals."),
        "ec2": ("spark_sched_lab.cli.ec2", "Bring up a cluster on EC2 for A/B tests, and remove it."),
        "reproduce": (
            "spark_sched_lab.cli.reproduce",
            "Make a paper's figures and compare them with the paper's values.",
        ),
    },
}
_COMMANDS = {name: command for section in _SECTIONS.values() for name, command in section.items()}


class Refusal(click.ClickException):
    """One sentence on standard error and exit status 2."""

    exit_code = 2

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"error: {self.format_message()}", file=file, err=file is None)


class Failure(Refusal):
    """A failure that the user's input did not cause."""

    exit_code = 1


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports a command when it runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order of the table above, which is the order in which users need them."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module. Returns None for an unknown name, as click expects."""
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), attribute or "command")
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, with this project's message for an unknown command."""
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            raise Refusal(
                f"unknown command {args[0]!r}{did_you_mean(args[0], _COMMANDS)}: try `spark-sched --help`"
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List commands from the table: importing all of them would take a second."""
        width = max(map(len, _COMMANDS))
        for title, commands in _SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), text) for name, (_, text) in commands.items()])

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click's; an unknown option before the command gives one sentence too."""
        if not args:
            return super().parse_args(ctx, args)  # prints the help
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            raise Refusal(_usage_sentence(error)) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command. Bad input gives one sentence, never a traceback."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            raise Refusal(_usage_sentence(error)) from None
        except BadInputError as error:
            raise Refusal(str(error)) from None
        except Exception as error:
            # Imported here only: other commands need no bridge.
            from spark_sched.attach import BridgeError

            if isinstance(error, BridgeError):
                raise Failure(str(error)) from None
            raise


def _usage_sentence(error: click.UsageError) -> str:
    path = error.ctx.command_path if error.ctx else "spark-sched"
    if isinstance(error, NoArgsIsHelpError) and error.ctx and isinstance(error.ctx.command, click.Group):
        names = error.ctx.command.list_commands(error.ctx)
        return f"`{path}` needs a command: give one of {', '.join(names)}"
    return f"{error.format_message().rstrip('.')}: see `{path} --help`"


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="spark-sched")
def app() -> None:
    """Schedule the jobs of one Spark application: isolation, deadlines, fair shares.

    \b
    Examples:
      spark-sched demo --quick
      spark-sched submit --master 'local[4]' app.py
      spark-sched conf --master 'local-cluster[2,2,1024]' --out sched.conf
      spark-submit --properties-file sched.conf app.py

    \b
    Completion of commands and options in bash; for zsh and fish write their names in place of bash:
      eval "$(_SPARK_SCHED_COMPLETE=bash_source spark-sched)"
    """
