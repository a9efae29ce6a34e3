"""Workload-aware slot configuration: how many slots servers get, from workload statistics (thesis §8.1.1)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spark_sched.errors import BadInputError
from spark_sched.policies.eviction.rules import PRODUCTION

__all__ = ["ClassUsage", "ServerKind", "SlotPlan", "SlotShare", "slot_configuration"]

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
    """So many servers of a kind with so many slots each; ``powerful``: for production classes."""

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


def slot_configuration(
    classes: Mapping[int, ClassUsage], servers: Sequence[ServerKind], *, chebyshev: float = CHEBYSHEV
) -> SlotPlan:
    """WASC. Stage I: CPU occupancy and slots of the largest server for production and other classes; stage
    II: servers with the fastest cores get production's slots until they make up its occupancy.

    The estimate of a group is the mean of its classes' estimates, weighted by their occupancy. Slots are
    rounded to a multiple of the fewest cores, at least one such multiple.

    Raises:
        BadInputError: a group of classes or the servers are missing.
    """
    groups = ([p for p in classes if p in PRODUCTION], [p for p in classes if p not in PRODUCTION])
    if not groups[0] or not groups[1] or not servers:
        raise BadInputError("slots need servers, a production class (9 to 11) and another one: give them")
    occupied = {p: row.share * row.demand for p, row in classes.items()}  # equation 8.1
    sums = [sum(occupied[p] for p in group) for group in groups]
    occupancy = sums[0] / sum(sums)  # equation 8.2
    estimates = [
        sum(occupied[p] * _estimate(p, classes[p], chebyshev) for p in group) / total
        for group, total in zip(groups, sums, strict=True)
    ]  # equation 8.3
    largest = max(kind.cpu for kind in servers)
    multiple = min(kind.cores for kind in servers)
    production, other = (_round(largest / estimate, multiple) for estimate in estimates)  # equation 8.4
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


def _estimate(priority: int, row: ClassUsage, chebyshev: float) -> float:
    if priority in PRODUCTION:
        group = "production"
    else:
        group = "gratis" if priority <= 1 else "middle"
    return SENSITIVITY[group] * (row.usage + chebyshev * row.deviation)


def _round(slots: float, multiple: int) -> int:
    return max(multiple, multiple * math.floor(slots / multiple + 0.5))
