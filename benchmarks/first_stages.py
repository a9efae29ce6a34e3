#!/usr/bin/env python3
"""Would task times of earlier applications help the first stage of a job in a new one?

    python benchmarks/first_stages.py [--jobs N] [--runs N] [--tasks N] [--json]

Task times of stages are drawn as in the theory tests. The calibrated deadline of a job's first stage is made
twice, without any earlier stage and from the stages of earlier runs: the share of stages that it attains
(P of equation 2), and the slot time held idle until it or the barrier as a share of all slot time. No Spark
is started and nothing but the deadline is computed: all tasks of a stage start at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import numpy as np
import numpy.typing as npt
from _common import publish

from spark_sched_lab.enforce.barriers import Barriers, JobBarriers

MAX_HOLD_MS = 600_000.0
LEVELS = (0.4, 0.9)

Times = npt.NDArray[np.float64]


def _bimodal(rng: np.random.Generator, tasks: int) -> Times:
    slow = rng.random(tasks) < 0.1
    return np.where(slow, 10_000.0, 1_000.0) * (1.0 + 0.1 * rng.random(tasks))


DRAWS: dict[str, Callable[[np.random.Generator, int], Times]] = {
    "Pareto 1.6": lambda rng, tasks: 1_000.0 * (1.0 - rng.random(tasks)) ** (-1.0 / 1.6),
    "Pareto 3": lambda rng, tasks: 1_000.0 * (1.0 - rng.random(tasks)) ** (-1.0 / 3.0),
    "log-normal 0.3": lambda rng, tasks: 1_000.0 * np.exp(0.3 * rng.standard_normal(tasks)),
    "log-normal 1": lambda rng, tasks: 1_000.0 * np.exp(rng.standard_normal(tasks)),
    "bimodal": _bimodal,
}


def stage(job: JobBarriers, times_ms: Times, level: float) -> tuple[bool, float, float]:
    """Whether the next stage ends before its deadline, its idle held and its whole slot time in ms."""
    ordered = np.sort(times_ms)
    barrier = job.new_stage(ordered.size)
    barrier.open_tasks = ordered.size
    for time_ms in ordered[: barrier.half]:
        barrier.task_ended(float(time_ms))
    deadline_ms = min(MAX_HOLD_MS, job.deadline_ms(barrier, level))
    for time_ms in ordered[barrier.half :]:
        barrier.task_ended(float(time_ms))
    job.ended(barrier, float(ordered[-1]))
    end_ms = min(deadline_ms, float(ordered[-1]))
    held_ms = float(np.maximum(0.0, end_ms - ordered).sum())
    return bool(ordered[-1] < deadline_ms), held_ms, float(ordered[-1]) * ordered.size


def first_stages(name: str, level: float, jobs: int, runs: int, tasks: int) -> dict[str, float]:
    """Over the first stages of ``jobs`` jobs, each in an application that had ``runs`` such stages before."""
    found = []
    for seed in range(jobs):
        rng, barriers = np.random.default_rng(seed), Barriers(seed)
        for _ in range(runs):
            stage(JobBarriers(barriers), DRAWS[name](rng, tasks), level)
        times_ms = DRAWS[name](np.random.default_rng((seed, 1)), tasks)
        found.append(stage(JobBarriers(barriers), times_ms, level))
    attained, held_ms, all_ms = np.array(found).T
    return {"attained": float(attained.mean()), "held_idle": float(held_ms.sum() / all_ms.sum())}


@click.command()
@click.option("--jobs", default=1_000, show_default=True, type=click.IntRange(1), help="Jobs of each row.")
@click.option(
    "--runs", default=5, show_default=True, type=click.IntRange(1), help="Earlier runs, of one stage each."
)
@click.option("--tasks", default=20, show_default=True, type=click.IntRange(2), help="Tasks of a stage.")
@click.option("--json", "json_output", is_flag=True, help="Print one JSON document.")
def main(jobs: int, runs: int, tasks: int, json_output: bool) -> None:
    lines: list[str] = []
    document: dict[str, Any] = {
        "benchmark": "first_stages",
        "runs": jobs,
        "earlier_runs": runs,
        "tasks": tasks,
        "rows": [],
    }
    for name in DRAWS:
        for level in LEVELS:
            new, known = (first_stages(name, level, jobs, earlier, tasks) for earlier in (0, runs))
            document["rows"].append({"times": name, "level": level, "new": new, "known": known})
            lines.append(
                f"{name}, P = {level:g}: attained {new['attained']:.2f}, with {runs} earlier runs "
                f"{known['attained']:.2f}; held idle {new['held_idle']:.2f}, {known['held_idle']:.2f}"
            )
    publish(document, lines, json_output)


if __name__ == "__main__":
    main()
