"""The simulated runs behind figures 1, 4, 5, 12 and 14: the paper's testbeds of 4 and 50 machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.papers.slot_reservation.contention import NO_COPIES
from benchmarks.papers.slot_reservation.testbed_jobs import (
    DRIVER_MS,
    background,
    recorded_job,
)
from spark_sched_lab.simulator import ClusterSpec, JobSpec, Locality, NextJob, simulate, uniform_nodes

#: Machines of two slots (Spark executors) each.
MACHINES, SLOTS = 50, 2
SMALL_MACHINES = 4
_WIDTH, _SMALL_WIDTH = 20, 8
_STEP_MS = 250
_REPEATS = 10
_FIRST_MS = 5_000


def _cluster(machines: int, local: bool) -> ClusterSpec:
    # Section VI-B's conservative estimate of what a task loses away from its input.
    locality = Locality(wait_ms=3_000, slowdown=5.0) if local else None
    return ClusterSpec(uniform_nodes(machines, SLOTS), locality=locality)


def beside_background(
    *,
    application: str,
    seed: int,
    policy: str,
    stretch: float | None,
    settings: Mapping[str, str] | None = None,
    isolation: float | None = None,
    local: bool = True,
    arrival_ms: int = 0,
    series: bool = False,
) -> dict[str, Any]:
    """One recorded job of 20 partitions on 50 machines, among 100 background jobs.

    Args:
        stretch: of the background's task times; None: the job is alone.
        local: whether a task away from its input takes five times as long.
        arrival_ms: when the job comes; at 0 it is there before the background.
        series: whether the number of its running tasks is returned.

    Returns ``jct_ms``; ``held_idle_slot_ms``; ``loss``: the same as a share of all slots' time while the job
    ran; ``running``: its running tasks every quarter of a second.
    """
    job = replace(recorded_job(application, _WIDTH, seed), submit_ms=arrival_ms, isolation=isolation)
    others = [] if stretch is None else background(np.random.default_rng((seed, 4)), stretch=stretch)
    jobs = sorted([job, *others], key=lambda each: each.submit_ms)
    result = simulate(
        _cluster(MACHINES, local),
        jobs,
        policy,
        settings={**NO_COPIES, **(settings or {})},
        seed=seed,
        keep_tasks=series,
    )
    row = next(row for row in result.rows() if row["job"] == job.key)
    found = {
        "jct_ms": row["jct_ms"],
        "held_idle_slot_ms": row["held_idle_ms"],
        "loss": row["held_idle_ms"] / (row["jct_ms"] * MACHINES * SLOTS),
    }
    if series:
        found["running"] = running_over_time(result.tasks, row["number"], row["end_ms"])
    return found


def running_over_time(
    tasks: Mapping[str, Sequence[int]], job: int, end_ms: int, step_ms: int = _STEP_MS
) -> list[int]:
    """How many tasks of job number ``job`` run at 0, ``step_ms``, … up to ``end_ms``."""
    columns = zip(tasks["job"], tasks["start_ms"], tasks["end_ms"], strict=True)
    spans = [(start, end) for number, start, end in columns if number == job]
    return [sum(start <= at_ms < end for start, end in spans) for at_ms in range(0, end_ms + 1, step_ms)]


def two_jobs(*, seed: int, policy: str | None, pace: float) -> dict[str, int]:
    """KMeans at high priority and SVM at a low one, 8 partitions each, on 4 machines of 2 slots.

    SVM's task times are multiplied by ``pace``. It is submitted within the first 5 s of KMeans, which then
    has all slots as in the paper's figure 2b. It is repeated, one run after the other, until KMeans has
    ended. ``policy`` None: each of them alone. Returns ``kmeans`` and ``svm``: JCTs in ms, SVM's of its first
    run.
    """
    cluster = _cluster(SMALL_MACHINES, True)
    first = recorded_job("kmeans", _SMALL_WIDTH, seed)
    second = recorded_job("svm", _SMALL_WIDTH, seed, foreground=False, pace=pace)

    def jcts_ms(jobs: list[JobSpec], policy: str) -> dict[str, int]:
        result = simulate(cluster, jobs, policy, settings=NO_COPIES, seed=seed, keep_tasks=False)
        return {row["job"]: row["jct_ms"] for row in result.rows()}

    if policy is None:
        return jcts_ms([first], "priority") | jcts_ms([second], "priority")
    chain: tuple[NextJob, ...] = ()
    for nth in range(_REPEATS, 0, -1):
        chain = (NextJob(DRIVER_MS, replace(second, key=f"svm again {nth}", then=chain)),)
    at_ms = int(np.random.default_rng((seed, 5)).integers(1, _FIRST_MS))
    found = jcts_ms([first, replace(second, submit_ms=at_ms, then=chain)], policy)
    return {key: found[key] for key in ("kmeans", "svm")}
