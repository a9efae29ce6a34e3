"""3Sigma without distributions (§6.2, 3SigmaNoDist): point estimates, adaptive over-estimate handling."""

from __future__ import annotations

from spark_sched.policies.base import PolicySettings
from spark_sched.policies.three_sigma.policy import SigmaOptions, SigmaPolicy

__all__ = ["SigmaNoDistPolicy"]


class SigmaNoDistPolicy(SigmaPolicy):
    """What over-estimate handling gives by itself."""

    def __init__(self, settings: PolicySettings) -> None:
        super().__init__(settings, SigmaOptions(point=True), name="3sigma-no-dist")
