"""``docs/reference/cli.md``, generated from the commands: ``python -m spark_sched.cli.docs --write``."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator

import click

from spark_sched.cli.app import app
from spark_sched.generated import show_or_write

REGENERATE = "python -m spark_sched.cli.docs --write"

_HEAD = f"""<!-- Generated: do not edit. Change the command in spark_sched/cli, then run: {REGENERATE} -->

# Command line

This page lists every command and option. Results go to standard output; progress and notes go to standard
error. The exit status is 0 for success, 2 for wrong input (one sentence names the input and the remedy)
and 1 for any other failure. Commands that need jobs (whatif, recommend, predict) treat logs as wrong input if
none of them has a job; commands that describe a log (usage, trace stats) report this and succeed.
"""


def cli_page() -> str:
    """The whole page, ending in a newline."""
    return "\n".join([_HEAD, *_sections(app, "spark-sched", None)])


def _sections(command: click.Command, name: str, parent: click.Context | None) -> Iterator[str]:
    context = click.Context(command, info_name=name.rpartition(" ")[2], parent=parent)
    yield f"## `{name}`\n"
    yield f"```\n{' '.join([name, *command.collect_usage_pieces(context)])}\n```\n"
    yield from _help(command)
    options = [param for param in command.params if isinstance(param, click.Option)]
    if options:
        yield "| option | meaning |"
        yield "|---|---|"
        yield from (_row(option, context) for option in options)
        yield ""
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            assert found is not None
            yield from _sections(found, f"{name} {child}", context)


def _help(command: click.Command) -> Iterator[str]:
    """The help text. Click prints a paragraph after a backspace unchanged: examples."""
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(command.help or "")):
        if not paragraph.startswith("\b"):
            yield f"{paragraph}\n"
            continue
        _, title, *lines = paragraph.split("\n")
        body = "\n".join(line.removeprefix("  ") for line in lines)
        yield f"{title}\n\n```\n{body}\n```\n"


def _row(option: click.Option, context: click.Context) -> str:
    record = option.get_help_record(context)
    assert record is not None, option.name
    # A bracket outside code would be a reference to another page.
    return f"| `{_cell(record[0])}` | {_cell(record[1]).replace('[', '&#91;')} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    raise SystemExit(show_or_write(cli_page(), "cli.md", sys.argv[1:]))
