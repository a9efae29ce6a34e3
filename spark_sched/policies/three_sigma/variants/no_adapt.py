"""3Sigma with over-estimate handling for every job (§6.2, 3SigmaNoAdapt)."""

from __future__ import annotations

from spark_sched.policies.base import PolicySettings
from spark_sched.policies.three_sigma.jobs import Worth
from spark_sched.policies.three_sigma.policy import SigmaOptions, SigmaPolicy

__all__ = ["SigmaNoAdaptPolicy"]


class SigmaNoAdaptPolicy(SigmaPolicy):
    """What choosing the jobs for it saves."""

    def __init__(self, settings: PolicySettings) -> None:
        super().__init__(settings, SigmaOptions(worth=Worth(over_estimates="always")), name="3sigma-no-adapt")
