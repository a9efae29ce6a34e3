"""Figure 17: job completion time with straggler copies on reserved slots."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.papers.figures import Chart, Figure, Lines, Value, figure
from benchmarks.papers.runs import Results, RunSpec, Scale
from benchmarks.papers.slot_reservation.contention import (
    NO_COPIES,
    PAPERS_COPIES,
    contended_run,
)
from benchmarks.papers.slot_reservation.workload import SUITES, Size

#: Shape of production workloads, and the paper's reduction for it.
_TYPICAL, _PAPER = 1.6, 73.0
_ARMS: dict[str, dict[str, str]] = {"none": NO_COPIES, "paper": PAPERS_COPIES, "default": {}}


def _tails(scale: Scale) -> tuple[float, ...]:
    return (1.2, 1.6, 2.5) if scale.quick else (1.2, 1.4, 1.6, 1.8, 2.0, 2.5)


def _size(scale: Scale) -> Size:
    return Size(jobs=1_000, each=2) if scale.quick else Size(jobs=2_000, each=6)


def _run(scale: Scale, seed: int, alpha: float, arm: str) -> RunSpec:
    return contended_run(_size(scale), seed, "reservation", settings=_ARMS[arm], alpha=alpha)


def _arms(alpha: float) -> list[str]:
    return list(_ARMS) if alpha == _TYPICAL else ["none", "paper"]


def _runs(scale: Scale) -> list[RunSpec]:
    return [
        _run(scale, seed, alpha, arm)
        for seed in scale.seeds
        for alpha in _tails(scale)
        for arm in _arms(alpha)
    ]


def _pairs(scale: Scale, results: Results, alpha: float, arm: str, suite: str | None) -> tuple[Any, Any]:
    """JCTs in s without and with copies, job by job."""
    without, kept = [], []
    for seed in scale.seeds:
        base = results[_run(scale, seed, alpha, "none")]["foreground"]
        other = results[_run(scale, seed, alpha, arm)]["foreground"]
        for job, row in base.items():
            if suite is None or row["suite"] == suite:
                without.append(row["jct_ms"] / 1000.0)
                kept.append(other[job]["jct_ms"] / 1000.0)
    return np.array(without), np.array(kept)


def _reduction(without: Any, kept: Any) -> tuple[float, tuple[float, float]]:
    """100 (1 - mean JCT with / mean JCT without) and its 95 % bootstrap bounds over pairs of jobs."""
    rng = np.random.default_rng(17)
    chosen = rng.integers(len(without), size=(4_000, len(without)))
    drawn = 100.0 * (1.0 - kept[chosen].mean(axis=1) / without[chosen].mean(axis=1))
    low, high = np.percentile(drawn, [2.5, 97.5])
    return float(100.0 * (1.0 - kept.mean() / without.mean())), (float(low), float(high))


@figure("fig17", "JCT reduction by straggler copies on reserved slots", _runs)
def figure_17(scale: Scale, results: Results) -> Figure:
    rows: list[dict[str, Any]] = []
    values: list[Value] = []
    lines: Lines = {"all": [], **{suite: [] for suite in SUITES}}
    seeds = len(scale.seeds)
    for alpha in _tails(scale):
        tag = f"{alpha:g}".replace(".", "_")
        for arm in _arms(alpha)[1:]:
            for suite in (None, *SUITES):
                without, kept = _pairs(scale, results, alpha, arm, suite)
                reduction, interval = _reduction(without, kept)
                each = 100.0 * float(np.mean(1.0 - kept / without))
                rows.append(
                    {
                        "α": alpha,
                        "copies": "the paper's rule" if arm == "paper" else "this project's default",
                        "suite": suite or "all",
                        "jobs": len(without),
                        "mean JCT without, s": float(without.mean()),
                        "with, s": float(kept.mean()),
                        "reduction, %": reduction,
                        "mean of jobs' reductions, %": each,
                    }
                )
                if arm == "paper":
                    lines[suite or "all"].append((alpha, reduction))
                    name = "jct_reduction" if suite is None else f"jct_reduction_{suite.replace('-', '_')}"
                    paper = _PAPER if suite is None and alpha == _TYPICAL else None
                    text = "by 73 % on average" if paper is not None else ""
                    values.append(Value(f"{name}_alpha_{tag}", "%", paper, reduction, interval, seeds, text))
                    if suite is None and alpha == _TYPICAL:
                        name = f"jct_reduction_mean_of_jobs_alpha_{tag}"
                        values.append(Value(name, "%", None, each, None, seeds))
                elif suite is None:
                    name = f"jct_reduction_default_copies_alpha_{tag}"
                    values.append(Value(name, "%", None, reduction, interval, seeds))
    size = _size(scale)
    notes = (
        f"The jobs of figure 15 among {size.jobs:,} background jobs, each stage's task times replaced by "
        "Pareto(α) of the same mean; reservation with P = 1 in both arms, copies in one. A reduction is "
        "that of the mean JCT over all jobs; the mean of the jobs' own reductions stands beside it and is "
        "smaller, because the few jobs with huge stragglers gain most. The paper says “by 73 % on average” "
        "without saying which.\n\nThe paper's rule copies every running task as soon as the held slots "
        "suffice. This project's default waits until a task has run 1.5 times its stage's typical time, "
        "which costs little (its row).\n\nCopies need held slots. Where a stage is followed by a narrower "
        "one its first slots are released (Algorithm 1, lines 9 to 11), and after a query's last stage "
        "nothing is held, so that nothing can be copied there. MLlib jobs are marked jobs of several Spark "
        "jobs whose end the scheduler does not know, so their slots stay theirs to the end."
    )
    chart = Chart(
        "Reduction of the mean JCT by copies", "shape α", "%", lines, marks={"paper, α = 1.6": _PAPER}
    )
    return Figure(rows, values, notes, (chart,))
