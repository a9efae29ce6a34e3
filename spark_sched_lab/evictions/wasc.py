"""Workload-aware slot configuration: how many slots servers get, from workload statistics (thesis §8.1.1)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spark_sched.errors import BadInputError
from spark_sched.policies.eviction.rules import PRODUCTION

#: §8.1.1.1: slow-down sensitivity δ of production, middle and gratis classes.
SENSITIVITY = {"production": 1.0, "middle": 0.75, "gratis": 0.5}
#: Chebyshev's c: at least 1 - 1/c² of a class' tasks use no more than the estimate.
CHEBYSHEV = 2.0


@dataclass(frozen=True, slots=True)
class ClassUsage:
    """Statistics of one class: share of tasks (any unit), mean CPU demand (cpu·s), mean and standard
    deviation of CPU usage (largest server = 1)."""

    share: float
    demand: float
    usage: float
    deviation: float


@dataclass(frozen=True, slots=True)
class ServerKind:
    """Equal servers: how many, their CPU (largest server = 1) and cores."""

    name: str
    count: int
    cpu: float
    cores: int


@dataclass(frozen=True, slots=True)
class SlotShare:
    """A number of servers of one kind, each with the same slots; ``powerful``: for production classes."""

    name: str
    count: int
    slots: int
    powerful: bool


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """``occupancy``: production's share of the CPU occupancy (equation 8.2); ``estimates``: estimated usage
    of a production and another task (equation 8.3); ``slots``: of the largest server (equation 8.4)."""

    occupancy: float
    estimates: tuple[float, float]
    slots: tuple[int, int]
    shares: tuple[SlotShare, ...]

    @property
    def total(self) -> int:
        return sum(share.count * share.slots for share in self.shares)


def slot_configuration(classes: Mapping[int, ClassUsage], servers: Sequence[ServerKind]) -> SlotPlan:
    """WASC. Stage I: CPU occupancy and slots of the largest server for production and other classes; stage
    II: servers with the fastest cores get production's slots until they make up its occupancy.

    The estimate of a group is the mean of its classes' estimates, weighted by their occupancy. Slots are
    rounded to a multiple of the fewest cores, at least one such multiple.

    Raises:
        BadInputError: a group of classes or the servers are missing.
    """
    groups = ([p for p in classes if p in PRODUCTION], [p for p in classes if p not in PRODUCTION])
    if not groups[0] or not groups[1] or not servers:
        raise BadInputError(
            "slots need at least one server, one production class (9 to 11) and one other class: give them"
        )
    occupied = dict(zip(classes, occupancies(list(classes.values())), strict=True))
    sums = [sum(occupied[p] for p in group) for group in groups]
    occupancy = sums[0]
    estimates = [
        sum(occupied[p] * _estimate(p, classes[p]) for p in group) / total
        for group, total in zip(groups, sums, strict=True)
    ]
    largest = max(kind.cpu for kind in servers)
    multiple = min(kind.cores for kind in servers)
    production, other = (slots_of(largest, estimate, multiple) for estimate in estimates)
    shares = []
    left = occupancy * sum(kind.cpu * kind.count for kind in servers)
    for kind in sorted(servers, key=lambda kind: -kind.cpu / kind.cores):
        powerful = min(kind.count, round(left / kind.cpu)) if production < other else 0
        left -= powerful * kind.cpu
        for count, slots, is_powerful in (
            (powerful, production, True),
            (kind.count - powerful, other, False),
        ):
            if count:
                scaled = max(1, round(slots * kind.cpu / largest))  # equation 8.5
                shares.append(SlotShare(kind.name, count, scaled, is_powerful))
    return SlotPlan(occupancy, (estimates[0], estimates[1]), (production, other), tuple(shares))


def occupancies(classes: Sequence[ClassUsage]) -> list[float]:
    """Each class' share of the CPU time that all of them occupy; they sum up to 1."""
    occupied = [row.share * row.demand for row in classes]  # equation 8.1
    total = sum(occupied)
    return [one / total for one in occupied]  # equation 8.2


def upper_estimate(
    mean: float, deviation: float, chebyshev: float = CHEBYSHEV, sensitivity: float = 1.0
) -> float:
    """Equation 8.3: a value that at least a share `coverage` of the values do not exceed, if ``sensitivity``
    is 1."""
    return sensitivity * (mean + chebyshev * deviation)


def coverage(chebyshev: float = CHEBYSHEV) -> float:
    """The least share of values within ``chebyshev`` standard deviations of their mean, for any
    distribution (Chebyshev's inequality)."""
    return 1.0 - 1.0 / chebyshev**2


def slots_of(cpu: float, estimate: float, multiple: int) -> int:
    """Equation 8.4: slots of a server with this CPU for tasks that use ``estimate`` of the same unit, rounded
    to a multiple of ``multiple``, at least one."""
    return max(multiple, multiple * math.floor(cpu / estimate / multiple + 0.5))


def _estimate(priority: int, row: ClassUsage) -> float:
    if priority in PRODUCTION:
        group = "production"
    else:
        group = "gratis" if priority <= 1 else "middle"
    return upper_estimate(row.usage, row.deviation, sensitivity=SENSITIVITY[group])
