"""Policies by name. A new policy is one file beside this one and one line here."""

from __future__ import annotations

import importlib

from spark_sched.errors import BadInputError, did_you_mean
from spark_sched.policies.base import Policy, PolicySettings

__all__ = ["available", "create"]

# As text, so that the planner imports the one it needs.
_POLICIES = {
    "fair": "spark_sched.policies.fair:FairPolicy",
    "fifo": "spark_sched.policies.fifo:FifoPolicy",
    "las": "spark_sched.policies.las:LasPolicy",
    "priority": "spark_sched.policies.priority:PriorityPolicy",
    "reservation": "spark_sched.policies.reservation.policy:ReservationPolicy",
    "shortest-first": "spark_sched.policies.shortest_first:ShortestFirstPolicy",
    "uwfq": "spark_sched.policies.uwfq:UwfqPolicy",
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
