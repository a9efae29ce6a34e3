"""Memory of servers: allocation, checkpoints and memory evictions (thesis §6.2.3.4)."""

from __future__ import annotations

import heapq
import math
import random
from typing import Protocol

from spark_sched.errors import BadInputError
from spark_sched.sim.priority.servers import Server

__all__ = ["Memory"]

_ROUNDING = 1e-12


class _Owner(Protocol):
    attempt: list[int]
    priority: list[int]
    server_of: list[int]
    servers: list[Server]

    def evict_for_memory(self, task: int) -> None: ...


class Memory:
    """A task starts whatever memory is left. If that is less than its average, it needs the rest at a random
    point of its least execution time, on the fastest core; then it gets it, or somebody is evicted."""

    def __init__(self, owner: _Owner, largest_core: float, policy: str, rng: random.Random) -> None:
        if policy not in ("LSF", "LPF"):
            raise BadInputError(f"memory_eviction is {policy!r} but must be LSF or LPF")
        self._owner = owner
        self._largest_core = largest_core
        self._by_priority = policy == "LPF"
        self._rng = rng
        self._checkpoints: list[tuple[int, int, int]] = []  # (second, task, attempt)

    def allocate(self, server: Server, task: int, need: float, demand: float) -> None:
        """A task starts. Its server's wake-up is over before its checkpoint comes."""
        missing = 0.0
        if server.has_memory:
            missing = max(0.0, need - max(0.0, server.memory - server.used))
        server.tasks[task] = need - missing
        server.used += need - missing
        if missing > _ROUNDING:
            server.short[task] = missing
            after_s = self._rng.random() * demand / self._largest_core
            at_s = max(server.last_s, server.wake_s) + math.ceil(after_s)
            heapq.heappush(self._checkpoints, (at_s, task, self._owner.attempt[task]))

    def release(self, server: Server, task: int) -> None:
        """A task's attempt ended."""
        server.used = max(0.0, server.used - server.tasks.pop(task)) if len(server.tasks) > 1 else 0.0
        server.tasks.pop(task, None)
        server.short.pop(task, None)

    def next_s(self) -> float:
        """The second of the next checkpoint."""
        return self._checkpoints[0][0] if self._checkpoints else math.inf

    def check(self, now_s: int) -> None:
        """The checkpoints of this second."""
        owner, checkpoints = self._owner, self._checkpoints
        while checkpoints and checkpoints[0][0] <= now_s:
            _, task, attempt = heapq.heappop(checkpoints)
            while owner.attempt[task] == attempt:
                server = owner.servers[owner.server_of[task]]
                missing = server.short[task]
                if server.memory - server.used < missing - _ROUNDING:
                    owner.evict_for_memory(self._victim(server))
                    continue
                server.advance(now_s)
                del server.short[task]
                server.tasks[task] += missing
                server.used += missing
                break

    def _victim(self, server: Server) -> int:
        if not self._by_priority:
            return next(reversed(server.short))  # LSF: the last started whose need is not met
        # LPF: the lowest priority; tasks stand in the order of their starts, the latest goes.
        priority = self._owner.priority
        lowest = min(priority[task] for task in server.tasks)
        return next(task for task in reversed(server.tasks) if priority[task] == lowest)
