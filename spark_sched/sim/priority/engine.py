"""The event loop of priority scheduling with evictions, in steps of one second (thesis §6.2.3.2).

One turn is one second in which something happens:

1. Servers whose next task is done give its slot back.
2. Tasks at their memory checkpoint get the rest of their memory, or the memory eviction policy strikes.
3. Tasks that arrived wait in the queue of their priority, in the order of first arrival.
4. HYBRID's phase I: the tasks that arrived first take sticky slots.
5. Highest priority first, waiting tasks take free slots, or the slot of a victim.
6. Servers whose tasks changed schedule their next end.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Sequence

import numpy as np

from spark_sched.policies.eviction import PreemptionRule, RunningIndex
from spark_sched.policies.eviction.pricing import Pricer
from spark_sched.policies.eviction.rules import PRODUCTION
from spark_sched.sim.collector import seldom_collected
from spark_sched.sim.priority.memory import Memory
from spark_sched.sim.priority.queue import CentralQueue
from spark_sched.sim.priority.results import PriorityResult
from spark_sched.sim.priority.servers import Server, ServerType
from spark_sched.sim.priority.slots import FreeSlots
from spark_sched.sim.priority.workload import TaskTable

__all__ = ["simulate_priorities"]

#: ``observer(what, second, task)``.
Observer = Callable[[str, int, int], None]
_SAMPLE_S = 60
#: Seconds between two calls of ``progress``.
_PROGRESS_S = 600
_WAKE_S = 30  # §6.2.4.2


def simulate_priorities(
    tasks: TaskTable,
    servers: Sequence[ServerType],
    rule: PreemptionRule,
    *,
    memory_eviction: str = "LSF",
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    observer: Observer | None = None,
) -> PriorityResult:
    """Run the workload until its last task has left; empty servers sleep at once (SLP, §6.2.5).

    Args:
        tasks: who comes when.
        servers: types in a fixed order, with the levels of their slots.
        rule: who is evicted for whom.
        memory_eviction: ``LSF`` or ``LPF`` (§6.2.3.4).
        seed: of slots, memory checkpoints and random victims. The same seed gives the same result.
        progress: ``progress(tasks that left, second)``, now and then.
        observer: ``observer(what, second, task)`` for each ``start``, ``end``, ``evict``, ``drop`` and
            ``memory`` (eviction).
    """
    rule.check()
    with seldom_collected():
        return _Run(tasks, servers, rule, memory_eviction, seed, observer).run(progress)


class _Run:
    def __init__(
        self,
        tasks: TaskTable,
        types: Sequence[ServerType],
        rule: PreemptionRule,
        memory_eviction: str,
        seed: int,
        observer: Observer | None,
    ) -> None:
        count = len(tasks)
        self.table = tasks
        self.observer = observer
        self.rule = rule
        self.arrival_s = tasks.arrival_s.tolist()
        self.priority: list[int] = tasks.priority.tolist()
        self.demand: list[float] = tasks.demand.tolist()
        self.memory_need: list[float] = tasks.memory.tolist()
        self.left: list[float] = list(self.demand)  # demand that is left when the task starts
        self.attempt = [0] * count  # number of the running attempt; changes when it ends
        self.server_of = [-1] * count
        self.begun = [0.0] * count  # the server's sum when the attempt began
        self.sticky = bytearray(count)
        self.evictions = [0] * count
        self.memory_evictions = [0] * count
        self.wasted = [0.0] * count
        self.end_s = [math.nan] * count
        kinds = [kind for kind in types for _ in range(kind.count)]
        self.servers = [Server(number, kind, asleep=True) for number, kind in enumerate(kinds)]
        self.total = sum(kind.slots for kind in kinds)
        self.regular = self.total - rule.sticky_slots  # slots of phase II
        self.used = self.sticky_used = 0
        rng = random.Random(seed)
        self.free = FreeSlots([(kind.slots, kind.level) for kind in kinds], rng)
        self.queue = CentralQueue(by_priority=rule.order == "priority")
        self.index = RunningIndex(rule, self.free.levels, rng)
        largest_core = max(kind.cpu / kind.cores for kind in kinds)
        self.memory = Memory(self, largest_core, memory_eviction, random.Random(seed + 1))
        self.pricer = Pricer() if rule.priced else None
        self.events: list[tuple[int, int, int]] = []  # (second, server, generation)
        self.dirty: list[Server] = []
        self.gone = 0
        self.energy_j = 0.0
        self.now_s = 0
        self.refused = 0
        self.seen = {p: [0, 0] for p in set(self.priority)}  # running: never evicted, evicted before
        self.samples: list[tuple[int, int, int, int, float, float]] = []
        self.states: list[tuple[int, int, bool]] = []

    def run(self, progress: Callable[[int, int], None] | None) -> PriorityResult:
        arrivals, next_task, count = self.arrival_s, 0, len(self.arrival_s)
        again_s = math.inf
        sample_s = progress_s = 0
        while self.gone < count:
            now_s = min(
                math.ceil(arrivals[next_task]) if next_task < count else math.inf,
                self.events[0][0] if self.events else math.inf,
                self.memory.next_s(),
                again_s,
            )
            while sample_s <= now_s:
                self._sample(sample_s)
                sample_s += _SAMPLE_S
            self.now_s = now_s = int(now_s)
            # 1. Ends.
            while self.events and self.events[0][0] <= now_s:
                _, number, generation = heapq.heappop(self.events)
                server = self.servers[number]
                if generation == server.generation:
                    self._ends(server)
            # 2. Memory.
            self.memory.check(now_s)
            # 3. Arrivals.
            while next_task < count and arrivals[next_task] <= now_s:
                self._arrives(next_task)
                next_task += 1
                if next_task == count:
                    self._count_energy()
            # 4. and 5.
            if self.queue.count:
                if self.sticky_used < self.rule.sticky_slots:
                    self._stage_one()
                self._stage_two()
            more = self.queue.count and self.sticky_used < self.rule.sticky_slots and self.free.count
            again_s = now_s + 1 if more else math.inf
            # 6. Next ends.
            for server in self.dirty:
                self._schedule(server)
            self.dirty.clear()
            if progress is not None and now_s >= progress_s:
                progress(self.gone, now_s)
                progress_s = now_s + _PROGRESS_S
        return self._result()

    # ---- 1. ends ----

    def _ends(self, server: Server) -> None:
        server.advance(self.now_s)
        heap, attempts = server.heap, self.attempt
        while heap and (attempts[heap[0][1]] != heap[0][2] or heap[0][0] - server.served <= 1e-9):
            _, task, attempt = heapq.heappop(heap)
            if attempts[task] == attempt:
                self.stop(task)
                self.end_s[task] = self.now_s
                self.gone += 1
                if self.observer is not None:
                    self.observer("end", self.now_s, task)
                if self.pricer is not None:
                    self.pricer.finished(self.priority[task], self.demand[task], self.now_s)
        self._touch(server)

    def _arrives(self, task: int) -> None:
        self.queue.push(self.priority[task], task)
        if self.pricer is not None:
            self.pricer.arrived(self.priority[task])

    # ---- 4. and 5. who gets slots ----

    def _stage_one(self) -> None:
        limit = self.rule.sticky_slots
        while self.queue.count and self.sticky_used < limit and self.free.count:
            task = self.queue.pop_first()
            self.sticky[task] = 1
            self.sticky_used += 1
            self._start(task, self._choose(task))

    def _stage_two(self) -> None:
        queue = self.queue
        for key in queue.priorities():
            while queue.has(key):
                task = queue.head(key)
                if self.used - self.sticky_used < self.regular and self.free.count:
                    queue.pop(key)
                    self._start(task, self._choose(task))
                    continue
                victim = self._victim(task, key)
                if victim is None:
                    break
                queue.pop(key)
                number = self.server_of[victim]
                self._evict_for_priority(victim)
                self.free.take(number)
                self._start(task, number)
            if queue.has(key) and self.pricer is None:
                break  # a lower priority finds no victim either

    def _choose(self, task: int) -> int:
        powerful = self.rule.powerful and self.priority[task] in PRODUCTION
        return self.free.take_powerful() if powerful else self.free.take_any()

    def _victim(self, task: int, key: int) -> int | None:
        priority = self.priority[task]
        if self.pricer is None:
            return self.index.victim(priority)
        lower = [p for p in self.index.priorities() if p < priority]
        victim = self.pricer.victim(
            priority,
            self.queue.ahead(key) + 1,
            {p: self.queue.ahead(-p) + self.queue.length(-p) for p in lower},
            {p: self._victim_state(t) for p in lower if (t := self.index.of(p)) is not None},
        )
        self.refused += victim is None
        return victim

    def _victim_state(self, task: int) -> tuple[int, float, float]:
        server = self.servers[self.server_of[task]]
        server.advance(self.now_s)
        return task, server.served - self.begun[task], server.rate()

    # ---- attempts ----

    def _start(self, task: int, number: int) -> None:
        server = self.servers[number]
        server.advance(self.now_s)
        if server.asleep:
            server.asleep = False
            server.wake_s = self.now_s + _WAKE_S
        server.running += 1
        self.used += 1
        self.attempt[task] += 1
        self.server_of[task] = number
        self.begun[task] = server.served
        heapq.heappush(server.heap, (server.served + self.left[task], task, self.attempt[task]))
        priority = self.priority[task]
        self.seen[priority][self.evictions[task] > 0] += 1
        if not self.sticky[task] and self.rule.evictable(self.evictions[task]):
            self.index.add(task, priority, server.level)
        self.memory.allocate(server, task, self.memory_need[task], self.left[task])
        self._touch(server)
        if self.observer is not None:
            self.observer("start", self.now_s, task)

    def stop(self, task: int) -> None:
        """The attempt ends, however; its slot is free."""
        number = self.server_of[task]
        server = self.servers[number]
        server.running -= 1
        self.used -= 1
        self.attempt[task] += 1  # what stands in heaps is void
        self.server_of[task] = -1
        priority = self.priority[task]
        self.seen[priority][self.evictions[task] > 0] -= 1
        self.index.remove(task, priority, server.level)
        if self.sticky[task]:
            self.sticky[task] = 0
            self.sticky_used -= 1
        self.memory.release(server, task)
        self.free.give(number)
        if not server.running:
            server.served = 0.0  # a fresh sum keeps its digits
            server.heap.clear()

    def evict(self, task: int) -> None:
        """The task loses its slot and waits again, at its first arrival's place."""
        server = self.servers[self.server_of[task]]
        server.advance(self.now_s)
        progress = server.served - self.begun[task]
        self.stop(task)
        if self.rule.resume:
            self.left[task] = max(1e-6, self.left[task] - progress)
        else:
            self.wasted[task] += progress
        self._touch(server)

    def evict_for_memory(self, task: int) -> None:
        self.evict(task)
        self.memory_evictions[task] += 1
        self.queue.push(self.priority[task], task)
        if self.observer is not None:
            self.observer("memory", self.now_s, task)

    def _evict_for_priority(self, task: int) -> None:
        fresh, before = self.seen[self.priority[task]]
        self.states.append((before, fresh, self.evictions[task] > 0))
        self.evict(task)
        self.evictions[task] += 1
        dropped = self.rule.drops(self.evictions[task])
        if dropped:
            self.gone += 1
        else:
            self.queue.push(self.priority[task], task)
        if self.observer is not None:
            self.observer("drop" if dropped else "evict", self.now_s, task)

    # ---- 6. what comes next ----

    def _touch(self, server: Server) -> None:
        if not server.dirty:
            server.dirty = True
            self.dirty.append(server)

    def _schedule(self, server: Server) -> None:
        server.dirty = False
        server.generation += 1
        if not server.running:
            server.asleep = True
            server.wake_s = 0
            return
        at_s = server.next_end_s(self.attempt, self.now_s)
        if at_s is not None:
            heapq.heappush(self.events, (at_s, server.number, server.generation))

    def _sample(self, at_s: int) -> None:
        on = cpu = memory = 0.0
        for server in self.servers:
            if not server.asleep:
                on += 1
                cpu += server.core_rate * min(server.running, server.cores)
                memory += server.used
        self.samples.append((at_s, self.used, self.queue.count, int(on), cpu, memory))

    def _count_energy(self) -> None:
        for server in self.servers:
            server.advance(self.now_s)
        self.energy_j = sum(server.energy_j for server in self.servers)

    def _result(self) -> PriorityResult:
        return PriorityResult(
            self.table,
            np.array(self.end_s),
            np.array(self.evictions),
            np.array(self.memory_evictions),
            np.array(self.wasted),
            self.energy_j,
            float(self.now_s),
            self.samples,
            self.states,
            self.refused,
        )
