"""Server types and slot configurations of the thesis, and a server whose tasks share CPU and memory."""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from spark_sched.errors import BadInputError, did_you_mean
from spark_sched_lab.cluster.cluster import Power

#: CPU seconds missing by less than this are rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class ServerGroup:
    """Equal servers. CPU and memory as fractions of the largest server; ``memory`` 0: not modelled.

    ``level``: rank of its slots by CPU per slot among the cluster's; 0 has the most (§8.1).
    """

    name: str
    count: int
    cpu: float
    memory: float
    slots: int
    cores: int = 8
    power: Power = field(default_factory=Power)
    level: int = 0


def _power(cpu_w: float, memory_w: float, sleep_w: float) -> Power:
    return Power(idle_w=162.0, cpu_w=cpu_w, memory_w=memory_w, sleep_w=sleep_w)


#: Table 3.1: normalized CPU and memory, power in watts.
_TYPES: Mapping[str, tuple[float, float, Power]] = {
    "A": (0.5, 0.5, _power(51.5, 18.0, 46.25)),
    "B": (0.5, 0.25, _power(51.5, 9.0, 44.5)),
    "C": (0.5, 0.75, _power(51.5, 24.0, 47.5)),
    "D": (1.0, 1.0, _power(103.0, 36.0, 60.2)),
}
#: Table 8.1: (type, servers, slots of each).
SLOT_CONFIGURATIONS: Mapping[str, Sequence[tuple[str, int, int]]] = {
    "SC1": (("A", 68, 8), ("B", 39, 8), ("C", 10, 8), ("D", 8, 16)),
    "SC2": (("A", 68, 16), ("B", 39, 16), ("C", 10, 16), ("D", 8, 32)),
    "SC3": (("A", 68, 24), ("B", 39, 24), ("C", 10, 24), ("D", 8, 48)),
    "SC4": (("A", 68, 32), ("B", 39, 32), ("C", 10, 32), ("D", 8, 64)),
    "WASC": (("A", 68, 24), ("B", 39, 24), ("C", 10, 24), ("D", 5, 24), ("D", 3, 48)),
}


def thesis_servers(configuration: str = "SC2", *, memory: bool = True) -> tuple[ServerGroup, ...]:
    """The 125 servers of tables 3.1 and 8.1. Table 7.1 has 69, 38, 10 and 8 of the types, table 8.1 one
    more B and one fewer A; the latter is used throughout. ``memory`` False: it is unlimited and
    draws no power.

    Raises:
        BadInputError: there is no such configuration.
    """
    if configuration not in SLOT_CONFIGURATIONS:
        raise BadInputError(
            f"the slot configuration {configuration!r} is unknown"
            f"{did_you_mean(configuration, SLOT_CONFIGURATIONS)}: use one of {', '.join(SLOT_CONFIGURATIONS)}"
        )
    found = []
    for name, count, slots in SLOT_CONFIGURATIONS[configuration]:
        cpu, size, power = _TYPES[name]
        if not memory:
            size, power = 0.0, replace(power, memory_w=0.0)
        found.append(ServerGroup(name, count, cpu, size, slots, power=power))
    return with_levels(found)


def with_levels(types: Sequence[ServerGroup]) -> tuple[ServerGroup, ...]:
    """The types with ``level`` set by CPU per slot."""
    shares = sorted({kind.cpu / kind.slots for kind in types}, reverse=True)
    return tuple(replace(kind, level=shares.index(kind.cpu / kind.slots)) for kind in types)


@dataclass(slots=True)
class ServerMemory:
    """Memory of one server.

    Attributes:
        size: 0: not modelled.
        used: what its tasks have.
        tasks: what each of them has.
        short: what some miss, in the order of their starts.
    """

    size: float
    used: float = 0.0
    tasks: dict[int, float] = field(default_factory=dict)
    short: dict[int, float] = field(default_factory=dict)


class Server:
    """One server. All its present tasks receive CPU time at the same rate, so one sum serves for all: a task
    is done when the sum has grown by its demand since the task started (equation 6.2). Times in s, CPU in
    cpu·s."""

    __slots__ = (
        "asleep", "changed", "core_rate", "cores", "energy_j", "heap", "last_s", "level", "memory", "number",
        "power", "running", "served", "slots", "wake_s",
    )  # fmt: skip

    def __init__(self, number: int, kind: ServerGroup, asleep: bool) -> None:
        self.number = number
        self.level = kind.level
        self.slots = kind.slots
        self.cores = kind.cores
        self.core_rate = kind.cpu / kind.cores
        self.memory = ServerMemory(kind.memory)
        self.power = kind.power
        self.asleep = asleep
        self.running = 0
        self.served = 0.0
        self.last_s = 0
        self.wake_s = 0
        self.energy_j = 0.0
        self.heap: list[tuple[float, int, int]] = []  # (sum at which it is done, task, attempt)
        self.changed = False  # the time of its next end is to be found again

    def advance(self, now_s: int) -> None:
        """Serve and draw power until now. Sleeping and waking servers serve no task."""
        span = now_s - self.last_s
        if span <= 0:
            return
        power, running = self.power, self.running
        if self.asleep:
            self.energy_j += power.sleep_w * span
        else:
            waking = min(span, max(0, self.wake_s - self.last_s))
            self.energy_j += power.peak_w * waking
            span -= waking
            watts = power.idle_w + power.cpu_w * (1.0 if running >= self.cores else running / self.cores)
            memory = self.memory
            if memory.size > 0.0:
                watts += power.memory_w * memory.used / memory.size  # equation 6.3
            self.energy_j += watts * span
            self.served += self.rate() * span
        self.last_s = now_s

    def rate(self) -> float:
        """CPU rate of each task: equation 6.2."""
        running = self.running
        return self.core_rate if running <= self.cores else self.core_rate * self.cores / running

    def next_end_s(self, attempts: Sequence[int], now_s: int) -> int | None:
        """The second at which the next task is done; None where none runs. Called when advanced to now."""
        heap = self.heap
        while heap and attempts[heap[0][1]] != heap[0][2]:
            heapq.heappop(heap)
        if not heap:
            return None
        begin_s = max(now_s, self.wake_s)
        return begin_s + max(1, math.ceil((heap[0][0] - self.served) / self.rate() - _ROUNDING))
