"""The mutable states behind :class:`~spark_sched.state.cluster.ClusterState`; nothing else touches them.

Each keeps its frozen view until the next change, so that a snapshot copies only what changed.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from types import MappingProxyType

from spark_sched.events import Event, ExecutorAdded, JobStarted, StageStarted
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


class ExecutorState:
    __slots__ = ("_view", "added", "held_slots", "running_slots", "story")

    def __init__(self, added: ExecutorAdded) -> None:
        self.added = added
        self.running_slots = 0
        self.held_slots = 0
        self.story = Story()
        self._view: ExecutorView | None = None

    def changed(self) -> None:
        self._view = None

    def view(self) -> ExecutorView:
        if self._view is None:
            self._view = ExecutorView(
                self.added.executor, self.added.host, self.added.slots, self.running_slots, self.held_slots
            )
        return self._view


class TaskState:
    """A running attempt. Its job and stage may be over already: a killed twin outlives its stage."""

    __slots__ = ("job", "running", "slots", "stage")

    def __init__(self, job: str, stage: str, running: RunningTask, slots: int) -> None:
        self.job = job
        self.stage = stage
        self.running = running
        self.slots = slots


class StageState:
    __slots__ = ("_view", "count", "done", "min_ms", "running", "started", "story", "sum_log_ms")

    def __init__(self, started: StageStarted) -> None:
        self.started = started
        # Index of a finished task -> the attempt that finished it, `BEFORE` of those that had finished before
        # the stage was known here.
        self.done: dict[int, int] = dict.fromkeys(started.done, BEFORE)
        self.running: dict[int, RunningTask] = {}
        self.count = 0
        self.min_ms: int | None = None
        self.sum_log_ms = 0.0
        self.story = Story()
        self._view: StageView | None = None

    def changed(self) -> None:
        self._view = None

    def add_duration(self, duration_ms: int) -> None:
        # Clocks tick in milliseconds and may step back; a logarithm needs a positive number.
        duration_ms = max(1, duration_ms)
        self.count += 1
        self.min_ms = duration_ms if self.min_ms is None else min(self.min_ms, duration_ms)
        self.sum_log_ms += math.log(duration_ms)

    def add_durations(self, durations_ms: Sequence[int]) -> None:
        for duration_ms in durations_ms:
            self.add_duration(duration_ms)

    def durations(self) -> DurationSummary:
        return DurationSummary(self.count, self.min_ms, self.sum_log_ms)

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
            durations=self.durations(),
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
                durations=self.durations(),
                running=tuple(self.running.values()),
                restartable=s.restartable,
                slots_per_task=s.slots_per_task,
            )
        return self._view


class JobState:
    __slots__ = (
        "_marks",
        "_view",
        "arrival",
        "attained_ms",
        "evicted_ms",
        "held",
        "on_hold",
        "running_slots",
        "seen_whole",
        "stages",
        "started",
        "story",
    )  # fmt: skip

    def __init__(self, started: JobStarted, arrival: int, *, seen_whole: bool = True) -> None:
        self.started = started
        self._marks = JobMarks.of(started)
        self.arrival = arrival
        self.attained_ms = 0.0  # slot-milliseconds of its attempts that are over
        self.evicted_ms = 0.0  # those of them that were evicted for other jobs
        self.seen_whole = seen_whole  # no attempt of it can have ended before it was known here
        self.stages: dict[str, StageState] = {}
        self.held: dict[str, int] = {}
        self.on_hold = False
        self.running_slots = 0
        self.story = Story()
        self._view: JobView | None = None

    def changed(self) -> None:
        self._view = None

    def marked_again(self, started: JobStarted) -> None:
        """Its marks are those of this event from now on."""
        self.started = started
        self._marks = JobMarks.of(started)
        self.changed()

    def view(self) -> JobView:
        if self._view is None:
            self._view = JobView(
                self.started.job,
                self._marks,
                started_ms=self.started.time_ms,
                arrival=self.arrival,
                stages=tuple([stage.view() for stage in self.stages.values()]),
                held=MappingProxyType(dict(self.held)),
                running_slots=self.running_slots,
                on_hold=self.on_hold,
                evicted_ms=self.evicted_ms,
            )
        return self._view
