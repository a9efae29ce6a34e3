"""Figures 8 to 11: deadline slack and ablations, shift and width of distributions, load, sample size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.papers.figures import Figure, FigureSpec, Value
from benchmarks.papers.means import samples_value
from benchmarks.papers.runs import Results, RunSpec, Scale
from benchmarks.papers.three_sigma.comparison import POLICIES, SETUP, e2e_run
from benchmarks.papers.three_sigma.summaries import LABELS, METRICS, lines, row_of

#: Runs of the seeds by line and by what is varied along x.
_Table = dict[str, dict[float, list[RunSpec]]]

_ABLATIONS = (
    "3sigma",
    "point-perf-est",
    "point-real-est",
    "3sigma-no-dist",
    "3sigma-no-oe",
    "3sigma-no-adapt",
)


def _spec(
    identity: str, title: str, x_label: str, tag: str, table: Callable[[Scale], _Table], notes: str
) -> FigureSpec:
    """A figure of lines: misses, goodput and best-effort goodput over what is varied."""

    def runs(scale: Scale) -> Sequence[RunSpec]:
        return [run for by_x in table(scale).values() for found in by_x.values() for run in found]

    def build(scale: Scale, results: Results) -> Figure:
        made = table(scale)
        rows: list[dict[str, Any]] = []
        values: list[Value] = []
        for name, by_x in made.items():
            for x, wanted in by_x.items():
                found: list[Mapping[str, Any]] = [results[run] for run in wanted]
                rows.append({x_label: x, "line": name, **row_of(found[0]["policy"], found)})
                for field, _, unit in METRICS[:3]:
                    ours = [float(each[field]) for each in found]
                    key = "".join(c if c.isalnum() else "_" for c in name.casefold())
                    at = f"{x:g}".replace("-", "minus_").replace(".", "_")
                    values.append(samples_value(f"{field}_{key}_{tag}_{at}", unit, None, ours, len(found)))
        charts = [lines(results, made, field, title_, x_label, unit) for field, title_, unit in METRICS[:3]]
        return Figure(rows, values, f"{notes}\n\n{SETUP}", charts)

    return FigureSpec(identity, title, runs, build)


def _line(
    scale: Scale, policy: str, hours: float, at: Sequence[float], more: Callable[[float], dict[str, Any]]
) -> dict[float, list[RunSpec]]:
    """The seeds' runs of a policy by x, with ``more`` arguments for each; half an hour each if quick."""
    hours = 0.5 if scale.quick else hours
    return {x: [e2e_run(policy, seed, hours, **more(x)) for seed in scale.seeds] for x in at}


def _slack(scale: Scale) -> _Table:
    slacks = (20, 60, 180) if scale.quick else (20, 40, 60, 80, 100, 120, 140, 160, 180)
    return {
        LABELS[policy]: _line(scale, policy, 5.0, slacks, lambda slack: {"slacks": [slack / 100]})
        for policy in _ABLATIONS
    }


figure_8 = _spec(
    "fig8",
    "Deadline slack, and what each technique brings",
    "slack, %",
    "slack",
    _slack,
    "All SLO jobs have the same slack. The paper's shapes: less slack, more misses for all; 3SigmaNoDist and "
    "PointRealEst miss most; 3SigmaNoOE about as few as PointPerfEst but where slack is least; 3SigmaNoAdapt "
    "costs best-effort goodput. Its text gives no numbers.",
)


def _perturbed(scale: Scale) -> _Table:
    shifts = (-50.0, 0.0, 50.0) if scale.quick else (-50.0, -20.0, 0.0, 20.0, 50.0, 100.0)
    covs = (0.1, 0.5) if scale.quick else (0.1, 0.2, 0.5)

    def line(policy: str, **cov: float) -> dict[float, list[RunSpec]]:
        return _line(scale, policy, 2.0, shifts, lambda shift: {"shift": shift / 100, **cov})

    return {"point": line("point-real-est")} | {
        f"CoV = {100 * cov:g} %": line("3sigma", cov=cov) for cov in covs
    }


figure_9 = _spec(
    "fig9",
    "Distributions shifted and widened",
    "shift, %",
    "shift",
    _perturbed,
    "Instead of 3σPredict's answer the scheduler gets N(runtime · (1 + s), runtime · CoV), s ~ N(shift, "
    "0.1); the line 'point' is PointRealEst with that mean. The paper's shapes: distributions always miss "
    "less than the point (half as much at a shift of 0); narrow ones are better at small shifts, wide ones "
    "at large. The paper mixes accurate, under- and over-estimated jobs to reach an average shift; here all"
    " jobs shift alike.",
)


def _loads(scale: Scale) -> _Table:
    loads = (1.0, 1.6) if scale.quick else (1.0, 1.2, 1.4, 1.6)
    return {
        LABELS[policy]: _line(scale, policy, 5.0, loads, lambda load: {"load": load}) for policy in POLICIES
    }


figure_10 = _spec(
    "fig10",
    "Load",
    "load",
    "load",
    _loads,
    "The paper's shapes: misses rise with load for all, their order stays, best-effort goodput falls. Its "
    "text gives no numbers.",
)


def _sampled(scale: Scale) -> _Table:
    sizes = (5, 25, 100) if scale.quick else (5, 10, 25, 50, 75, 100)
    table = {
        LABELS[policy]: _line(scale, policy, 5.0, sizes, lambda size: {"samples": size})
        for policy in ("3sigma", "point-real-est")
    }
    # These two do not look at samples.
    for policy in ("point-perf-est", "prio"):
        table[LABELS[policy]] = _line(scale, policy, 5.0, [float(size) for size in sizes], lambda size: {})
    return table


figure_11 = _spec(
    "fig11",
    "Number of samples in a distribution",
    "samples",
    "samples",
    _sampled,
    "Each job's distribution is made of this number of draws from 3σPredict's; the point is their mean. The "
    "paper's shapes: both get better from 5 to 25 samples, 3Sigma more; from 25 on 3Sigma is near "
    "PointPerfEst.",
)
