"""Spark's own order as policies of the simulator, for replays of stock applications."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from spark_sched.policies.base import Capabilities, ChangesWith, PolicySettings, dated_plan
from spark_sched.policies.simple.fair import fair_order
from spark_sched.policies.simple.fifo import FifoPolicy
from spark_sched.predict import Forecast
from spark_sched.protocol.plan import JobPlan, Plan
from spark_sched.state import JobView, Snapshot

DEFAULT_POOL = "default"


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool of an allocation file; ``fair``: its task sets share as pools do, else the oldest is first."""

    weight: float = 1.0
    min_share_slots: int = 0
    fair: bool = False


class StockFifo(FifoPolicy):
    """Spark's FIFO mode: the Spark job that was submitted first gets slots first."""

    name = "stock FIFO"
    capabilities = replace(FifoPolicy.capabilities, by_spark_job=True)
    ordered = False


class StockFair:
    """Spark's FAIR mode: pools by running tasks over weight; within a pool FIFO by Spark job, or again FAIR.

    Pools are in `fair_order`; ties by name. Within a FAIR pool Spark compares task sets; here jobs are
    compared, which differs for a job that runs several at once.

    Args:
        settings: of the application.
        pool_of: pool by job; others are in ``default``.
        pools: declared pools by name; others have weight 1, no minimum share, and are FIFO within.
        task_sets: Spark's name of a stage's task set, by job and number of the stage.
    """

    name = "stock FAIR"
    capabilities = Capabilities(changes_with=ChangesWith.LAUNCHES, by_spark_job=True)

    def __init__(
        self,
        settings: PolicySettings,
        pool_of: Mapping[str, str],
        pools: Mapping[str, Pool],
        task_sets: Mapping[str, Sequence[str]],
    ) -> None:
        self._settings = settings
        self._pool_of = pool_of
        self._pools = pools
        self._task_sets = task_sets

    def decide(
        self,
        snapshot: Snapshot,
        forecasts: Mapping[str, Forecast],
        now_ms: int,
        rng: np.random.Generator,
        memory: None,
    ) -> tuple[Plan, None]:
        running: Counter[str] = Counter()
        for job in snapshot.jobs.values():
            running[self._pool(job.job)] += job.running_slots

        def order(job: JobView) -> tuple[bool, float, str, int, str]:
            name = self._pool(job.job)
            pool = self._pools.get(name, Pool())
            # Jobs of one FIFO pool have the same rank: the Spark job submitted first goes first among them.
            inside = (job.running_slots, self._task_set(job)) if pool.fair else (0, "")
            return (*fair_order(running[name], pool.weight, pool.min_share_slots), name, *inside)

        keys = {job.job: order(job) for job in snapshot.jobs.values()}
        rank = {key: number for number, key in enumerate(sorted(set(keys.values())))}
        jobs = [
            JobPlan(job, rank[key], 0, None, f"pool {key[2]!r} runs {running[key[2]]} tasks")
            for job, key in keys.items()
        ]
        jobs.sort(key=lambda job: job.rank)
        return dated_plan(self.name, self._settings, snapshot, now_ms, jobs), None

    def _pool(self, job: str) -> str:
        return self._pool_of.get(job, DEFAULT_POOL)

    def _task_set(self, job: JobView) -> str:
        """The first by name of the job's task sets that have a task to launch."""
        names = self._task_sets.get(job.job, ())
        waiting = (p.index for p in job.stages if p.finished + len(p.running) < p.tasks)
        return min((names[index] for index in waiting if index < len(names)), default="")
