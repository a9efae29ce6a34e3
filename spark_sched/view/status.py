"""The status of a live application as typed, frozen objects (``protocol/status.schema.json``)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spark_sched.errors import BadInputError, did_you_mean
from spark_sched.plain_text import short
from spark_sched.view.rendering import as_html, as_text
from spark_sched.view.sums import (
    GroupStatus,
    JobSlots,
    QueueStatus,
    SlotTimes,
    read_fields,
    read_group,
    read_queue,
)

#: Version of the document's layout. New fields do not change it.
SCHEMA = 1
_MOST_NAMES = 10


@dataclass(frozen=True, slots=True)
class Application:
    """The application.

    Attributes:
        id, name, user: Spark's.
        started_ms: when it started.
        scheduling: false if this project's own code failed and Spark's own scheduling is in force.
        executors: their number.
        slots, running_slots, held_slots: of all executors; those in use; those held idle.
        kept_free_slots: free slots that nobody holds and that the plan keeps from tasks that wait, such as
            those of jobs that start later.
    """

    id: str
    name: str
    user: str
    started_ms: int
    scheduling: bool
    executors: int
    slots: int
    running_slots: int
    held_slots: int
    kept_free_slots: int = 0


@dataclass(frozen=True, slots=True)
class PlannerStatus:
    """The planner process and the fate of its plans.

    Attributes:
        enabled: whether the settings enable the planner.
        alive: whether its process runs and has contacted the driver.
        pid: its process; None: none runs.
        silent_ms: time since it last contacted the driver; None: it has not since its last start.
        restarts, stalls: how often it was restarted, and how often because it was silent.
        last_plan_age_ms: age of the newest accepted plan, in force or not; None: there was none.
        plans_accepted, plans_rejected: so far.
        plan_fallbacks: plans that expired before a newer one arrived.
    """

    enabled: bool
    alive: bool
    pid: int | None
    silent_ms: int | None
    restarts: int
    stalls: int
    last_plan_age_ms: int | None
    plans_accepted: int
    plans_rejected: int
    plan_fallbacks: int


@dataclass(frozen=True, slots=True)
class PlanStatus:
    """The plan in force.

    Attributes:
        number: rising for one planner process.
        policy: whose it is.
        age_ms, expires_in_ms: since when and for how long it is valid.
        solve_ms: how long the planner took to make it; None: unknown.
        gap: how far it may be from the best plan, as a share of the best plan's value; None: unknown.
    """

    number: int
    policy: str
    age_ms: int
    expires_in_ms: int
    solve_ms: float | None
    gap: float | None


@dataclass(frozen=True, slots=True)
class StageStatus:
    """One active stage: its tasks, the finished ones, running attempts, and tasks that wait for a slot."""

    stage: str
    name: str
    tasks: int
    done: int
    running: int
    waiting: int


@dataclass(frozen=True, slots=True)
class EndForecast:
    """When the planner expects a job to end and to start (ms since 1970, 10 %, 50 % and 90 % quantiles), and
    the probability that it meets its deadline; None: it has none. A job that has begun has no start, nor one
    whose start is unknown."""

    end_p10_ms: int
    end_p50_ms: int
    end_p90_ms: int
    deadline_probability: float | None
    start_p10_ms: int | None = None
    start_p50_ms: int | None = None
    start_p90_ms: int | None = None


@dataclass(frozen=True, slots=True)
class HeldFor:
    """Slots of an executor that are held for a job (its key and its name)."""

    job: str
    name: str
    slots: int


@dataclass(frozen=True, slots=True)
class ExecutorStatus:
    """One executor's slots: all of them, those that run attempts, and those held idle.

    ``copied`` and ``pilot`` are of the running ones, as in `JobSlots`; 0 where the driver is older.
    """

    executor: str
    host: str
    slots: int
    running: int
    held: tuple[HeldFor, ...]
    copied: int = 0
    pilot: int = 0


@dataclass(frozen=True, slots=True)
class StoryEntry:
    """Something that happened to a job."""

    at_ms: int
    text: str


@dataclass(frozen=True, slots=True)
class MarksInForce:
    """A job's marks as its owner and operators set them, with the defaults in place of absent ones.

    Attributes:
        user, job_class: as marked.
        priority, isolation: in force.
        deadline_ms: None if it has none.
        marked: whether its owner named it.
    """

    user: str | None
    job_class: str | None
    priority: int
    isolation: float
    deadline_ms: int | None
    marked: bool


@dataclass(frozen=True, slots=True)
class JobTimes:
    """When a job was submitted, began with its first task, and ended; None where that has not happened."""

    submitted_ms: int
    begun_ms: int | None
    ended_ms: int | None


@dataclass(frozen=True, slots=True)
class JobOrder:
    """A job's place in the order of arrival; its rank and queue in the plan in force, None without one; and
    the tenants' queue that it is in, None if the application has none."""

    arrival: int
    rank: int | None
    queue: int | None
    queue_name: str | None = None


