"""A policy whose plans a test writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from spark_sched.policies import Capabilities, ChangesWith, JobPlan, Plan
from spark_sched.predict import Forecast
from spark_sched.state import JobView, Snapshot

#: (job, now in ms) -> what its entry says beyond its rank.
Say: TypeAlias = Callable[[JobView, int], Mapping[str, Any]]


class Scripted:
    """Plans what a function of (job, now) says.

    Other functions of now tell when to plan again and whether jobs that no plan names wait; ``planned_at``
    are the times at which it was asked, in ms.
    """

    name = "scripted"

    def __init__(
        self,
        say: Say,
        changes_with: ChangesWith = ChangesWith.STAGES,
        *,
        again_ms: Callable[[int], int | None] = lambda now: None,
        new_jobs_wait: Callable[[int], bool] = lambda now: True,
        queue_weights: tuple[float, ...] = (),
        slowness: Mapping[str, float] = MappingProxyType({}),
        valid_for_ms: int = 10_000,
    ) -> None:
        self.capabilities = Capabilities(changes_with)
        self.planned_at: list[int] = []
        self._say = say
        self._again_ms = again_ms
        self._new_jobs_wait = new_jobs_wait
        self._queue_weights = queue_weights
        self._slowness = slowness
        self._valid_for_ms = valid_for_ms

    def decide(
        self,
        snapshot: Snapshot,
        forecasts: Mapping[str, Forecast],
        now_ms: int,
        rng: np.random.Generator,
        memory: None,
    ) -> tuple[Plan, None]:
        self.planned_at.append(now_ms)
        entries = tuple(
            replace(JobPlan(key, rank, 0, None, "scripted"), **self._say(job, now_ms))
            for rank, (key, job) in enumerate(snapshot.jobs.items())
        )
        plan = Plan(
            snapshot.version,
            now_ms,
            self._valid_for_ms,
            self.name,
            True,
            entries,
            again_ms=self._again_ms(now_ms) if entries else None,  # or a run never ends
            new_jobs_wait=self._new_jobs_wait(now_ms),
            queue_weights=self._queue_weights,
            slowness=self._slowness,
        )
        return plan, None
