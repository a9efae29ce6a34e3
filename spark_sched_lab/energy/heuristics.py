"""The heuristics of chapter 3: BEPS, BFRS and RRS (§3.3). Each places a slot's tasks one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from spark_sched.arrays import Floats
from spark_sched_lab.energy.centre import ROOM, DataCentre, Path
from spark_sched_lab.energy.costs import SlotCosts
from spark_sched_lab.energy.paths import Reach, best_path, reach

#: Joules by which a server of capacity 1 precedes others of the same cost: far below real differences of
#: energy.
_TIE_J = 1e-6


@dataclass(frozen=True, slots=True)
class Demand:
    """What a task needs: CPU and memory of its server, Gbps on every link of its path."""

    cpu: float
    memory: float
    gbps: float


class Scheduler(Protocol):
    """Places a slot's tasks: takes their demands from the centre and returns a path, or None, for each."""

    name: str

    def place(self, centre: DataCentre, costs: SlotCosts, demands: Sequence[Demand]) -> list[Path | None]: ...


class Beps:
    """Best energy path scheduling (figure 3.3): tasks sorted, each on the path of least energy.

    O(k (A + X + H)) for k tasks where links have room, see `spark_sched_lab.energy.paths`.

    Nearly all servers that are on cost the same (table 3.1: equal idle power, power in proportion to
    capacity). The thesis does not say which of several best paths is taken. Here it is the one to the largest
    server, so that small ones become empty and sleep.

    Args:
        by: the demand that tasks are sorted by.
        ascending: smallest first. Chapter 3 does not say which order it uses (§3.3.1, figure 3.3: "sort
            tasks"). Only GEMS is stated to use the ascending one (§4.3.1).
        batch: a variant of this project. The cost of a sleeping server is that of waking up enough servers of
            its type for all tasks of the slot without a place. So a burst wakes up few large servers. BEPS
            counts one server, and so wakes up the one of least peak power, which is the smallest (table 3.1).
    """

    def __init__(
        self,
        by: Literal["cpu", "memory", "gbps"] = "memory",
        *,
        ascending: bool = False,
        batch: bool = False,
    ) -> None:
        self.name = (
            f"BEPS-{'bandwidth' if by == 'gbps' else by}"
            f"{'-ascending' if ascending else ''}{'-batch' if batch else ''}"
        )
        self._by, self._ascending, self._batch = by, ascending, batch

    def place(self, centre: DataCentre, costs: SlotCosts, demands: Sequence[Demand]) -> list[Path | None]:
        largest_first = -_TIE_J * (centre.cpu_size + centre.memory_size)
        sign = 1.0 if self._ascending else -1.0
        order = sorted(range(len(demands)), key=lambda i: sign * getattr(demands[i], self._by))
        left = _left(demands, order) if self._batch else None

        def place_one(i: int) -> Path | None:
            demand = demands[i]
            has_room = centre.has_room(demand.cpu, demand.memory)
            joules = costs.servers(centre, demand.cpu, demand.memory) + largest_first
            if left is not None:
                cpu, memory = left[i]
                needed = np.maximum(1.0, np.maximum(cpu / centre.cpu_size, memory / centre.memory_size))
                joules += np.where(
                    centre.tasks == 0, (needed - 1.0) * (costs.idle_j + costs.activation_j), 0.0
                )
            return _take(centre, costs, demand, np.where(has_room, joules, np.inf))

        return _in_order(demands, order, place_one)


class Bfrs:
    """Best resource fit scheduling (figure 3.4): the best fitting server first, then the best path to it.

    Args:
        measure: the fitting value b, smallest first (figure 3.4: server with minimum b). ``dot``: the product
            of demand and free capacity; ``norm``: the square of their distance. The text of §3.3.2 says that
            the dot product is maximised. That chooses empty servers and contradicts the figure, which the
            code follows.
    """

    def __init__(self, measure: Literal["dot", "norm"]) -> None:
        self.name = f"BFRS-{measure}"
        self._measure = measure

    def place(self, centre: DataCentre, costs: SlotCosts, demands: Sequence[Demand]) -> list[Path | None]:
        def place_one(i: int) -> Path | None:
            return _to_first(centre, costs, demands[i], self._by_fit(centre, demands[i]))

        return _in_order(demands, range(len(demands)), place_one)

    def _by_fit(self, centre: DataCentre, demand: Demand) -> Floats:
        if self._measure == "dot":
            return np.asarray(demand.cpu * centre.cpu + demand.memory * centre.memory)
        return np.asarray((demand.cpu - centre.cpu) ** 2 + (demand.memory - centre.memory) ** 2)


