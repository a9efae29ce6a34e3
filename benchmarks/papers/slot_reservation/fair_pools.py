"""Figure 13: two jobs under fair sharing, one of which has barriers."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from benchmarks.papers.figures import Chart, Figure, Lines, Value, figure
from benchmarks.papers.means import samples_value
from benchmarks.papers.runs import Results, RunSpec, Scale, run_of
from benchmarks.papers.slot_reservation.contention import NO_COPIES
from benchmarks.papers.slot_reservation.testbed import running_over_time
from spark_sched_lab.simulator import ClusterSpec, JobSpec, StageSpec, simulate, uniform_nodes

#: Stages of job-1.
STAGES = 3
_SLOTS = 8
#: Tasks of a stage of job-1: narrower than its share of four slots, as wide, wider, and beyond all slots.
_WIDTHS = (2, 4, 6, 8, 12)
#: Drawn sets of task times for each width.
_DRAWS = 10
#: Job-2 comes when job-1 has its first slots, as in the paper's plot.
DELAY_MS = 500
#: Time between two points of the plots.
_STEP_MS = 250


def task_times_ms(width: int, slots: int, rng: np.random.Generator) -> tuple[list[list[int]], list[int]]:
    """Task times of job-1 by stage, each of ``width`` tasks of 1.5 to 2.5 s, and of job-2: four times
    ``slots`` tasks of 3 to 5 s."""

    def even(low: int, high: int, tasks: int) -> list[int]:
        return [int(ms) for ms in rng.permutation(np.linspace(low, high, tasks))]

    return [even(1_500, 2_500, width) for _ in range(STAGES)], even(3_000, 5_000, 4 * slots)


def under_fair(*, width: int, seed: int, arm: str) -> dict[str, Any]:
    """One run of both jobs on eight slots, each in a pool of its own.

    Args:
        width: tasks of each stage of job-1.
        arm: ``stock``, Spark's order; ``reservation``, job-1 holds slots; ``alone``, job-1 on half of the
            slots.

    Returns JCTs in ms by job, ``share``: of the slots that job-1 used until its end, and ``running``: the
    tasks of each job every quarter of a second.
    """
    stages_ms, flat_ms = task_times_ms(width, _SLOTS, np.random.default_rng((seed, width)))
    stages = tuple(StageSpec(times, (i - 1,) if i else ()) for i, times in enumerate(stages_ms))
    jobs = [JobSpec("job-1", 0, stages, isolation=1.0 if arm == "reservation" else None)]
    if arm != "alone":
        jobs.append(JobSpec("job-2", DELAY_MS, (StageSpec(flat_ms),)))
    slots = _SLOTS // 2 if arm == "alone" else _SLOTS
    result = simulate(ClusterSpec(uniform_nodes(slots, 1)), jobs, "fair", settings=NO_COPIES, seed=seed)
    rows = list(result.rows())
    until_ms = max(row["end_ms"] for row in rows)
    used_ms = sum(sum(times) for times in stages_ms)
    jct_ms = {row["job"]: row["jct_ms"] for row in rows}
    return {
        "jct_ms": jct_ms,
        "share": used_ms / (slots * jct_ms["job-1"]),
        "running": {
            row["job"]: running_over_time(result.tasks, row["number"], until_ms, _STEP_MS) for row in rows
        },
    }


def _run(scale: Scale, width: int, arm: str) -> list[RunSpec]:
    seeds = [100 * seed + draw for seed in scale.seeds for draw in range(_DRAWS)]
    return [run_of(under_fair, 0.02, width=width, seed=seed, arm=arm) for seed in seeds]


def _runs(scale: Scale) -> list[RunSpec]:
    return [run for each in product(_WIDTHS, ("alone", "stock", "reservation")) for run in _run(scale, *each)]


@figure("fig13", "Two jobs in FAIR pools, with and without reservation", _runs)
def figure_13(scale: Scale, results: Results) -> Figure:
    rows: list[dict[str, Any]] = []
    values: list[Value] = []
    for width in _WIDTHS:
        alone, stock, held = (
            [results[run] for run in _run(scale, width, arm)] for arm in ("alone", "stock", "reservation")
        )
        runs = len(held)
        over: dict[str, list[float]] = {
            job: [h["jct_ms"][job] / s["jct_ms"][job] for h, s in zip(held, stock, strict=True)]
            for job in ("job-1", "job-2")
        }
        ideal = {
            name: [f["jct_ms"]["job-1"] / a["jct_ms"]["job-1"] for f, a in zip(found, alone, strict=True)]
            for name, found in (("without", stock), ("with", held))
        }
        rows.append(
            {
                "width of job-1": width,
                "its share, without": float(np.mean([found["share"] for found in stock])),
                "with": float(np.mean([found["share"] for found in held])),
                "its slowdown, without": float(np.mean(ideal["without"])),
                "slowdown with": float(np.mean(ideal["with"])),
                "its JCT, with / without": float(np.mean(over["job-1"])),
                "job-2, with / without": float(np.mean(over["job-2"])),
                "job-2, worst run": max(over["job-2"]),
            }
        )
        for job, ratios in over.items():
            name = f"{job.replace('-', '_')}_with_over_without_width_{width}"
            values.append(samples_value(name, "", None, ratios, runs))
    charts = []
    for word, arm in (("without", "stock"), ("with", "reservation")):
        running = results[_run(scale, _SLOTS // 2, arm)[0]]["running"]
        lines: Lines = {
            job: [(nth * _STEP_MS / 1_000.0, float(count)) for nth, count in enumerate(counts)]
            for job, counts in running.items()
        }
        charts.append(Chart(f"{word.capitalize()} reservation", "seconds", "running tasks", lines))
    notes = (
        f"Two pools of equal weight on {_SLOTS} slots. Job-1 has {STAGES} stages, job-2 {4 * _SLOTS} tasks "
        "and no barrier; the paper states no sizes. The width is that of each stage, and the slowdown is "
        "over job-1 alone on half of the slots, the paper's ideal. The plots have the paper's case, stages "
        "as wide as the share of job-1. Wider stages hold slots beyond that share, which the pool below its "
        "share may take. "
        "`benchmarks/fair_pools.py` runs the same jobs on real Spark."
    )
    return Figure(rows, values, notes, charts)
