"""First come, first served: the baseline that knows neither priorities nor reservations."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from spark_sched.policies.base import Capabilities, ChangesWith, PolicySettings, make_plan
from spark_sched.policies.options import Options
from spark_sched.policies.plan import Plan
from spark_sched.predict import Forecast
from spark_sched.state import Snapshot

__all__ = ["FifoPolicy"]


class FifoPolicy:
    """Jobs in the order of their arrival, all of priority 0; none holds a slot."""

    name = "fifo"
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
            ordered=True,
            rank_by=lambda job: job.arrival,
            decide_job=lambda job: (0, None, f"arrival {job.arrival}"),
        )
