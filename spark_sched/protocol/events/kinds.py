"""The events that the driver sends to the planner: one frozen class per event type of
``protocol/event-batch.schema.json``.

``time_ms`` is the driver's clock in milliseconds since 1970 (UTC). ``job``, ``stage`` and ``executor`` are
opaque keys. The simulator and recorded logs use the same classes. The fields' types also say
which JSON values the decoder accepts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, NamedTuple, TypeAlias


class Check(NamedTuple):
    """The JSON values that a field takes: their types, the end of the sentence "<field> must be …", and which
    of them are allowed (None: all)."""

    types: tuple[type, ...]
    legal: str
    allowed: Callable[[Any], bool] | None = None


def _one_of(*options: str) -> Check:
    return Check((str,), f"one of {', '.join(options)}", frozenset(options).__contains__)


def is_count(value: float) -> bool:
    return value >= 0


def _whole_numbers(values: Sequence[Any]) -> bool:
    # type(), since JSON's true is not a number: a set of types is much cheaper than a look at each value.
    return set(map(type, values)) == {int}


def _counts(values: Sequence[Any]) -> bool:
    return _whole_numbers(values) and min(values) >= 0


_COUNTS = "a list of whole numbers >= 0"
Text = Annotated[str, Check((str,), "text")]
Key = Annotated[str, Check((str,), "text that is not empty", bool)]
Flag = Annotated[bool, Check((bool,), "true or false")]
Whole = Annotated[int, Check((int,), "a whole number")]
Count = Annotated[int, Check((int,), "a whole number >= 0", is_count)]
Positive = Annotated[int, Check((int,), "a whole number >= 1", lambda value: value >= 1)]
Share = Annotated[float, Check((float, int), "a number in [0, 1]", lambda value: 0 <= value <= 1)]
Wholes = Annotated[list[int], Check((list,), "a list of whole numbers, at least one", _whole_numbers)]
Counts = Annotated[list[int], Check((list,), f"{_COUNTS}, at least one", _counts)]
Done = Annotated[Sequence[int], Check((list, tuple), _COUNTS, lambda values: not values or _counts(values))]


@dataclass(frozen=True, slots=True)
class ExecutorAdded:
    """An executor offers ``slots`` slots (``spark.task.cpus`` cores each)."""

    type: ClassVar[str] = "executor_added"
    time_ms: Count
    executor: Key
    host: Text
    slots: Count


@dataclass(frozen=True, slots=True)
class ExecutorRemoved:
    """An executor is gone, with all tasks that ran and slots that were held on it."""

    type: ClassVar[str] = "executor_removed"
    time_ms: Count
    executor: Key
    reason: Text


@dataclass(frozen=True, slots=True)
class JobStarted:
    """A job's first stage is about to start; the fields are those of its marks.

    ``marked``: the owner named the job; false: the driver grouped its work by itself. ``copies`` is false
    for jobs that must never run a task twice. ``begun_ms``: when its first task started, and ``last_end_ms``:
    when the last of its attempts that were over ended, sent after a reset of jobs that had begun before.
    """

    type: ClassVar[str] = "job_started"
    time_ms: Count
    job: Key
    name: Text
    user: Text | None
    priority: Whole
    isolation: Share | None
    deadline_ms: Whole | None
    job_class: Text | None
    copies: Flag
    marked: Flag
    begun_ms: Count | None = None
    last_end_ms: Count | None = None


@dataclass(frozen=True, slots=True)
class JobEnded:
    """A job is over: its owner said so (``ended``) or nothing of it came for a while (``idle``).

    ``ended_ms`` is the time of the job's last activity, where the driver saw only later that the job is over;
    None: it ended at ``time_ms``. ``number`` identifies the end among those of the application; a later end
    has a higher one.
    """

    type: ClassVar[str] = "job_ended"
    time_ms: Count
    job: Key
    outcome: Annotated[str, _one_of("ended", "idle")]
    ended_ms: Count | None = None
    number: Count | None = None

    @property
    def end_ms(self) -> int:
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
    time_ms: Count
    job: Key
    stage: Key
    name: Text
    index: Count
    tasks: Count
    next_tasks: Count | None
    last: Flag
    barrier: Flag
    restartable: Flag = True
    slots_per_task: Positive = 1
    next_at_most: Count | None = None
    done: Done = ()


@dataclass(frozen=True, slots=True)
class StageEnded:
    """No task of the stage will start any more; ``completed`` is false for a failed or cancelled one."""

    type: ClassVar[str] = "stage_ended"
    time_ms: Count
    job: Key
    stage: Key
    completed: Flag


@dataclass(frozen=True, slots=True)
class TaskLaunched:
    """An attempt runs. ``task`` is the attempt's own number; ``index`` its place in the stage, shared with a
    copy. ``evictions``: how often attempts of its task were evicted before."""

    type: ClassVar[str] = "task_launched"
    time_ms: Count
    job: Key
    stage: Key
    task: Count
    index: Count
    executor: Key
    copy: Flag
    evictions: Count = 0


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """An attempt ended after ``duration_ms`` as ``success``, ``failed``, ``killed`` or ``lost``.
    ``evicted_for``: the job whose waiting tasks got its slot, if it was killed for that."""

    type: ClassVar[str] = "task_ended"
    time_ms: Count
    job: Key
    stage: Key
    task: Count
    index: Count
    executor: Key
    duration_ms: Whole  # the driver's wall clock may step back while a task runs
    outcome: Annotated[str, _one_of("success", "failed", "killed", "lost")]
    copy: Flag
    evicted_for: Key | None = None


@dataclass(frozen=True, slots=True)
class ShortTasks:
    """Attempts of one stage on one executor that were launched and succeeded within one batch, as columns.

    ``tasks``, ``indices`` and ``durations_ms`` have one entry per attempt, in the order of their ends;
    ``time_ms`` is the last one's. None of them is a copy.
    """

    type: ClassVar[str] = "short_tasks"
    time_ms: Count
    job: Key
    stage: Key
    executor: Key
    tasks: Counts
    indices: Counts
    durations_ms: Wholes


@dataclass(frozen=True, slots=True)
class SlotHeld:
    """One idle slot is reserved for the job until ``deadline_ms``; ``stage`` is empty if unknown."""

    type: ClassVar[str] = "slot_held"
    time_ms: Count
    job: Key
    stage: Text
    executor: Key
    deadline_ms: Whole


@dataclass(frozen=True, slots=True)
class SlotFreed:
    """One held slot is no longer reserved; ``used`` means the job's own task took it."""

    type: ClassVar[str] = "slot_freed"
    time_ms: Count
    job: Key
    executor: Key
    reason: Key  # a driver of a later version may have further ones


@dataclass(frozen=True, slots=True)
class JobChanged:
    """A user changed the job's marks, or lets none of its tasks start (``on_hold``): all of that as it is
    from now on. ``by``: who did; empty where that was before the planner came."""

    type: ClassVar[str] = "job_changed"
    time_ms: Count
    job: Key
    priority: Whole
    isolation: Share | None
    deadline_ms: Whole | None
    on_hold: Flag
    by: Text


@dataclass(frozen=True, slots=True)
class JobCancelled:
    """A user cancelled the Spark jobs that run for the job; its end is an event of its own."""

    type: ClassVar[str] = "job_cancelled"
    time_ms: Count
    job: Key
    by: Text


@dataclass(frozen=True, slots=True)
class SchedulingChanged:
    """A user changed the settings for all jobs; the event has all of these settings."""

    type: ClassVar[str] = "scheduling_changed"
    time_ms: Count
    policy: Key
    mode: Key  # a driver of a later version may have further ones
    reservations_paused: Flag
    by: Text


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

    version: Count
    reset: Flag
    dropped: Count
    now_ms: Count
    events: tuple[Event, ...]
    skipped: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
