"""``spark-sched top``: the jobs of a live application."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from spark_sched.cli.common import echo_json
from spark_sched.errors import BadInputError
from spark_sched.plain_text import plain, short
from spark_sched.terminal import EXIT_INTERRUPTED
from spark_sched.view import text
from spark_sched.view.overview import ORDERS, chosen, rows, summary_line

if TYPE_CHECKING:
    from rich.console import Group

    from spark_sched.view.status import Status

_STYLES = {
    "running": "green",
    "held_back": "yellow",
    "deferred": "cyan",
    "evicted": "red",
    "waiting": "yellow",
    "on_hold": "magenta",
}


_WIDTH_OF_A_FILE = 200
# The empty line, the titles, the line about more jobs, and one that a terminal may need.
_LINES_AROUND = 4


@click.command("top")
@click.argument("url")
@click.option("--once", is_flag=True, help="Print the table once instead of refreshing it.")
@click.option("--json", "as_json", is_flag=True, help="Print the status document once, as one JSON object.")
@click.option("--user", metavar="NAME", help="Show this user's jobs alone.")
@click.option("--queue", metavar="NAME", help="Show the jobs of this queue and of those below it alone.")
@click.option(
    "--sort",
    "order",
    type=click.Choice(tuple(ORDERS)),
    default="attention",
    show_default=True,
    help="attention: deadlines at risk first, then the longest waits, then what runs.",
)
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(min=0.2, max=3600.0),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two refreshes.",
)
def command(
    url: str, once: bool, as_json: bool, user: str | None, queue: str | None, order: str, every_s: float
) -> None:
    """Show running jobs, waiting jobs with the reason, and whether the planner is alive.

    URL is the address of the application's Spark UI. Each job has one line; a narrow terminal shows fewer
    columns, and a low one fewer jobs. The table is refreshed until you press Ctrl-C or the application ends.
    The UI's view ACLs apply.

    \b
    Examples:
      spark-sched top http://localhost:4040
      spark-sched top --once localhost:4040
      spark-sched top --user ana --sort wait localhost:4040
      spark-sched top --queue etl localhost:4040
      spark-sched top --json localhost:4040 > status.json
    """
    from rich.console import Console

    from spark_sched.view.http import fetch_document, fetch_status

    if as_json:
        echo_json(fetch_document(url))
    elif once:
        # Without a terminal a program reads the lines.
        console = Console() if sys.stdout.isatty() else Console(width=_WIDTH_OF_A_FILE)
        console.print(_table(fetch_status(url), (user, queue), order, console.width, text.MOST_ROWS))
    else:
        _follow(url, (user, queue), order, every_s)


def _follow(url: str, whose: tuple[str | None, str | None], order: str, every_s: float) -> None:
    from rich.live import Live

    from spark_sched.view.http import fetch_status

    try:
        with Live(screen=True, auto_refresh=False) as live:
            console, status = live.console, fetch_status(url)
            while True:
                live.update(_table(status, whose, order, console.width, None, console.height), refresh=True)
                time.sleep(every_s)
                try:
                    status = fetch_status(url)
                except BadInputError:
                    break  # It answered before: the application has ended.
    except KeyboardInterrupt:
        raise SystemExit(EXIT_INTERRUPTED) from None
    click.echo("the application's UI does not answer any more: the application has probably ended", err=True)


def _table(
    status: Status,
    whose: tuple[str | None, str | None],
    order: str,
    width: int,
    most: int | None,
    height: int | None = None,
) -> Group:
    """The head and a line for each job of the user and the queue: as many as ``most``, or as fit under the
    head into ``height``."""
    from rich.console import Group
    from rich.text import Text

    alarming = not status.application.scheduling or (status.planner.enabled and not status.planner.alive)
    head = Text("\n".join([*text.head_lines(status), summary_line(status)]), style="red" if alarming else "")
    jobs = chosen(status.jobs, status.now_ms, order, *whose)
    if not jobs:
        named = zip(("user", "queue"), whose, strict=True)
        of = [f"of {kind} {plain(short(name))}" for kind, name in named if name is not None]
        return Group(head, Text(), Text(" ".join(["no jobs", *of])))
    if most is None:
        used = sum(max(1, -(-len(line) // width)) for line in head.plain.split("\n"))
        most = max(1, (height or 0) - used - _LINES_AROUND)
    columns, cells = rows(jobs[:most], status.now_ms, width)
    lines = [Text("  ".join(cells[0]).rstrip(), style="bold", no_wrap=True)]
    for job, row in zip(jobs, cells[1:], strict=False):
        line = Text(no_wrap=True)
        for column, cell in zip(columns, row, strict=True):
            line.append(cell, style=_STYLES.get(job.state, "") if column.title == "state" else "")
            line.append("  ")
        line.rstrip()
        lines.append(line)
    if len(jobs) > most:
        lines.append(Text(f"+{len(jobs) - most:,} more"))
    return Group(head, Text(), *lines)
