"""``spark-sched trace evictions``: the causes of evictions in Google-2011-format tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from spark_sched.cli.common import echo_json, needing
from spark_sched.terminal import aligned_table, reading_bar, say

_BARS = " ▁▂▃▄▅▆▇█"


@click.command("evictions")
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--tolerance",
    "tolerances_s",
    type=click.IntRange(min=0),
    multiple=True,
    metavar="S",
    help="Seconds from an eviction to the start of a task of higher priority, repeatable."
    "  [default: 1 5 10 20 30]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def evictions(path: Path, tolerances_s: tuple[int, ...], as_json: bool) -> None:
    """Attribute evictions to machine failure, memory or disk excess, or a task of higher priority.

    PATH contains task_events/part-*, and optionally machine_events and task_usage. An eviction can have
    several causes. Prints tables 5.1 and 5.2 and figure 5.2 of the priority scheduling thesis.
    docs/explanation/evictions.md has the definitions.

    \b
    Examples:
      spark-sched trace evictions google2011/
      spark-sched trace evictions --json --tolerance 2 google2011/
    """
    with needing("trace"):
        import pyarrow  # noqa: F401
    from spark_sched_lab.traces.evictions import EvictionAnalysis, EvictionTables, summary
    from spark_sched_lab.traces.evictions.analysis import TOLERANCES_S

    with reading_bar() as bar:
        task = bar.add_task(f"reading {path.name}", total=None)
        tables = EvictionTables(path, progress=lambda done: bar.advance(task, done))
        bar.update(task, total=tables.size_bytes)
        found = EvictionAnalysis(
            usage=tables.has("task_usage"),
            machines=tables.has("machine_events"),
            tolerances_s=tolerances_s or TOLERANCES_S,
        )
        found.feed(tables.rows())
        found.finish()
    document = {"path": str(path), **summary(found), "report": tables.report.to_dict()}
    if as_json:
        echo_json(document)
    else:
        _print(document)
    report = tables.report
    for note, count in sorted(report.notes.items()):
        say(f"note: {note} ({count:,})")
    if report.bad_rows:
        say(f"{report.bad_rows:,} of {report.rows:,} rows could not be read:")
        for row in report.examples:
            say(f"  {row}")


def _print(document: dict[str, Any]) -> None:
    console = Console(highlight=False)
    again = _percent(document["evicted_tasks_evicted_again"])
    console.print(
        f"{document['path']}: {document['evictions']:,} evictions of {document['evicted_tasks']:,} tasks "
        f"of {document['tasks']:,}; {again} of the evicted tasks were evicted again, "
        f"{_percent(document['evicted_tasks_that_finished'])} finished",
        markup=False,
    )
    console.print(_causes(document))
    console.print(
        f"at the largest tolerances {_percent(document['evictions_with_several_causes'])} of the evictions "
        f"have several causes and {_percent(document['evictions_without_cause'])} none of these",
        markup=False,
    )
    console.print(_classes(document))
    console.print(_pairs(document))
    console.print(_arrivals(document))


def _causes(document: dict[str, Any]) -> Table:
    numbers = ("tolerance, s", "evictions", "share")
    table = aligned_table(["cause"], numbers, title="causes of eviction (table 5.1)")
    for row in document["causes"]:
        if row["evictions"] is None:
            missing = "no machine table" if row["cause"] == "machine failure" else "no usage table"
            table.add_row(row["cause"], str(row["tolerance_s"]), missing, "")
        else:
            share = _percent(row["share"])
            table.add_row(row["cause"], str(row["tolerance_s"]), f"{row['evictions']:,}", share)
    return table


def _classes(document: dict[str, Any]) -> Table:
    heads = ("priority", "% tasks", "% evictions", "per task", "max", "interarrival, s", "CPU demand, cpu·s",
             "memory demand, ram·s", "CPU", "memory")  # fmt: skip
    table = aligned_table([], heads, title="by priority (table 5.2)")
    table.caption = f"demand = {document['demand_from']}, of tasks that came and left in the window"
    for row in document["classes"]:
        table.add_row(
            str(row["priority"]),
            _percent(row["task_share"]),
            _percent(row["eviction_share"]),
            _number(row["evictions_per_evicted_task"]),
            str(row["max_evictions"]),
            _number(row["interarrival_s"]),
            _number(row["cpu_demand_s"]),
            _number(row["memory_demand_s"]),
            _number(row["cpu_usage"]),
            _number(row["memory_usage"]),
        )
    return table


def _pairs(document: dict[str, Any]) -> Table:
    heads = ("evictor", "evicted", "evictions", "share")
    table = aligned_table([], heads, title="priorities of evictor and evicted")
    for row in document["pairs"][:8]:
        table.add_row(
            str(row["evictor"]), str(row["evicted"]), f"{row['evictions']:,}", _percent(row["share"])
        )
    return table


def _arrivals(document: dict[str, Any]) -> Table:
    table = Table("priority", "arrivals per hour", "min", "max", title="task arrivals (figure 5.2)")
    for priority, counts in document["arrivals_per_hour"].items():
        most = max(counts)
        bars = "".join(_BARS[-(-8 * count // most)] if most else " " for count in counts)
        table.add_row(priority, bars, f"{min(counts):,}", f"{most:,}")
    table.columns[1].overflow = "fold"
    return table


def _percent(share: float | None) -> str:
    return "n/a" if share is None else f"{100 * share:.2f} %"


def _number(value: float | None) -> str:
    return "n/a" if value is None else f"{value:.4g}"
