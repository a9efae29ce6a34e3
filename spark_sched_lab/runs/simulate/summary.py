"""Summarizes a run per class of jobs. Jobs that did not end are counted, never dropped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from spark_sched_lab.engine.results import Result


def summarize(result: Result) -> list[dict[str, Any]]:
    """One row per class of jobs (``class`` of the job, else its priority), then one for all.

    ``jct_*_s`` and ``wait_mean_s`` are over jobs that ended; the number of the others is beside them.
    ``deadlines_missed`` counts jobs with a deadline that ended after it or not at all.
    """
    groups: dict[str, list[int]] = {}
    for row, (name, priority) in enumerate(zip(result.jobs["class"], result.jobs["priority"], strict=True)):
        groups.setdefault(name or f"priority {priority}", []).append(row)
    rows = [_row(name, result.jobs, members) for name, members in sorted(groups.items())]
    if len(rows) > 1:
        rows.append(_row("all", result.jobs, range(len(result.jobs["job"]))))
    return rows


def _row(name: str, jobs: Mapping[str, Sequence[Any]], members: Iterable[int]) -> dict[str, Any]:
    rows = list(members)
    ended = [i for i in rows if jobs["end_ms"][i] is not None]
    jct_s = np.array([jobs["jct_ms"][i] for i in ended], dtype=float) / 1000.0
    wait_s = np.array([jobs["wait_ms"][i] for i in ended], dtype=float) / 1000.0
    due = [i for i in rows if jobs["deadline_ms"][i] is not None]
    missed = [i for i in due if jobs["end_ms"][i] is None or jobs["end_ms"][i] > jobs["deadline_ms"][i]]
    return {
        "class": name,
        "jobs": len(rows),
        "unfinished": len(rows) - len(ended),
        "jct_mean_s": float(jct_s.mean()) if ended else None,
        "jct_p50_s": float(np.percentile(jct_s, 50)) if ended else None,
        "jct_p95_s": float(np.percentile(jct_s, 95)) if ended else None,
        "wait_mean_s": float(wait_s.mean()) if ended else None,
        "deadlines": len(due),
        "deadlines_missed": len(missed),
        "copies": sum(jobs["copies"][i] for i in rows),
        "evictions": sum(jobs["evictions"][i] for i in rows),
        "nonlocal_tasks": sum(jobs["nonlocal_tasks"][i] for i in rows),
        "wasted_slot_s": sum(jobs["wasted_ms"][i] for i in rows) / 1000.0,
        "held_idle_slot_s": sum(jobs["held_idle_ms"][i] for i in rows) / 1000.0,
        "predicted_idle_slot_s": sum(jobs["predicted_idle_ms"][i] for i in rows) / 1000.0,
    }


def mean_over_runs(runs: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Rows of `summarize` for several seeds as one table: means over the runs that have a value."""
    names: dict[str, None] = {}
    for rows in runs:
        names.update(dict.fromkeys(row["class"] for row in rows))
    ordered = sorted(names, key=lambda name: (name == "all", name))
    table = []
    for name in ordered:
        rows = [row for run in runs for row in run if row["class"] == name]
        merged: dict[str, Any] = {"class": name, "runs": len(rows)}
        for key in rows[0]:
            if key != "class":
                values = [row[key] for row in rows if row[key] is not None]
                merged[key] = float(np.mean(values)) if values else None
        table.append(merged)
    return table
