"""The planner's model of the cluster, updated event by event.

Pure bookkeeping: no clock, no I/O, no decisions. Not thread-safe; one loop owns it. A snapshot costs as much
as the objects that changed since the last one plus one entry per active job and executor, however many tasks
ever ran.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeAlias

from spark_sched.protocol.events import (
    Batch,
    Event,
    ExecutorAdded,
    ExecutorRemoved,
    JobCancelled,
    JobChanged,
    JobEnded,
    JobStarted,
    SchedulingChanged,
    ShortTasks,
    SlotFreed,
    SlotHeld,
    StageEnded,
    StageStarted,
    TaskEnded,
    TaskLaunched,
)
from spark_sched.state.mutable import BEFORE, ExecutorState, JobState, StageState, TaskState, Views
from spark_sched.state.snapshot import EndedJob, ExecutorView, JobView, RunningTask, Snapshot
from spark_sched.state.summary import JobSummary, StageSummary

Summary: TypeAlias = StageSummary | JobSummary

#: Jobs that are remembered after their end, the latest ones: far more than end between two plans.
ENDED_KEPT = 1_000


#: Events that are remembered, and those of one object that explain its state: stories are needed after a
#: bug only, and a story for each object would be most of the work on an event.
LATEST_KEPT, STORY_LENGTH = 10_000, 20


class InvariantError(AssertionError):
    """The state contradicts itself: a bug. The message ends with the story of the object."""


class ClusterState:
    """Executors, active jobs, their active stages, running attempts and held slots.

    An event about an unknown object (it started before the planner, or its end was reported twice) is ignored
    and counted in ``ignored`` by type. The state stays consistent, and a reset completes it.
    """

    def __init__(self) -> None:
        self.version = 0
        self.now_ms = 0
        self.ignored: Counter[str] = Counter()
        #: Settings that a user changed for all jobs; None: none.
        self.scheduling: SchedulingChanged | None = None
        self._arrivals = 0
        self._executors: dict[str, ExecutorState] = {}
        self._jobs: dict[str, JobState] = {}
        # Views of the objects as the last snapshot had them, and the keys of those that changed since. New
        # ones are noted in the order of their arrival, in which views stand.
        self._executor_views: Views[ExecutorView] = Views()
        self._job_views: Views[JobView] = Views()
        self._tasks: dict[int, TaskState] = {}
        # The same attempts by job: a job or stage that starts need not look at those of all others.
        self._tasks_of: dict[str, dict[int, TaskState]] = {}
        self._ended: dict[str, EndedJob] = {}
        self._ended_view: Mapping[str, EndedJob] | None = None
        self._latest: deque[Event] = deque(maxlen=LATEST_KEPT)
        self._retold = False  # the events being applied tell of jobs that may have run for long

    # ---- in ----

    def apply_batch(self, batch: Batch) -> list[Summary | None]:
        """Apply a batch, forgetting everything first if it is a reset.

        Returns for each event the summary of the stage or job that ended with it, if any.
        """
        if batch.reset:
            self.clear()
        self._retold = batch.reset
        self._latest.extend(batch.events)
        ended = [_HANDLERS[type(event)](self, event) for event in batch.events]
        self._retold = False
        self.version = batch.version
        self.now_ms = batch.now_ms
        return ended

    def apply(self, event: Event) -> Summary | None:
        """Apply one event. Returns the summary of the stage or job that ended with it, if any."""
        if event.time_ms > self.now_ms:
            self.now_ms = event.time_ms
        self._latest.append(event)
        return _HANDLERS[type(event)](self, event)

    def clear(self) -> None:
        """Forget the cluster; counters and the order of arrivals go on."""
        self.scheduling = None
        self._executors.clear()
        self._executor_views.clear()
        self._jobs.clear()
        self._job_views.clear()
        self._tasks.clear()
        self._tasks_of.clear()

    # ---- out ----

    def snapshot(self) -> Snapshot:
        """The present state; later events do not change it."""
        if self._ended_view is None:
            self._ended_view = MappingProxyType(dict(self._ended))
        return Snapshot(
            version=self.version,
            now_ms=self.now_ms,
            executors=self._executor_views.of(self._executors),
            jobs=self._job_views.of(self._jobs),
            ended=self._ended_view,
        )

    def check(self) -> None:
        """Raise InvariantError, with the story of the object, if any two records disagree."""
        for key, executor in self._executors.items():
            running = sum(task.slots for task in self._tasks.values() if task.running.executor == key)
            held = sum(job.held.get(key, 0) for job in self._jobs.values())
            self._agree("executor", key, "running slots", executor.running_slots, running)
            self._agree("executor", key, "held slots", executor.held_slots, held)
        for key, job in self._jobs.items():
            running = sum(task.slots for task in self._tasks.values() if task.job == key)
            self._agree("job", key, "running slots", job.running_slots, running)
            holds_nothing = [e for e, slots in job.held.items() if slots <= 0 or e not in self._executors]
            self._agree("job", key, "executors where it holds no slot", holds_nothing, [])
            for stage_key, stage in job.stages.items():
                mine = {n for n, task in self._tasks.items() if task.job == key and task.stage == stage_key}
                self._agree("stage", stage_key, f"running attempts of job {key}", set(stage.running), mine)
                known = len(stage.done) - list(stage.done.values()).count(BEFORE)
                self._agree("stage", stage_key, "durations", min(stage.durations.count, known), known)
        indexed = {number: task for tasks in self._tasks_of.values() for number, task in tasks.items()}
        if indexed != self._tasks or not all(self._tasks_of.values()):
            raise InvariantError(f"attempts by job: {sorted(indexed)}, all: {sorted(self._tasks)}")
        for number, task in self._tasks.items():
            if task.running.executor not in self._executors:
                raise InvariantError(f"task {number} runs on executor {task.running.executor}, which is gone")

    def _agree(self, kind: str, key: str, what: str, booked: object, counted: object) -> None:
        if booked != counted:
            of_it = [event for event in self._latest if getattr(event, kind, None) == key]
            story = [f"  {event.time_ms} {event}" for event in of_it[-STORY_LENGTH:]]
            lines = [f"{kind} {key}: {what}: {booked} booked, {counted} counted", *story]
            raise InvariantError("\n".join(lines))

    # ---- one handler per event type ----

    def _executor_added(self, event: ExecutorAdded) -> None:
        if event.executor in self._executors:
            return self._ignore(event)
        record = self._executors[event.executor] = ExecutorState(event, self._executor_views.stale)
        record.changed()
        return None

    def _executor_removed(self, event: ExecutorRemoved) -> None:
        executor = self._executors.pop(event.executor, None)
        if executor is None:
            return self._ignore(event)
        self._executor_views.drop(event.executor)
        # Many idle executors may go at once: nobody looks at all attempts and jobs for each of them.
        if executor.running_slots:
            # Their own ends, if any come, find nothing and are ignored.
            for number in [n for n, task in self._tasks.items() if task.running.executor == event.executor]:
                self._drop_task(number, event, event.time_ms - self._tasks[number].running.launched_ms)
        if executor.held_slots:
            for job in self._jobs.values():
                if job.held.pop(event.executor, 0):
                    job.changed()
        return None

    def _job_started(self, event: JobStarted) -> None:
        if event.job in self._jobs:
            return self._ignore(event)
        record = self._jobs[event.job] = JobState(
            event, self._arrivals, self._job_views.stale, seen_whole=not self._retold
        )
        # Attempts of an earlier life of this key may still run.
        record.running_slots = sum(task.slots for task in self._tasks_of.get(event.job, {}).values())
        record.changed()
        self._arrivals += 1
        return None

    def _job_ended(self, event: JobEnded) -> JobSummary | None:
        job = self._jobs.pop(event.job, None)
        if job is None:
            self._ignore(event)
            return None
        self._job_views.drop(event.job)
        for key, slots in job.held.items():
            executor = self._executors[key]
            executor.held_slots -= slots
            executor.changed()
        self._remember(event, job)
        done = [stage for stage in job.stages.values() if len(stage.done) >= stage.started.tasks]
        s = job.started
        return JobSummary(
            job=s.job,
            name=s.name,
            marked=s.marked,
            outcome=event.outcome,
            started_ms=s.time_ms,
            ended_ms=event.end_ms,
            cut_short=len(done) < len(job.stages),
            stages=tuple(stage.summary(s.name, completed=True, ended_ms=event.end_ms) for stage in done),
        )

    def _stage_started(self, event: StageStarted) -> None:
        job = self._jobs.get(event.job)
        if job is None or event.stage in job.stages:
            return self._ignore(event)
        stage = job.stages[event.stage] = StageState(event)
        for number, task in self._tasks_of.get(event.job, {}).items():
            if task.stage == event.stage:
                stage.running[number] = task.running
        job.changed()
        return None

    def _stage_ended(self, event: StageEnded) -> StageSummary | None:
        job = self._jobs.get(event.job)
        stage = job.stages.pop(event.stage, None) if job is not None else None
        if job is None or stage is None:
            self._ignore(event)
            return None
        job.changed()
        return stage.summary(job.started.name, completed=event.completed, ended_ms=event.time_ms)

    def _task_launched(self, event: TaskLaunched) -> None:
        number, job_key = event.task, event.job
        executor = self._executors.get(event.executor)
        if executor is None or number in self._tasks:
            return self._ignore(event)
        job = self._jobs.get(job_key)
        stage = None if job is None else job.stages.get(event.stage)
        slots = 1 if stage is None else stage.started.slots_per_task
        running = RunningTask(number, event.index, event.executor, event.time_ms, event.copy, event.evictions)
        task = self._tasks[number] = TaskState(job_key, event.stage, running, slots)
        others = self._tasks_of.get(job_key)
        if others is None:
            self._tasks_of[job_key] = {number: task}
        else:
            others[number] = task
        executor.running_slots += slots
        executor.changed()
        if job is not None:
            job.running_slots += slots
            job.changed()
            if stage is not None:
                stage.running[number] = running
                stage.changed()
        return None

    def _task_ended(self, event: TaskEnded) -> None:
        known = self._drop_task(event.task, event, event.duration_ms)
        job = self._jobs.get(event.job)
        stage = None if job is None else job.stages.get(event.stage)
        if job is not None and stage is not None:
            done_by = stage.done.get(event.index)
            if known and event.outcome == "success" and done_by is None:
                stage.done[event.index] = event.task
                stage.durations.add(event.duration_ms)
            elif not known and event.outcome == "lost" and done_by in (event.task, BEFORE):
                # Its executor took a finished result with it: the task runs again.
                del stage.done[event.index]
                known = True
            job.changed()
            stage.changed()
        return None if known else self._ignore(event)

    def _short_tasks(self, event: ShortTasks) -> None:
        stage = self._stage(event.job, event.stage)
        if stage is None:
            return self._ignore(event)
        self._jobs[event.job].attained_ms += stage.started.slots_per_task * sum(event.durations_ms)
        done = stage.done
        durations_ms = event.durations_ms
        if not done.keys().isdisjoint(event.indices):
            # A copy of the task was faster.
            durations_ms = [ms for i, ms in zip(event.indices, durations_ms, strict=True) if i not in done]
        for index, task in zip(event.indices, event.tasks, strict=True):
            done.setdefault(index, task)
        for duration_ms in durations_ms:
            stage.durations.add(duration_ms)
        stage.changed()
        self._jobs[event.job].changed()
        return None

    def _slot_held(self, event: SlotHeld) -> None:
        job, executor = self._jobs.get(event.job), self._executors.get(event.executor)
        if job is None or executor is None:
            return self._ignore(event)
        self._hold(job, executor, 1, event)
        return None

    def _slot_freed(self, event: SlotFreed) -> None:
        job, executor = self._jobs.get(event.job), self._executors.get(event.executor)
        if job is None or executor is None or event.executor not in job.held:
            return self._ignore(event)
        self._hold(job, executor, -1, event)
        return None

    def _job_changed(self, event: JobChanged) -> None:
        job = self._jobs.get(event.job)
        if job is None:
            return self._ignore(event)
        job.on_hold = event.on_hold
        job.started = replace(
            job.started, priority=event.priority, isolation=event.isolation, deadline_ms=event.deadline_ms
        )
        job.changed()
        return None

    def _job_cancelled(self, event: JobCancelled) -> None:
        job = self._jobs.get(event.job)
        if job is None:
            return self._ignore(event)
        return None

    def _scheduling_changed(self, event: SchedulingChanged) -> None:
        self.scheduling = event

    # ---- parts ----

    def _ignore(self, event: Event) -> None:
        self.ignored[event.type] += 1

    def _stage(self, job_key: str, stage_key: str) -> StageState | None:
        job = self._jobs.get(job_key)
        return job.stages.get(stage_key) if job is not None else None

    def _hold(self, job: JobState, executor: ExecutorState, slots: int, event: SlotHeld | SlotFreed) -> None:
        left = job.held.get(event.executor, 0) + slots
        if left:
            job.held[event.executor] = left
        else:
            del job.held[event.executor]
        executor.held_slots += slots
        for record in (job, executor):
            record.changed()

    def _remember(self, event: JobEnded, job: JobState) -> None:
        """Keep what a job that ended had, the latest ones'."""
        attained_ms = job.attained_ms
        if job.running_slots:  # slower twins of copied tasks
            attained_ms += sum(
                task.slots * max(0, event.time_ms - task.running.launched_ms)
                for task in self._tasks_of.get(event.job, {}).values()
            )
        self._ended.pop(event.job, None)
        self._ended[event.job] = EndedJob(event.end_ms, attained_ms if job.seen_whole else None)
        if len(self._ended) > ENDED_KEPT:
            del self._ended[next(iter(self._ended))]
        self._ended_view = None

    def _drop_task(self, number: int, event: Event, ran_ms: int) -> bool:
        """Forget a running attempt wherever it is counted. Returns whether it was known."""
        task = self._tasks.pop(number, None)
        if task is None:
            return False
        others = self._tasks_of[task.job]
        del others[number]
        if not others:
            del self._tasks_of[task.job]
        executor = self._executors.get(task.running.executor)
        if executor is not None:
            executor.running_slots -= task.slots
            executor.changed()
        job = self._jobs.get(task.job)
        if job is not None:
            job.running_slots -= task.slots
            job.attained_ms += task.slots * max(0, ran_ms)
            if isinstance(event, TaskEnded) and event.evicted_for is not None:
                job.evicted_ms += task.slots * max(0, ran_ms)
            job.changed()
            stage = job.stages.get(task.stage)
            if stage is not None and stage.running.pop(number, None) is not None:
                stage.changed()
        return True


_HANDLERS: dict[type[Event], Callable[[ClusterState, Any], Summary | None]] = {
    ExecutorAdded: ClusterState._executor_added,
    ExecutorRemoved: ClusterState._executor_removed,
    JobStarted: ClusterState._job_started,
    JobEnded: ClusterState._job_ended,
    StageStarted: ClusterState._stage_started,
    StageEnded: ClusterState._stage_ended,
    TaskLaunched: ClusterState._task_launched,
    TaskEnded: ClusterState._task_ended,
    ShortTasks: ClusterState._short_tasks,
    SlotHeld: ClusterState._slot_held,
    SlotFreed: ClusterState._slot_freed,
    JobChanged: ClusterState._job_changed,
    JobCancelled: ClusterState._job_cancelled,
    SchedulingChanged: ClusterState._scheduling_changed,
}
