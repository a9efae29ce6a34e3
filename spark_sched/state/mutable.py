"""The mutable states behind :class:`~spark_sched.state.cluster.ClusterState`, and sums of durations.

Changes are noted, so that a snapshot makes views only of what changed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Generic, Protocol, TypeVar

from spark_sched.protocol.events import ExecutorAdded, JobStarted, StageStarted
from spark_sched.state.snapshot import (
    DurationSummary,
    ExecutorView,
    JobMarks,
    JobView,
    RunningTask,
    StageView,
)
from spark_sched.state.summary import StageSummary

V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)

#: Stands for an attempt that is not known.
BEFORE = -1
NONE_HELD: Mapping[str, int] = MappingProxyType({})


@dataclass(slots=True)
class DurationSums:
    """A `DurationSummary` that grows."""

    count: int = 0
    min_ms: int | None = None
    sum_log_ms: float = 0.0
    _summary: DurationSummary | None = None

    def add(self, duration_ms: int) -> None:
        # Clocks tick in milliseconds and may step back; a logarithm needs a positive number.
        duration_ms = max(1, duration_ms)
        self._summary = None
        self.count += 1
        self.sum_log_ms += math.log(duration_ms)
        if self.min_ms is None or duration_ms < self.min_ms:
            self.min_ms = duration_ms

    def summary(self) -> DurationSummary:
        if self._summary is None:
            self._summary = DurationSummary(self.count, self.min_ms, self.sum_log_ms)
        return self._summary


class Viewed(Protocol[V_co]):
    """A state with a frozen view."""

    def view(self) -> V_co: ...


class Views(Generic[V]):
    """Views of states by key, of which each snapshot gets a copy.

    Attributes:
        stale: keys of states that are new or changed since the last snapshot, in this order.
    """

    __slots__ = ("_shown", "_views", "stale")

    def __init__(self) -> None:
        self._views: dict[str, V] = {}
        self._shown: Mapping[str, V] | None = None
        self.stale: dict[str, None] = {}

    def drop(self, key: str) -> None:
        """The state is gone. One of the same key that comes later stands last."""
        self.stale.pop(key, None)
        if self._views.pop(key, None) is not None:
            self._shown = None

    def clear(self) -> None:
        self._views.clear()
        self._shown = None
        self.stale.clear()

    def of(self, states: Mapping[str, Viewed[V]]) -> Mapping[str, V]:
        """Those of all states."""
        if self.stale:
            for key in self.stale:
                self._views[key] = states[key].view()
            self.stale.clear()
            self._shown = None
        if self._shown is None:
            self._shown = MappingProxyType(dict(self._views))
        return self._shown


@dataclass(slots=True)
class ExecutorState:
    """Attributes:
    stale: keys of executors whose view must be made again.
    """

    added: ExecutorAdded
    stale: dict[str, None]
    running_slots: int = 0
    held_slots: int = 0

    def changed(self) -> None:
        self.stale[self.added.executor] = None

    def view(self) -> ExecutorView:
        return ExecutorView(
            self.added.executor, self.added.host, self.added.slots, self.running_slots, self.held_slots
        )


@dataclass(slots=True)
class TaskState:
    """A running attempt. Its job and stage may be over already: a killed twin outlives its stage."""

    job: str
    stage: str
    running: RunningTask
    slots: int


class StageState:
    __slots__ = ("_view", "done", "durations", "running", "started")

    def __init__(self, started: StageStarted) -> None:
        self.started = started
        # Index of a finished task -> the attempt that finished it, `BEFORE` of those that had finished before
        # the stage was known here.
        self.done: dict[int, int] = dict.fromkeys(started.done, BEFORE)
        self.running: dict[int, RunningTask] = {}
        self.durations = DurationSums()
        self._view: StageView | None = None

    def changed(self) -> None:
        self._view = None

    def summary(self, job_name: str, *, completed: bool, ended_ms: int) -> StageSummary:
        s = self.started
        return StageSummary(
            job=s.job,
            job_name=job_name,
            stage=s.stage,
            name=s.name,
            index=s.index,
            tasks=s.tasks,
            completed=completed,
            ended_ms=ended_ms,
            durations=self.durations.summary(),
        )

    def view(self) -> StageView:
        if self._view is None:
            s = self.started
            self._view = StageView(
                s.stage,
                s.name,
                s.index,
                s.tasks,
                s.next_tasks,
                s.last,
                s.barrier,
                s.time_ms,
                len(self.done),
                self.durations.summary(),
                tuple(self.running.values()),
                s.restartable,
                s.slots_per_task,
            )
        return self._view


@dataclass(slots=True)
class JobState:
    """Attributes:
    stale: keys of jobs whose view must be made again.
    """

    started: JobStarted
    arrival: int
    stale: dict[str, None]
    seen_whole: bool = True  # no attempt of it can have ended before it was known here
    attained_ms: float = 0.0  # slot-milliseconds of its attempts that are over
    evicted_ms: float = 0.0  # those of them that were evicted for other jobs
    stages: dict[str, StageState] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    on_hold: bool = False
    running_slots: int = 0
    _marks: tuple[JobStarted, JobMarks] | None = None  # with what they were made of

    def changed(self) -> None:
        self.stale[self.started.job] = None

    def view(self) -> JobView:
        if self._marks is None or self._marks[0] is not self.started:
            self._marks = self.started, JobMarks.of(self.started)
        return JobView(
            self.started.job,
            self._marks[1],
            self.started.time_ms,
            self.arrival,
            tuple([stage.view() for stage in self.stages.values()]),
            MappingProxyType(dict(self.held)) if self.held else NONE_HELD,
            self.running_slots,
            None,
            self.on_hold,
            self.evicted_ms,
        )
