"""The hypothetical bound (table 1, PointPerfEst): the same planner, told every runtime."""

from __future__ import annotations

from spark_sched.policies.base import PolicySettings
from spark_sched.policies.three_sigma.jobs import Worth
from spark_sched.policies.three_sigma.policy import SigmaOptions, SigmaPolicy

__all__ = ["PointPerfEstPolicy"]


class PointPerfEstPolicy(SigmaPolicy):
    """Give it the simulator's ``oracle``; with any other predictor it is ``point-real-est``."""

    def __init__(self, settings: PolicySettings) -> None:
        super().__init__(
            settings, SigmaOptions(point=True, worth=Worth(over_estimates="never")), name="point-perf-est"
        )
