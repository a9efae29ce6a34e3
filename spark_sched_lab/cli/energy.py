"""``spark-sched energy``: the measured energy of this host while a command runs."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import click

from spark_sched.cli.child import run_child
from spark_sched.cli.common import needing
from spark_sched.errors import BadInputError

#: Seconds between two readings; a counter starts again after minutes at the soonest.
_INTERVAL_S = 10.0


@click.command("energy", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.toml",
    help="Write the energy to this file, for `spark-sched usage --measured`.",
)
@click.option("--host", metavar="NAME", help="This host's name in the log; default: its host name.")
@click.option(
    "--counters",
    type=click.Path(path_type=Path, file_okay=False),
    default="/sys/class/powercap",
    show_default=True,
    metavar="FOLDER",
    help="Where the RAPL counters are.",
)
@click.argument("arguments", nargs=-1, required=True, type=click.UNPROCESSED, metavar="COMMAND [ARGUMENTS]")
@click.pass_context
def command(
    context: click.Context, out: Path, host: str | None, counters: Path, arguments: tuple[str, ...]
) -> None:
    """Run COMMAND and measure the energy of this host's processors (RAPL) while it runs.

    The file has a table [measured_j] with the energy in joules of the processors, and of the memory where it
    has a counter. Use this on every host that has executors. On a host without counters COMMAND is not run.
    The exit status is that of COMMAND.

    \b
    Examples:
      spark-sched energy --out node.toml spark-sched submit app.py
      spark-sched usage events/ --energy profile.toml --measured node.toml
    """
    with needing("energy"):
        from spark_sched_lab.usage.rapl import RaplMeter
    meter = RaplMeter(counters)
    try:
        status = run_child(arguments, every_s=_INTERVAL_S, meanwhile=meter.sample)
    except OSError as error:
        raise BadInputError(f"{arguments[0]} cannot be run ({error.strerror}): check the command") from None
    joules = meter.sample()
    if not joules > 0.0:
        raise BadInputError(
            f"the counters below {counters} did not change, so {out} was not written: run a longer command"
        )
    name = json.dumps(host or socket.gethostname())
    out.write_text(f"[measured_j]\n{name} = {joules:.3f}\n", encoding="utf-8")
    context.exit(status)
