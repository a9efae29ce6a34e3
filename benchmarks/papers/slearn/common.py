"""Shared by the figures: the traces, the runs by scale, and ratios with their intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import product
from typing import Any

import numpy as np

from benchmarks.papers.figures import Chart, Lines, Value
from benchmarks.papers.runs import Results, RunSpec, Scale, run_of
from benchmarks.papers.slearn import arm_runs
from benchmarks.papers.slearn.workload import TraceSpec

TRACES = ("2sigma", "google2011", "google2019")
#: No program changes permanently between the history and the jobs; only table 4's variation remains.
UNCHANGED = TraceSpec("google2011", updated=0.0)
TITLES = {"2sigma": "2STrace", "google2011": "GTrace11", "google2019": "GTrace19", "mix": "mix"}
#: Figure 5's schemes, and the Bayesian one of our own.
ARMS = ("slearn", "3sigma-gs", "3sigma-tl", "point-est", "gs-las", "fifo", "gs-oracle", "slearn-bayes")
#: Approximate seconds of processor time of a run; the longest runs start first.
_SECONDS = {"gs-las": 25.0, "fifo": 1.0}


def jobs_of(scale: Scale, dag: bool) -> int:
    """Jobs that run, of one seed."""
    if scale.quick:
        return 200
    return 900 if dag else 1250


def jct_run(scale: Scale, trace: TraceSpec, seed: int, arm: str) -> RunSpec:
    jobs, fields = jobs_of(scale, trace.dag), asdict(trace)
    return run_of(arm_runs.jcts, _SECONDS.get(arm, 8.0), trace=fields, seed=seed, arms=[arm], jobs=jobs)


def jct_runs(scale: Scale, traces: Iterable[TraceSpec], arms: Iterable[str]) -> list[RunSpec]:
    """Each arm on each trace, for every seed."""
    return [jct_run(scale, *each) for each in product(traces, scale.seeds, arms)]


def accuracy_run(scale: Scale, trace: TraceSpec, seed: int) -> RunSpec:
    return run_of(arm_runs.accuracy, 6.0, trace=asdict(trace), seed=seed, jobs=jobs_of(scale, trace.dag))


def accuracy_runs(scale: Scale, traces: Iterable[TraceSpec]) -> list[RunSpec]:
    return [accuracy_run(scale, *each) for each in product(traces, scale.seeds)]


def measured(scale: Scale, results: Results, trace: TraceSpec, *path: str | float) -> list[float | None]:
    """By seed the number at ``path`` of `arm_runs.accuracy`; None where the run gave none."""
    found = []
    for seed in scale.seeds:
        at: Any = results[accuracy_run(scale, trace, seed)]
        for key in map(str, path):
            at = at.get(key)
        found.append(at)
    return found


def speedups(
    scale: Scale, results: Results, trace: TraceSpec, arm: str, base: str = "slearn"
) -> tuple[list[float], list[float]]:
    """By seed: mean JCT under ``arm`` over that under ``base``, and the median over jobs of their ratio."""
    means, medians = [], []
    for seed in scale.seeds:
        ours, other = (
            np.array(results[run]["jct_s"][name])
            for name in (base, arm)
            for run in [jct_run(scale, trace, seed, name)]
        )
        means.append(float(other.mean() / ours.mean()))
        medians.append(float(np.median(other / ours)))
    return means, medians


def beside_paper(
    title: str, x_label: str, y_label: str, values: Sequence[Value], at: Mapping[str, float | str]
) -> Chart:
    """This project's and the paper's values named in ``at``, at the place given there: bars over words, lines
    over numbers."""
    known = {value.name: value for value in values}
    kind = "bars" if any(isinstance(place, str) for place in at.values()) else "lines"
    # Ours in the same colour in both kinds.
    series: Lines
    series = {"ours": [], "paper": []} if kind == "bars" else {"paper": [], "ours": []}
    for name, place in at.items():
        for who, number in (("ours", known[name].ours), ("paper", known[name].paper)):
            if number is not None:
                series[who].append((place, number))
    return Chart(title, x_label, y_label, {who: points for who, points in series.items() if points}, kind)


def by_trace(
    x_label: str,
    y_label: str,
    values: Sequence[Value],
    at: Callable[[str], Mapping[str, float | str]],
    traces: Iterable[str] = TRACES,
) -> list[Chart]:
    """`beside_paper` for each trace; ``at`` names a trace's values."""
    return [beside_paper(TITLES[like], x_label, y_label, values, at(like)) for like in traces]


def rows_of(values: Sequence[Value]) -> list[dict[str, Any]]:
    return [
        {
            "value": value.name,
            "paper": "-" if value.paper is None else f"{value.paper:g}",
            "ours": "-" if value.ours is None else f"{value.ours:g}",
            "95 %": "-" if value.ci95 is None else f"{value.ci95[0]:g} to {value.ci95[1]:g}",
        }
        for value in values
    ]
