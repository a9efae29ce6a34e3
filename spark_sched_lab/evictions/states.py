"""The priority engine's state of each task, and its counts of running tasks."""

from __future__ import annotations

import math
from collections.abc import Iterable

from spark_sched_lab.evictions.task_table import TaskTable


class TaskStates:
    """The tasks by their numbers: one list per column, as plain numbers are faster here than arrays.

    Attributes:
        table: the columns as they were given.
        left: demand that is left when the task starts.
        attempt: number of the running attempt; changes when it ends, so that its heap entries become void.
        server_of: number of the server where the task runs; -1: it does not.
        begun: the server's sum when the attempt began.
        evictions: how often it was evicted for priority; ``memory_evictions``: for memory.
        wasted: CPU time that its evictions lost.
        end_s: when it was done; NaN: not yet, or dropped.
        times: how long it was on servers.
    """

    __slots__ = (
        "arrival_s", "attempt", "begun", "demand", "end_s", "evictions", "left", "memory",
        "memory_evictions", "priority", "server_of", "sticky", "table",
        "times", "wasted",
    )  # fmt: skip

    def __init__(self, table: TaskTable) -> None:
        count = len(table)
        self.table = table
        self.arrival_s: list[float] = table.arrival_s.tolist()
        self.priority: list[int] = table.priority.tolist()
        self.demand: list[float] = table.demand.tolist()
        self.memory: list[float] = table.memory.tolist()
        self.left = list(self.demand)
        self.attempt = [0] * count
        self.server_of = [-1] * count
        self.begun = [0.0] * count
        self.sticky = bytearray(count)
        self.evictions = [0] * count
        self.memory_evictions = [0] * count
        self.wasted = [0.0] * count
        self.end_s = [math.nan] * count
        self.times = AttemptTimes(count)


class AttemptTimes:
    """How long each task was on servers, by what became of it (thesis figure 6.5); in s.

    Attributes:
        waking: until the servers of its attempts were awake (T_wu).
        executing: in attempts whose work counts (T_x): the last one, and with resume the evicted ones, too.
        lost: in evicted attempts whose work was lost, for memory and for priority: T_we(M) and T_we(P).
    """

    __slots__ = ("_awake_s", "_start_s", "executing", "lost", "waking")

    def __init__(self, count: int) -> None:
        self._start_s = [0] * count
        self._awake_s = [0] * count
        self.waking = [0] * count
        self.executing = [0] * count
        self.lost = {"memory": [0] * count, "priority": [0] * count}

    def starts(self, task: int, now_s: int, awake_s: int) -> None:
        """An attempt starts on a server that is awake from ``awake_s`` on."""
        self._start_s[task] = now_s
        self._awake_s[task] = max(now_s, awake_s)

    def stops(self, task: int, now_s: int, lost_for: str | None = None) -> None:
        """The attempt ends; its work is lost for ``memory`` or ``priority``, or is not."""
        awake_s = min(now_s, self._awake_s[task])
        self.waking[task] += awake_s - self._start_s[task]
        (self.lost[lost_for] if lost_for else self.executing)[task] += now_s - awake_s


class RunningCounts:
    """Running tasks, counted.

    Attributes:
        all: of all slots.
        sticky: of sticky slots.
        by_priority: those that were never evicted for priority, and those that were.
    """

    __slots__ = ("all", "by_priority", "sticky")

    def __init__(self, priorities: Iterable[int]) -> None:
        self.all = 0
        self.sticky = 0
        self.by_priority = {p: [0, 0] for p in set(priorities)}
