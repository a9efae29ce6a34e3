"""Three-tier data centres: tables 3.2 and 4.1 of the thesis, and others of the same kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from spark_sched.arrays import Floats
from spark_sched.errors import BadInputError
from spark_sched_lab.energy.power import (
    SERVER_TYPES,
    SWITCHES_CHAPTER_3,
    SWITCHES_CHAPTER_4,
    ServerType,
    SwitchType,
)


@dataclass(frozen=True)
class Topology:
    """Core, aggregation and access switches, and servers; every node has a link to all of the layer below.

    The full mesh is the thesis' (§4.2.3, figure 3.1): with 12 switches on, up to 1,248 servers are on in its
    table 4.2, so that an access switch reaches any server. A link has one capacity for both directions, as
    equation 3.2 has it.

    Attributes:
        cores, aggregations, accesses: numbers of switches.
        servers: the type of each server, as its number in ``types``.
        types: server types.
        switches: power of core, aggregation and access switches.
        core_gbps, aggregation_gbps, access_gbps: capacity of a link between core and aggregation, aggregation
            and access, access and server (table 3.2).
        server_wake_s, switch_wake_s: wake-up times ρ (§4.2.5: 30 s and 0 s; chapter 3 leaves them open). GEMS
            rounds that of servers up to seconds and takes no other than 0 for switches.

    Raises:
        BadInputError: a layer is empty, a capacity is not positive, a wake-up time is negative or infinite,
            or a server's type is unknown.
    """

    cores: int
    aggregations: int
    accesses: int
    servers: tuple[int, ...]
    types: tuple[ServerType, ...] = SERVER_TYPES
    switches: tuple[SwitchType, SwitchType, SwitchType] = SWITCHES_CHAPTER_4
    core_gbps: float = 10.0
    aggregation_gbps: float = 1.0
    access_gbps: float = 1.0
    server_wake_s: float = 30.0
    switch_wake_s: float = 0.0

    def __post_init__(self) -> None:
        counts = {
            "cores": self.cores,
            "aggregations": self.aggregations,
            "accesses": self.accesses,
            "servers": len(self.servers),
        }
        for name, count in counts.items():
            if not 1 <= count < float("inf") or count % 1 != 0:
                raise BadInputError(
                    f"{name} is {count} but must be a whole number above 0: a data centre has all layers"
                )
        for name in ("core_gbps", "aggregation_gbps", "access_gbps"):
            if not getattr(self, name) > 0.0:
                raise BadInputError(f"{name} is {getattr(self, name)!r} but must be above 0")
        for name in ("server_wake_s", "switch_wake_s"):
            if not 0.0 <= getattr(self, name) < float("inf"):
                raise BadInputError(f"{name} is {getattr(self, name)!r} but must be at least 0 and finite")
        if not all(0 <= kind < len(self.types) for kind in self.servers):
            raise BadInputError(f"servers has the number of a type outside 0 to {len(self.types) - 1}")

    @property
    def cpu(self) -> float:
        """CPU capacity of all servers, the largest machine's being 1."""
        return sum(self.types[kind].cpu for kind in self.servers)

    def by_server(self, attribute: Callable[[ServerType], float]) -> Floats:
        """An attribute of each server's type, shape (H,)."""
        found: Floats = np.array([attribute(kind) for kind in self.types])[np.array(self.servers)]
        return found

    @property
    def paths(self) -> int:
        """How many paths lead from the root to a server (P of the thesis' complexities)."""
        return self.cores * self.aggregations * self.accesses * len(self.servers)


def types_by_ratio(count: int) -> tuple[int, ...]:
    """Types of ``count`` servers by table 3.1's ratios: largest remainders first, spread over the numbers.

    >>> [types_by_ratio(125).count(kind) for kind in range(4)]
    [67, 39, 10, 9]
    """
    shares = [kind.ratio * count for kind in SERVER_TYPES]
    counts = [int(share) for share in shares]
    by_remainder = sorted(range(len(shares)), key=lambda kind: counts[kind] - shares[kind])
    for kind in by_remainder[: count - sum(counts)]:
        counts[kind] += 1
    placed = sorted(
        ((nth + 0.5) / amount, kind) for kind, amount in enumerate(counts) for nth in range(amount)
    )
    return tuple(kind for _, kind in placed)


#: Table 3.2.
SMALL = Topology(2, 4, 52, types_by_ratio(125), switches=SWITCHES_CHAPTER_3)
LARGE = Topology(2, 16, 512, types_by_ratio(1250), switches=SWITCHES_CHAPTER_3)
#: Table 4.1.
CHAPTER_4 = Topology(8, 16, 512, types_by_ratio(1250))
