"""Attribution of evictions to causes, in one pass over rows in time order (thesis §5.2)."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from spark_sched_lab.traces.evictions.tables import (
    EVICT,
    FAIL,
    FINISH,
    KILL,
    LOST,
    MACHINE_ADDED,
    MACHINE_REMOVED,
    SCHEDULE,
    SUBMIT,
    USAGE,
    TraceEvent,
)

#: Table 5.1: seconds from an eviction to the start of a task of higher priority on its machine.
TOLERANCES_S = (1, 5, 10, 20, 30)
#: Table 5.1: seconds from a machine's removal to an eviction there.
FAILURE_TOLERANCES_S = (0, 15, 30, 45)


class _Attempt(NamedTuple):
    """Length in s, CPU and memory of an attempt that ended by itself: it was not evicted."""

    span_s: float
    cpus: float
    memory: float


@dataclass(slots=True)
class _ActiveTask:
    """A task that has not left yet. Times are in µs."""

    priority: int
    submit_us: int
    evictions: int = 0
    start_us: int = -1
    cpus: float | None = None
    memory: float | None = None
    disk: float | None = None
    used_memory: float = 0.0  # largest of the attempt
    used_disk: float = 0.0  # largest mean of the attempt
    cpu_us: float = 0.0  # CPU rate times time, of the attempt
    memory_us: float = 0.0  # mean memory usage times time
    used_us: float = 0.0
    ended: _Attempt | None = None  # the last attempt, if it ended by itself


@dataclass(slots=True)
class _UnexplainedEviction:
    """An eviction whose evictor is not known yet."""

    time_us: int
    priority: int
    causes: int  # other causes that are known


@dataclass(slots=True)
class ClassTotals:
    """The values of table 5.2 for one priority. Demands and usages are sums over tasks that arrived and
    departed: a long task's usage counts no more than a short one's, as in the mean of section 8.1.1.1."""

    tasks: int = 0
    evictions: int = 0
    evicted_tasks: int = 0
    evicted_finished: int = 0
    evicted_again: int = 0
    max_evictions: int = 0
    first_us: int | None = None
    last_us: int = 0
    departed: int = 0
    cpu_s: float = 0.0
    memory_s: float = 0.0
    cpus: float = 0.0
    memory: float = 0.0
    hourly: Counter[int] = field(default_factory=Counter)


@dataclass(slots=True)
class CauseCounts:
    """Evictions by cause, the values of table 5.1.

    Attributes:
        failures, preempted: by tolerance in s: machine failures and tasks of higher priority.
        memory_excess, disk_excess: only where there is a usage table.
        explained, several: with a cause, and with more than one, at the widest tolerances.
        pairs: by evictor's and evicted's priority, within the largest tolerance.
    """

    failures: Counter[int] = field(default_factory=Counter)
    preempted: Counter[int] = field(default_factory=Counter)
    memory_excess: int = 0
    disk_excess: int = 0
    explained: int = 0
    several: int = 0
    pairs: Counter[tuple[int, int]] = field(default_factory=Counter)

    def count(self, before: int, causes: int) -> None:
        """An eviction that had ``before`` causes has ``causes`` now."""
        self.explained += before < 1 <= causes
        self.several += before < 2 <= causes


class EvictionAnalysis:
    """Consumes `TraceEvent`s. Memory: tasks that have not left, and evictions younger than the largest
    tolerance.

    An eviction at t on machine m of a task of priority p may have several causes:

    - ``machine failure``: m was removed at u with u ≤ t ≤ u + τ, and not added again before t;
    - ``memory excess``, ``disk excess``: the attempt's largest "maximum memory usage" (largest mean disk
      usage) is above what the task requested. Only where there is a usage table;
    - ``higher-priority task``: a task of higher priority was scheduled on m at s with t ≤ s ≤ t + τ.

    A task that finished, was killed or was lost has left; if it is submitted again, it counts as a new task.
    """

    def __init__(
        self,
        *,
        usage: bool,
        machines: bool,
        tolerances_s: Iterable[int] = TOLERANCES_S,
        failure_tolerances_s: Iterable[int] = FAILURE_TOLERANCES_S,
    ) -> None:
        self.usage = usage
        self.machines = machines
        self.tolerances_s = tuple(sorted(tolerances_s))
        self.failure_tolerances_s = tuple(sorted(failure_tolerances_s))
        self.evictions = 0
        self.classes: dict[int, ClassTotals] = {}
        self.causes = CauseCounts()
        self.first_us: int | None = None
        self.last_us = 0
        self._longest_us = self.tolerances_s[-1] * 1_000_000
        self._tasks: dict[tuple[int, int], _ActiveTask] = {}
        self._removed_us: dict[int, int] = {}
        self._waiting: dict[int, deque[_UnexplainedEviction]] = {}
        self._scheduled_now: dict[int, list[int]] = {}  # machine -> priorities scheduled at this instant
        self._now_us = -1

    def feed(self, rows: Iterable[TraceEvent]) -> None:
        """Process rows in time order."""
        for row in rows:
            if row.time_us != self._now_us:
                self._now_us = row.time_us
                self._scheduled_now.clear()
            if row.kind == USAGE:
                self._used(row)
            elif row.kind == MACHINE_REMOVED:
                self._removed_us[row.machine] = row.time_us
            elif row.kind == MACHINE_ADDED:
                self._removed_us.pop(row.machine, None)
            else:
                if row.time_us:
                    if self.first_us is None:
                        self.first_us = row.time_us
                    self.last_us = row.time_us
                self._task_event(row)

    def finish(self) -> None:
        """Count the tasks that have not left when the rows end."""
        for task in self._tasks.values():
            self._left(task, finished=False)
        self._tasks.clear()

    # ---- rows ----

    def _task_event(self, row: TraceEvent) -> None:
        key = (row.job, row.task)
        task = self._tasks.get(key)
        if task is None:
            if row.kind not in (SUBMIT, SCHEDULE, EVICT):
                return  # the end of a task whose beginning is not in the files
            task = self._tasks[key] = _ActiveTask(row.priority, row.time_us)
            self._arrived(row)
        if row.cpus is not None:
            task.cpus = row.cpus
        if row.memory is not None:
            task.memory = row.memory
        if row.disk is not None:
            task.disk = row.disk
        if row.kind == SCHEDULE:
            task.start_us = row.time_us
            task.used_memory = task.used_disk = task.cpu_us = task.memory_us = task.used_us = 0.0
            task.ended = None
            self._scheduled(row)
        elif row.kind == EVICT:
            self._evicted(task, row)
            task.start_us = -1
        elif row.kind == FAIL:
            self._ended(task, row.time_us)
        elif row.kind in (FINISH, KILL, LOST):
            self._ended(task, row.time_us)
            self._departed(task)
            self._left(task, finished=row.kind == FINISH)
            del self._tasks[key]

    def _used(self, row: TraceEvent) -> None:
        task = self._tasks.get((row.job, row.task))
        if task is None or task.start_us < 0 or row.end_us <= task.start_us:
            return
        span_us = row.end_us - max(row.time_us, task.start_us)
        task.used_memory = max(task.used_memory, row.memory or 0.0)
        task.used_disk = max(task.used_disk, row.disk or 0.0)
        task.cpu_us += (row.cpus or 0.0) * span_us
        task.memory_us += (row.mean_memory or 0.0) * span_us
        task.used_us += span_us

    def _arrived(self, row: TraceEvent) -> None:
        totals = self.classes.setdefault(row.priority, ClassTotals())
        totals.tasks += 1
        if not row.time_us:
            return  # it arrived before the trace began
        if totals.first_us is None:
            totals.first_us = row.time_us
        totals.last_us = row.time_us
        totals.hourly[row.time_us // 3_600_000_000] += 1

    def _scheduled(self, row: TraceEvent) -> None:
        self._scheduled_now.setdefault(row.machine, []).append(row.priority)
        waiting = self._waiting.get(row.machine)
        if not waiting:
            return
        still: deque[_UnexplainedEviction] = deque()
        for eviction in waiting:
            if row.time_us - eviction.time_us > self._longest_us:
                continue
            if row.priority > eviction.priority:
                self._preempted_by(row.priority, eviction.priority, row.time_us - eviction.time_us)
                self.causes.count(eviction.causes, eviction.causes + 1)
            else:
                still.append(eviction)
        if still:
            self._waiting[row.machine] = still
        else:
            del self._waiting[row.machine]

    def _evicted(self, task: _ActiveTask, row: TraceEvent) -> None:
        self.evictions += 1
        task.evictions += 1
        self.classes.setdefault(row.priority, ClassTotals()).evictions += 1
        causes = 0
        removed_us = self._removed_us.get(row.machine)
        if removed_us is not None:
            for tolerance_s in self.failure_tolerances_s:
                self.causes.failures[tolerance_s] += row.time_us - removed_us <= tolerance_s * 1_000_000
            causes += row.time_us - removed_us <= self.failure_tolerances_s[-1] * 1_000_000
        if self.usage:
            memory = task.memory is not None and task.used_memory > task.memory
            disk = task.disk is not None and task.used_disk > task.disk
            self.causes.memory_excess += memory
            self.causes.disk_excess += disk
            causes += memory + disk
        above = [p for p in self._scheduled_now.get(row.machine, ()) if p > row.priority]
        if above:
            self._preempted_by(above[0], row.priority, 0)
            causes += 1
        elif row.machine >= 0:
            waiting = self._waiting.setdefault(row.machine, deque())
            waiting.append(_UnexplainedEviction(row.time_us, row.priority, causes))
        self.causes.count(0, causes)

    def _preempted_by(self, evictor: int, evicted: int, gap_us: int) -> None:
        for tolerance_s in self.tolerances_s:
            self.causes.preempted[tolerance_s] += gap_us <= tolerance_s * 1_000_000
        self.causes.pairs[(evictor, evicted)] += 1

    def _ended(self, task: _ActiveTask, now_us: int) -> None:
        """The running attempt, if there is one, ends by itself, successful or not."""
        start_us, task.start_us = task.start_us, -1
        if start_us <= 0:
            return
        if self.usage:
            if task.used_us <= 0:
                return
            cpus, memory = task.cpu_us / task.used_us, task.memory_us / task.used_us
        elif task.cpus is not None and task.memory is not None:
            cpus, memory = task.cpus, task.memory
        else:
            return
        task.ended = _Attempt((now_us - start_us) / 1e6, cpus, memory)

    def _departed(self, task: _ActiveTask) -> None:
        """§5.2.3: demands of tasks that arrived and departed in the window; §5.1: "an (un)successful finish".

        The last attempt counts. What a task whose last attempt was evicted would have needed is unknown.
        """
        if task.submit_us <= 0 or task.ended is None:
            return
        totals, ended = self.classes[task.priority], task.ended
        totals.departed += 1
        totals.cpus += ended.cpus
        totals.memory += ended.memory
        totals.cpu_s += ended.cpus * ended.span_s
        totals.memory_s += ended.memory * ended.span_s

    def _left(self, task: _ActiveTask, *, finished: bool) -> None:
        if task.evictions:
            totals = self.classes[task.priority]
            totals.evicted_tasks += 1
            totals.evicted_finished += finished
            totals.evicted_again += task.evictions > 1
            totals.max_evictions = max(totals.max_evictions, task.evictions)
