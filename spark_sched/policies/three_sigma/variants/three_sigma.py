"""3Sigma: runtime distributions, with a decay past the deadline for jobs that history over-estimates."""

from __future__ import annotations

from spark_sched.policies.base import PolicySettings
from spark_sched.policies.three_sigma.policy import SigmaOptions, SigmaPolicy

__all__ = ["ThreeSigmaPolicy"]


class ThreeSigmaPolicy(SigmaPolicy):
    """§4 with adaptive over-estimate handling; table 1."""

    def __init__(self, settings: PolicySettings) -> None:
        super().__init__(settings, SigmaOptions(), name="3sigma")
