"""Slot reservation in the simulator: reports the engine's jobs to the ledger, applies its holds to the slots.

The ledger makes all decisions, as the JVM's ledger does. While no job may hold a slot, it is not called at
all. Jobs that hold no slots are reported to it as one stand-in per priority and pool, and per tenants' queue
where these have floors or weights, because it treats them alike. So its work grows with the number of jobs
that reserve, not with all running jobs. Of their stages it gets to know whether tasks wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from spark_sched.protocol.events import Event, SlotFreed, SlotHeld
from spark_sched_lab.cluster.placement import Slots
from spark_sched_lab.enforce.idle import IdleLimits
from spark_sched_lab.enforce.ledger import Ledger
from spark_sched_lab.enforce.rule import Rule
from spark_sched_lab.engine.records import Attempt, JobRun, StageRun

if TYPE_CHECKING:
    from spark_sched_lab.engine.tenant_queues import TenantQueues


@dataclass(slots=True, eq=False)
class Reservations:
    """Calls the ledger.

    Attributes:
        jobs: active ones, by key.
        totals_of: slots by node, where it is there.
        profiles_of: resource profile by node.
        emit: gets the events of holds; None: there is no listener.
        limits: what held slots may cost while no stage of their job is active.
        seed: of the draws of calibrated deadlines.
        engaged: whether any job ever reserved: before that there is nothing to report.
        tenants: the tenants' queues, which count held slots and limit them; None: there are none.
        stand_ins: the ledger's keys of those that stand in for jobs, with their tenants' queue.
        stand_ins_at_once: those of jobs that wait for slots which they need all at once.
    """

    slots: Slots
    jobs: dict[str, JobRun]
    totals_of: Sequence[int]
    profiles_of: Sequence[int]
    emit: Callable[[Event], None] | None
    limits: IdleLimits
    seed: int
    engaged: bool = False
    tenants: TenantQueues | None = None
    _ledger: Ledger | None = None
    stand_ins: dict[str, str | None] = field(default_factory=dict)
    stand_ins_at_once: set[str] = field(default_factory=set)
    _known: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.slots.ledger = self

    # ---- the ledger's listener ----

    def slot_held(self, job: str, stage: str, executor: str, deadline_ms: int, now_ms: int) -> None:
        run = self.jobs[job]
        run.held[executor] = run.held.get(executor, 0) + 1
        run.view = None
        self.slots.hold(run, self.slots.nodes.number[executor])
        if self.tenants is not None:
            self.tenants.usage.held(job)
        if self.emit is not None:
            self.emit(SlotHeld(now_ms, job, stage, executor, deadline_ms))

    def slot_freed(self, job: str, executor: str, reason: str, now_ms: int) -> None:
        run = self.jobs[job]
        if run.held[executor] == 1:
            del run.held[executor]
        else:
            run.held[executor] -= 1
        run.view = None
        self.slots.unhold(run, self.slots.nodes.number[executor])
        if self.tenants is not None:
            self.tenants.usage.unheld(job)
        if self.emit is not None:
            self.emit(SlotFreed(now_ms, job, executor, reason))

    # ---- calls of the engine ----

    def rule_set(self, job: JobRun, now_ms: int) -> None:
        """The job is new or its rule has changed: the ledger knows it by name if it may hold slots."""
        if job.key in self._known:
            assert self._ledger is not None
            self._ledger.rule_changed(job.key, job.rule, now_ms)
            self._ledger.job_ranked(job.key, job.rank, job.arrival)
        elif job.rule.isolation > 0.0:
            ledger = self._ledger or self._begin(now_ms)
            self._known.add(job.key)
            ledger.job_started(job.key, job.spec.marked, job.rule)
            ledger.job_ranked(job.key, job.rank, job.arrival)
            for stage in job.stages.values():
                self._stage(ledger, stage, now_ms)

    def stage_started(self, stage: StageRun, now_ms: int) -> None:
        ledger = self._ledger
        if ledger is not None:
            if stage.job.key in self._known:
                self._stage(ledger, stage, now_ms)
            else:
                ledger.pauses.reported.add(stage.key)
                self._report(ledger, stage, now_ms)

    def stage_ended(self, stage: StageRun, now_ms: int) -> None:
        ledger = self._ledger
        if ledger is not None:
            if stage.job.key in self._known:
                ledger.stage_ended(stage.key, now_ms)
            self._forget(ledger, stage, now_ms)

    def job_ended(self, job: JobRun, now_ms: int) -> None:
        ledger = self._ledger
        if ledger is not None:
            if job.key in self._known:
                self.settle(job, now_ms)
                ledger.job_ended(job.key, now_ms)
                self._known.discard(job.key)
            # Its queue may have refused it before all of its tasks had started.
            for stage in job.stages.values():
                self._forget(ledger, stage, now_ms)

    def settle(self, job: JobRun, now_ms: int) -> None:
        """Record the cost of the job's holds so far."""
        if self._ledger is not None and job.key in self._known:
            job.sums.held_idle_ms = self._ledger.held_idle_ms(now_ms, job.key)
            job.sums.predicted_idle_ms = self._ledger.predicted_idle_ms(job.key)

    def launched(self, attempt: Attempt, now_ms: int) -> None:
        ledger = self._ledger
        if ledger is not None:
            stage = attempt.stage
            node = self.slots.nodes.names[attempt.node]
            if stage.job.key in self._known:
                attempt.reserves = True
                ledger.task_launched(attempt.task, stage.key, attempt.index, node, attempt.copy, now_ms)
            else:
                stand_in = self._stand_in(ledger, stage.job, now_ms)
                ledger.task_launched(attempt.task, stand_in, attempt.task, node, False, now_ms)
            self._report(ledger, stage, now_ms)

    def ended(self, attempt: Attempt, success: bool, now_ms: int) -> None:
        if self._ledger is not None:
            # A stand-in's tasks never count as done: it has no end and no memory of them.
            self._ledger.task_ended(attempt.task, success and attempt.reserves, now_ms)
            if not success:
                self._report(self._ledger, attempt.stage, now_ms)

    def node_joined(self, node: int, now_ms: int) -> None:
        if self._ledger is not None:
            name = self.slots.nodes.names[node]
            self._ledger.executor_added(name, 0, self.profiles_of[node])
            self._ledger.observe_free(name, self.slots.free[node], now_ms)

    def node_leaves(self, node: int, now_ms: int) -> None:
        """No task starts there any more; its slots count until `node_left`."""
        if self._ledger is not None:
            self._ledger.executor_draining(self.slots.nodes.names[node], now_ms)

    def node_left(self, node: int, now_ms: int) -> None:
        if self._ledger is not None:
            self._ledger.executor_removed(self.slots.nodes.names[node], now_ms)

    # ---- what the engine asks ----

    def expire(self, now_ms: int) -> bool:
        """Release expired holds. Returns whether there were any."""
        if self._ledger is None or not self._ledger.held_slots:
            return False
        return self._ledger.expire(now_ms)

    def next_wake_ms(self, now_ms: int) -> int | None:
        return self._ledger.next_wake_ms(now_ms) if self._ledger is not None else None

    def due_copy(self, now_ms: int) -> tuple[StageRun, int, int] | None:
        """(stage, task index, node) of the next copy that is due on a held slot."""
        ledger = self._ledger
        if ledger is None or not self.slots.holders:
            return None
        for job, nodes in self.slots.holders.items():
            for stage in job.stages.values():
                if ledger.wants_copies(stage.key, now_ms):
                    for node in nodes:
                        index = ledger.pick_copy(stage.key, self.slots.nodes.names[node], now_ms)
                        if index is not None:
                            return stage, index, node
        return None

    def totals(self, now_ms: int) -> dict[str, int]:
        """The ledger's counters; all zero where no job ever reserved."""
        ledger = self._ledger or Ledger(self)
        c = ledger.counters
        return {
            "holds_total": c.holds,
            "holds_used": c.holds_used,
            "holds_expired": c.holds_expired,
            "holds_overridden": c.holds_overridden,
            "prereserved_total": c.pre_reserved,
            "held_idle_slot_ms": ledger.held_idle_ms(now_ms),
            "predicted_idle_slot_ms": c.predicted_idle_slot_ms,
            "copies_launched": c.copies_launched,
            "copies_won": c.copies_won,
            "copies_wasted_ms": c.copies_wasted_ms,
        }

    def check(self, now_ms: int) -> None:
        """Raise AssertionError if the ledger or the slots violate an invariant."""
        broken = self._ledger.violations() if self._ledger is not None else []
        slots = self.slots
        if self._ledger is not None:
            stages = [stage for job in self.jobs.values() for stage in job.stages.values()]
            reported = {p.key for p in stages if p.key in self._ledger.pauses.reported and _waits(p)}
            if reported != self._ledger.pauses.reported_waiting():
                broken.append("the ledger has wrong stages of jobs that hold no slots as waiting")
        if any(free < held for free, held in zip(slots.free, slots.held, strict=True)):
            broken.append("a node holds more slots than it has free")
        if broken:
            raise AssertionError(f"at {now_ms} ms: {'; '.join(broken)}")

    # ---- parts ----

    def _begin(self, now_ms: int) -> Ledger:
        """The first job that may hold slots has arrived: report all running tasks to the ledger."""
        ledger = self._ledger = Ledger(self, self.limits, self.seed)
        self.engaged = True
        self.queues_changed()
        for node, name in enumerate(self.slots.nodes.names):
            leaving = self.slots.left.get(node, 0) > 0
            if self.slots.present[node] or leaving:
                ledger.executor_added(name, self.totals_of[node], self.profiles_of[node])
            if leaving:
                ledger.executor_draining(name, now_ms)
        for job in self.jobs.values():
            for stage in job.stages.values():
                for task in stage.running.values():
                    executor = self.slots.nodes.names[task.node]
                    stand_in = self._stand_in(ledger, job, now_ms)
                    ledger.task_launched(task.task, stand_in, task.task, executor, False, now_ms)
                ledger.pauses.reported.add(stage.key)
                self._report(ledger, stage, now_ms)
        return ledger

    def _report(self, ledger: Ledger, stage: StageRun, now_ms: int) -> None:
        """Tell the ledger whether tasks of the stage wait for a slot, if it does not have all of them: the
        stage began while the job held no slots."""
        if stage.key in ledger.pauses.reported:
            ledger.pauses.set_waiting(stage.key, _waits(stage), now_ms)

    def _forget(self, ledger: Ledger, stage: StageRun, now_ms: int) -> None:
        ledger.pauses.set_waiting(stage.key, False, now_ms)
        ledger.pauses.reported.discard(stage.key)

    def queues_changed(self) -> None:
        """Tell the ledger, where there is one, what the tenants' queues limit."""
        if self.tenants is not None and self._ledger is not None:
            shares = self.tenants.usage.shares
            self._ledger.limit_holds(self.tenants.usage.may_hold, None if shares is None else self.tenants)

    def is_safe(self, job: JobRun, now_ms: int, holder: str) -> bool:
        """Whether the slots that ``holder`` holds are safe from the job."""
        ledger = self._ledger
        assert ledger is not None, f"job {holder} holds slots and there is no ledger"
        return ledger.is_safe(holder, self._asker(ledger, job, now_ms))

    def give_up(self, job: str, now_ms: int) -> None:
        """The job's queue is at its ceiling, and another of its jobs takes a slot for one that this one
        holds."""
        assert self._ledger is not None, f"job {job} holds slots and there is no ledger"
        self._ledger.give_up(job, now_ms)

    def may_launch(self, job: JobRun, node: int, now_ms: int) -> bool:
        ledger = self._ledger
        assert ledger is not None, "somebody holds slots and there is no ledger"
        return ledger.may_launch(self._asker(ledger, job, now_ms), self.slots.nodes.names[node])

    def refused_on(self, job: JobRun, node: int, now_ms: int) -> int:
        ledger = self._ledger
        assert ledger is not None, "somebody holds slots and there is no ledger"
        return ledger.refused_on(self.slots.nodes.names[node], self._asker(ledger, job, now_ms))

    def _asker(self, ledger: Ledger, job: JobRun, now_ms: int) -> str:
        """The key under which the ledger knows the job that asks."""
        if job.key in self._known:
            return job.key
        key = self._stand_in(ledger, job, now_ms)
        ledger.job_ranked(key, job.rank, job.arrival)  # which matters only while it asks
        return key

    def _stand_in(self, ledger: Ledger, job: JobRun, now_ms: int) -> str:
        priority, pool = job.priority, job.rule.pool
        key = f"\0others-{priority}" if pool is None else f"\0others-{priority}-{pool.name}"
        queue = None
        if self.tenants is not None and self.tenants.usage.shares is not None:
            queue = self.tenants.usage.queue_of(job.key)
            key = f"{key}\0{queue}\0at-once" if job.needs_at_once else f"{key}\0{queue}"
        if key not in self.stand_ins:
            self.stand_ins[key] = queue
            if queue is not None and job.needs_at_once:
                self.stand_ins_at_once.add(key)
            ledger.pauses.reported.add(key)
            ledger.job_started(key, False, Rule(priority=priority, isolation=0.0, copies=False, pool=pool))
            ledger.stage_started(key, key, 0, 1, None, True, False, now_ms)
        return key

    def _stage(self, ledger: Ledger, stage: StageRun, now_ms: int) -> None:
        ledger.stage_started(
            stage.job.key,
            stage.key,
            stage.index,
            stage.spec.tasks,
            stage.edges.next_tasks,
            stage.edges.last,
            stage.spec.gang,
            now_ms,
            restartable=stage.restartable,
            vertex=str(stage.index),
            successors=stage.edges.successors,
            profile=stage.spec.profile,
            kill_ms=stage.spec.kill_ms,
        )


def _waits(stage: StageRun) -> bool:
    """Whether tasks of the stage wait for a slot."""
    return stage.durations.count + len(stage.running) < stage.spec.tasks
