"""The cluster at one moment, for policies: frozen, so that no policy can change what it observes.

Times are the driver's clock in milliseconds since 1970 (UTC).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True, slots=True)
class DurationSummary:
    """Sufficient statistics of Pareto task durations in milliseconds (each at least 1 ms).

    ``min_ms`` is None while ``count`` is 0; ``sum_log_ms`` is the sum of their natural logarithms.
    """

    count: int
    min_ms: int | None
    sum_log_ms: float


@dataclass(frozen=True, slots=True)
class RunningTask:
    """One running attempt; a copy shares its original's ``index``. ``evictions``: how often attempts of its
    task were evicted before it began."""

    task: int
    index: int
    executor: str
    launched_ms: int
    copy: bool
    evictions: int = 0


@dataclass(frozen=True, slots=True)
class StageView:
    """One active stage. ``finished`` counts its distinct finished tasks, of ``tasks``; each takes
    ``slots_per_task`` slots of one executor.

    ``restartable`` is false where the driver neither copies nor evicts its tasks: a barrier or pipelined
    stage, a micro-batch of a stream, a job that forbids it.
    """

    stage: str
    name: str
    index: int
    tasks: int
    next_tasks: int | None
    last: bool
    barrier: bool
    started_ms: int
    finished: int
    durations: DurationSummary
    running: tuple[RunningTask, ...]
    restartable: bool = True
    slots_per_task: int = 1

    @property
    def waiting(self) -> int:
        """Tasks that wait for a slot."""
        return self.tasks - self.finished - len({task.index for task in self.running})

    @property
    def open_slots(self) -> int:
        """Slots that all its unfinished tasks take, or would take at once."""
        return (self.tasks - self.finished) * self.slots_per_task


@dataclass(frozen=True, slots=True)
class JobMarks:
    """What a job's owner asked for, under the names by which users set it.

    Attributes:
        name: of unmarked work that of its group, query or Spark job.
        priority: higher wins.
        isolation: None: the configured one.
        deadline_ms: None: a best-effort job.
        job_class: the mark ``class``.
        copies: false: none of its tasks may run twice.
        marked: its owner named it; false: the driver grouped its work by itself.
    """

    name: str
    user: str | None
    priority: int
    isolation: float | None
    deadline_ms: int | None
    job_class: str | None
    copies: bool
    marked: bool

    @classmethod
    def of(cls, source: Any) -> JobMarks:
        """Those of a ``JobStarted`` live, of a ``JobSpec`` in the simulator."""
        s = source
        return cls(s.name, s.user, s.priority, s.isolation, s.deadline_ms, s.job_class, s.copies, s.marked)


@dataclass(frozen=True, slots=True)
class Preferred:
    """The partitions where a job runs at full speed, and its runtime on others over that on these, >= 1
    (3Sigma §5: 1.5)."""

    partitions: frozenset[int]
    elsewhere_factor: float = 1.0


@dataclass(frozen=True, slots=True)
class JobView:
    """One active job.

    Attributes:
        arrival: rank of the job's arrival among all jobs seen, from 0; ties in time are impossible.
        stages: active stages in the order of their start.
        held: slots held idle for the job, by executor; every count is positive.
        running_slots: slots on which attempts run, copies included.
        preferred: where it runs at full speed; None: it runs alike everywhere.
        on_hold: a user lets none of its tasks start. Policies see such a job only while tasks of it run.
        evicted_ms: slot-milliseconds of its attempts that gave their slots to waiting tasks of other jobs.
    """

    job: str
    marks: JobMarks
    started_ms: int
    arrival: int
    stages: tuple[StageView, ...]
    held: Mapping[str, int]
    running_slots: int
    preferred: Preferred | None = None
    on_hold: bool = False
    evicted_ms: float = 0.0

    @property
    def held_slots(self) -> int:
        return sum(self.held.values())

    @property
    def begun_ms(self) -> int:
        """When the first of its running attempts was launched; when it started, if none runs."""
        launched = (task.launched_ms for stage in self.stages for task in stage.running)
        return min(launched, default=self.started_ms)

    @property
    def evictable(self) -> bool:
        """Whether the driver would kill all that runs of it for others."""
        return all(stage.restartable for stage in self.stages if stage.running)


@dataclass(frozen=True, slots=True)
class ExecutorView:
    """One executor: its slots, how many of them run attempts or are held idle, and its partition: slots of
    one partition are alike to every job (3Sigma §4.3)."""

    executor: str
    host: str
    slots: int
    running_slots: int
    held_slots: int
    partition: int = 0


@dataclass(frozen=True, slots=True)
class EndedJob:
    """A job that is over.

    Attributes:
        ended_ms: when it ended.
        attained_ms: slot-milliseconds of all its attempts, whatever became of them; None: some of them ran
            before the job was known here.
    """

    ended_ms: int
    attained_ms: float | None


_NONE_ENDED: Mapping[str, EndedJob] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Executors and active jobs, in the order of their arrival.

    Attributes:
        version: number of the last event known.
        now_ms: the driver's clock at that time.
        ended: the latest jobs that ended, those since the last plan among them.
    """

    version: int
    now_ms: int
    executors: Mapping[str, ExecutorView]
    jobs: Mapping[str, JobView]
    ended: Mapping[str, EndedJob] = field(default_factory=lambda: _NONE_ENDED)

    @property
    def slots(self) -> int:
        return sum(executor.slots for executor in self.executors.values())

    def to_plan(self) -> Snapshot:
        """Without the jobs on hold that run nothing: a plan would keep slots for them to no purpose."""
        kept = {key: job for key, job in self.jobs.items() if not job.on_hold or job.running_slots}
        return self if len(kept) == len(self.jobs) else replace(self, jobs=MappingProxyType(kept))
