"""GEMS, and its comparisons noSleep and noNetwork (chapter 4, algorithm 4.1).

Time advances in slots of a second. A slot in which no task arrives or ends and no server wakes up costs
nothing.
"""

from __future__ import annotations

import heapq
from collections import deque
from math import ceil
from typing import Literal, TypeAlias

import numpy as np

from spark_sched.arrays import Floats
from spark_sched.errors import BadInputError
from spark_sched_lab.energy.centre import ROOM, DataCentre, InternalPath, Path
from spark_sched_lab.energy.demands import Tasks, require_fit
from spark_sched_lab.energy.meter import Meter, Totals
from spark_sched_lab.energy.paths import SwitchCosts, best_path, internal_path, reach
from spark_sched_lab.energy.sharing import SharedServers
from spark_sched_lab.energy.topology import Topology

Variant: TypeAlias = Literal["gems", "noSleep", "noNetwork"]
Estimate: TypeAlias = Literal["shared", "trace"]
VARIANTS: tuple[Variant, ...] = ("gems", "noSleep", "noNetwork")

#: Draws of a random path before the cheapest one is taken: nearly every draw has room.
_DRAWS = 20
_BITS = 8.0 / 1e9


def simulate_gems(
    topology: Topology,
    tasks: Tasks,
    variant: Variant = "gems",
    *,
    estimate: Estimate = "shared",
    rng: np.random.Generator | None = None,
) -> Totals:
    """Run the tasks to the last one's end.

    Servers wake up in ``topology.server_wake_s``, rounded up to slots of a second; switches at once (§4.2.5).

    Args:
        variant: ``gems``; ``noSleep``: nodes without tasks idle, so no task waits and no wake-up costs
            energy (§4.4.1); ``noNetwork``: the server is chosen by its own cost and paths are random
            (§4.4.2).
        estimate: the T_x of equation 4.3: ``shared``, the task's time beside the tasks that the server has,
            as §4.3.1 says; ``trace``, the time in the trace, which §4.2.5 gives as its bound.
        rng: for the random paths of ``noNetwork``.

    Raises:
        BadInputError: unknown variant or estimate, switches that take time to wake up, no task, or a task
            that no server could hold.
    """
    if variant not in VARIANTS:
        raise BadInputError(f"variant is {variant!r} but must be one of {', '.join(VARIANTS)}")
    if estimate not in ("shared", "trace"):
        raise BadInputError(f"estimate is {estimate!r} but must be shared or trace")
    if topology.switch_wake_s > 0.0:
        raise BadInputError(
            f"switch_wake_s is {topology.switch_wake_s!r} but must be 0: GEMS is simulated with switches "
            "that wake up at once (§4.2.5)"
        )
    if not len(tasks):
        raise BadInputError("no task to simulate: give at least one")
    centre = DataCentre(topology)
    require_fit(topology, tasks)
    draws = np.random.default_rng(0) if rng is None else rng
    return _Run(centre, tasks, variant, estimate, draws).run()


class _Costs:
    """The cost of a task on each node (equation 4.3), and the bandwidth that it needs (§4.2.2)."""

    def __init__(self, centre: DataCentre, tasks: Tasks, *, sleeps: bool, shared: bool) -> None:
        t = centre.topology
        self._centre, self._tasks, self._shared = centre, tasks, shared
        # A server is on from the beginning of a slot.
        self.wake_s = ceil(t.server_wake_s) if sleeps else 0
        self._idle_w = t.by_server(lambda kind: kind.idle_w)
        self._wake_j = t.by_server(lambda kind: kind.peak_w) * self.wake_s
        self._thinnest_gbps = min(t.core_gbps, t.aggregation_gbps, t.access_gbps)

    def of_servers(self, task: int) -> tuple[Floats, Floats]:
        """Equation 4.3 for the servers (inf where the task does not fit), and the task's time on each.

        T_wu is the wake-up time of a sleeping server (N = 0). It is 0 for a server that is on, and for one
        that another task is waking up, because the energy is a cost of that other task.
        """
        centre, tasks = self._centre, self._tasks
        cpu, count = tasks.cpu[task], centre.tasks
        if self._shared:
            # Its demand and an equal part of what all leave over: cpu + (free - cpu) / (n + 1).
            pace = np.maximum(count * cpu + centre.cpu, ROOM)
            part_s = tasks.duration_s[task] * cpu / pace
        else:
            part_s = tasks.duration_s[task] / (count + 1.0)
        cost = self._idle_w * part_s
        if self.wake_s:
            cost = np.where(count == 0, cost + self._wake_j, cost)
        return np.where(centre.has_room(cpu, tasks.memory[task]), cost, np.inf), part_s * (count + 1)

    def of_switches(self) -> SwitchCosts:
        """Equation 4.3 for the switches, by second of the task's time."""
        core, aggregation, access = (
            np.asarray(kind.idle_w / (flows + 1.0))
            for kind, flows in zip(self._centre.topology.switches, self._centre.flows, strict=True)
        )
        return SwitchCosts(core, aggregation, access)

    def gbps(self, size_b: Floats, task: int, cpu_size: float) -> float:
        """§4.2.2: the flow divided by the task's time alone on the server, at most the capacity of the
        slowest link."""
        tasks = self._tasks
        least_s = tasks.duration_s[task] * tasks.cpu[task] / cpu_size
        return min(self._thinnest_gbps, float(size_b[task] * _BITS / least_s))


