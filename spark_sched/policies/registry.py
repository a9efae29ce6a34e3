"""Policies by name: the built-in ones, and those that other packages register by entry point."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spark_sched.errors import BadInputError, did_you_mean
from spark_sched.policies.base import Policy, PolicyKind, PolicySettings

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

#: Group of the entry points: ``name = "package.module:Class"``. The names of built-in policies are reserved.
GROUP = "spark_sched.policies"

# As text, so that the planner imports only the policy that it needs. A table has its policies by their names.
_BUILT_IN = {
    "3sigma": "spark_sched.policies.three_sigma.variants:VARIANTS",
    "3sigma-gs": "spark_sched.policies.slearn.variants:ThreeSigmaGsPolicy",
    "3sigma-no-adapt": "spark_sched.policies.three_sigma.variants:VARIANTS",
    "3sigma-no-dist": "spark_sched.policies.three_sigma.variants:VARIANTS",
    "3sigma-no-oe": "spark_sched.policies.three_sigma.variants:VARIANTS",
    "3sigma-tl": "spark_sched.policies.slearn.variants:ThreeSigmaTlPolicy",
    "fair": "spark_sched.policies.simple.fair:FairPolicy",
    "fifo": "spark_sched.policies.simple.fifo:FifoPolicy",
    "gs-las": "spark_sched.policies.slearn.las:GsLasPolicy",
    "gs-oracle": "spark_sched.policies.slearn.variants:GsOraclePolicy",
    "las": "spark_sched.policies.simple.las:LasPolicy",
    "point-est": "spark_sched.policies.slearn.variants:PointEstPolicy",
    "point-perf-est": "spark_sched.policies.three_sigma.variants:VARIANTS",
    "point-real-est": "spark_sched.policies.three_sigma.variants:VARIANTS",
    "prio": "spark_sched.policies.simple.prio:PrioPolicy",
    "priority": "spark_sched.policies.simple.priority:PriorityPolicy",
    "priority-evictions": "spark_sched.policies.eviction.policy:PriorityEvictionsPolicy",
    "reservation": "spark_sched.policies.reservation.policy:ReservationPolicy",
    "shortest-first": "spark_sched.policies.simple.shortest_first:ShortestFirstPolicy",
    "slearn": "spark_sched.policies.slearn.variants:SLearnPolicy",
    "slearn-bayes": "spark_sched.policies.slearn.variants:BayesPolicy",
    "tuned-reservation": "spark_sched.policies.tuning.policy:TunedReservationPolicy",
    "uwfq": "spark_sched.policies.simple.uwfq:UwfqPolicy",
}


def _registered(name: str | None = None) -> EntryPoints:
    """Other packages' policies, or those of one name."""
    # Imported late: a planner of a built-in policy starts without it.
    from importlib.metadata import entry_points

    found = entry_points(group=GROUP)
    return found if name is None else found.select(name=name)


def built_in() -> tuple[str, ...]:
    """The names of this package's policies, in alphabetical order."""
    return tuple(sorted(_BUILT_IN))


def available() -> tuple[str, ...]:
    """The names, those of other packages included, in alphabetical order."""
    return tuple(sorted({*_BUILT_IN, *(point.name for point in _registered())}))


def is_known(name: str) -> bool:
    """Whether a policy has that name. Entry points are read only for names that are not built in."""
    return name in _BUILT_IN or bool(_registered(name))


def kind_of(name: str) -> PolicyKind:
    """A policy's class or variant. Raises BadInputError for an unknown one, or one that cannot be loaded."""
    if name not in _BUILT_IN:
        return _outside(name)
    module, _, attribute = _BUILT_IN[name].partition(":")
    found: Any = getattr(importlib.import_module(module), attribute)
    kind: PolicyKind = found[name] if isinstance(found, Mapping) else found
    return kind


def create(name: str, settings: PolicySettings) -> Policy:
    """A policy by its name, with its own options. Raises BadInputError if either is wrong."""
    kind = kind_of(name)
    return kind(replace(settings, options=kind.options.read(name, settings.policy_options)))


def _outside(name: str) -> PolicyKind:
    # Two versions of one package on the search path give the same entry twice: the first one counts.
    points = {point.value: point for point in reversed(list(_registered(name)))}
    if not points:
        names = available()
        raise BadInputError(
            f"the policy {name!r} is unknown{did_you_mean(name, names)}: choose one of {', '.join(names)}"
        )
    if len(points) > 1:
        raise BadInputError(
            f"the policy {name!r} is registered more than once ({', '.join(sorted(points))}): uninstall all "
            "packages but one of these"
        )
    (point,) = points.values()
    try:
        kind = point.load()
    except (ImportError, AttributeError) as error:
        raise BadInputError(
            f"the policy {name!r} cannot be loaded from {point.value} ({error}): repair its package"
        ) from error
    if not isinstance(kind, PolicyKind):
        raise BadInputError(
            f"the policy {name!r} at {point.value} must have capabilities and options, and be callable with "
            "settings: see docs/how-to/write-a-policy.md"
        )
    return kind
