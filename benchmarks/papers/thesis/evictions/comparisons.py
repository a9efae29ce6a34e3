"""Runs of the comparisons' arms, and figures made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.papers.figures import Chart, Figure, FigureSpec, Lines
from benchmarks.papers.means import mean_value
from benchmarks.papers.runs import Results, RunSpec, Scale, run_of
from benchmarks.papers.thesis.evictions import priority_runs
from spark_sched_lab.evictions.settings import EvictionSetup

RunSummary = Mapping[str, Any]


def run_arm(arm: EvictionSetup, scale: Scale, name: str, seed: int, low: bool = False) -> RunSpec:
    """The run of a comparison's arm on a workload."""
    return run_of(
        priority_runs.priorities,
        2.0,
        **asdict(arm),
        name=name,
        seed=seed,
        low=low,
        hours=3.0 if scale.quick else 15.0,
        folder=priority_runs.source_folder(),
    )


@dataclass(frozen=True)
class Comparison:
    """A number computed from one seed's arms (None if they do not give it), beside the thesis' number.

    ``paper``: None where the thesis gives none; by workload (``W-A``, ``W-A-low``) where it differs.
    """

    name: str
    unit: str
    paper: float | Mapping[str, float] | None
    of: Callable[[Mapping[str, RunSummary]], float | None]

    def paper_of(self, workload: str, low: bool) -> float | None:
        """The thesis' number for a workload; variants of a workload (``W-A-generated``) share one."""
        if isinstance(self.paper, Mapping):
            return self.paper.get(workload[:3] + ("-low" if low else ""))
        return self.paper


@dataclass(frozen=True)
class Plot:
    """A plot with a line per arm, of the first seed of each workload: ``points`` of the arm's run."""

    title: str
    x_label: str
    y_label: str
    points: Callable[[RunSummary], Sequence[tuple[float, float]]]

    def of(self, workload: str, seed: int, arms: Mapping[str, RunSummary]) -> Chart:
        series = {label: self.points(found) for label, found in arms.items()}
        return Chart(f"{self.title}, {workload}, seed {seed}", self.x_label, self.y_label, series)


def over_time(title: str, y_label: str, column: int) -> Plot:
    """A column of a run's samples (`priority_runs.priorities`) by the hour."""
    return Plot(title, "hour", y_label, lambda found: [(s[0] / 3600.0, s[column]) for s in found["samples"]])


def against(
    metric: str, arm: str, base: str, of: Callable[[float, float], float | None]
) -> Callable[[Mapping[str, RunSummary]], float | None]:
    """A number ``of`` an arm's metric and the base's; None where one has none."""

    def number(found: Mapping[str, RunSummary]) -> float | None:
        ours, other = value(found[arm], metric), value(found[base], metric)
        return None if ours is None or other is None else of(ours, other)

    return number


def lower(metric: str, arm: str, base: str) -> Callable[[Mapping[str, RunSummary]], float | None]:
    """By how many percent an arm's metric is below the base's. ``R/9``: class 9's response time."""
    return against(metric, arm, base, lambda ours, other: 100.0 * (1.0 - ours / other) if other else None)


def absolute(metric: str, arm: str) -> Callable[[Mapping[str, RunSummary]], float | None]:
    return lambda found: value(found[arm], metric)


def dropped(arm: str) -> Callable[[Mapping[str, RunSummary]], float | None]:
    """The percentage of an arm's tasks that it drops."""
    return lambda found: 100.0 * found[arm]["dropped"] / found[arm]["tasks"]


def value(summary: RunSummary, metric: str) -> float | None:
    """A metric of a summary; ``field/class`` is one class' response time or other field."""
    if "/" not in metric:
        number = summary[metric]
        return None if number is None else float(number)
    field, priority = metric.split("/")
    row = summary["classes"].get(priority)
    return None if row is None else float(row["response_s" if field == "R" else field])


def real_workloads() -> tuple[str, ...]:
    """W-A as sampled from the trace, if the trace is available, and as generated."""
    sampled = ("W-A-request", "W-A-usage", "W-A-demand") if priority_runs.source_folder() else ()
    return (*sampled, "W-A-generated")