class _Run:
    def __init__(
        self,
        centre: DataCentre,
        tasks: Tasks,
        variant: Variant,
        estimate: Estimate,
        rng: np.random.Generator,
    ) -> None:
        self._centre, self._tasks, self._rng = centre, tasks, rng
        self._network = variant != "noNetwork"
        sleeps = variant != "noSleep"
        self._costs = _Costs(centre, tasks, sleeps=sleeps, shared=estimate == "shared")
        # On a larger server the task is faster, so its flow needs more bandwidth: there are two demands of
        # bandwidth, not one.
        self._sizes = [(float(size), centre.cpu_size == size) for size in np.unique(centre.cpu_size)[::-1]]
        self._servers = SharedServers(centre, tasks)
        self._meter = Meter(centre, sleeps)
        self._master = tasks.master()
        self._path: dict[int, tuple[Path, float]] = {}
        self._inner: dict[int, tuple[InternalPath, float]] = {}
        self._server_of = np.full(len(tasks), -1)
        self._unconnected = 0

    def run(self) -> Totals:
        tasks, servers, meter = self._tasks, self._servers, self._meter
        arrivals = tasks.arrival_s
        upcoming, now = 0, int(arrivals[0])
        queue: list[int] = []
        ends: list[tuple[int, int, int]] = []
        awake: deque[int] = deque()
        meter.begin(now)
        while True:
            meter.until(now, servers.wake_at_s)
            # 1. Finished tasks give back what they hold; a node without tasks sleeps from now on.
            changed: set[int] = set()
            while ends and ends[0][0] <= now:
                _, server, generation = heapq.heappop(ends)
                if generation == servers.generation[server]:
                    for task in servers.finished(server, now):
                        self._leave(task, now)
                    changed.add(server)
            # 2. New tasks join those without a place, sorted by memory.
            first = upcoming
            while upcoming < len(arrivals) and arrivals[upcoming] <= now:
                upcoming += 1
            if upcoming > first:
                queue = sorted([*queue, *range(first, upcoming)], key=lambda i: (tasks.memory[i], i))
            # 3. Phase I: path and server; phase II: the way to the master task.
            if queue and (upcoming > first or changed):
                placed, queue = self._place_all(queue, now, changed)
                for task in placed:
                    self._connect(task)
            for server in changed:
                end_s = servers.next_end_s(server, now)
                if end_s is not None:
                    heapq.heappush(ends, (end_s, server, servers.generation[server]))
                if servers.wake_at_s[server] == now + self._costs.wake_s > now:
                    awake.append(now + self._costs.wake_s)
            # 4. On to the next slot in which something happens.
            while awake and awake[0] <= now:
                awake.popleft()
            following = [end[0] for end in ends[:1]] + list(awake)[:1]
            if upcoming < len(arrivals):
                following.append(int(arrivals[upcoming]))
            if not following:
                break
            now = max(now + 1, min(following))
        return meter.totals(queue=len(queue), unconnected=self._unconnected)

    def _leave(self, task: int, now: int) -> None:
        path, gbps = self._path.pop(task)
        tasks = self._tasks
        self._centre.place(path, tasks.cpu[task], tasks.memory[task], gbps, -1)
        if task in self._inner:
            self._centre.connect(*self._inner.pop(task), -1)
        self._meter.response(now - tasks.arrival_s[task])

    def _place_all(self, queue: list[int], now: int, changed: set[int]) -> tuple[list[int], list[int]]:
        """Phase I: the tasks that got a place, and those that still wait."""
        tasks = self._tasks
        placed, left = [], []
        refused: list[tuple[float, float]] = []
        for task in queue:
            cpu, memory = float(tasks.cpu[task]), float(tasks.memory[task])
            # A task that requests at least as much as a task that fits no server does not fit either.
            if any(cpu >= c and memory >= m for c, m in refused):
                left.append(task)
                continue
            found = self._cheapest(task) if self._network else self._cheapest_server(task)
            if found is None:
                if not self._centre.has_room(cpu, memory).any():
                    refused.append((cpu, memory))
                left.append(task)
                continue
            path, gbps = found
            server = path.server
            self._servers.settle(server, now)
            if not self._centre.tasks[server] and self._costs.wake_s:
                self._servers.wake_at_s[server] = now + self._costs.wake_s
                self._meter.activate(0.0, 0.0, 1)
            self._centre.place(path, cpu, memory, gbps)
            self._servers.add(server, task)
            self._path[task] = path, gbps
            self._server_of[task] = server
            self._meter.wait(max(now, int(self._servers.wake_at_s[server])) - int(tasks.arrival_s[task]))
            changed.add(server)
            placed.append(task)
        return placed, left

    def _cheapest(self, task: int) -> tuple[Path, float] | None:
        """The path γ' of equation 4.4 and its bandwidth in Gbps."""
        server_cost, time_s = self._costs.of_servers(task)
        costs = self._costs.of_switches()
        best: tuple[float, Path, float] | None = None
        ways = None
        for size, members in self._sizes:
            gbps = self._costs.gbps(self._tasks.external_b, task, size)
            if ways is None or not ways.free:
                ways = reach(self._centre, costs, gbps)
            found = best_path(self._centre, ways, gbps, np.where(members, server_cost, np.inf), time_s)
            if found is not None and (best is None or found[0] < best[0]):
                best = (*found, gbps)
        return None if best is None else best[1:]

    def _cheapest_server(self, task: int) -> tuple[Path, float] | None:
        """noNetwork: the server with the lowest cost, and a random path with room."""
        server_cost, _ = self._costs.of_servers(task)
        server = int(server_cost.argmin())
        if server_cost[server] == np.inf:
            return None
        centre, t = self._centre, self._centre.topology
        size = float(centre.cpu_size[server])
        gbps = self._costs.gbps(self._tasks.external_b, task, size)
        need = gbps - ROOM
        for _ in range(_DRAWS):
            draw = self._rng.random(3)
            c, a, x = int(draw[0] * t.cores), int(draw[1] * t.aggregations), int(draw[2] * t.accesses)
            if (
                centre.core_links[c, a] >= need
                and centre.aggregation_links[a, x] >= need
                and centre.access_links[x, server] >= need
            ):
                return Path(c, a, x, server), gbps
        return self._cheapest(task)

    def _connect(self, task: int) -> None:
        """Phase II: bandwidth to the server of the job's master task."""
        server, master = int(self._server_of[task]), int(self._server_of[self._master[task]])
        if self._master[task] == task or master == server:
            return
        centre = self._centre
        gbps = self._costs.gbps(self._tasks.internal_b, task, float(centre.cpu_size[server]))
        path = None
        if master >= 0:
            path = self._random_inner(gbps, server, master) if not self._network else None
            path = path or internal_path(centre, self._costs.of_switches(), gbps, server, master)
        if path is None:
            self._unconnected += 1
            return
        centre.connect(path, gbps)
        self._inner[task] = path, gbps

    def _random_inner(self, gbps: float, server: int, master: int) -> InternalPath | None:
        links = self._centre.access_links
        for draw in self._rng.random(_DRAWS):
            x = int(draw * len(links))
            if links[x, server] >= gbps - ROOM and links[x, master] >= gbps - ROOM:
                return InternalPath(x, server, master)
        return None
