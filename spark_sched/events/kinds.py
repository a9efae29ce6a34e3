"""The events that the driver sends to the planner: one frozen class per event type of
``protocol/event-batch.schema.json``.

``time_ms`` is the driver's clock in milliseconds since 1970 (UTC). ``job``, ``stage`` and ``executor`` are
opaque
keys. The simulator and recorded logs use the same classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import ClassVar, TypeAlias


@dataclass(frozen=True, slots=True)
class ExecutorAdded:
    """An executor offers ``slots`` slots (``spark.task.cpus`` cores each)."""

    type: ClassVar[str] = "executor_added"
    time_ms: int
    executor: str
    host: str
    slots: int


@dataclass(frozen=True, slots=True)
class ExecutorRemoved:
    """An executor is gone, with all tasks that ran and slots that were held on it."""

    type: ClassVar[str] = "executor_removed"
    time_ms: int
    executor: str
    reason: str


@dataclass(frozen=True, slots=True)
class JobStarted:
    """A job's first stage is about to start; the fields are those of its marks.

    ``marked``: the owner named the job; false: the driver grouped its work by itself. ``copies`` is false
    for jobs that must never run a task twice. ``begun_ms``: when its first task started, sent after a reset
    of jobs that had begun before.
    """

    type: ClassVar[str] = "job_started"
    time_ms: int
    job: str
    name: str
    user: str | None
    priority: int
    isolation: float | None
    deadline_ms: int | None
    job_class: str | None
    copies: bool
    marked: bool
    begun_ms: int | None = None


@dataclass(frozen=True, slots=True)
class JobEnded:
    """A job is over: its owner said so (``ended``) or nothing of it came for a while (``idle``).

    ``ended_ms`` is the time of the job's last activity, where the driver saw only later that the job is over;
    None: it ended at ``time_ms``.
    """

    type: ClassVar[str] = "job_ended"
    time_ms: int
    job: str
    outcome: str
    ended_ms: int | None = None

    @property
    def end_ms(self) -> int:
        """When the job ended."""
        return self.time_ms if self.ended_ms is None else self.ended_ms


@dataclass(frozen=True, slots=True)
class StageStarted:
    """A stage's tasks wait for slots.

    ``index`` counts the job's stages from 0; a retried stage keeps its index and has another key.
    ``next_tasks`` is the size of the stage after it in the DAG where Spark knows it, ``next_at_most`` a bound
    of it where adaptive execution decides it later; ``last`` says that the job ends with the stage.
    ``restartable`` is false where the driver neither copies nor evicts its tasks. Each of
    them takes ``slots_per_task`` slots of one executor. ``done``: indices of its tasks that had ended well
    when the planner came, sent after a reset.
    """

    type: ClassVar[str] = "stage_started"
    time_ms: int
    job: str
    stage: str
    name: str
    index: int
    tasks: int
    next_tasks: int | None
    last: bool
    barrier: bool
    restartable: bool = True
    slots_per_task: int = 1
    next_at_most: int | None = None
    done: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class StageEnded:
    """No task of the stage will start any more; ``completed`` is false for a failed or cancelled one."""

    type: ClassVar[str] = "stage_ended"
    time_ms: int
    job: str
    stage: str
    completed: bool


@dataclass(frozen=True, slots=True)
class TaskLaunched:
    """An attempt runs. ``task`` is the attempt's own number; ``index`` its place in the stage, shared with a
    copy. ``evictions``: how often attempts of its task were evicted before."""

    type: ClassVar[str] = "task_launched"
    time_ms: int
    job: str
    stage: str
    task: int
    index: int
    executor: str
    copy: bool
    evictions: int = 0


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """An attempt ended after ``duration_ms`` as ``success``, ``failed``, ``killed`` or ``lost``.
    ``evicted_for``: the job whose waiting tasks got its slot, if it was killed for that."""

    type: ClassVar[str] = "task_ended"
    time_ms: int
    job: str
    stage: str
    task: int
    index: int
    executor: str
    duration_ms: int
    outcome: str
    copy: bool
    evicted_for: str | None = None


@dataclass(frozen=True, slots=True)
class ShortTasks:
    """Attempts of one stage on one executor that were launched and succeeded within one batch, as columns.

    ``tasks``, ``indices`` and ``durations_ms`` have one entry per attempt, in the order of their ends;
    ``time_ms`` is the last one's. None of them is a copy.
    """

    type: ClassVar[str] = "short_tasks"
    time_ms: int
    job: str
    stage: str
    executor: str
    tasks: list[int]
    indices: list[int]
    durations_ms: list[int]


@dataclass(frozen=True, slots=True)
class SlotHeld:
    """One idle slot is reserved for the job until ``deadline_ms``; ``stage`` is empty where it is not
    known."""

    type: ClassVar[str] = "slot_held"
    time_ms: int
    job: str
    stage: str
    executor: str
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class SlotFreed:
    """One held slot is no longer reserved; ``used`` means the job's own task took it."""

    type: ClassVar[str] = "slot_freed"
    time_ms: int
    job: str
    executor: str
    reason: str


@dataclass(frozen=True, slots=True)
class JobChanged:
    """A user changed the job's marks, or lets none of its tasks start (``on_hold``): all of that as it is
    from now on. ``by``: who did; empty where that was before the planner came."""

    type: ClassVar[str] = "job_changed"
    time_ms: int
    job: str
    priority: int
    isolation: float | None
    deadline_ms: int | None
    on_hold: bool
    by: str


@dataclass(frozen=True, slots=True)
class JobCancelled:
    """A user cancelled the Spark jobs that run for the job; its end is an event of its own."""

    type: ClassVar[str] = "job_cancelled"
    time_ms: int
    job: str
    by: str


@dataclass(frozen=True, slots=True)
class SchedulingChanged:
    """A user changed the settings for all jobs; the event has all of these settings."""

    type: ClassVar[str] = "scheduling_changed"
    time_ms: int
    policy: str
    mode: str
    reservations_paused: bool
    by: str


Event: TypeAlias = (
    ExecutorAdded
    | ExecutorRemoved
    | JobStarted
    | JobEnded
    | StageStarted
    | StageEnded
    | TaskLaunched
    | TaskEnded
    | ShortTasks
    | SlotHeld
    | SlotFreed
    | JobChanged
    | JobCancelled
    | SchedulingChanged
)


@dataclass(frozen=True, slots=True)
class Batch:
    """Events in the order they happened.

    Attributes:
        version: number of the last event; rises from batch to batch.
        reset: the events rebuild the whole state; what was known before is void.
        dropped: events the driver's queue has dropped so far.
        now_ms: the driver's clock when the batch was made.
        skipped: events of types that this version does not know, counted by type.
    """

    version: int
    reset: bool
    dropped: int
    now_ms: int
    events: tuple[Event, ...]
    skipped: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
