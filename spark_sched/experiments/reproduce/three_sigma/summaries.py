"""Means over seeds with their intervals, and the metrics of the paper's plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from spark_sched.experiments.paired.statistics import spread
from spark_sched.experiments.reproduce.figures import Chart, Lines, Value
from spark_sched.experiments.reproduce.runs import Results, RunSpec

#: Policies by the paper's names.
LABELS = {
    "3sigma": "3Sigma",
    "point-perf-est": "PointPerfEst",
    "point-real-est": "PointRealEst",
    "prio": "Prio",
    "3sigma-no-dist": "3SigmaNoDist",
    "3sigma-no-oe": "3SigmaNoOE",
    "3sigma-no-adapt": "3SigmaNoAdapt",
}
#: Field of a run, name, unit.
METRICS = (
    ("slo_miss_percent", "SLO misses", "%"),
    ("goodput_machine_h", "goodput", "machine-h"),
    ("be_goodput_machine_h", "BE goodput", "machine-h"),
    ("be_latency_s", "BE latency", "s"),
    ("be_unfinished_percent", "BE unfinished", "%"),
)


def mean_ci(values: Sequence[float]) -> tuple[float, tuple[float, float] | None]:
    """The mean and its 95 % bounds (`spread`); None for too few values."""
    found = spread(values, np.random.default_rng(0))
    return found.mean, found.ci95


def _of(found: Sequence[Mapping[str, Any]], field: str) -> list[float]:
    return [float(each[field]) for each in found if each[field] is not None]


def rows_of(cells: Mapping[str, Any], policy: str, found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A row of a table: what was varied, the policy, and the means over seeds."""
    row: dict[str, Any] = {**cells, "policy": LABELS[policy]}
    for field, name, unit in METRICS:
        values = _of(found, field)
        row[f"{name}, {unit}"] = mean_ci(values)[0] if values else None
    row["wasted, machine-h"] = mean_ci(_of(found, "wasted_machine_h"))[0]
    return row


def values_of(
    policy: str,
    found: Sequence[Mapping[str, Any]],
    papers: Mapping[str, float] | None = None,
) -> list[Value]:
    """Every metric of a policy beside the paper's numbers (by field)."""
    made = []
    for field, _, unit in METRICS:
        values = _of(found, field)
        ours, interval = mean_ci(values) if values else (None, None)
        name = f"{field}_{policy.replace('-', '_')}"
        made.append(Value(name, unit, (papers or {}).get(field), ours, interval, len(found)))
    return made


def differences(
    one: str,
    other: str,
    found: Mapping[str, Sequence[Mapping[str, Any]]],
    field: str,
    unit: str,
    paper: float | None = None,
    *,
    percent: bool = False,
) -> Value:
    """A metric of ``one`` less that of ``other``, seed by seed; in % of the other's with ``percent``."""
    pairs = [
        (float(a[field]), float(b[field]))
        for a, b in zip(found[one], found[other], strict=True)
        if a[field] is not None and b[field] is not None
    ]
    values = [100 * (a / b - 1.0) if percent else a - b for a, b in pairs if b or not percent]
    ours, interval = mean_ci(values) if values else (None, None)
    name = f"{field}_{one}_less_{other}".replace("-", "_")
    return Value(name, "%" if percent else unit, paper, ours, interval, len(values))


def bars(found: Mapping[str, Sequence[Mapping[str, Any]]], field: str, title: str, unit: str) -> Chart:
    """One bar per policy."""
    points: list[tuple[float | str, float]] = [
        (LABELS[policy], mean_ci(_of(runs, field))[0]) for policy, runs in found.items() if _of(runs, field)
    ]
    return Chart(title, "", f"{title}, {unit}", {title: points}, "bars")


def lines(
    results: Results,
    table: Mapping[str, Mapping[float, Sequence[RunSpec]]],
    field: str,
    title: str,
    x_label: str,
    unit: str,
) -> Chart:
    """One line per name over what was varied; ``table`` has the seeds' runs by name and x."""
    series: Lines = {}
    for name, by_x in table.items():
        points: list[tuple[float | str, float]] = []
        for x, runs in by_x.items():
            values = _of([results[run] for run in runs], field)
            if values:
                points.append((x, mean_ci(values)[0]))
        series[name] = points
    return Chart(title, x_label, f"{title}, {unit}", series)
