"""Runs of an A/B test in the simulator: the same suite, inputs and background on a virtual clock.

Only workloads whose tasks' durations are known can run here. Spark's FAIR mode, whose foreground pool has a
minimum share of all slots, is the policy ``priority`` without reservations; FIFO is ``fifo``.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from spark_sched.errors import BadInputError
from spark_sched_lab.cluster.cluster import ClusterSpec, uniform_nodes
from spark_sched_lab.engine.results import Result
from spark_sched_lab.engine.run import simulate
from spark_sched_lab.engine.workload import JobSpec, StageSpec
from spark_sched_lab.runs.ab.background import background_jobs
from spark_sched_lab.runs.ab.schedule import RunKey, run_seed
from spark_sched_lab.runs.ab.store import Record
from spark_sched_lab.runs.ab.suite import ALONE, Suite
from spark_sched_lab.runs.bench.matrix import simulated_stages
from spark_sched_lab.runs.paired.arms import Arm
from spark_sched_lab.runs.workloads.background import BackgroundJob

_FOREGROUND = "foreground"
#: The background arrives when the foreground's first stage runs.
_BACKGROUND_AFTER_MS = 100
_STOCK = {"fair": "priority", "fifo": "fifo"}
_UNTIL_MS = 24 * 3_600_000


class SimulatedRunner:
    """Raises BadInputError before it runs: for a workload whose durations are unknown, and for a setting
    that would do nothing."""

    def __init__(self, suite: Suite) -> None:
        for job in suite.workloads:
            simulated_stages(job, 0)
        for arm in suite.arms:
            arm.simulated_settings  # noqa: B018 - it checks them
        self._suite = suite
        self._cluster = ClusterSpec(uniform_nodes(suite.cluster.workers, suite.cluster.slots))
        self._workloads = {job.label: job for job in suite.workloads}

    def run(self, key: RunKey) -> Record:
        arm, seed = self._suite.arm(key.setting), run_seed(self._suite, key)
        alone = key.setting == ALONE
        jobs = [self._foreground(key, arm, seed)]
        if not alone and self._suite.background is not None:
            jobs += _background(background_jobs(self._suite, seed))
        result = simulate(
            self._cluster,
            jobs,
            _STOCK[arm.scheduler] if arm.stock else arm.policy,
            settings=arm.simulated_settings,
            plan_every_ms=arm.simulated_plan_every_ms,
            # The baseline's second run differs in random choices only: the slot of each task, and the order
            # of equal tasks.
            seed=seed + (key.setting == self._suite.null),
            keep_tasks=False,
            until_ms=_UNTIL_MS,
        )
        return _record(key, seed, result)

    def _foreground(self, key: RunKey, arm: Arm, seed: int) -> JobSpec:
        return JobSpec(
            _FOREGROUND,
            0,
            simulated_stages(self._workloads[key.workload], seed),
            name=key.workload,
            priority=arm.priority,
            deadline_ms=None if arm.deadline_s is None else round(1000 * arm.deadline_s),
            isolation=None if arm.stock else arm.isolation,
            copies=arm.copies == "auto" and not arm.stock,
            marked=True,
            dag_known="nothing",
        )


def _background(jobs: Iterable[BackgroundJob]) -> list[JobSpec]:
    return [
        JobSpec(
            f"background-{job.number}",
            _BACKGROUND_AFTER_MS + round(1000 * job.arrival_s),
            (StageSpec(list(job.task_durations_ms), name="sleep"),),
        )
        for job in jobs
    ]


def _record(key: RunKey, seed: int, result: Result) -> Record:
    rows = list(result.rows())
    foreground = next(row for row in rows if row["job"] == _FOREGROUND)
    others = [row for row in rows if row is not foreground]
    if foreground["jct_ms"] is None or any(row["jct_ms"] is None for row in others):
        raise BadInputError(
            f"{key.workload} does not end within 24 simulated hours under {key.setting}: give less work or "
            "more slots"
        )
    return Record(
        key.block,
        key.workload,
        key.setting,
        seed,
        jct_s=foreground["jct_ms"] / 1000,
        held_idle_slot_s=result.totals.get("held_idle_slot_ms", 0.0) / 1000,
        holds_expired=int(result.totals.get("holds_expired", 0)),
        copies_launched=foreground["copies"],
        copies_won=foreground["copies_won"],
        copies_wasted_s=foreground["wasted_ms"] / 1000,
        background_jct_s=float(np.mean([row["jct_ms"] for row in others])) / 1000 if others else None,
        background_makespan_s=max(row["end_ms"] for row in others) / 1000 - _BACKGROUND_AFTER_MS / 1000
        if others
        else None,
    )
