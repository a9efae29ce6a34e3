"""The plan in force: when a new plan is made, and what it changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spark_sched.policies.key_order import Moment, OrderedJob
from spark_sched.predict import UNKNOWN, Forecast
from spark_sched.protocol.plan import JobPlan
from spark_sched.state import JobView
from spark_sched_lab.cluster.placement import Slots
from spark_sched_lab.enforce.enforcement import StartGate
from spark_sched_lab.enforce.queues import QueueTurns
from spark_sched_lab.engine import planning
from spark_sched_lab.engine.agenda import Agenda, Instant, PlanDue
from spark_sched_lab.engine.attempts import Attempts
from spark_sched_lab.engine.emitted_events import EmittedEvents
from spark_sched_lab.engine.gates import Gates
from spark_sched_lab.engine.jobs import ActiveJobs
from spark_sched_lab.engine.lanes import Lanes
from spark_sched_lab.engine.records import UNRANKED, JobRun
from spark_sched_lab.engine.waiting import WaitingStages
from spark_sched_lab.engine.workload import SchedulingChange


@dataclass(slots=True, eq=False)
class Plans:
    """Asks the planner for plans and puts them in force.

    Attributes:
        totals: slots of each present node.
    """

    planner: planning.Planner
    instant: Instant
    agenda: Agenda
    jobs: ActiveJobs
    attempts: Attempts
    slots: Slots
    waiting: WaitingStages
    gates: Gates
    queues: QueueTurns
    starts: StartGate
    emitted: EmittedEvents
    totals: list[int]
    _plan_at_ms: int = -1
    _again_ms: int | None = None  # the plan in force wants another one then

    def __post_init__(self) -> None:
        self.waiting.refresh = self._refresh

    def due(self, event: PlanDue) -> None:
        """The time of a plan has been reached."""
        now_ms = self.instant.now_ms
        if not event.asked:
            self._plan_at_ms = now_ms
        elif self._again_ms == now_ms:
            self._plan_at_ms = now_ms
            self.instant.changed |= planning.ARRIVALS  # whatever the policy depends on: it asked

    def changed(self, change: SchedulingChange) -> None:
        """An operator changes the policy, or pauses reservations or ends that pause.

        A pause releases held slots at once, as in a live application. After it, slots are held again from the
        next end of a job's task on.
        """
        now_ms, jobs = self.instant.now_ms, self.jobs
        self._end_order()
        if change.plan_every_ms is not None:
            self.planner.every_ms = change.plan_every_ms
            jobs.newcomers.reserve = change.plan_every_ms > 0
        if change.policy is not None:
            self.planner.take(change.policy)
            self.waiting.by_spark_job = change.policy.capabilities.by_spark_job
            self.waiting.all_moved()
            self._again_ms = None
            jobs.since_plan.new.update(jobs.active)  # It knows none.
        if change.reserves is jobs.rules.paused:
            jobs.rules.paused = not change.reserves
            for job in jobs.active.values():
                if job.terms.planned is not None or jobs.rules.paused or jobs.newcomers.reserve:
                    job.rule = jobs.rules.in_force(job.terms)
                    jobs.reservations.rule_set(job, now_ms)
        self.instant.changed |= planning.ARRIVALS
        self.emitted.scheduling_changed(self.planner.policy.name, jobs.rules.paused, now_ms)

    def make(self) -> None:
        """Make a plan for the present state; if the planner plans at fixed intervals, at its next time."""
        every_ms, now = self.planner.every_ms, self.instant.now_ms
        if every_ms and self._plan_at_ms != now:
            # Not yet: at the next multiple, once.
            at_ms = now + (-now) % every_ms
            if at_ms > now and self._plan_at_ms < now:
                self._plan_at_ms = at_ms
                self.agenda.push(at_ms, PlanDue(asked=False))
            if at_ms > now:
                return
        self.instant.changed = 0
        lanes, since = self.waiting.lanes, self.jobs.since_plan
        if lanes is not None and lanes.order.by_slots and not since.new and not since.ended:
            self.planner.plans += 1
            if lanes.order.timeless:
                lanes.stale = True
            else:
                self._refresh(lanes)
        elif lanes is not None and self._update(lanes):
            self.planner.plans += 1
        else:
            self._make()
            self._begin_order()

    def _make(self) -> None:
        now = self.instant.now_ms
        one_by_one = self.planner.one_by_one
        since = self.jobs.since_plan
        jobs = since.new if one_by_one else self.jobs.active
        ended, since.ended = since.ended, {}
        plan = self.planner.plan(jobs, self.slots, self.totals, self.emitted.version, now, ended)
        newcomers = self.jobs.newcomers
        newcomers.rank = UNRANKED if plan.ordered else 0
        for key in ended:
            self.starts.job_ended(key)
        if not one_by_one:
            self.starts.put(plan)
        for job in planning.put_in_force(
            plan.jobs,
            jobs,
            self.jobs.rules,
            ordered=plan.ordered,
            by_arrival=one_by_one,
        ):
            self.waiting.moved(job)
            self.jobs.reservations.rule_set(job, now)
        for entry in plan.jobs:
            job = jobs[entry.job]
            if entry.evict:
                self.attempts.evict_job(job)
                self.instant.changed = 0  # the plan knows
            if entry.pilots != job.terms.pilots:
                job.terms.pilots = entry.pilots
                for stage in job.stages.values():
                    if entry.pilots is not None and entry.pilots.stage == stage.index:
                        self.gates.shut(stage, entry.pilots.tasks)
                    elif stage.pilots_first:
                        self.gates.open(stage)
        for entry in sorted((each for each in plan.jobs if each.victims), key=lambda each: each.rank):
            self.attempts.preempt(jobs[entry.job], entry.victims, self.jobs.active.values())
        since.new.clear()
        self.queues.put(plan.queue_weights, self.jobs.active.values())
        self.slots.rank(plan.slowness)
        again_ms = plan.again_ms
        if any(entry.evict for entry in plan.jobs):
            # An evicted job waits for the next plan. In a live application the ends of its tasks trigger that
            # plan.
            again_ms = now + 1 if again_ms is None else min(again_ms, now + 1)
        self._again(again_ms)

    # ---- policies that sort jobs by a key ----

    def _begin_order(self) -> None:
        """A plan is in force. If its order is one by a key and no job may hold slots, that order replaces the
        next plans: it is updated job by job."""
        jobs = self.jobs
        order = None if jobs.reservations.engaged else self.planner.key_order()
        if order is None or any(map(_needs_plans, jobs.active.values())):
            return
        self.waiting.order_by(order)
        assert self.waiting.lanes is not None
        jobs.since_plan.touched = {}
        self._put(self.waiting.lanes, self._planned_jobs(), ())

    def _end_order(self) -> None:
        """Plans rank jobs again, first as the order does."""
        lanes = self.waiting.lanes
        if lanes is not None:
            for rank, job in enumerate(lanes.sorted(self.jobs.active.values())):
                job.rank = rank
            for job in self.jobs.active.values():
                job.place = None
            self.planner.memory = lanes.order.memory()
            self.jobs.since_plan.touched = None
            self.waiting.order_by(None)

    def _update(self, lanes: Lanes) -> bool:
        """Update the order by what changed since the last plan, in place of a plan. Returns false if a job
        may hold slots from now on: then plans rank jobs."""
        since, active = self.jobs.since_plan, self.jobs.active
        assert since.touched is not None
        changed = [job for job in since.touched if active.get(job.key) is job]
        if len(changed) > 1:
            changed.sort(key=lambda job: job.arrival)
        gone = list(since.ended)
        entries = []
        for job in changed:
            if job.terms.on_hold and not job.running_slots:
                gone.append(job.key)
            elif job.place is None or job.terms.changed:
                rules = lanes.order.rules(job, UNKNOWN)
                if rules.reservation is not None or job.spec.pool is not None:
                    self._end_order()
                    return False
                entries.append(JobPlan(job.key, 0, 0, None, "", pool=rules.pool))
        if entries:
            of = self.jobs.rules
            for job in planning.put_in_force(entries, active, of, ordered=False, by_arrival=False):
                self.jobs.reservations.rule_set(job, self.instant.now_ms)
        if len(gone) > len(since.ended):
            hidden = [job for job in changed if job.terms.on_hold and not job.running_slots]
            changed = [job for job in changed if job not in hidden]
            for job in hidden:
                job.place = None
        since.touched.clear()
        since.new.clear()
        if gone:
            since.ended = {}
        self._put(lanes, changed, gone)
        return True

    def settle(self) -> None:
        """Tell the order all that has happened so far: something else may take its place at this instant."""
        lanes = self.waiting.lanes
        if lanes is not None and lanes.stale:
            self._refresh(lanes)

    def _refresh(self, lanes: Lanes) -> None:
        """Tell the order the slots that changed since it was last told, in place of an update: no job came or
        went, and no marks changed."""
        touched, now_ms, order = self.jobs.since_plan.touched, self.instant.now_ms, lanes.order
        assert touched is not None
        lanes.at_ms = now_ms
        for job in touched:
            if job.place is None or job.terms.on_hold:
                self._update(lanes)  # A job on hold leaves the order with its last task.
                return
            if order.slots_changed(job, now_ms):
                lanes.slots_changed(job)
        lanes.stale = False
        touched.clear()

    def _put(self, lanes: Lanes, changed: Sequence[JobRun], gone: Sequence[str]) -> None:
        now_ms = self.instant.now_ms
        moment = Moment(now_ms, sum(self.totals), self._forecast, self._view, self._planned_jobs)
        moved = lanes.order.update(changed, gone, moment)
        lanes.at_ms = now_ms
        lanes.stale = False
        for job in changed:
            lanes.place(job)
        lanes.moved(moved)

    def _planned_jobs(self) -> list[JobRun]:
        """The jobs that plans contain."""
        return [job for job in self.jobs.active.values() if not job.terms.on_hold or job.running_slots]

    def _forecast(self, job: OrderedJob) -> Forecast:
        return self.planner.forecast(self._view(job))

    def _view(self, job: OrderedJob) -> JobView:
        return self.jobs.active[job.job].job_view(self.slots.nodes.names)

    def _again(self, again_ms: int | None) -> None:
        if again_ms is None:
            self._again_ms = None
        else:
            # Not again at this instant, and only at the planner's own intervals.
            every_ms = self.planner.every_ms
            at_ms = max(again_ms, self.instant.now_ms + 1)
            at_ms += -at_ms % every_ms if every_ms else 0
            if at_ms != self._again_ms:
                self._again_ms = at_ms
                self.agenda.push(at_ms, PlanDue(asked=True))


def _needs_plans(job: JobRun) -> bool:
    """Whether more than a policy's key decides: the job may hold slots, or has a pool of the application."""
    return job.rule.isolation > 0.0 or job.spec.pool is not None
