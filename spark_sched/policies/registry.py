"""Policies by name: the built-in ones, and those that other packages register by entry point."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_sched.errors import BadInputError, did_you_mean
from spark_sched.policies.base import Policy, PolicyKind, PolicySettings

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

#: Group of the entry points: ``name = "package.module:Class"``. The names of built-in policies are reserved.
GROUP = "spark_sched.policies"


class BuiltIn(NamedTuple):
    """One of this package's policies.

    Attributes:
        summary: what it does, in one line.
        where: its class as text, so that the planner imports only the policy that it needs. A table has its
            policies by their names.
        comparison: it exists to be compared with others: a paper's variants, and upper and lower bounds.
    """

    summary: str
    where: str
    comparison: bool = False


_SIMPLE = "spark_sched.policies.simple"
_SIGMA = "spark_sched.policies.three_sigma.variants:VARIANTS"
_SLEARN = "spark_sched.policies.slearn.variants"

_BUILT_IN = {
    "3sigma": BuiltIn("plans starts for deadlines from runtime distributions (3Sigma)", _SIGMA),
    "3sigma-gs": BuiltIn(
        "SLearn's queues by sizes from 3Sigma's history", f"{_SLEARN}:ThreeSigmaGsPolicy", True
    ),
    "3sigma-no-adapt": BuiltIn("3sigma without adaptive over-estimate handling", _SIGMA, True),
    "3sigma-no-dist": BuiltIn("3sigma with point estimates for distributions", _SIGMA, True),
    "3sigma-no-oe": BuiltIn("3sigma without over-estimate handling", _SIGMA, True),
    "3sigma-tl": BuiltIn("3sigma-gs with thin jobs first", f"{_SLEARN}:ThreeSigmaTlPolicy", True),
    "fair": BuiltIn(
        "shares slots by pools' weights and minimum shares, and holds slots", f"{_SIMPLE}.fair:FairPolicy"
    ),
    "fifo": BuiltIn("by arrival", f"{_SIMPLE}.fifo:FifoPolicy"),
    "gs-las": BuiltIn(
        "SLearn's queues by attained service, without pilots",
        "spark_sched.policies.slearn.las:GsLasPolicy",
        True,
    ),
    "gs-oracle": BuiltIn("SLearn's queues by true sizes", f"{_SLEARN}:GsOraclePolicy", True),
    "las": BuiltIn("least attained service first", f"{_SIMPLE}.las:LasPolicy"),
    "point-est": BuiltIn("SLearn's queues by the median of history", f"{_SLEARN}:PointEstPolicy", True),
    "point-perf-est": BuiltIn("3sigma's planner with true runtimes", _SIGMA, True),
    "point-real-est": BuiltIn("3sigma's planner with a point estimate from history", _SIGMA, True),
    "prio": BuiltIn("jobs with a deadline first; they evict the others", f"{_SIMPLE}.prio:PrioPolicy", True),
    "priority": BuiltIn("by priority, then arrival", f"{_SIMPLE}.priority:PriorityPolicy"),
    "priority-evictions": BuiltIn(
        "reservation, and waiting tasks evict running ones of lower priority",
        "spark_sched.policies.eviction.policy:PriorityEvictionsPolicy",
    ),
    "reservation": BuiltIn(
        "by priority, and important jobs keep their slots across stage barriers",
        "spark_sched.policies.reservation.policy:ReservationPolicy",
    ),
    "shortest-first": BuiltIn(
        "least total work first, as forecast", f"{_SIMPLE}.shortest_first:ShortestFirstPolicy", True
    ),
    "slearn": BuiltIn(
        "sizes unknown jobs by a few of their tasks, small jobs first (SLearn)", f"{_SLEARN}:SLearnPolicy"
    ),
    "slearn-bayes": BuiltIn("slearn with history as its prior", f"{_SLEARN}:BayesPolicy"),
    "tuned-reservation": BuiltIn(
        "reservation whose isolation follows a goal",
        "spark_sched.policies.tuning.policy:TunedReservationPolicy",
    ),
    "uwfq": BuiltIn("shares slots among users by virtual deadlines (UWFQ)", f"{_SIMPLE}.uwfq:UwfqPolicy"),
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


def built_in_entry(name: str) -> BuiltIn | None:
    """The entry of a policy of this package; None if another package has it."""
    return _BUILT_IN.get(name)


def for_use() -> tuple[str, ...]:
    """The names without those that exist for comparison, in alphabetical order."""
    return tuple(name for name in available() if name not in _BUILT_IN or not _BUILT_IN[name].comparison)


def choices() -> str:
    """All names, for a message: those for use first."""
    use = for_use()
    return f"{', '.join(use)}; for comparison {', '.join(sorted(set(available()).difference(use)))}"


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
    module, _, attribute = _BUILT_IN[name].where.partition(":")
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
        raise BadInputError(
            f"the policy {name!r} is unknown{did_you_mean(name, available())}: choose one of {choices()}"
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