def fitting_workloads() -> tuple[str, ...]:
    """The workloads whose memory demand fits on the servers. Memory as requested does not: tasks would evict
    each other without end, so memory is modelled by usage only."""
    return tuple(name for name in real_workloads() if name != "W-A-request")


def all_workloads() -> tuple[str, ...]:
    """W-A as in `real_workloads`, and W-B to W-E."""
    return (*real_workloads(), "W-B", "W-C", "W-D", "W-E")


def busier_workloads() -> tuple[str, ...]:
    """W-A as generated, with larger demands. Table 5.2's means ask for 72 % of the cluster's CPU time,
    these for 86 and 93 %."""
    return ("W-A-generated@1.2", "W-A-generated@1.3")


def comparison(
    identity: str,
    title: str,
    arms: Mapping[str, EvictionSetup],
    metrics: Sequence[str],
    comparisons: Sequence[Comparison],
    notes: str,
    *,
    workloads: Callable[[], Sequence[str]] | None = None,
    low: Sequence[bool] = (False,),
    chart: str | None = None,
    plots: Sequence[Plot] = (),
) -> FigureSpec:
    """A table with a row per workload and arm, means over seeds, and the thesis' numbers beside ours.

    ``workloads``: returns the names; None: the variants of W-A, and only those whose memory fits if an arm
        models memory.
    ``chart``: the metric of a bar chart.
    """

    if workloads is None:
        workloads = fitting_workloads if any(arm.memory for arm in arms.values()) else real_workloads

    def needed(scale: Scale) -> list[RunSpec]:
        return [
            run_arm(arm, scale, name, seed, is_low)
            for name in workloads()
            for is_low in low
            for seed in scale.seeds
            for arm in arms.values()
        ]

    def build(scale: Scale, results: Results) -> Figure:
        rows, values = [], []
        bars: Lines = {}
        for name in workloads():
            for is_low in low:
                shown = name + ("-low" if is_low else "")
                seeds = [
                    {label: results[run_arm(arm, scale, name, seed, is_low)] for label, arm in arms.items()}
                    for seed in scale.seeds
                ]
                for label in arms:
                    means = {m: _mean([value(found[label], m) for found in seeds]) for m in metrics}
                    rows.append({"workload": shown, "arm": label, **means})
                    shown_value = means.get(chart) if chart else None
                    if shown_value is not None:
                        bars.setdefault(shown, []).append((label, shown_value))
                for number in comparisons:
                    ours = [number.of(found) for found in seeds]
                    key = f"{shown}_{number.name}".lower().replace("-", "_")
                    values.append(mean_value(key, number.unit, number.paper_of(name, is_low), ours))
        charts = [Chart(f"{title}: {chart}", "", chart, bars, "bars")] if chart and bars else []
        seed = scale.seeds[0]
        for name in workloads() if plots else ():
            first = {label: results[run_arm(arm, scale, name, seed, low[0])] for label, arm in arms.items()}
            charts += [plot.of(name, seed, first) for plot in plots]
        about = notes + (_ENERGY if "E_kwh" in metrics else "") + _SOURCES
        return Figure(rows, values, about, charts)

    return FigureSpec(identity, title, needed, build)


_ENERGY = (
    " E is the energy of all servers until the last task arrives, at 15 h: the thesis simulates 15 h. Work "
    "that is left then is not in it; E_all counts until the last task has left."
)
_SOURCES = (
    " W-A-request: tasks sampled from the real trace's contiguous window, CPU demand = request × duration; "
    "durations that the window cuts off are drawn from Kaplan and Meier's estimate for the class; "
    "W-A-usage: the same, requests of each class scaled to table 5.2's mean usage; W-A-demand: the same, "
    "demands scaled to table 5.2's, memory drawn from it, and class 2 counted as class 4; W-A-generated: "
    f"drawn from table 5.2. The sampled ones need the tables' folder in {priority_runs.SOURCE}. WE is in "
    "cpu·s; the thesis' 219·10⁹ cpu·s is more than its cluster has in 15 h (3.6·10⁶), so it is read as "
    "millionths."
)


def _mean(numbers: Sequence[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return round(sum(known) / len(known), 3) if known else None
