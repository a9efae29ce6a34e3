"""The event queue of a simulation and its clock."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from spark_sched_lab.engine.records import Attempt, JobRun, StageRun
from spark_sched_lab.engine.workload import JobSpec, MarkChange, NextJob


class NextCompletion(NamedTuple):
    """A task of a shared server may be done; void if the server's ``generation`` has changed by then."""

    server: int
    generation: int


class MemoryCheck(NamedTuple):
    """The attempt needs the rest of its memory."""

    attempt: Attempt


class NodeChange(NamedTuple):
    node: int
    joins: bool


class StageReady(NamedTuple):
    """The delay of a stage whose parents have ended is over."""

    job: JobRun
    stage: int


class DriverDone(NamedTuple):
    """The driver's own work after the last stage of a job is over, and so is the job."""

    job: JobRun


class Arrival(NamedTuple):
    """The workload's next job."""

    spec: JobSpec


class Follower(NamedTuple):
    """A job that is submitted some time after another one ended."""

    following: NextJob


class MarksChanged(NamedTuple):
    """An operator changes the marks of a job that is active."""

    job: JobRun
    change: MarkChange


class LocalityOver(NamedTuple):
    """The time for which a stage waits for near slots, or for slots on the same rack, is over."""

    stage: StageRun


class WakeUp(NamedTuple):
    """A hold may expire, a copy may be due or a planned start may be reached."""


class PlanDue(NamedTuple):
    """The time of a plan; ``asked``: the plan in force asked for this one."""

    asked: bool


#: The contents of an entry of the agenda. The attempt itself stands for its end.
Happening: TypeAlias = (
    Attempt
    | NextCompletion
    | MemoryCheck
    | NodeChange
    | StageReady
    | DriverDone
    | Arrival
    | Follower
    | MarksChanged
    | LocalityOver
    | WakeUp
    | PlanDue
)

# The order of events at one instant: ends before starts, so that a freed slot can be reused at the same
# instant.
_ORDER: dict[type, int] = {
    Attempt: 0,
    NextCompletion: 1,
    MemoryCheck: 1,
    NodeChange: 2,
    StageReady: 3,
    DriverDone: 4,
    Arrival: 5,
    Follower: 6,
    MarksChanged: 7,
    LocalityOver: 8,
    WakeUp: 9,
    PlanDue: 10,
}


@dataclass(slots=True)
class Instant:
    """The present instant.

    Attributes:
        changed: what changed since the last plan, as bits of `spark_sched_lab.engine.planning`.
    """

    now_ms: int = 0
    changed: int = 0


class Agenda:
    """Events by time, then by `_ORDER`, then in the order in which they were added.

    Attributes:
        heap: (time in ms, order, number, what happens), as a heap.
    """

    __slots__ = ("_pushes", "heap")

    def __init__(self) -> None:
        self.heap: list[tuple[int, int, int, Happening]] = []
        self._pushes = 0

    def push(self, at_ms: int, item: Happening) -> None:
        self._pushes += 1
        heapq.heappush(self.heap, (at_ms, _ORDER[type(item)], self._pushes, item))

    def forget_changes(self, job: JobRun) -> None:
        """The job has ended: drop its marks' remaining changes; the clock must not advance to them."""
        self.heap[:] = [
            entry for entry in self.heap if not (isinstance(entry[3], MarksChanged) and entry[3].job is job)
        ]
        heapq.heapify(self.heap)

    def ends(self) -> list[Attempt]:
        """Running attempts whose end is known, in the order of their launch."""
        found = [item for *_, item in self.heap if isinstance(item, Attempt) and item.alive]
        return sorted(found, key=lambda a: a.task)

    def not_submitted(self) -> list[JobSpec]:
        """Jobs that have not been submitted yet."""
        items = [item for *_, item in self.heap]
        return [item.spec for item in items if isinstance(item, Arrival)] + [
            item.following.job for item in items if isinstance(item, Follower)
        ]
