"""Processor sharing: servers whose tasks share CPU and memory, that sleep and draw power (thesis §6.2)."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from spark_sched_lab.cluster.cluster import ClusterSpec, NodeSpec
from spark_sched_lab.cluster.placement import Slots
from spark_sched_lab.engine.agenda import MemoryCheck, NextCompletion
from spark_sched_lab.engine.records import Attempt

#: Service missing by less than this (core-ms) is rounding.
_ROUNDING = 1e-6

Evict = Callable[[Attempt], None]
#: ``push(time_ms, event)``: hand the event back at that time.
Push = Callable[[int, NextCompletion | MemoryCheck], None]


@dataclass(slots=True)
class _Server:
    """One node. All its present tasks receive service at the same rate, so one sum serves for all: a task is
    done when the sum has grown by its demand since the task started."""

    number: int
    node: NodeSpec
    asleep: bool
    running: int = 0
    served_ms: float = 0.0  # core-ms that each task present since the server was last empty has received
    last_ms: int = 0
    wake_at_ms: int = 0
    generation: int = 0
    energy_j: float = 0.0
    memory_used: float = 0.0
    heap: list[tuple[float, int, Attempt]] = field(default_factory=list)
    tasks: dict[int, tuple[Attempt, float]] = field(default_factory=dict)  # attempt -> (itself, its memory)
    short: dict[int, float] = field(default_factory=dict)  # what attempts miss of their memory, in order

    def rate(self) -> float:
        """Core-ms per ms of each task: equation 6.2."""
        return self.node.speed * min(1.0, self.node.cores / self.running)

    def power_w(self, waking: bool) -> float:
        power = self.node.power
        if self.asleep:
            return power.sleep_w
        if waking:
            return power.peak_w
        cpu = min(1.0, self.running / self.node.cores)
        memory = self.memory_used / self.node.memory if self.node.memory else 0.0
        return power.idle_w + power.cpu_w * cpu + power.memory_w * memory  # equation 6.3

    def advance(self, now_ms: int) -> None:
        if now_ms > self.last_ms:
            if self.last_ms < self.wake_at_ms:
                # Waking at peak power without running a task; the engine stops here when it is over.
                self.energy_j += self.power_w(waking=True) * (now_ms - self.last_ms) / 1000.0
            else:
                self.energy_j += self.power_w(waking=False) * (now_ms - self.last_ms) / 1000.0
                if self.running:
                    self.served_ms += self.rate() * (now_ms - self.last_ms)
            self.last_ms = now_ms


class Servers:
    """A cluster's servers. ``push`` schedules a call of `happened`; ``evict`` ends an attempt for good."""

    def __init__(
        self, cluster: ClusterSpec, slots: Slots, rng: random.Random, push: Push, evict: Evict
    ) -> None:
        self._sleeps = cluster.power_policy == "sleep"
        self._wake_ms = cluster.wake_ms
        self._by_priority = cluster.memory_eviction == "LPF"
        self._largest_speed = max(node.speed for node in cluster.nodes)
        self._servers = [_Server(i, node, self._sleeps) for i, node in enumerate(cluster.nodes)]
        self._slots = slots
        self._rng = rng
        self._push = push
        self._evict = evict

    def start(self, a: Attempt, demand_ms: float, memory: float, now_ms: int) -> None:
        """Attempt ``a`` starts on its node: ``demand_ms`` core-ms of CPU, ``memory`` on average."""
        s = self._servers[a.node]
        s.advance(now_ms)
        if s.asleep:
            s.asleep = False
            s.wake_at_ms = now_ms + self._wake_ms
            self._slots.sleeps(a.node, False)
        s.running += 1
        heapq.heappush(s.heap, (s.served_ms + demand_ms, a.task, a))
        self._allocate(s, a, demand_ms, memory, now_ms)
        self._schedule(s, now_ms)

    def stop(self, a: Attempt, now_ms: int) -> None:
        """The attempt ended, for whatever reason."""
        s = self._servers[a.node]
        s.advance(now_ms)
        s.running -= 1
        s.memory_used -= s.tasks.pop(a.task)[1]
        s.short.pop(a.task, None)
        if s.running == 0:
            # A fresh sum keeps its digits over years of simulated time.
            s.served_ms = 0.0
            s.memory_used = 0.0
            s.heap.clear()
            if self._sleeps:
                s.asleep = True
                s.wake_at_ms = 0
                self._slots.sleeps(a.node, True)
        self._schedule(s, now_ms)

    def happened(self, event: NextCompletion | MemoryCheck, now_ms: int) -> list[Attempt]:
        """An event given to `push` is due. Returns the attempts that end now."""
        if isinstance(event, MemoryCheck):
            if event.attempt.alive:
                self._checkpoint(event.attempt, now_ms)
            return []
        s = self._servers[event.server]
        if event.generation != s.generation:
            return []
        s.advance(now_ms)
        done = []
        while s.heap and (not s.heap[0][2].alive or s.heap[0][0] - s.served_ms <= _ROUNDING):
            attempt = heapq.heappop(s.heap)[2]
            if attempt.alive:
                done.append(attempt)
        if not done:
            self._schedule(s, now_ms)
        return done

    def energy_j(self, now_ms: int) -> list[float]:
        """Energy of each server from time 0 until now, in joules."""
        for s in self._servers:
            s.advance(now_ms)
        return [s.energy_j for s in self._servers]

    def _schedule(self, s: _Server, now_ms: int) -> None:
        """Schedule the server's next completion, or the end of its waking; earlier entries are void."""
        s.generation += 1
        while s.heap and not s.heap[0][2].alive:
            heapq.heappop(s.heap)
        if not s.heap:
            return
        if now_ms < s.wake_at_ms:
            at_ms = s.wake_at_ms
        else:
            wait = (s.heap[0][0] - s.served_ms - _ROUNDING) / s.rate()
            # Up to the next tick of the clock.
            at_ms = now_ms + max(0, -int(-wait // 1))
        self._push(at_ms, NextCompletion(s.number, s.generation))

    # ---- memory (§6.2.3.4) ----

    def _allocate(self, s: _Server, a: Attempt, demand_ms: float, memory: float, now_ms: int) -> None:
        missing = 0.0
        if s.node.memory > 0.0:
            missing = max(0.0, memory - max(0.0, s.node.memory - s.memory_used))
        s.tasks[a.task] = (a, memory - missing)
        s.memory_used += memory - missing
        if missing > 0.0:
            s.short[a.task] = missing
            # Somewhere in its least execution time it needs the rest.
            after_ms = self._rng.random() * demand_ms / self._largest_speed
            self._push(max(now_ms, s.wake_at_ms) + round(after_ms), MemoryCheck(a))

    def _checkpoint(self, a: Attempt, now_ms: int) -> None:
        s = self._servers[a.node]
        while a.alive and a.task in s.short:
            missing = s.short[a.task]
            if s.node.memory - s.memory_used >= missing - 1e-12:
                s.advance(now_ms)
                del s.short[a.task]
                s.tasks[a.task] = (a, s.tasks[a.task][1] + missing)
                s.memory_used += missing
            else:
                self._evict(self._victim(s))

    def _victim(self, s: _Server) -> Attempt:
        if self._by_priority:
            # LPF: the lowest priority, of equals the latest to start.
            return min(
                (a for a, _ in s.tasks.values()), key=lambda a: (a.stage.job.priority, -a.start_ms, -a.task)
            )
        # LSF: the latest to start of those whose need is not met.
        return s.tasks[next(reversed(s.short))][0]
