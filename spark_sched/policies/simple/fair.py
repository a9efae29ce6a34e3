"""Spark's FAIR order as a plan: pools with weights and minimum shares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from spark_sched.policies.base import Capabilities, ChangesWith, PolicySettings, make_plan
from spark_sched.policies.plan import Plan
from spark_sched.predict import Forecast
from spark_sched.state import JobView, Snapshot

__all__ = ["FairPolicy", "Pool"]


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool's ``weight`` (> 0) and the slots it gets before others get more (fairscheduler.xml)."""

    weight: float = 1.0
    min_share_slots: int = 0


class FairPolicy:
    """Pools below their minimum share first, then pools by running tasks over weight; FIFO within a pool.

    The order of Spark's ``FairSchedulingAlgorithm``. A plan's ranks hold until the next plan, so that shares
    are exact only where plans are made at every launch (``ChangesWith.LAUNCHES``); between two plans the
    first job takes all slots that come free.

    Args:
        settings: of the application.
        pool_by: what names a job's pool: the job itself, its user or its class.
        pools: weights and minimum shares by pool name; others have weight 1 and no minimum.
    """

    name = "fair"
    capabilities = Capabilities(changes_with=ChangesWith.LAUNCHES)

    def __init__(
        self,
        settings: PolicySettings,
        *,
        pool_by: Literal["job", "user", "class"] = "job",
        pools: Mapping[str, Pool] | None = None,
    ) -> None:
        self._settings = settings
        self._pool_by = pool_by
        self._pools = dict(pools or {})

    def decide(
        self, snapshot: Snapshot, forecasts: Mapping[str, Forecast], now_ms: int, rng: np.random.Generator
    ) -> Plan:
        running: Counter[str] = Counter()
        for job in snapshot.jobs.values():
            running[self._pool(job)] += job.running_slots

        def rank_by(job: JobView) -> tuple[bool, float, str, int]:
            name = self._pool(job)
            pool = self._pools.get(name, Pool())
            needy = running[name] < pool.min_share_slots
            ratio = running[name] / (max(pool.min_share_slots, 1) if needy else pool.weight)
            # Spark breaks ties by name; among jobs as pools their arrival is the fairer name.
            return (not needy, ratio, "" if self._pool_by == "job" else name, job.arrival)

        return make_plan(
            self.name,
            self._settings,
            snapshot,
            now_ms,
            ordered=True,
            rank_by=rank_by,
            decide_job=lambda job: (
                0,
                None,
                f"pool {self._pool(job)!r} runs {running[self._pool(job)]} tasks",
            ),
        )

    def _pool(self, job: JobView) -> str:
        if self._pool_by == "job":
            return job.job
        return (job.user if self._pool_by == "user" else job.job_class) or "default"