@dataclass(frozen=True, slots=True)
class JobNotes:
    """What people read of a job.

    Attributes:
        why: what it waits for or has, in one sentence; empty if the driver is older.
        title: what unnamed work does, such as its SQL; None: its name says it.
        warnings: sentences about its marks that do not count as given.
    """

    why: str = ""
    title: str | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JobStatus:
    """One job. Times are in milliseconds since 1970 on the driver's clock.

    In the status document, the fields of ``marks``, ``times`` and ``order`` are the job's own.

    Attributes:
        job: its key.
        name: as marked; unmarked work has its group's, query's or Spark job's.
        marks: whose it is and what holds for it.
        times: when it was submitted, began and ended.
        order: its place among the jobs.
        outcome: how it ended: ``ended``, ``idle`` (no end was reported), ``failed`` (its last action or its
            query did) or ``cancelled`` (by an operator); None: it has not.
        state: ``running``, ``waiting``, ``held_back``, ``deferred``, ``pilots``, ``evicted``, ``on_hold``,
            ``idle`` or ``ended``.
        state_text: the same in words, with the time or the jobs that it depends on.
        reason: the plan's, in one sentence.
        notes: sentences for people; in the status document they are the job's own fields.
        stages: the active ones.
        slots: now.
        forecast: of its end; None: nothing is known.
        slot_ms: slot time so far.
        story: what happened to it; empty unless the job was requested by name.
        after_jobs: number of jobs before it, if it waits and nothing is known about it or about one of these.
    """

    job: str
    name: str
    marks: MarksInForce
    times: JobTimes
    order: JobOrder
    outcome: str | None
    state: str
    state_text: str
    reason: str
    stages: tuple[StageStatus, ...]
    slots: JobSlots
    forecast: EndForecast | None
    slot_ms: SlotTimes
    story: tuple[StoryEntry, ...] = ()
    after_jobs: int | None = None
    notes: JobNotes = JobNotes()

    @property
    def shown_name(self) -> str:
        """The name that people see."""
        return self.notes.title or self.name

    @property
    def tasks(self) -> int:
        """Of its active stages."""
        return sum(stage.tasks for stage in self.stages)

    @property
    def tasks_done(self) -> int:
        return sum(stage.done for stage in self.stages)

    def __str__(self) -> str:
        return as_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return as_html(self)


