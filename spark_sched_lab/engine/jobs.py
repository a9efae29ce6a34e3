"""Jobs and stages of a simulation: their starts, their ends, and the components notified of both."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import count

from spark_sched.errors import BadInputError
from spark_sched.state import EndedJob, JobMarks
from spark_sched_lab.cluster.cluster import ClusterSpec
from spark_sched_lab.cluster.placement import Slots
from spark_sched_lab.engine import planning
from spark_sched_lab.engine.agenda import (
    Agenda,
    Arrival,
    DriverDone,
    Follower,
    Instant,
    LocalityOver,
    MarksChanged,
    StageReady,
)
from spark_sched_lab.engine.emitted_events import EmittedEvents
from spark_sched_lab.engine.gates import Gates
from spark_sched_lab.engine.records import JobRun, StageRun
from spark_sched_lab.engine.reservations import Reservations
from spark_sched_lab.engine.results import Recorder
from spark_sched_lab.engine.rules import Rules
from spark_sched_lab.engine.stages import new_stage
from spark_sched_lab.engine.waiting import WaitingStages
from spark_sched_lab.engine.workload import JobSpec, MarkChange, NextJob


@dataclass(slots=True)
class Newcomers:
    """The place of a job until a plan contains it.

    Attributes:
        reserve: whether its own rule is in force at once; an ideal planner plans before any task is launched.
    """

    reserve: bool
    rank: int = 0


@dataclass(slots=True)
class SincePlan:
    """Jobs by key since the last plan.

    Attributes:
        new: jobs that arrived, or that the planner does not know.
        touched: jobs of which a policy's `KeyOrder` has to be told; None: there is none.
    """

    new: dict[str, JobRun] = field(default_factory=dict)
    ended: dict[str, EndedJob] = field(default_factory=dict)
    touched: dict[JobRun, None] | None = None


@dataclass(slots=True)
class _Numbers:
    """Numbers of jobs, of their parts and of stages in the order of their arrival."""

    job: Iterator[int] = field(default_factory=count)
    part: Iterator[int] = field(default_factory=count)
    stage: Iterator[int] = field(default_factory=count)


@dataclass(slots=True, eq=False)
class ActiveJobs:
    """Starts and ends jobs and their stages.

    Attributes:
        newcomers: the place of a job until a plan contains it.
        rules: the rules of jobs.
        reservations: the slots that these jobs hold.
        active: jobs that run or wait, by key.
        source: the workload; jobs are read when the clock reaches them.
        since_plan: jobs that arrived or ended since the last plan.
    """

    instant: Instant
    agenda: Agenda
    cluster: ClusterSpec
    slots: Slots
    waiting: WaitingStages
    gates: Gates
    emitted: EmittedEvents
    recorder: Recorder
    newcomers: Newcomers
    rules: Rules
    reservations: Reservations
    active: dict[str, JobRun]
    source: Iterator[JobSpec]
    since_plan: SincePlan = field(default_factory=SincePlan)
    _numbers: _Numbers = field(default_factory=_Numbers)

    def touched(self, job: JobRun) -> None:
        """Something changed of which a policy's order is told (`SincePlan.touched`)."""
        if self.since_plan.touched is not None:
            self.since_plan.touched[job] = None

    # ---- arrivals ----

    def next_arrival(self) -> None:
        """Schedule the arrival of the workload's next job."""
        spec = next(self.source, None)
        if spec is not None:
            spec.check()
            now_ms = self.instant.now_ms
            if spec.submit_ms < now_ms:
                raise BadInputError(
                    f"job {spec.key!r} is submitted at {spec.submit_ms} ms, after a job of {now_ms} ms: "
                    "sort the jobs by their submission"
                )
            self.agenda.push(spec.submit_ms, Arrival(spec))

    def arrived(self, spec: JobSpec) -> None:
        self._start(spec)
        self.next_arrival()

    def followed(self, following: NextJob) -> None:
        """A job that was to follow another one is submitted."""
        _, spec, after_ms = following
        spec.check()
        now_ms = self.instant.now_ms
        due_ms = spec.deadline_ms if after_ms is None else now_ms + after_ms
        self._start(replace(spec, submit_ms=now_ms, deadline_ms=due_ms))

    def _start(self, spec: JobSpec) -> None:
        if spec.key in self.active:
            raise BadInputError(f"two jobs that run at once have the key {spec.key!r}: keys must differ")
        now_ms, newcomers = self.instant.now_ms, self.newcomers
        spec = self.rules.limited(spec)
        queue = None
        if (tenants := self.reservations.tenants) is not None:
            queue, priority = tenants.limited(spec)
            spec = replace(spec, priority=priority)
        job = JobRun(spec, next(self._numbers.job), self.rules.own(spec))
        job.terms.queue = queue or None
        job.progress.parts[spec.stages[0].part] = next(self._numbers.part)
        job.rank = newcomers.rank
        job.rule = self.rules.in_force(job.terms)
        self.active[spec.key] = job
        self.touched(job)
        self.since_plan.new[spec.key] = job
        self.instant.changed |= planning.ARRIVALS
        self.emitted.job_started(spec, now_ms)
        if not (
            tenants is None
            or queue is None
            or tenants.usage.entered(job.key, queue, spec.priority, job.arrival, now_ms)
        ):
            self.refused(job)
            return
        if newcomers.reserve:
            self.reservations.rule_set(job, now_ms)
        for index, stage in enumerate(spec.stages):
            if not stage.parents:
                self._ready(job, index)
        for change in spec.changes:
            self.agenda.push(now_ms + change.after_ms, MarksChanged(job, change))

    # ---- operators' changes ----

    def marks_changed(self, job: JobRun, change: MarkChange) -> None:
        """An operator changes a job's marks.

        They are in force at once, as in a live application: a plan made before the change does not undo it
        (the JVM's ``Orders.over``).
        """
        now_ms, newcomers = self.instant.now_ms, self.newcomers
        job.spec = replace(
            job.spec,
            priority=change.priority,
            deadline_ms=change.deadline_ms,
            isolation=change.isolation,
        )
        job.view = None
        job.terms.marks = JobMarks.of(job.spec)
        job.terms.on_hold = change.on_hold
        own = job.terms.own_rule = self.rules.own(job.spec)
        job.terms.changed = True
        if (tenants := self.reservations.tenants) is not None:
            tenants.usage.ranked(job.key, change.priority)
        if newcomers.reserve or job.terms.on_hold:
            job.priority = own.priority
            job.rule = self.rules.in_force(job.terms)
            self.reservations.rule_set(job, now_ms)
        self.waiting.moved(job)
        self.touched(job)
        for stage in job.stages.values():
            if job.terms.on_hold and stage.queued:
                self.waiting.remove(stage)
            elif not job.terms.on_hold and stage.pending:
                self.waiting.add(stage)
        self.since_plan.new[job.key] = job
        self.instant.changed |= planning.ARRIVALS
        self.emitted.job_changed(job, now_ms)

    # ---- stages ----

    def _ready(self, job: JobRun, index: int) -> None:
        delay_ms = job.spec.stages[index].delay_ms
        if delay_ms > 0:
            self.agenda.push(self.instant.now_ms + delay_ms, StageReady(job, index))
        else:
            self.start_stage(job, index)

    def start_stage(self, job: JobRun, index: int) -> None:
        """The tasks of a stage are ready to be launched."""
        part, now_ms = job.spec.stages[index].part, self.instant.now_ms
        parts = job.progress.parts
        if part not in parts:
            parts[part] = next(self._numbers.part)
        key = f"{next(self._numbers.stage)}.0"
        stage = new_stage(job, index, key, now_ms, self.cluster, self.slots, parts[part])
        job.stages[stage.key] = stage
        job.view = None
        for at_ms in sorted({stage.places.rack_at_ms, stage.places.any_at_ms}):
            if at_ms > now_ms:
                self.agenda.push(at_ms, LocalityOver(stage))
        self.instant.changed |= planning.STAGES
        self.emitted.stage_started(stage, now_ms)
        self.reservations.stage_started(stage, now_ms)
        self.waiting.add(stage)
        pilots = job.terms.pilots
        if pilots is not None and pilots.stage == index:
            self.gates.shut(stage, pilots.tasks)

    def end_stage(self, stage: StageRun) -> None:
        """All tasks of the stage are done."""
        job, progress, now_ms = stage.job, stage.job.progress, self.instant.now_ms
        del job.stages[stage.key]
        job.view = None
        progress.stages_left -= 1
        if self.cluster.locality is not None:
            progress.outputs[stage.index] = stage.places.ran_on
        self.instant.changed |= planning.STAGES
        self.emitted.stage_ended(stage, now_ms)
        self.reservations.stage_ended(stage, now_ms)
        if progress.stages_left == 0:
            if job.spec.tail_ms > 0:
                self.agenda.push(now_ms + job.spec.tail_ms, DriverDone(job))
            else:
                self.end(job)
            return
        for index, child in enumerate(job.spec.stages):
            if stage.index in child.parents:
                progress.parents_left[index] -= 1
                if progress.parents_left[index] == 0:
                    self._ready(job, index)

    def end(self, job: JobRun) -> None:
        """The job is over."""
        self.recorder.job(job, self._over(job))

    def refused(self, job: JobRun) -> None:
        """The job is cancelled before any of its tasks has started: its queue lets it wait no longer."""
        for stage in job.stages.values():
            if stage.queued:
                self.waiting.remove(stage)
            if self.gates.behind(stage):
                self.gates.emptied(stage)
        self.recorder.unfinished(job)
        self._over(job)

    def _over(self, job: JobRun) -> int:
        """Forget the job. Returns when that was."""
        now_ms = self.instant.now_ms
        self.reservations.job_ended(job, now_ms)
        if (tenants := self.reservations.tenants) is not None:
            tenants.usage.left(job.key)
        del self.active[job.key]
        self.since_plan.new.pop(job.key, None)
        self.since_plan.ended[job.key] = EndedJob(now_ms, job.sums.work_ms + job.sums.wasted_ms)
        self.instant.changed |= planning.JOBS
        self.emitted.job_ended(job, now_ms)
        if job.spec.changes:
            self.agenda.forget_changes(job)
        for following in job.spec.then:
            self.agenda.push(now_ms + following.pause_ms, Follower(following))
        return now_ms

    def never_submitted(self) -> int:
        """How many jobs the end of the run left in the agenda, in the workload or behind active jobs."""
        waiting = self.agenda.not_submitted()
        source = list(self.source) if waiting else []
        behind = [job.spec for job in self.active.values()]
        specs = [spec for first in (*waiting, *source, *behind) for spec in first.and_followers()]
        return len(specs) - len(behind)
