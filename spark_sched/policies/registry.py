"""Policies by name. A new policy is one file beside this one and one line here."""

from __future__ import annotations

import importlib

from spark_sched.errors import BadInputError, did_you_mean
from spark_sched.policies.base import Policy, PolicySettings

__all__ = ["available", "create"]

# As text, so that the planner imports the one it needs.
_POLICIES = {
    "3sigma": "spark_sched.policies.three_sigma.variants.three_sigma:ThreeSigmaPolicy",
    "3sigma-gs": "spark_sched.policies.slearn.variants:ThreeSigmaGsPolicy",
    "3sigma-no-adapt": "spark_sched.policies.three_sigma.variants.no_adapt:SigmaNoAdaptPolicy",
    "3sigma-no-dist": "spark_sched.policies.three_sigma.variants.no_dist:SigmaNoDistPolicy",
    "3sigma-no-oe": "spark_sched.policies.three_sigma.variants.no_oe:SigmaNoOePolicy",
    "3sigma-tl": "spark_sched.policies.slearn.variants:ThreeSigmaTlPolicy",
    "fair": "spark_sched.policies.simple.fair:FairPolicy",
    "fifo": "spark_sched.policies.simple.fifo:FifoPolicy",
    "gs-las": "spark_sched.policies.slearn.las:GsLasPolicy",
    "gs-oracle": "spark_sched.policies.slearn.variants:GsOraclePolicy",
    "las": "spark_sched.policies.simple.las:LasPolicy",
    "point-est": "spark_sched.policies.slearn.variants:PointEstPolicy",
    "point-perf-est": "spark_sched.policies.three_sigma.variants.point_perf_est:PointPerfEstPolicy",
    "point-real-est": "spark_sched.policies.three_sigma.variants.point_real_est:PointRealEstPolicy",
    "prio": "spark_sched.policies.simple.prio:PrioPolicy",
    "priority": "spark_sched.policies.simple.priority:PriorityPolicy",
    "reservation": "spark_sched.policies.reservation.policy:ReservationPolicy",
    "shortest-first": "spark_sched.policies.simple.shortest_first:ShortestFirstPolicy",
    "slearn": "spark_sched.policies.slearn.variants:SLearnPolicy",
    "slearn-adaptive": "spark_sched.policies.slearn.variants:AdaptiveThinPolicy",
    "slearn-bayes": "spark_sched.policies.slearn.variants:BayesPolicy",
    "uwfq": "spark_sched.policies.simple.uwfq:UwfqPolicy",
}


def available() -> tuple[str, ...]:
    """The names, in alphabetical order."""
    return tuple(sorted(_POLICIES))


def create(name: str, settings: PolicySettings) -> Policy:
    """A policy by its name. Raises BadInputError for an unknown one."""
    if name not in _POLICIES:
        hint = did_you_mean(name, _POLICIES)
        raise BadInputError(f"the policy {name!r} is unknown{hint}: choose one of {', '.join(available())}")
    module, _, attribute = _POLICIES[name].partition(":")
    policy: Policy = getattr(importlib.import_module(module), attribute)(settings)
    return policy
