"""The mutable states behind :class:`~spark_sched.state.cluster.ClusterState`, and sums of durations.

Each state keeps its frozen view until the next change, so that a snapshot copies only what changed.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from types import MappingProxyType

from spark_sched.protocol.events import Event, ExecutorAdded, JobStarted, StageStarted
from spark_sched.state.snapshot import (
    DurationSummary,
    ExecutorView,
    JobMarks,
    JobView,
    RunningTask,
    StageView,
)
from spark_sched.state.summary import StageSummary

#: Stands for an attempt that is not known.
BEFORE = -1
#: Events kept per object: enough to explain its state, few enough to need little memory.
STORY_LENGTH = 20


@dataclass(slots=True)
class DurationSums:
    """A `DurationSummary` that grows."""

    count: int = 0
    min_ms: int | None = None
    sum_log_ms: float = 0.0

    def add(self, duration_ms: int) -> None:
        # Clocks tick in milliseconds and may step back; a logarithm needs a positive number.
        duration_ms = max(1, duration_ms)
        self.count += 1
        self.sum_log_ms += math.log(duration_ms)
        if self.min_ms is None or duration_ms < self.min_ms:
            self.min_ms = duration_ms

    def summary(self) -> DurationSummary:
        return DurationSummary(self.count, self.min_ms, self.sum_log_ms)


class Story:
    """The latest events of an object, for the message of a broken invariant."""

    __slots__ = ("_events", "_told")

    def __init__(self) -> None:
        self._events: deque[Event] = deque(maxlen=STORY_LENGTH)
        self._told = 0

    def add(self, event: Event) -> None:
        self._events.append(event)
        self._told += 1

    def __str__(self) -> str:
        left_out = self._told - len(self._events)
        lines = [f"  … {left_out} earlier events"] if left_out else []
        lines += [f"  {event.time_ms} {event}" for event in self._events]
        return "\n".join(lines) or "  nothing happened to it"


@dataclass(slots=True)
class ExecutorState:
    added: ExecutorAdded
    running_slots: int = 0
    held_slots: int = 0
    story: Story = field(default_factory=Story)
    _view: ExecutorView | None = None

    def changed(self) -> None:
        self._view = None

    def view(self) -> ExecutorView:
        if self._view is None:
            self._view = ExecutorView(
                self.added.executor, self.added.host, self.added.slots, self.running_slots, self.held_slots
            )
        return self._view


@dataclass(slots=True)
class TaskState:
    """A running attempt. Its job and stage may be over already: a killed twin outlives its stage."""

    job: str
    stage: str
    running: RunningTask
    slots: int


class StageState:
    __slots__ = ("_view", "done", "durations", "running", "started", "story")

    def __init__(self, started: StageStarted) -> None:
        self.started = started
        # Index of a finished task -> the attempt that finished it, `BEFORE` of those that had finished before
        # the stage was known here.
        self.done: dict[int, int] = dict.fromkeys(started.done, BEFORE)
        self.running: dict[int, RunningTask] = {}
        self.durations = DurationSums()
        self.story = Story()
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
                stage=s.stage,
                name=s.name,
                index=s.index,
                tasks=s.tasks,
                next_tasks=s.next_tasks,
                last=s.last,
                barrier=s.barrier,
                started_ms=s.time_ms,
                finished=len(self.done),
                durations=self.durations.summary(),
                running=tuple(self.running.values()),
                restartable=s.restartable,
                slots_per_task=s.slots_per_task,
            )
        return self._view


@dataclass(slots=True)
class JobState:
    started: JobStarted
    arrival: int
    seen_whole: bool = True  # no attempt of it can have ended before it was known here
    attained_ms: float = 0.0  # slot-milliseconds of its attempts that are over
    evicted_ms: float = 0.0  # those of them that were evicted for other jobs
    stages: dict[str, StageState] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    on_hold: bool = False
    running_slots: int = 0
    story: Story = field(default_factory=Story)
    _view: JobView | None = None
    _marks: tuple[JobStarted, JobMarks] | None = None  # with what they were made of

    def changed(self) -> None:
        self._view = None

    def view(self) -> JobView:
        if self._view is None:
            if self._marks is None or self._marks[0] is not self.started:
                self._marks = self.started, JobMarks.of(self.started)
            self._view = JobView(
                self.started.job,
                self._marks[1],
                started_ms=self.started.time_ms,
                arrival=self.arrival,
                stages=tuple([stage.view() for stage in self.stages.values()]),
                held=MappingProxyType(dict(self.held)),
                running_slots=self.running_slots,
                on_hold=self.on_hold,
                evicted_ms=self.evicted_ms,
            )
        return self._view
