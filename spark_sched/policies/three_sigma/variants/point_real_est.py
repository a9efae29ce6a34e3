"""The state of the art before 3Sigma (table 1, PointRealEst): the same planner with point estimates."""

from __future__ import annotations

from spark_sched.policies.base import PolicySettings
from spark_sched.policies.three_sigma.jobs import Worth
from spark_sched.policies.three_sigma.policy import SigmaOptions, SigmaPolicy

__all__ = ["PointRealEstPolicy"]


class PointRealEstPolicy(SigmaPolicy):
    """Estimates from history; no over-estimate handling. Under-estimates and preemption as in 3Sigma."""

    def __init__(self, settings: PolicySettings) -> None:
        super().__init__(
            settings, SigmaOptions(point=True, worth=Worth(over_estimates="never")), name="point-real-est"
        )
