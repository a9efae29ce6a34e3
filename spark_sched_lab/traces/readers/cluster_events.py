"""Assembles jobs from Google's event tables, for the 2011 and the 2019 trace.

Both record submit / schedule / end events of jobs (2019: collections) and of tasks (instances), in time
order. A job is returned when it and its tasks have ended and it has had no event for a while. Memory holds
the jobs that are alive.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import NamedTuple

from spark_sched_lab.traces.jobs import JobRecord, StageRecord, TaskRows
from spark_sched_lab.traces.read_report import ReadReport
from spark_sched_lab.traces.readers.base import BadField

#: "After the end of the trace" in microseconds.
AFTER_END_US = 2**63 - 1
SUBMIT, SCHEDULE, END, OTHER = "submit", "schedule", "end", "other"

#: A job that ended is kept this long (trace time): an evicted task comes back within seconds, a failed one
#: within minutes. Events after that are counted as late.
GRACE_S = 1800.0


class ClusterEvent(NamedTuple):
    """One row of a job or task table. ``time_s`` None: before the trace begins (or after its end)."""

    file: str
    line: int
    time_s: float | None
    job: str
    kind: str
    outcome: str
    filled_in: bool
    task: int | None = None
    user: str | None = None
    name: str | None = None
    priority: int | None = None
    machine: str | None = None
    cpus: float | None = None
    memory: float | None = None
    features: dict[str, str] | None = None


@dataclass(slots=True)
class _TaskState:
    attempts: int = 0
    pending: bool = False
    running: bool = False
    since_s: float | None = None
    machine: str | None = None
    cpus: float | None = None
    memory: float | None = None


@dataclass(slots=True)
class _Times:
    """Of a job so far, as `JobRecord` has them."""

    submit_s: float | None = None
    start_s: float | None = None
    end_s: float | None = None


@dataclass(slots=True)
class _UnfinishedJob:
    source_id: str
    by_event: bool = False
    user: str | None = None
    name: str | None = None
    priority: int | None = None
    features: dict[str, str] = field(default_factory=dict)
    times: _Times = field(default_factory=_Times)
    existed_before: bool = False
    ended: bool = False
    outcome: str = "unknown"
    last_s: float = 0.0
    tasks: dict[int, _TaskState] = field(default_factory=dict)
    alive: int = 0
    rows: TaskRows = field(default_factory=TaskRows)


def seconds(time_us: int) -> float | None:
    """``ClusterEvent.time_s`` of a table's time in microseconds."""
    return None if time_us in (0, AFTER_END_US) else time_us / 1e6


def in_time_order(tables: Iterable[Iterator[ClusterEvent]]) -> Iterator[ClusterEvent]:
    """Merges tables that are each in time order; jobs' events come before tasks' of the same instant."""
    return heapq.merge(*tables, key=lambda e: (e.time_s if e.time_s is not None else 0.0, e.task is not None))


