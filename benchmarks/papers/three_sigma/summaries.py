"""Means over seeds with their intervals, and the metrics of the paper's plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.papers.figures import Chart, Lines, Value
from benchmarks.papers.means import samples_value
from benchmarks.papers.runs import Results, RunSpec
from spark_sched_lab.runs.paired.statistics import spread

#: Policies by the paper's names.
LABELS = {
    "3sigma": "3Sigma",
    "point-perf-est": "PointPerfEst",
    "point-real-est": "PointRealEst",
    "prio": "Prio",
    "3sigma-uncalibrated": "3Sigma, uncalibrated",
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


def mean_of(found: Sequence[Mapping[str, Any]], field: str) -> float | None:
    """The mean of a field over the runs that have it; None if none has."""
    values = _of(found, field)
    return mean_ci(values)[0] if values else None


def row_of(policy: str, found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A row of a table: the policy, and the means over seeds."""
    row: dict[str, Any] = {"policy": LABELS[policy]}
    for field, name, unit in (*METRICS, ("wasted_machine_h", "wasted", "machine-h")):
        row[f"{name}, {unit}"] = mean_of(found, field)
    return row


def values_of(
    policy: str,
    found: Sequence[Mapping[str, Any]],
    papers: Mapping[str, float] | None = None,
) -> list[Value]:
    """Every metric of a policy beside the paper's numbers (by field)."""
    tag, stated = policy.replace("-", "_"), papers or {}
    return [
        samples_value(f"{field}_{tag}", unit, stated.get(field), _of(found, field), len(found))
        for field, _, unit in METRICS
    ]


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
    name = f"{field}_{one}_less_{other}".replace("-", "_")
    return samples_value(name, "%" if percent else unit, paper, values, len(values))


def bars(found: Mapping[str, Sequence[Mapping[str, Any]]], field: str, title: str, unit: str) -> Chart:
    means = {LABELS[policy]: mean_of(runs, field) for policy, runs in found.items()}
    points = [(label, mean) for label, mean in means.items() if mean is not None]
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
    series: Lines = {name: [] for name in table}
    for name, by_x in table.items():
        for x, runs in by_x.items():
            mean = mean_of([results[run] for run in runs], field)
            if mean is not None:
                series[name].append((x, mean))
    return Chart(title, x_label, f"{title}, {unit}", series)