@dataclass(frozen=True, slots=True)
class Status:
    """One application at one moment.

    Attributes:
        now_ms: the moment, ms since 1970 on the driver's clock.
        application: its slots and executors.
        policy: the one that the settings name, or that somebody switched to.
        mode: ``on``, ``shadow`` (plans and holds have no effect) or ``off``.
        reservations_paused: whether an operator paused all reservations.
        planner, plan: whether it is alive; the plan in force, None: the configured rules apply.
        jobs: those that are not over, in the order of their arrival.
        executors: in the order of their first offers; none where the driver is older than this field.
        counters: whole numbers since the application's start, by name; likewise.
        classes, users: sums over the jobs of each class, and of each user; likewise.
        queues: the tenants' queues, parents before their children; likewise.
        warnings: sentences about the application that people must know.
    """

    now_ms: int
    application: Application
    policy: str
    planner: PlannerStatus
    plan: PlanStatus | None
    jobs: tuple[JobStatus, ...]
    executors: tuple[ExecutorStatus, ...] = ()
    counters: Mapping[str, int] = field(default_factory=dict)
    classes: tuple[GroupStatus, ...] = ()
    users: tuple[GroupStatus, ...] = ()
    reservations_paused: bool = False
    mode: str = "on"
    queues: tuple[QueueStatus, ...] = ()
    warnings: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, document: Any) -> Status:
        """From the parsed document, without unknown fields; BadInputError if it is not one of this schema."""
        schema = document.get("schema") if isinstance(document, Mapping) else "missing"
        if schema != SCHEMA:
            raise BadInputError(
                f"the status document's schema is {schema}, not {SCHEMA}: use the spark-sched "
                "of the application's version"
            )
        try:
            plan = document["plan"]
            return cls(
                now_ms=document["now_ms"],
                application=read_fields(Application, document["application"]),
                policy=document["policy"],
                planner=read_fields(PlannerStatus, document["planner"]),
                plan=None if plan is None else read_fields(PlanStatus, plan),
                jobs=tuple(map(_job, document["jobs"])),
                executors=tuple(map(_executor, document.get("executors", ()))),
                counters=dict(document.get("counters", {})),
                classes=tuple(read_group(each, "class") for each in document.get("classes", ())),
                users=tuple(read_group(each, "user") for each in document.get("users", ())),
                reservations_paused=document.get("reservations_paused", False),
                mode=document.get("mode", "on"),
                queues=tuple(map(read_queue, document.get("queues", ()))),
                warnings=tuple(document.get("warnings", ())),
            )
        except (KeyError, TypeError) as error:
            raise BadInputError(
                f"the status document is not complete ({error}): use the spark-sched of the application's "
                "version"
            ) from None

    @classmethod
    def from_text(cls, document: str) -> Status:
        """From the document's JSON text. Raises BadInputError as `from_json`."""
        try:
            parsed = json.loads(document)
        except (ValueError, RecursionError):
            raise BadInputError("the status document is not JSON") from None
        return cls.from_json(parsed)

    def unknown_job(self, job: str) -> BadInputError:
        """The error for a job that is not here, with the names of those that are."""
        names = sorted({short(each.name) for each in self.jobs})
        more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
        known = f"now there are {', '.join(names[:_MOST_NAMES])}{more}" if names else "there are no jobs now"
        return BadInputError(
            f"job is {short(job)!r}{did_you_mean(job, names)} but no such job is known: {known}"
        )

    def __str__(self) -> str:
        return as_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return as_html(self)


def _executor(given: Mapping[str, Any]) -> ExecutorStatus:
    return read_fields(
        ExecutorStatus, given, held=tuple(read_fields(HeldFor, each) for each in given["held"])
    )


def _job(given: Mapping[str, Any]) -> JobStatus:
    forecast = given["forecast"]
    return read_fields(
        JobStatus,
        given,
        marks=read_fields(MarksInForce, given, job_class=given["class"]),
        times=read_fields(JobTimes, given),
        order=read_fields(JobOrder, given),
        stages=tuple(read_fields(StageStatus, each) for each in given["stages"]),
        slots=read_fields(JobSlots, given["slots"]),
        forecast=None if forecast is None else read_fields(EndForecast, forecast),
        slot_ms=read_fields(SlotTimes, given["slot_ms"]),
        story=tuple(read_fields(StoryEntry, each) for each in given.get("story", ())),
        notes=read_fields(JobNotes, given, warnings=tuple(given.get("warnings", ()))),
    )
