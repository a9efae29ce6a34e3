"""Memory of servers: allocation, checkpoints and memory evictions (thesis §6.2.3.4)."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from spark_sched.errors import BadInputError
from spark_sched_lab.evictions.servers import Server, ServerMemory
from spark_sched_lab.evictions.states import TaskStates

_ROUNDING = 1e-12


@dataclass
class Memory:
    """A task starts even if little memory is free. If that is less than its average, it needs the rest at a
    random point of its minimum execution time (on the fastest core). Then it gets the rest, or a task is
    evicted.

    Attributes:
        policy: which task is evicted, ``LSF`` or ``LPF``.
    """

    tasks: TaskStates
    servers: Sequence[Server]
    largest_core: float
    policy: str
    rng: random.Random
    evict: Callable[[int], None]
    _checkpoints: list[tuple[int, int, int]] = field(default_factory=list)  # (second, task, attempt)

    def __post_init__(self) -> None:
        if self.policy not in ("LSF", "LPF"):
            raise BadInputError(f"memory_eviction is {self.policy!r} but must be LSF or LPF")

    def allocate(self, server: Server, task: int, need: float, demand: float) -> None:
        """A task starts. Its server's wake-up is over before its checkpoint comes."""
        missing, memory = 0.0, server.memory
        if memory.size > 0.0:
            missing = max(0.0, need - max(0.0, memory.size - memory.used))
        memory.tasks[task] = need - missing
        memory.used += need - missing
        if missing > _ROUNDING:
            memory.short[task] = missing
            after_s = self.rng.random() * demand / self.largest_core
            at_s = max(server.last_s, server.wake_s) + math.ceil(after_s)
            heapq.heappush(self._checkpoints, (at_s, task, self.tasks.attempt[task]))

    def release(self, server: Server, task: int) -> None:
        """A task's attempt ended."""
        memory = server.memory
        memory.used = max(0.0, memory.used - memory.tasks.pop(task)) if len(memory.tasks) > 1 else 0.0
        memory.tasks.pop(task, None)
        memory.short.pop(task, None)

    def next_s(self) -> float:
        """The second of the next checkpoint."""
        return self._checkpoints[0][0] if self._checkpoints else math.inf

    def check(self, now_s: int) -> None:
        """The checkpoints of this second."""
        tasks, checkpoints = self.tasks, self._checkpoints
        while checkpoints and checkpoints[0][0] <= now_s:
            _, task, attempt = heapq.heappop(checkpoints)
            while tasks.attempt[task] == attempt:
                server = self.servers[tasks.server_of[task]]
                memory = server.memory
                missing = memory.short[task]
                if memory.size - memory.used < missing - _ROUNDING:
                    self.evict(self._victim(memory))
                    continue
                server.advance(now_s)
                del memory.short[task]
                memory.tasks[task] += missing
                memory.used += missing
                break

    def _victim(self, memory: ServerMemory) -> int:
        if self.policy == "LSF":
            return next(reversed(memory.short))  # the last started whose need is not met
        # LPF: the lowest priority; tasks stand in the order of their starts, the latest goes.
        priority = self.tasks.priority
        lowest = min(priority[task] for task in memory.tasks)
        return next(task for task in reversed(memory.tasks) if priority[task] == lowest)
