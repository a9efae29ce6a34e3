"""3Sigma, its ablations (§6.2) and the planners it is compared with (table 1): one planner, other options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from spark_sched.policies.base import Capabilities, PolicySettings
from spark_sched.policies.options import Options
from spark_sched.policies.three_sigma.jobs import Worth
from spark_sched.policies.three_sigma.policy import ThreeSigmaPolicy
from spark_sched.policies.three_sigma.settings import ThreeSigmaOptions
from spark_sched.policies.three_sigma.window import OPTIONS


@dataclass(frozen=True)
class ThreeSigmaVariant:
    """A policy of the registry: a name and how the planner plans."""

    name: str
    planning: ThreeSigmaOptions
    capabilities: ClassVar[Capabilities] = ThreeSigmaPolicy.capabilities
    options: ClassVar[Options] = OPTIONS

    def __call__(self, settings: PolicySettings) -> ThreeSigmaPolicy:
        return ThreeSigmaPolicy(settings, self.planning, name=self.name)


_POINT = ThreeSigmaOptions(point=True, worth=Worth(over_estimates="never"))

VARIANTS: Mapping[str, ThreeSigmaVariant] = {
    variant.name: variant
    for variant in (
        # Runtime distributions; over-estimates handled for the jobs that history over-estimates (§4).
        ThreeSigmaVariant("3sigma", ThreeSigmaOptions()),
        # 3SigmaNoAdapt: over-estimates handled for every job. Shows the gain of choosing the jobs.
        ThreeSigmaVariant("3sigma-no-adapt", ThreeSigmaOptions(worth=Worth(over_estimates="always"))),
        # 3SigmaNoDist: points, adaptive handling. Shows the gain of that handling alone.
        ThreeSigmaVariant("3sigma-no-dist", ThreeSigmaOptions(point=True)),
        # 3SigmaNoOE: no handling of over-estimates. Shows the gain of distributions alone.
        ThreeSigmaVariant("3sigma-no-oe", ThreeSigmaOptions(worth=Worth(over_estimates="never"))),
        # PointPerfEst, a bound: every runtime is known if the predictor is the simulator's oracle.
        ThreeSigmaVariant("point-perf-est", _POINT),
        # PointRealEst, the state of the art before: the same with estimates from history.
        ThreeSigmaVariant("point-real-est", _POINT),
    )
}
