"""Priorities without reservations: what "Speculative Slot Reservation" section II shows to be too little."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from spark_sched.policies.base import Capabilities, ChangesWith, PolicySettings, make_plan
from spark_sched.policies.options import Options
from spark_sched.policies.plan import Plan
from spark_sched.predict import Forecast
from spark_sched.state import Snapshot

__all__ = ["PriorityPolicy"]


class PriorityPolicy:
    """Jobs by priority, then in Spark's own order; none holds a slot. Differs from ``reservation`` in that
    alone."""

    name = "priority"
    capabilities = Capabilities(changes_with=ChangesWith.ARRIVALS)
    options = Options()

    def __init__(self, settings: PolicySettings) -> None:
        self._settings = settings

    def decide(
        self, snapshot: Snapshot, forecasts: Mapping[str, Forecast], now_ms: int, rng: np.random.Generator
    ) -> Plan:
        return make_plan(
            self.name,
            self._settings,
            snapshot,
            now_ms,
            ordered=False,
            rank_by=lambda job: (-job.priority, job.arrival),
            decide_job=lambda job: (job.priority, None, f"priority {job.priority}"),
        )