class Rrs:
    """Round robin (§3.3.3): the next server that has room, then the best path to it."""

    name = "RRS"

    def __init__(self) -> None:
        self._next = 0

    def place(self, centre: DataCentre, costs: SlotCosts, demands: Sequence[Demand]) -> list[Path | None]:
        count = len(centre.tasks)

        def place_one(i: int) -> Path | None:
            turn = (np.arange(count) - self._next) % count
            path = _to_first(centre, costs, demands[i], turn.astype(float))
            if path is not None:
                self._next = (path.server + 1) % count
            return path

        return _in_order(demands, range(len(demands)), place_one)


def _in_order(
    demands: Sequence[Demand], order: Iterable[int], place_one: Callable[[int], Path | None]
) -> list[Path | None]:
    """Place a slot's tasks, by their number, one after the other.

    Room only shrinks within a slot, so a task that requests at least as much as one without a place is not
    tried. Otherwise a wide job that waits for room would be tried task by task in every slot.
    """
    found: list[Path | None] = [None] * len(demands)
    refused: list[Demand] = []
    for i in order:
        demand = demands[i]
        if any(_no_less(demand, other) for other in refused):
            continue
        found[i] = place_one(i)
        if found[i] is None:
            refused = [demand, *(other for other in refused if not _no_less(other, demand))]
    return found


def _left(demands: Sequence[Demand], order: Sequence[int]) -> dict[int, tuple[float, float]]:
    """CPU and memory of each task and all after it in the order, by its number."""
    found, cpu, memory = {}, 0.0, 0.0
    for i in reversed(order):
        cpu, memory = cpu + demands[i].cpu, memory + demands[i].memory
        found[i] = cpu, memory
    return found


def _no_less(demand: Demand, other: Demand) -> bool:
    return demand.cpu >= other.cpu and demand.memory >= other.memory and demand.gbps >= other.gbps


def _take(
    centre: DataCentre, costs: SlotCosts, demand: Demand, server_cost: Floats, ways: Reach | None = None
) -> Path | None:
    ways = ways or reach(centre, costs.switches(centre), demand.gbps)
    found = best_path(centre, ways, demand.gbps, server_cost)
    if found is None:
        return None
    centre.place(found[1], demand.cpu, demand.memory, demand.gbps)
    return found[1]


def _to_first(centre: DataCentre, costs: SlotCosts, demand: Demand, rank: Floats) -> Path | None:
    """The best path to the server of least rank that has room, and room on a path."""
    rank = np.where(centre.has_room(demand.cpu, demand.memory), rank, np.inf)
    ways = reach(centre, costs.switches(centre), demand.gbps)
    tried = False
    while True:
        server = int(rank.argmin())
        if rank[server] == np.inf:
            return None
        only = np.full(len(rank), np.inf)
        only[server] = 0.0
        path = _take(centre, costs, demand, only, ways)
        if path is not None or tried:
            return path
        # No reachable access switch has room on its link to this server: only other servers can have a path.
        links = centre.access_links[ways.cost < np.inf]
        rank[~(links >= demand.gbps - ROOM).any(axis=0)] = np.inf
        tried = True


#: Makers of the heuristics by name: those of figure 3.6 and our own; RRS remembers whose turn it is.
HEURISTICS: dict[str, Callable[[], Scheduler]] = {
    "BEPS-cpu": lambda: Beps("cpu"),
    "BEPS-memory": lambda: Beps("memory"),
    "BEPS-bandwidth": lambda: Beps("gbps"),
    "BEPS-memory-ascending": lambda: Beps("memory", ascending=True),
    "BEPS-memory-batch": lambda: Beps("memory", batch=True),
    "BFRS-dot": lambda: Bfrs("dot"),
    "BFRS-norm": lambda: Bfrs("norm"),
    "RRS": Rrs,
}
