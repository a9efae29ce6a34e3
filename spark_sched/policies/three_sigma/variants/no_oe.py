"""3Sigma without over-estimate handling (§6.2, 3SigmaNoOE)."""

from __future__ import annotations

from spark_sched.policies.base import PolicySettings
from spark_sched.policies.three_sigma.jobs import Worth
from spark_sched.policies.three_sigma.policy import SigmaOptions, SigmaPolicy

__all__ = ["SigmaNoOePolicy"]


class SigmaNoOePolicy(SigmaPolicy):
    """What distributions give by themselves."""

    def __init__(self, settings: PolicySettings) -> None:
        super().__init__(settings, SigmaOptions(worth=Worth(over_estimates="never")), name="3sigma-no-oe")
