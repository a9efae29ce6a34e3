"""Figure 15's settings "standard" and "long background" at several loads of the background."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from benchmarks.papers.figures import Chart, Figure, Lines, figure
from benchmarks.papers.means import samples_value
from benchmarks.papers.runs import Results, RunSpec, Scale
from benchmarks.papers.slot_reservation.contention import alone_run, contended_run, slowdowns
from benchmarks.papers.slot_reservation.workload import Size

_SUITES = ("mllib", "sql")
_LOADS = (0.5, 0.7, 0.85, 1.0, 1.2, 2.0)
_STRETCHES = {"standard": 1.0, "long background": 2.0}


def _size(scale: Scale, load: float) -> Size:
    # A quarter of the nodes and of the jobs: arrivals last as long as at full size, many times the longest
    # task, so that the cluster fills to its load.
    small = Size(nodes=250, jobs=2_000, each=2, load=load)
    return small if scale.quick else Size(each=3, load=load)


def _alone(scale: Scale, seed: int, load: float) -> RunSpec:
    return alone_run(_size(scale, load), seed, suites=_SUITES)


def _run(scale: Scale, seed: int, load: float, setting: str) -> RunSpec:
    stretch = _STRETCHES[setting]
    return contended_run(_size(scale, load), seed, "priority", suites=_SUITES, stretch=stretch)


def _runs(scale: Scale) -> list[RunSpec]:
    loads = list(product(scale.seeds, _LOADS))
    together = product(loads, _STRETCHES)
    return [_alone(scale, *each) for each in loads] + [_run(scale, *each, name) for each, name in together]


def closest_load(rises: dict[float, float]) -> float:
    """The load at which the long background changes the slowdown least; ``rises`` is its ratio by load."""
    return min(rises, key=lambda load: abs(rises[load] - 1.0))


def _slowdowns(scale: Scale, results: Results, load: float, setting: str, suite: str) -> list[float]:
    """JCT over JCT alone of the suite's jobs of all seeds."""
    return [
        slowdown
        for seed in scale.seeds
        for slowdown in slowdowns(
            results[_run(scale, seed, load, setting)], results[_alone(scale, seed, load)], suite
        )
    ]


@figure("fig15-loads", "Figure 15's long background at several loads of the cluster", _runs)
def figure_15_loads(scale: Scale, results: Results) -> Figure:
    rows: list[dict[str, Any]] = []
    values = []
    lines: Lines = {}
    for suite in _SUITES:
        for load in _LOADS:
            found = {setting: _slowdowns(scale, results, load, setting, suite) for setting in _STRETCHES}
            standard, longer = (float(np.mean(found[setting])) for setting in _STRETCHES)
            rows.append(
                {
                    "suite": suite,
                    "load, standard": load,
                    "load, long background": 2.0 * load,
                    "slowdown, standard": standard,
                    "slowdown, long background": longer,
                    "long / standard": longer / standard,
                }
            )
            for setting, samples in found.items():
                tag = f"{suite}_{setting}_load_{load:g}".replace(".", "_").replace(" ", "_")
                values.append(samples_value(f"slowdown_without_{tag}", "", None, samples, len(scale.seeds)))
            lines.setdefault(suite, []).append((load, longer / standard))
    size = _size(scale, 1.0)
    ratios = {row["load, standard"]: row["long / standard"] for row in rows if row["suite"] == "mllib"}
    closest = closest_load(ratios)
    notes = (
        f"{size.nodes:,} nodes of 4 slots and {size.jobs:,} background jobs, no reservation. The load is the "
        "background work that arrives per slot and second in the standard setting; with tasks of twice the "
        "length it is twice that. The paper says that the long background “has little impact” and gives no "
        f"load. For MLlib jobs the two settings differ least at a load of {closest:g} (by a factor of "
        f"{ratios[closest]:.3g}). Above a load of 1 a task waits for every freed slot, and the time until a "
        "slot near the input is free depends on the length of the background's tasks. Below it slots stay "
        "free."
    )
    chart = Chart(
        "Slowdown with the long background over that in the standard setting, without reservation",
        "load of the background in the standard setting",
        "ratio of mean slowdowns",
        lines,
        marks={"no impact": 1.0},
    )
    return Figure(rows, values, notes, (chart,))
