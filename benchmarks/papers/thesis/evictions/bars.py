"""The claims of chapters 7 to 9, seed by seed: does each difference have the claimed direction under every
seed?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import sub
from typing import Any

from benchmarks.papers.figures import Figure, Value, figure
from benchmarks.papers.means import mean_value
from benchmarks.papers.runs import Results, RunSpec, Scale
from benchmarks.papers.thesis.evictions.comparisons import (
    RunSummary,
    against,
    all_workloads,
    busier_workloads,
    dropped,
    fitting_workloads,
    lower,
    real_workloads,
    run_arm,
)
from spark_sched_lab.evictions.settings import EvictionSetup


@dataclass(frozen=True)
class Bar:
    """A number of one seed's arms with its limits: at least ``least``, or at most ``most``.

    ``paper`` is the thesis' number. A difference has the claimed direction if it is above 0 (with
    ``or_equal``: at least 0); a number with ``most`` has no direction.
    """

    name: str
    unit: str
    paper: float | None
    arms: Mapping[str, EvictionSetup]
    of: Callable[[Mapping[str, RunSummary]], float | None]
    workloads: Callable[[], Sequence[str]]
    least: float | None = None
    most: float | None = None
    or_equal: bool = False

    def met(self, number: float) -> bool:
        return (self.least is None or number >= self.least) and (self.most is None or number <= self.most)

    def has_direction(self, number: float) -> bool:
        return self.most is not None or number > 0 or (self.or_equal and number == 0)


def _sampled() -> tuple[str, ...]:
    return (*real_workloads(), *busier_workloads())


def _fitting() -> tuple[str, ...]:
    return (*fitting_workloads(), *busier_workloads())


def _named(*rules: str) -> dict[str, EvictionSetup]:
    return {rule: EvictionSetup(rule) for rule in rules}


_VICTIMS = _named("mrs", "rnd", "lrs")
_PRICED = _named("priced", "priced-slots", "mrs5", "mrs5-keep")
_SLOTS = {
    "WA2SC": EvictionSetup("wasp", "WASC", memory=True),
    "SC3": EvictionSetup("mrs", "SC3", memory=True),
}
_STICKY = {
    "HYBRID": EvictionSetup("hybrid", "WASC", memory=True),
    "HYBRID_gratis": EvictionSetup("hybrid-gratis", "WASC", memory=True),
    "WASP": EvictionSetup("wasp", "WASC", memory=True),
}


def _limited(victims: str, paper: float | None) -> tuple[Bar, Bar]:
    arms, limited = _named(victims, f"{victims}5"), f"{victims}5"
    below = lower("WE", limited, victims)
    return (
        Bar(f"WE_{limited}_below_{victims}", "%", 50, arms, below, _sampled, least=50),
        Bar(f"dropped_{limited}", "%", paper, arms, dropped(limited), _sampled, most=5),
    )


def _sticky(arm: str) -> tuple[Bar, ...]:
    """Of all waiting tasks (HYBRID), or of gratis classes alone."""

    def bar(metric: str, of: str, paper: float, least: float, or_equal: bool = False) -> Bar:
        number = lower(of, arm, "WASP")
        name = f"{metric}_{arm}_below_WASP"
        return Bar(name, "%", paper, _STICKY, number, _fitting, least=least, or_equal=or_equal)

    return (
        bar("NE", "NE", 60, 60),
        bar("WE", "WE", 85, 85),
        bar("R_evicted_class_0", "R_lowest_evicted", 43, 40),
        bar("R_9", "R/9", 10, 0, or_equal=True),
    )


BARS = (
    Bar("WE_MRS_below_LRS", "%", 78, _VICTIMS, lower("WE", "mrs", "lrs"), _sampled, least=70),
    Bar("V_MRS_below_LRS", "%", 20, _VICTIMS, lower("V", "mrs", "lrs"), _sampled, least=20),
    Bar("most_evictions_RND_over_MRS", "", 26, _VICTIMS,
        against("max_evictions", "rnd", "mrs", sub), _sampled, least=1),
    Bar("most_evictions_LRS_over_RND", "", 2, _VICTIMS,
        against("max_evictions", "lrs", "rnd", sub), _sampled, least=0, or_equal=True),
    *_limited("mrs", 1.8),
    *_limited("lrs", 3.6),
    Bar("V_WA2SC_below_SC3", "%", 18, _SLOTS, lower("V", "WA2SC", "SC3"), _fitting, least=15),
    *_sticky("HYBRID"),
    *_sticky("HYBRID_gratis"),
    *[
        Bar(f"{metric}_{rule}_below_{base}", "%", None, _PRICED, lower(metric, rule, base), all_workloads,
            least=0, or_equal=True)
        for rule in ("priced", "priced-slots")
        for base in ("mrs5", "mrs5-keep")
        for metric in ("V", "WE")
    ],
)  # fmt: skip


def _needed(scale: Scale) -> list[RunSpec]:
    return [
        run_arm(arm, scale, name, seed)
        for seed in scale.seeds
        for bar in BARS
        for name in bar.workloads()
        for arm in bar.arms.values()
    ]


@figure("bars", "The thesis' claims seed by seed", _needed)
def claims(scale: Scale, results: Results) -> Figure:
    rows: list[dict[str, Any]] = []
    values: list[Value] = []
    for bar in BARS:
        for name in bar.workloads():
            found = [
                bar.of({label: results[run_arm(arm, scale, name, seed)] for label, arm in bar.arms.items()})
                for seed in scale.seeds
            ]
            known = [number for number in found if number is not None]
            key = f"{name}_{bar.name}".lower().replace("-", "_")
            mean = mean_value(key, bar.unit, bar.paper, found)
            values.append(mean)
            rows.append({
                "workload": name,
                "bar": bar.name,
                "wanted": f">= {bar.least:g}" if bar.least is not None else f"<= {bar.most:g}",
                "thesis": bar.paper,
                "mean": mean.ours,
                "seeds": " ".join("-" if number is None else f"{number:.1f}" for number in found),
                "direction": f"{sum(map(bar.has_direction, known))} of {len(known)}",
                "met": f"{sum(map(bar.met, known))} of {len(known)}",
            })  # fmt: skip
    return Figure(
        rows,
        values,
        "W-A-generated@1.2: each task demands 1.2 times the CPU time. "
        "direction: seeds with the sign of the thesis' difference; met: seeds that reach what is wanted.",
    )
