"""Tables of ``spark-sched trace stats``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from spark_sched.plain_text import plain
from spark_sched.terminal import aligned_table, plain_table

_SHOWN = ("min", "p10", "p50", "p90", "p99", "max", "mean")


def print_stats(document: dict[str, Any]) -> None:
    console = Console()
    stats = document["stats"]
    console.print(_overview(document))
    if stats["jobs"] or stats["task_attempts"]:
        console.print(_quantiles(stats))
    else:
        console.print("There is no job.")
    groups = _variation(stats)
    if groups.row_count:
        console.print(groups)
    if stats["arrivals"]:
        console.print(_arrivals(stats["arrivals"]))
    for note in document["notes"]:
        console.print(plain(f"note: {note}"), markup=False, highlight=False)


def _overview(document: dict[str, Any]) -> Table:
    stats = document["stats"]
    title = f"{document['path']} ({document['format']})"
    table = plain_table(title=title, show_header=False, title_justify="left")
    rows = {
        "jobs": _count(stats["jobs"]),
        "stages": _count(stats["stages"]),
        "task attempts": _count(stats["task_attempts"]),
        "copies": _count(stats["copies"]),
        "users": _count(stats["users"]),
        "jobs with deadline": _count(stats["deadlines"]),
        "machines": _count(document["machines"]),
        "jobs by outcome": _shares(stats["outcomes"]),
        "attempts by outcome": _shares(stats["attempt_outcomes"]),
        "jobs by priority": _shares(stats["priorities"]),
        "jobs by class": _shares(stats["classes"]),
        "span of arrivals": _number(stats["span_s"], "s"),
        "work": _number(stats["work_slot_s"], "slot·s"),
        "slots busy, mean": _number(stats["mean_slots_busy"]),
        "measured live": _measured(document["measured"]),
        "rows skipped": f"{document['report']['bad_rows']:,} of {document['report']['rows']:,}",
    }
    for name, value in rows.items():
        if value:
            table.add_row(name, value)
    return table


def _measured(measured: dict[str, Any] | None) -> str:
    if measured is None:
        return ""
    held, copied, evicted = (measured[f"{kind}_slot_s"] for kind in ("held_idle", "copied", "evicted"))
    return f"{held:,.1f} slot·s held idle, {copied:,.1f} by copies, {evicted:,.1f} by evicted attempts"


def _labelled(
    title: str, heads: Sequence[str], stats: dict[str, Any], labels: dict[str, str], names: Sequence[str]
) -> Table:
    """A row for each of the statistics that the trace has."""
    table = aligned_table([""], heads, title=title, title_justify="left")
    for key, label in labels.items():
        if stats[key]:
            table.add_row(label, *(_number(stats[key][name]) for name in names))
    table.columns[0].no_wrap = True
    return table


def _quantiles(stats: dict[str, Any]) -> Table:
    labels = {
        "runtime_s": "job runtime, s",
        "task_s": "task duration, s",
        "stages_per_job": "stages of a job",
        "tasks_per_job": "tasks of a job",
        "task_cov_within_stage": "task CoV in a stage",
    }
    return _labelled("distributions", _SHOWN, stats, labels, _SHOWN)


def _variation(stats: dict[str, Any]) -> Table:
    names = ("groups", "p50", "p75", "p90", "max", "share_above_1")
    labels = {
        "runtime_cov_by_user": "by user",
        "runtime_cov_by_slots": "by slots requested",
        "runtime_cov_by_user_and_name": "by user and name",
    }
    table = _labelled("CoV of runtimes", (*names[:-1], "share > 1"), stats, labels, names)
    if table.row_count:
        table.add_row("all jobs", "1", *[""] * 3, _number(stats["runtime_cov"]), "")
        table.caption = "groups of at least two jobs (3Sigma, fig. 2)"
    return table


def _arrivals(found: dict[str, float]) -> Table:
    table = Table(title="arrivals", show_header=False, title_justify="left")
    table.add_row("c² of the gaps (Poisson: 1)", _number(found["c2"]))
    table.add_row("mean gap", _number(found["mean_gap_s"], "s"))
    table.add_row("largest gap", _number(found["max_gap_s"], "s"))
    table.add_row("most in 1 min", _number(found["max_in_1_min"]))
    table.add_row("most in 10 min", _number(found["max_in_10_min"]))
    return table


def _count(value: int) -> str:
    return f"{value:,}" if value else ""


def _number(value: float | None, unit: str = "") -> str:
    if value is None:
        return ""
    text = f"{value:,.0f}" if abs(value) >= 1000 or value == int(value) else f"{value:.3g}"
    return f"{text} {unit}" if unit else text


def _shares(counts: dict[str, int]) -> str:
    total = sum(counts.values())
    shown = sorted(counts.items(), key=lambda item: -item[1])[:6]
    more = f", {len(counts) - 6} more" if len(counts) > 6 else ""
    return ", ".join(f"{name} {n:,} ({n / total:.1%})" for name, n in shown) + more
