"""The HTML page of a simulated experiment, from the files that ``simulate --out`` wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from spark_sched.files import write_whole
from spark_sched_lab.reports.pages import render_page
from spark_sched_lab.reports.plots import curves_svg

#: Points of a curve.
_POINTS = 200
#: Number of classes that are plotted: those with the most jobs.
_CLASSES = 6

Curve = list[tuple[float, float]]

_COLUMNS = (
    ("jobs", "jobs"),
    ("unfinished", "unfinished"),
    ("jct_mean_s", "JCT mean, s"),
    ("jct_p50_s", "p50, s"),
    ("jct_p95_s", "p95, s"),
    ("wait_mean_s", "wait, s"),
    ("deadlines_missed", "deadlines missed"),
    ("copies", "copies"),
    ("evictions", "evictions"),
    ("nonlocal_tasks", "tasks away from input"),
    ("wasted_slot_s", "wasted slot-s"),
    ("held_idle_slot_s", "held idle slot-s"),
    ("predicted_idle_slot_s", "held idle slot-s by equation 4, at most"),
)


def write_report(out: Path, document: Mapping[str, Any]) -> Path:
    """Write ``report.html`` into ``out``, where ``jobs.parquet`` and ``tasks.parquet`` of the same runs are.

    ``document`` is the command's JSON document. Raises BadInputError if the file cannot be written.
    """
    arms = [arm["arm"] for arm in document["arms"]]
    seeds = [run["seed"] for run in document["arms"][0]["runs"]]
    plots = [
        curves_svg(curves, "JCT, s", "share of jobs", name, log_x=True)
        for name, curves in _distributions(out / "jobs.parquet", arms).items()
    ]
    utilization, bin_s = _utilization(out / "tasks.parquet", arms, seeds[0], document["slots"])
    columns = [c for c in _COLUMNS if any(row[c[0]] for arm in document["arms"] for row in arm["classes"])]
    totals = list(dict.fromkeys(name for arm in document["arms"] for name in arm["runs"][0]["totals"]))
    page = render_page(
        "simulate.html.j2",
        name=document["experiment"],
        lead=(
            f"Simulated: {document['nodes']:,} nodes, {document['slots']:,} slots; "
            f"{len(arms)} arm{'s' * (len(arms) > 1)}, "
            f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}."
        ),
        heads=["arm", "class", *(head for _, head in columns)],
        rows=[
            [arm["arm"], row["class"], *(_cell(row[key]) for key, _ in columns)]
            for arm in document["arms"]
            for row in arm["classes"]
        ],
        distributions=plots,
        utilization=curves_svg(
            utilization, "time, s", "share of slots", width_in=9.5, marks={"all slots": 1.0}
        ),
        bin_s=_cell(bin_s),
        slots=f"{document['slots']:,}",
        seed=seeds[0],
        total_heads=["arm", *(name.replace("_", " ") for name in totals)],
        totals=[
            [arm["arm"], *(_cell(_mean([run["totals"].get(name) for run in arm["runs"]])) for name in totals)]
            for arm in document["arms"]
        ],
        left_out=document["left_out"],
    )
    path = out / "report.html"
    write_whole(path, page)
    return path


def completion_curve(jct_s: Sequence[float], jobs: int) -> Curve:
    """The share of ``jobs`` that took no longer, at up to 200 of the completion times of those that ended."""
    times = np.sort(np.asarray(jct_s, dtype=float))
    if not len(times):
        return []
    at = np.unique(np.linspace(0, len(times) - 1, _POINTS).round().astype(int))
    return [(max(float(times[i]), 1e-3), (i + 1) / jobs) for i in at.tolist()]


def busy_slots(
    start_ms: npt.NDArray[np.int64], end_ms: npt.NDArray[np.int64], edges_ms: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """Attempts that run, averaged between neighbouring ``edges_ms``."""

    def begun(times_ms: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        # The integral over time of the number of these instants that have passed.
        ordered = np.sort(times_ms).astype(float)
        sums = np.concatenate(([0.0], np.cumsum(ordered)))
        passed = np.searchsorted(ordered, edges_ms)
        return np.asarray(passed * edges_ms - sums[passed])

    return np.asarray(np.diff(begun(start_ms) - begun(end_ms)) / np.diff(edges_ms))


def _distributions(path: Path, arms: Sequence[str]) -> dict[str, dict[str, Sequence[tuple[float, float]]]]:
    table = pq.read_table(path, columns=["arm", "class", "priority", "jct_ms"]).to_pydict()
    times: dict[str, dict[str, list[float | None]]] = {}
    for arm, name, priority, jct_ms in zip(*table.values(), strict=True):
        for group in (name or f"priority {priority}", "all jobs"):
            jct_s = None if jct_ms is None else jct_ms / 1000.0
            times.setdefault(group, {}).setdefault(arm, []).append(jct_s)
    groups = sorted(times, key=lambda group: -sum(map(len, times[group].values())))
    shown = [group for group in groups if group != "all jobs"][:_CLASSES]
    if len(shown) != 1:
        shown.append("all jobs")
    return {
        group: {
            arm: completion_curve([t for t in times[group][arm] if t is not None], len(times[group][arm]))
            for arm in arms
            if arm in times[group]
        }
        for group in shown
    }


def _utilization(
    path: Path, arms: Sequence[str], seed: int, slots: int
) -> tuple[dict[str, Sequence[tuple[float, float]]], float]:
    spans = {}
    for arm in arms:
        chosen = [("arm", "=", arm), ("seed", "=", seed)]
        table = pq.read_table(path, columns=["start_ms", "end_ms"], filters=chosen)
        spans[arm] = (table["start_ms"].to_numpy(), table["end_ms"].to_numpy())
    last_ms = max((int(end.max()) for _, end in spans.values() if len(end)), default=1)
    edges_ms = np.linspace(0.0, float(max(1, last_ms)), _POINTS + 1)
    middle_s = (edges_ms[1:] + edges_ms[:-1]) / 2000.0
    curves: dict[str, Sequence[tuple[float, float]]] = {
        arm: list(zip(middle_s.tolist(), (busy_slots(*span, edges_ms) / slots).tolist(), strict=True))
        for arm, span in spans.items()
    }
    return curves, float(edges_ms[1]) / 1000.0


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _cell(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 1000 else f"{value:,.4g}"
