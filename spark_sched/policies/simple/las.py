"""Least attained service first: short jobs go first without a prediction of their size."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from spark_sched.policies.base import Capabilities, ChangesWith, PolicySettings, make_plan
from spark_sched.policies.options import Options
from spark_sched.policies.service import Service
from spark_sched.predict import Forecast
from spark_sched.protocol.plan import Plan
from spark_sched.state import Snapshot


class LasPolicy:
    """Jobs by the slot-milliseconds they have used so far, least first; new ones before all others.

    The slot time is computed from the snapshots (`Service`), so the policy needs a snapshot after each launch
    (``ChangesWith.ROUNDS``).
    """

    name = "las"
    capabilities = Capabilities(changes_with=ChangesWith.ROUNDS, marks=frozenset())
    options = Options()

    def __init__(self, settings: PolicySettings) -> None:
        self._settings = settings

    def decide(
        self,
        snapshot: Snapshot,
        forecasts: Mapping[str, Forecast],
        now_ms: int,
        rng: np.random.Generator,
        memory: Service | None,
    ) -> tuple[Plan, Service]:
        before = memory or Service()
        attained_ms = {key: before.at(job, now_ms) for key, job in snapshot.jobs.items()}
        plan = make_plan(
            self.name,
            self._settings,
            snapshot,
            now_ms,
            ordered=True,
            rank_by=lambda job: (attained_ms[job.job], job.arrival),
            decide_job=lambda job: (0, None, f"{attained_ms[job.job] / 1000.0:.1f} slot-seconds so far"),
        )
        return plan, Service.of(snapshot, now_ms, attained_ms)
