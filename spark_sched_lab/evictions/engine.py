"""The event loop of priority scheduling with evictions, in steps of one second (thesis §6.2.3.2).

One turn is one second in which something happens:

1. Servers whose next task is done give its slot back.
2. Tasks at their memory checkpoint get the rest of their memory, or the memory eviction policy evicts tasks.
3. Tasks that arrived wait in the queue of their priority, in the order of first arrival.
4. HYBRID's phase I: the tasks that arrived first (of all, or of gratis classes) take sticky slots.
5. Highest priority first, waiting tasks take free slots, or the slot of a victim.
6. Servers whose tasks changed schedule their next end.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from spark_sched.errors import BadInputError
from spark_sched.policies.eviction import PreemptionRule, RunningIndex
from spark_sched.policies.eviction.rules import GRATIS, PRODUCTION
from spark_sched_lab.engine.collector import seldom_collected
from spark_sched_lab.evictions.free_slots import FreeSlots
from spark_sched_lab.evictions.memory import Memory
from spark_sched_lab.evictions.next_ends import NextEnds
from spark_sched_lab.evictions.pricing import Pricer, slot_rank
from spark_sched_lab.evictions.queue import CentralQueue
from spark_sched_lab.evictions.results import Observations, PriorityResult
from spark_sched_lab.evictions.servers import Server, ServerGroup
from spark_sched_lab.evictions.states import RunningCounts, TaskStates
from spark_sched_lab.evictions.task_table import TaskTable

#: ``observer(what, second, task)``.
Observer = Callable[[str, int, int], None]
_SAMPLE_S = 60
#: Seconds between two calls of ``progress``.
_PROGRESS_S = 600
_WAKE_S = 30  # §6.2.4.2


def simulate_priorities(
    tasks: TaskTable,
    servers: Sequence[ServerGroup],
    rule: PreemptionRule,
    *,
    memory_eviction: str = "LSF",
    seed: int = 0,
    wake_s: int = _WAKE_S,
    power_policy: Literal["sleep", "idle"] = "sleep",
    progress: Callable[[int, int], None] | None = None,
    observer: Observer | None = None,
) -> PriorityResult:
    """Run the workload until its last task has left.

    Args:
        servers: types in a fixed order, with the levels of their slots.
        memory_eviction: ``LSF`` or ``LPF`` (§6.2.3.4).
        seed: of slots, memory checkpoints and random victims. The same seed gives the same result.
        wake_s: how long a sleeping server takes to wake up.
        power_policy: an empty server goes to ``sleep`` at once (SLP, §6.2.5), or stays ``idle`` (IDL).
        progress: ``progress(tasks that left, second)``, now and then.
        observer: ``observer(what, second, task)`` for each ``start``, ``end``, ``evict``, ``drop`` and
            ``memory`` (eviction).

    Raises:
        BadInputError: a task needs more memory than the largest server has, a number of the rule is out of
            range for these servers, or the power policy is unknown.
    """
    if power_policy not in ("sleep", "idle"):
        raise BadInputError(f"power_policy is {power_policy!r} but must be sleep or idle")
    rule.check(sum(kind.count * kind.slots for kind in servers))
    _check_memory(tasks, servers)
    with seldom_collected():
        sleep_s = wake_s if power_policy == "sleep" else None
        return _PriorityRun(tasks, servers, rule, memory_eviction, seed, sleep_s, observer).run(progress)


def _check_memory(tasks: TaskTable, servers: Sequence[ServerGroup]) -> None:
    """A task that fits nowhere would be evicted again and again."""
    sizes, need = [kind.memory for kind in servers], float(tasks.memory.max())
    if sizes and min(sizes) > 0.0 and need > max(sizes):
        raise BadInputError(
            f"task {int(tasks.memory.argmax())} needs memory {need:g} but the largest server has "
            f"{max(sizes):g}: leave out such tasks, or use servers without memory limits"
        )


class _PriorityRun:
    def __init__(
        self,
        table: TaskTable,
        types: Sequence[ServerGroup],
        rule: PreemptionRule,
        memory_eviction: str,
        seed: int,
        wake_s: int | None,
        observer: Observer | None,
    ) -> None:
        self.wake_s = wake_s or 0
        self.tasks = TaskStates(table)
        self.observer = observer
        self.rule = rule
        kinds = [kind for kind in types for _ in range(kind.count)]
        self.servers = [Server(number, kind, asleep=wake_s is not None) for number, kind in enumerate(kinds)]
        self.regular = sum(kind.slots for kind in kinds) - rule.sticky_slots  # slots of phase II
        self.running = RunningCounts(self.tasks.priority)
        rng = random.Random(seed)
        self.free = FreeSlots([(kind.slots, kind.level) for kind in kinds], rng)
        self.queue = CentralQueue(by_priority=rule.order == "priority")
        self.index = RunningIndex(rule, self.free.levels, rng)
        largest_core = max(kind.cpu / kind.cores for kind in kinds)
        self.memory = Memory(
            self.tasks, self.servers, largest_core, memory_eviction, random.Random(seed + 1),
            evict=self._evict_for_memory,
        )  # fmt: skip
        self.pricer = Pricer() if rule.priced else None
        self.ends = NextEnds(self.servers, sleeps=wake_s is not None)
        self.now_s = 0
        self.seen = Observations()

    def run(self, progress: Callable[[int, int], None] | None) -> PriorityResult:
        arrivals, next_task, count = self.tasks.arrival_s, 0, len(self.tasks.table)
        again_s = math.inf
        sample_s = progress_s = 0
        while self.seen.gone < count:
            now_s = min(
                math.ceil(arrivals[next_task]) if next_task < count else math.inf,
                self.ends.next_s(),
                self.memory.next_s(),
                again_s,
            )
            while sample_s <= now_s:
                self._sample(sample_s)
                sample_s += _SAMPLE_S
            self.now_s = now_s = int(now_s)
            # 1. Ends.
            for server in self.ends.due(now_s):
                self._ends(server)
            # 2. Memory.
            self.memory.check(now_s)
            # 3. Arrivals.
            while next_task < count and arrivals[next_task] <= now_s:
                self._arrives(next_task)
                next_task += 1
                if next_task == count:
                    self.seen.energy_j = self._energy_j()
            # 4. and 5.
            if self.queue.count:
                self._stage_one()
                self._stage_two()
            # Phase II may have evicted a task that can take a sticky slot in the next second.
            again_s = math.inf if self._first_for_sticky() is None else now_s + 1
            # 6. Next ends.
            self.ends.schedule(self.tasks.attempt, now_s)
            if progress is not None and now_s >= progress_s:
                progress(self.seen.gone, now_s)
                progress_s = now_s + _PROGRESS_S
        return self._result()

    # ---- 1. ends ----

    def _ends(self, server: Server) -> None:
        server.advance(self.now_s)
        heap, attempts = server.heap, self.tasks.attempt
        while heap and (attempts[heap[0][1]] != heap[0][2] or heap[0][0] - server.served <= 1e-9):
            _, task, attempt = heapq.heappop(heap)
            if attempts[task] == attempt:
                self._stop(task)
                self.tasks.times.stops(task, self.now_s)
                self.tasks.end_s[task] = self.now_s
                self.seen.gone += 1
                if self.observer is not None:
                    self.observer("end", self.now_s, task)
                if self.pricer is not None:
                    self.pricer.finished(self.tasks.priority[task], self.tasks.demand[task], self.now_s)
        self.ends.changed(server)

    def _arrives(self, task: int) -> None:
        priority = self.tasks.priority[task]
        self.queue.push(priority, task)
        if self.pricer is not None:
            self.pricer.arrived(priority)

    # ---- 4. and 5. who gets slots ----

    def _stage_one(self) -> None:
        while (key := self._first_for_sticky()) is not None:
            task = self.queue.pop(key)
            self.tasks.sticky[task] = 1
            self.running.sticky += 1
            self._start(task, self._choose(task))

    def _first_for_sticky(self) -> int | None:
        """The key of the waiting task that can take a sticky slot now, if there is such a task and slot."""
        if self.running.sticky >= self.rule.sticky_slots or not self.free.count:
            return None
        return self.queue.first(GRATIS if self.rule.sticky_gratis else None)

    def _stage_two(self) -> None:
        queue, running = self.queue, self.running
        for key in queue.priorities():
            while queue.has(key):
                task = queue.head(key)
                if running.all - running.sticky < self.regular and self.free.count:
                    queue.pop(key)
                    self._start(task, self._choose(task))
                    continue
                victim = self._victim(task, key)
                if victim is None:
                    break
                queue.pop(key)
                number = self.tasks.server_of[victim]
                self._evict_for_priority(victim)
                self.free.take(number)
                self._start(task, number)
            if queue.has(key) and self.pricer is None:
                break  # a lower priority finds no victim either

    def _choose(self, task: int) -> int:
        if self.rule.priced_slots:
            return self._best_slot(task)
        powerful = self.rule.powerful and self.tasks.priority[task] in PRODUCTION
        return self.free.take_powerful() if powerful else self.free.take_any()

    def _best_slot(self, task: int) -> int:
        assert self.pricer is not None
        valuable = self.pricer.valuable(self.tasks.priority[task])
        open_servers = (server for server in self.servers if server.running < server.slots)
        best = max(
            open_servers,
            key=lambda server: slot_rank(
                valuable, server.core_rate, server.cores, server.running, server.asleep
            ),
        )
        self.free.take(best.number)
        return best.number

    def _victim(self, task: int, key: int) -> int | None:
        priority = self.tasks.priority[task]
        if self.pricer is None:
            return self.index.victim(priority)
        lower = [p for p in self.index.priorities() if p < priority]
        victim = self.pricer.victim(
            priority,
            self.queue.ahead(key) + 1,
            {p: self.queue.ahead(-p) + self.queue.length(-p) for p in lower},
            {p: self._victim_state(t) for p in lower if (t := self.index.of(p)) is not None},
        )
        self.seen.refused += victim is None
        return victim

    def _victim_state(self, task: int) -> tuple[int, float, float]:
        server = self.servers[self.tasks.server_of[task]]
        server.advance(self.now_s)
        return task, server.served - self.tasks.begun[task], server.rate()

    # ---- attempts ----

    def _start(self, task: int, number: int) -> None:
        server, tasks = self.servers[number], self.tasks
        server.advance(self.now_s)
        if server.asleep:
            server.asleep = False
            server.wake_s = self.now_s + self.wake_s
        server.running += 1
        self.running.all += 1
        tasks.attempt[task] += 1
        tasks.server_of[task] = number
        tasks.begun[task] = server.served
        tasks.times.starts(task, self.now_s, server.wake_s)
        left = tasks.left[task]
        heapq.heappush(server.heap, (server.served + left, task, tasks.attempt[task]))
        priority, evictions = tasks.priority[task], tasks.evictions[task]
        self.running.by_priority[priority][evictions > 0] += 1
        if not tasks.sticky[task] and self.rule.evictable(evictions):
            self.index.add(task, priority, server.level)
        self.memory.allocate(server, task, tasks.memory[task], left)
        self.ends.changed(server)
        if self.observer is not None:
            self.observer("start", self.now_s, task)

    def _stop(self, task: int) -> None:
        """The attempt ends, however; its slot is free."""
        tasks, running = self.tasks, self.running
        number = tasks.server_of[task]
        server = self.servers[number]
        server.running -= 1
        running.all -= 1
        tasks.attempt[task] += 1
        tasks.server_of[task] = -1
        priority = tasks.priority[task]
        running.by_priority[priority][tasks.evictions[task] > 0] -= 1
        self.index.remove(task, priority, server.level)
        if tasks.sticky[task]:
            tasks.sticky[task] = 0
            running.sticky -= 1
        self.memory.release(server, task)
        self.free.give(number)
        if not server.running:
            server.served = 0.0  # a fresh sum keeps its digits
            server.heap.clear()

    def _evict(self, task: int, cause: str) -> None:
        """The task loses its slot, for ``memory`` or ``priority``, and waits at its first arrival's place."""
        tasks = self.tasks
        server = self.servers[tasks.server_of[task]]
        server.advance(self.now_s)
        progress = server.served - tasks.begun[task]
        self._stop(task)
        tasks.times.stops(task, self.now_s, None if self.rule.resume else cause)
        if self.rule.resume:
            tasks.left[task] = max(1e-6, tasks.left[task] - progress)
        else:
            tasks.wasted[task] += progress
        self.ends.changed(server)

    def _evict_for_memory(self, task: int) -> None:
        self._evict(task, "memory")
        self.tasks.memory_evictions[task] += 1
        self.queue.push(self.tasks.priority[task], task)
        if self.observer is not None:
            self.observer("memory", self.now_s, task)

    def _evict_for_priority(self, task: int) -> None:
        priority, evictions = self.tasks.priority[task], self.tasks.evictions
        fresh, before = self.running.by_priority[priority]
        self.seen.states.append((before, fresh, evictions[task] > 0))
        self._evict(task, "priority")
        evictions[task] += 1
        dropped = self.rule.drops(evictions[task])
        if dropped:
            self.seen.gone += 1
        else:
            self.queue.push(priority, task)
        if self.observer is not None:
            self.observer("drop" if dropped else "evict", self.now_s, task)

    # ---- what is observed ----

    def _sample(self, at_s: int) -> None:
        on = cpu = memory = 0.0
        for server in self.servers:
            if not server.asleep:
                on += 1
                cpu += server.core_rate * min(server.running, server.cores)
                memory += server.memory.used
        self.seen.samples.append((at_s, self.running.all, self.queue.count, int(on), cpu, memory))

    def _energy_j(self) -> float:
        for server in self.servers:
            server.advance(self.now_s)
        return sum(server.energy_j for server in self.servers)

    def _result(self) -> PriorityResult:
        tasks, seen, times = self.tasks, self.seen, self.tasks.times
        return PriorityResult(
            tasks.table,
            np.array(tasks.end_s),
            np.array(tasks.evictions),
            np.array(tasks.memory_evictions),
            np.array(tasks.wasted),
            seen.energy_j,
            self._energy_j(),
            float(self.now_s),
            seen.samples,
            seen.states,
            {
                "executing": np.array(times.executing),
                "waking": np.array(times.waking),
                "lost_for_memory": np.array(times.lost["memory"]),
                "lost_for_priority": np.array(times.lost["priority"]),
            },
            seen.refused,
        )
