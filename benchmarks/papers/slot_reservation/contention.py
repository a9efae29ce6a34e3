"""The simulated runs behind figures 10, 15, 16 and 17: functions of JSON values, for any process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from benchmarks.papers.runs import RunSpec, run_of
from benchmarks.papers.slot_reservation import workload
from benchmarks.papers.slot_reservation.workload import SUITES, Size
from spark_sched.policies.reservation import stage_time_with_copies_s
from spark_sched_lab.simulator import ClusterSpec, JobSpec, StageSpec, pareto_sampler, simulate, uniform_nodes

#: Settings of an arm.
NO_COPIES = {"spark.sched.copies.enabled": "false"}
#: The paper's rule: copies start as soon as there is a held slot for each running task (section IV-C).
PAPERS_COPIES = {"spark.sched.copies.minSlowdown": "0", "spark.sched.copies.minTaskTime": "0ms"}


def _jobs(
    size: Size, seed: int, suites: Sequence[str], stretch: float, alpha: float | None
) -> tuple[list[JobSpec], list[JobSpec]]:
    """Background and foreground jobs, the same for all arms of a seed. The foreground arrives at the same
    times whether or not the background's tasks are stretched."""
    background = workload.background(size, np.random.default_rng((seed, 1)))
    busy = workload.busy_ms(size, background)
    if stretch != 1.0:
        background = workload.background(size, np.random.default_rng((seed, 1)), stretch=stretch)
    foreground = workload.foreground(size, np.random.default_rng((seed, 2)), busy, suites)
    if alpha is not None:
        rng = np.random.default_rng((seed, 3))
        foreground = list(workload.with_pareto_tasks(foreground, alpha, rng))
    return background, foreground


def alone(
    *, size: Mapping[str, Any], seed: int, suites: Sequence[str], slowdown: float, held_is_near: bool = False
) -> dict[str, int]:
    """JCT in ms of every foreground job alone in the cluster: the smaller of the times with and without
    holds."""
    sizes = Size(**size)
    cluster = workload.cluster(sizes, slowdown, held_is_near=held_is_near)
    _, jobs = _jobs(sizes, seed, suites, 1.0, None)

    def jct_ms(job: JobSpec, policy: str) -> int:
        found = simulate(cluster, [job], policy, settings=NO_COPIES, seed=seed, keep_tasks=False)
        return int(found.jobs["jct_ms"][0])

    return {job.key: min(jct_ms(job, policy) for policy in ("priority", "reservation")) for job in jobs}


def contended(
    *,
    size: Mapping[str, Any],
    seed: int,
    suites: Sequence[str],
    slowdown: float,
    policy: str,
    settings: Mapping[str, str],
    held_is_near: bool = False,
    stretch: float = 1.0,
    alpha: float | None = None,
) -> dict[str, Any]:
    """Foreground and background together under one arm.

    Returns ``foreground``: per job its suite, JCT in ms (None if it did not end) and tasks away from their
    input; ``background_jct_ms`` per job; ``totals`` of the run.
    """
    sizes = Size(**size)
    background, foreground = _jobs(sizes, seed, suites, stretch, alpha)
    jobs = sorted([*background, *foreground], key=lambda job: (job.submit_ms, job.key))
    result = simulate(
        workload.cluster(sizes, slowdown, held_is_near=held_is_near),
        jobs,
        policy,
        settings=settings,
        seed=seed,
        keep_tasks=False,
    )
    rows = {row["job"]: row for row in result.rows()}
    return {
        "foreground": {
            job.key: {
                "suite": job.job_class,
                "jct_ms": rows[job.key]["jct_ms"],
                "nonlocal_tasks": rows[job.key]["nonlocal_tasks"],
                "copies": rows[job.key]["copies"],
            }
            for job in foreground
        },
        "background_jct_ms": {job.key: rows[job.key]["jct_ms"] for job in background},
        "tasks": sum(stage.tasks for job in jobs for stage in job.stages),
        "totals": result.totals,
    }


def alone_run(size: Size, seed: int, **arguments: Any) -> RunSpec:
    """A run of `alone`; unless given, all suites, and tasks five times as long away from their input."""
    given = {"suites": SUITES, "slowdown": 5.0, **arguments}
    return run_of(alone, 0.2, size=asdict(size), seed=seed, **given)


def contended_run(size: Size, seed: int, policy: str, **arguments: Any) -> RunSpec:
    """A run of `contended`; unless given, as `alone_run` and without copies."""
    given = {"suites": SUITES, "slowdown": 5.0, "settings": NO_COPIES, **arguments}
    weight = size.jobs / (75.0 if policy == "reservation" else 150.0)
    return run_of(contended, weight, size=asdict(size), seed=seed, policy=policy, **given)


def slowdowns(found: Mapping[str, Any], alone_ms: Mapping[str, int], suite: str | None = None) -> list[float]:
    """JCT over JCT alone of the jobs of a suite. Every one of them ends: the runs have no horizon."""
    return [
        row["jct_ms"] / alone_ms[job]
        for job, row in found["foreground"].items()
        if suite is None or row["suite"] == suite
    ]


def copies_in_stages(*, tasks: int, alpha: float, seeds: Sequence[int]) -> dict[str, list[float]]:
    """One stage of ``tasks`` Pareto tasks per seed on as many slots, through the event simulation.

    Returns per seed the reduction of the stage's time by copies: ``simulated`` by the engine and the ledger,
    ``formula`` by T' for the very same draws.
    """
    draw = pareto_sampler(alpha, 1_000.0)
    cluster = ClusterSpec(uniform_nodes(tasks, 1))
    simulated, formula = [], []
    for seed in seeds:
        durations = draw(np.random.default_rng((seed, tasks)), tasks)
        # The engine draws a copy's duration from its seed and the copy's job, stage and task alone.
        copies = [draw(np.random.default_rng((seed, 0, 0, task)), 1)[0] for task in range(tasks)]
        stages = (StageSpec(durations, copy_duration_ms=draw), StageSpec([1] * tasks, (0,)))
        job = JobSpec("j", 0, stages, priority=10)
        rows = simulate(cluster, [job], "reservation", settings=PAPERS_COPIES, seed=seed).tasks
        starts = zip(rows["start_ms"], rows["stage"], strict=True)
        ended = min(start for start, index in starts if index == 1)
        longest = max(durations)
        simulated.append(1.0 - ended / longest)
        formula.append(1.0 - float(stage_time_with_copies_s(durations, copies)) / longest)
    return {"simulated": simulated, "formula": formula}