class JobAssembler:
    """Turns `ClusterEvent`s into `JobRecord`s.

    With ``known_jobs`` (a job table is there) only the job table makes jobs; task events of others are
    counted, not turned into jobs. Without it a job begins with a SUBMIT of one of its tasks, or another
    event that shows that it existed.
    """

    def __init__(self, report: ReadReport, *, known_jobs: bool) -> None:
        self._report = report
        self._known_jobs = known_jobs
        self._live: dict[str, _UnfinishedJob] = {}
        self._closed: set[str] = set()
        self._quiet: deque[tuple[float, str]] = deque()

    def assemble(self, events: Iterable[ClusterEvent]) -> Iterator[JobRecord]:
        for event in events:
            try:
                self._apply(event)
            except BadField as reason:
                self._report.bad(event.file, event.line, str(reason), f"job {event.job} task {event.task}")
            if event.time_s is not None:
                yield from self._take(event.time_s - GRACE_S)
        for job in list(self._live.values()):  # what the trace's end cuts off
            yield self._close(job)

    def _take(self, before_s: float) -> Iterator[JobRecord]:
        while self._quiet and self._quiet[0][0] < before_s:
            quiet_s, key = self._quiet.popleft()
            job = self._live.get(key)
            if job is not None and job.last_s <= quiet_s and self._over(job):
                yield self._close(job)

    def _over(self, job: _UnfinishedJob) -> bool:
        return job.alive == 0 and (job.ended or not self._known_jobs)

    def _apply(self, event: ClusterEvent) -> None:
        job = self._live.get(event.job)
        if job is None:
            if event.job in self._closed:
                self._report.notes["events after the end of their job"] += 1
                return
            makes_job = (event.task is None) == self._known_jobs
            if not (makes_job and (event.kind == SUBMIT or event.filled_in or event.time_s is None)):
                self._report.notes["events of jobs whose submission is not in the files"] += 1
                return
            job = self._live[event.job] = _UnfinishedJob(event.job)
        at_s = event.time_s
        if at_s is not None:
            if at_s < job.last_s:
                raise BadField(f"time goes back {job.last_s - at_s:g} s within the job")
            job.last_s = at_s
        job.user = job.user or event.user
        job.name = job.name or event.name
        if event.priority is not None and job.priority is None:
            job.priority = event.priority
        if event.features:
            for key, value in event.features.items():
                job.features.setdefault(key, value)
        if event.task is None:
            self._job_event(job, event)
        else:
            self._task_event(job, event.task, event)
        if self._over(job):
            self._quiet.append((job.last_s, job.source_id))

    def _job_event(self, job: _UnfinishedJob, event: ClusterEvent) -> None:
        job.by_event = True
        if event.kind == SUBMIT:
            if event.time_s is None:
                job.existed_before = True
            elif job.times.submit_s is None and not job.existed_before:
                job.times.submit_s = event.time_s
            job.ended, job.times.end_s, job.outcome = False, None, "unknown"
        elif event.kind == SCHEDULE:
            if event.time_s is None:
                job.existed_before = True
            elif job.times.start_s is None and not job.existed_before:
                job.times.start_s = event.time_s
        elif event.kind == END:
            job.ended, job.times.end_s, job.outcome = True, event.time_s, event.outcome

    def _task_event(self, job: _UnfinishedJob, index: int, event: ClusterEvent) -> None:
        task = job.tasks.get(index)
        if task is None:
            task = job.tasks[index] = _TaskState()
        if event.cpus is not None and task.cpus is None:
            task.cpus = event.cpus
        if event.memory is not None and task.memory is None:
            task.memory = event.memory
        was_alive = task.pending or task.running
        if event.kind == SUBMIT:
            if event.time_s is None:
                job.existed_before = True
            elif not job.by_event and job.times.submit_s is None and not job.existed_before:
                job.times.submit_s = event.time_s
            task.pending, task.running = True, False
        elif event.kind == SCHEDULE:
            if not job.by_event and job.times.start_s is None and not job.existed_before:
                job.times.start_s = event.time_s
            task.pending, task.running = False, True
            task.since_s, task.machine = event.time_s, event.machine
        elif event.kind == END:
            self._attempt(job, index, task, event.time_s, event.outcome)
            if not job.by_event:
                job.times.end_s = event.time_s
                job.outcome = event.outcome
            task.pending = task.running = False
        job.alive += (task.pending or task.running) - was_alive

    @staticmethod
    def _attempt(
        job: _UnfinishedJob, index: int, task: _TaskState, end_s: float | None, outcome: str
    ) -> None:
        start_s = task.since_s if task.running else None
        duration_s = end_s - start_s if start_s is not None and end_s is not None else None
        job.rows.add(
            index,
            duration_s,
            attempt=task.attempts,
            start_s=start_s,
            outcome=outcome,
            host=task.machine if task.running else None,
        )
        task.attempts += 1
        task.since_s = task.machine = None

    def _close(self, job: _UnfinishedJob) -> JobRecord:
        del self._live[job.source_id]
        self._closed.add(job.source_id)
        for index, task in job.tasks.items():
            if task.running or task.pending:
                self._attempt(job, index, task, None, "unknown")
        over = self._over(job)
        outcome = job.outcome if job.ended or (over and not job.by_event) else "unknown"
        end_s = job.times.end_s if outcome != "unknown" else None
        stages = []
        if job.tasks:
            stages.append(
                StageRecord(
                    tasks=len(job.tasks),
                    submit_s=job.times.submit_s,
                    end_s=end_s,
                    outcome=outcome,
                    rows=_ordered(job.rows),
                    cpus=_mean(t.cpus for t in job.tasks.values()),
                    memory=_mean(t.memory for t in job.tasks.values()),
                )
            )
        else:
            self._report.notes["jobs without a task event in the files"] += 1
        runtime_s = end_s - job.times.start_s if end_s is not None and job.times.start_s is not None else None
        return JobRecord(
            job.source_id,
            outcome,
            "malleable",
            stages,
            name=job.name,
            user=job.user,
            priority=job.priority,
            job_class=job.features.get("scheduling_class"),
            submit_s=job.times.submit_s,
            start_s=job.times.start_s,
            end_s=end_s,
            runtime_s=runtime_s,
            slots=len(job.tasks) or None,
            features=job.features or None,
        )


def _ordered(rows: TaskRows) -> TaskRows:
    order = sorted(range(len(rows)), key=lambda i: (rows.task[i], rows.attempt[i]))
    return TaskRows(*([getattr(rows, column.name)[i] for i in order] for column in fields(rows)))


def _mean(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None
