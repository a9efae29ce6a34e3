"""``spark-sched top``: the jobs of a live application."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from spark_sched.cli.common import echo_json
from spark_sched.errors import BadInputError
from spark_sched.terminal import EXIT_INTERRUPTED

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


@click.command("top")
@click.argument("url")
@click.option("--once", is_flag=True, help="Print the table once instead of refreshing it.")
@click.option("--json", "as_json", is_flag=True, help="Print the status document once, as one JSON object.")
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(min=0.2, max=3600.0),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between two refreshes.",
)
def command(url: str, once: bool, as_json: bool, every_s: float) -> None:
    """Show running jobs, waiting jobs with the reason, and whether the planner is alive.

    URL is the address of the application's Spark UI. The table is refreshed until you press Ctrl-C or the
    application ends. The UI's view ACLs apply.

    \b
    Examples:
      spark-sched top http://localhost:4040
      spark-sched top --once localhost:4040
      spark-sched top --json localhost:4040 > status.json
    """
    from rich.console import Console

    from spark_sched.view.http import fetch_document, fetch_status

    if as_json:
        echo_json(fetch_document(url))
    elif once:
        Console().print(_table(fetch_status(url)))
    else:
        _follow(url, every_s)


def _follow(url: str, every_s: float) -> None:
    from rich.live import Live

    from spark_sched.view.http import fetch_status

    try:
        with Live(_table(fetch_status(url)), screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(every_s)
                try:
                    status = fetch_status(url)
                except BadInputError:
                    break  # It answered before: the application has ended.
                live.update(_table(status), refresh=True)
    except KeyboardInterrupt:
        raise SystemExit(EXIT_INTERRUPTED) from None
    click.echo("the application's UI does not answer any more: the application has probably ended", err=True)


def _table(status: Status) -> Group:
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    from spark_sched.view import text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in text.COLUMNS:
        right = column in ("prio", "done", "run", "held", "wait")
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    jobs, more = text.shown_jobs(status)
    for job in jobs:
        table.add_row(
            *(
                Text(cell, style=_STYLES.get(job.state, "") if i == 2 else "")
                for i, cell in enumerate(text.job_row(job, status.now_ms))
            )
        )
    lines = text.head_lines(status)
    alarming = not status.application.scheduling or (status.planner.enabled and not status.planner.alive)
    head = Text("\n".join(lines), style="red" if alarming else "")
    rest = [] if more is None else [Text(more)]
    return Group(head, Text(), table if jobs else Text("no jobs"), *rest)
