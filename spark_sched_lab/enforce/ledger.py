"""Who holds which idle slot, and until when: Algorithm 1 of "Speculative Slot Reservation" step by step.

The twin of ``schedcore.ledger.Ledger`` in the JVM bridge: the same operations, the same decisions, the same
order of listener calls. This module has the interface: free and held slots are in ``ledger_holdings``, the
decisions on a freed slot in ``ledger_decisions``, the formulas of a stage and a job in ``ledger_state``, the
time between actions in ``ledger_pauses``. ``protocol/golden`` and its contract test compare the two; change
both or none.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from spark_sched_lab.enforce import ledger_copies, ledger_decisions, ledger_demand, ledger_fit
from spark_sched_lab.enforce.barriers import Barriers
from spark_sched_lab.enforce.idle import UNBOUNDED, IdleLimits
from spark_sched_lab.enforce.ledger_decisions import Decision
from spark_sched_lab.enforce.ledger_holdings import LedgerHoldings, LedgerListener
from spark_sched_lab.enforce.ledger_order import protects, refuses, waits_behind, withheld
from spark_sched_lab.enforce.ledger_pauses import LedgerPauses
from spark_sched_lab.enforce.ledger_standing import HoldShares
from spark_sched_lab.enforce.ledger_state import Following, LedgerAttempt, LedgerJob, LedgerStage
from spark_sched_lab.enforce.rule import Rule


class Ledger:
    """Holds are counts per (executor, job): slots of one executor are interchangeable. A slot is what one
    task of the executor's own kind needs; a task of a stage that needs more takes several of one executor.

    Every call passes the time, in milliseconds of a clock that never runs backwards; the ledger schedules no
    events. ``seed`` is that of the draws of calibrated deadlines. Not thread safe. Between a job's actions
    slots stay held for its usual pause and within a budget (``docs/adr/0016-idle-holds.md``).

    Invariants (:meth:`violations`): on each executor the held slots never exceed the free ones; a job that
    ended holds nothing; every hold has a finite deadline.
    """

    __slots__ = (
        "_arrivals", "_attempts", "_barriers", "_executors", "_holdings", "_jobs", "_limits", "_shares",
        "_stages", "counters", "pauses",
    )  # fmt: skip

    def __init__(self, listener: LedgerListener, limits: IdleLimits = UNBOUNDED, seed: int = 0) -> None:
        self._limits = limits
        self._arrivals = 0
        self._shares: HoldShares | None = None
        self._barriers = Barriers(seed)
        self.pauses = LedgerPauses(limits)
        holdings = self._holdings = LedgerHoldings(listener, self.pauses)
        self._executors = holdings.executors
        self._jobs = holdings.jobs
        self._stages = holdings.stages
        self._attempts = holdings.attempts
        self.counters = holdings.counters

    # ---- executors ----

    def executor_added(self, executor: str, slots: int, profile: int = 0) -> None:
        """A new executor of a resource profile with all its slots free; a known one stays as it is."""
        if executor not in self._executors:
            self._holdings.new_executor(executor, slots, profile)

    def observe_free(self, executor: str, free: int, now_ms: int) -> None:
        """Set the free slots to those that the cluster offers; drop the holds that no longer fit."""
        e = self._executors.get(executor)
        if e is None:
            e = self._holdings.new_executor(executor, free)
        e.free = free
        e.excluded = False
        if free > e.slots:
            self.pauses.capacity.add(free - e.slots)
            e.slots = free
        self._holdings.drop_what_does_not_fit(e, now_ms)

    def executor_draining(self, executor: str, now_ms: int) -> None:
        """The executor is decommissioned: drop its holds and make no new ones. Running tasks continue."""
        e = self._executors.get(executor)
        if e is not None:
            e.draining = True
            self._holdings.release_all_on(e, "executor_lost", now_ms)

    def executor_excluded(self, executor: str, now_ms: int) -> None:
        """The executor is excluded: its holds are dropped, and it gets none until it is observed again."""
        e = self._executors.get(executor)
        if e is not None:
            e.excluded = True
            self._holdings.release_all_on(e, "executor_lost", now_ms)

    def executor_removed(self, executor: str, now_ms: int) -> None:
        """The executor is gone with its running tasks and holds."""
        e = self._executors.get(executor)
        if e is not None:
            self._holdings.release_all_on(e, "executor_lost", now_ms)
            del self._executors[executor]
            self.pauses.capacity_lost(e.slots, self._jobs.values(), now_ms)
            for a in [a for a in self._attempts.values() if a.executor == executor]:
                self._holdings.forget(a)
                self._holdings.look_at_waiting(a.stage, now_ms)

    def held_on(self, executor: str) -> int:
        """Held slots of the executor; 0 where it is unknown."""
        e = self._executors.get(executor)
        return 0 if e is None else e.held

    def holds(self) -> list[tuple[str, str, int, int]]:
        """(job, executor, slots, deadline in ms) of every hold."""
        return [
            (j.key, e.id, n, j.deadline_ms) for e in self._executors.values() for j, n in e.held_by.items()
        ]

    # ---- jobs and stages ----

    def job_started(self, job: str, marked: bool, rule: Rule) -> None:
        """Register a job with its rule; a job that runs already keeps its own.

        Args:
            job: its key.
            marked: whether its owner named it, so that more Spark jobs may follow each of its Spark jobs.
            rule: the rule of its reservations.
        """
        if job not in self._jobs:
            self._arrivals += 1
            j = LedgerJob(job, marked, rule, self._arrivals, self._limits, self._barriers)
            j.order.shares = self._shares
            self._jobs[job] = j
            self._holdings.join_pool(j)

    def job_ranked(self, job: str, rank: int, arrival: int) -> None:
        """Set the job's place among jobs of equal priority; until then it has rank 0."""
        j = self._jobs.get(job)
        if j is not None:
            j.order.place = (rank, arrival)

    def rule_of(self, job: str) -> Rule | None:
        """The job's rule; None where it is unknown."""
        return self._jobs[job].rule if job in self._jobs else None

    def rule_changed(self, job: str, rule: Rule, now_ms: int) -> None:
        """Replace a job's rule: release holds that the new one does not need, hold those that it needs."""
        j = self._jobs.get(job)
        if j is not None and j.rule != rule:
            j.rule = rule
            self._holdings.join_pool(j)
            if j.may_hold:
                ledger_demand.refresh_deadline(j, now_ms)
                self._holdings.demand_learned(j, now_ms)
                if j.pause.open and rule.first_gap_ms is not None:
                    self.pauses.plan(j, now_ms)
            else:
                self._holdings.release_all_of(j, "disabled", now_ms)

    def job_ended(self, job: str, now_ms: int) -> None:
        """The job ended, failed or was cancelled: release all its holds."""
        j = self._jobs.pop(job, None)
        if j is not None:
            j.ended = True
            self._holdings.release_all_of(j, "job_ended", now_ms)
            self._holdings.leave_pool(j)
            self._holdings.stages_over(j, now_ms)
            j.demand.successors.clear()

    def stage_started(
        self,
        job: str,
        stage: str,
        index: int,
        tasks: int,
        next_tasks: int | None,
        last: bool,
        barrier: bool,
        now_ms: int,
        slots_per_task: int = 1,
        restartable: bool = True,
        vertex: str = "",
        successors: Sequence[ledger_demand.Next] = (),
        next_at_most: int | None = None,
        profile: int = 0,
        kill_ms: int = 0,
        writes: str | None = None,
        reads: Collection[str] = (),
    ) -> None:
        """A stage's tasks are ready to be launched.

        Args:
            job: key of its job; the call does nothing where the job is unknown.
            stage: key of the stage.
            index: place of the stage within its job, from 0.
            tasks: m, its number of tasks.
            next_tasks: n, slots that the stage which follows in the DAG needs; None where that is unknown.
            last: whether the job ends with this stage.
            barrier: whether its tasks run all at once or not at all; then none gets a copy.
            now_ms: the time.
            slots_per_task: slots that each of the stage's tasks takes.
            restartable: whether its tasks may get copies.
            vertex: the stage's name in the DAG; empty where that is unknown.
            successors: the stages that read its output. Without any, one stage that nothing else leads to
                needs ``next_tasks``.
            next_at_most: slots that the stage which follows needs at most, where something decides that while
                this one runs.
            profile: resource profile of the executors that run it.
            kill_ms: how long a killed attempt of its tasks still takes its slots.
            writes: the shuffle that it writes, where no DAG names the stage that reads it.
            reads: the shuffles that it reads.
        """
        j = self._jobs.get(job)
        if j is not None:
            self.pauses.end(j, now_ms)
            following = Following(next_tasks, next_at_most, last, writes)
            again = restartable and not barrier
            p = LedgerStage(
                stage, j, index, tasks, following, again, now_ms, slots_per_task, profile, kill_ms
            )
            j.order.stage_ready(stage, behind=waits_behind(j, self._jobs.values()), now_ms=now_ms)
            self._holdings.stage_begins(p, now_ms)
            ledger_demand.started(j, p, vertex, successors, reads)
            j.demand.overridden = 0  # From here on the stage's own tasks ask.
            self._holdings.refresh_demand(j, now_ms)
            ledger_demand.refresh_deadline(j, now_ms)

    def next_learned(
        self, stage: str, vertex: str, slots: int | None, ready: bool, now_ms: int, inputs: Sequence[str] = ()
    ) -> None:
        """What reads the output of an active stage became known while it runs, such as by the sizes of its
        first outputs: its name, the slots that it needs (None while that is not known), whether all of its
        other parents have started or ended, and the keys of those that are known."""
        p = self._stages.get(stage)
        if p is not None:
            ledger_demand.learned(p, vertex, slots, ready, inputs)
            self._holdings.demand_learned(p.job, now_ms)

    def last_learned(self, stage: str, last: bool, now_ms: int) -> None:
        """It became known whether the job ends with an active stage."""
        p = self._stages.get(stage)
        if p is not None:
            p.following.last = last
            self._holdings.demand_learned(p.job, now_ms)

    def stage_ended(self, stage: str, now_ms: int) -> None:
        """The stage ended, by its last task or otherwise; ending it twice is harmless."""
        p = self._stages.pop(stage, None)
        if p is None:
            return
        j = p.job
        j.stages.pop(stage, None)
        self._holdings.look_at_waiting(p, now_ms)
        j.order.stage_over(stage)
        ledger_demand.stopped(j, p, now_ms)
        if j.stages:
            self._holdings.refresh_demand(j, now_ms)
            ledger_demand.refresh_deadline(j, now_ms)
        elif p.is_last():
            self._holdings.release_all_of(j, "released", now_ms)
        else:
            self.pauses.begin(j, p, now_ms)

    def action_failed(self, job: str, now_ms: int) -> None:
        """An action failed or was cancelled: no stage of its DAG follows, so nothing stays held for one."""
        j = self._jobs.get(job)
        if j is not None and j.pause.open:
            self.pauses.cut(j, now_ms)
            self._holdings.release_all_of(j, "action_failed", now_ms)

    # ---- tasks ----

    def may_launch(self, job: str, executor: str, already_taken: int = 0, slots: int = 1) -> bool:
        """Algorithm 1, TRYALLOCATETASK: may a task of ``job`` take ``slots`` of ``executor`` now, beside
        ``already_taken`` ones that are promised to tasks of this round?"""
        e = self._executors.get(executor)
        if e is None or e.held == 0:
            return True
        refused = withheld(e, self._jobs.get(job), already_taken)
        # Where nothing is held against it, a large task may take an executor's rest: see task_launched.
        return e.free - already_taken - refused >= (slots if refused else 1)

    def refused_on(self, executor: str, job: str) -> int:
        """Free slots of the executor that are held against tasks of the job."""
        e = self._executors.get(executor)
        return 0 if e is None else withheld(e, self._jobs.get(job))

    def held_up_by(self, job: str, slots: int) -> set[str]:
        """The jobs whose holds keep a gang of the job from its ``slots``; none where it also waits for busy
        slots."""
        asker = self._jobs.get(job)
        offered = [e for e in self._executors.values() if e.open]
        free = sum(max(e.free, 0) for e in offered)
        refused = sum(withheld(e, asker) for e in offered)
        if free < slots or free - refused >= slots:
            return set()
        holders = [j for j in self._jobs.values() if j.held > 0]
        return {j.key for j in holders if asker is None or refuses(j, asker, 1, 0) > 0}

    def give_way(self, job: str, now_ms: int) -> None:
        """Release all slots that the job holds."""
        j = self._jobs.get(job)
        if j is not None:
            j.demand.overridden = 0
            self.counters.holds_given_way += j.held
            for e in self._executors.values():
                while j in e.held_by:
                    self._holdings.unhold(e, j, "gave_way", now_ms)

    def limit_holds(self, may_hold: Callable[[str], bool], shares: HoldShares | None = None) -> None:
        """From now on ``may_hold`` says of a job whether its queue lets it hold one more slot, and ``shares``
        who may take held slots of another queue. Called before any job starts, and when the queues are
        changed."""
        self._holdings.may_hold, self._shares = may_hold, shares
        for j in self._jobs.values():
            j.order.shares = shares

    def is_safe(self, holder: str, asker: str) -> bool:
        """Whether the slots that ``holder`` holds are safe from ``asker``."""
        theirs, mine = self._jobs.get(holder), self._jobs.get(asker)
        return theirs is not None and (mine is None or (theirs is not mine and protects(theirs, mine)))

    def give_up(self, job: str, now_ms: int) -> None:
        """Release one slot that the job holds, on the latest executor: its queue is at its ceiling."""
        j = self._jobs.get(job)
        for e in reversed(self._executors.values()):
            if j is not None and j in e.held_by:
                self._holdings.unhold(e, j, "ceiling", now_ms)
                return

    def task_launched(
        self, task: int, stage: str, index: int, executor: str, copy: bool, now_ms: int
    ) -> None:
        """An attempt of task ``index`` of the stage took a slot; ``task`` is its own number."""
        p = self._stages.get(stage)
        if p is None:
            return
        j = p.job
        e = self._executors.get(executor)
        slots = p.slots_per_task
        if e is not None and slots > 1:
            # Whole slots round a large task's need up: one that fits may seem to need more than is left.
            slots = max(1, min(slots, e.free))
        self._holdings.launched(LedgerAttempt(task, p, index, executor, copy, now_ms, slots))
        if copy:
            p.copied.add(index)
            self.counters.copies_launched += 1
        else:
            p.launched(now_ms)
            j.demand.peak_slots = max(j.demand.peak_slots, j.running)
        if e is not None:
            self._holdings.use(e, j, slots, now_ms)
            e.free -= slots
            self._holdings.drop_what_does_not_fit(e, now_ms, j, slots)
        if len(j.stages) > 1 and not p.waits():
            ledger_demand.refresh_deadline(j, now_ms)
        if j.held > 0:
            self._holdings.trim(j, now_ms)

    def task_ended(self, task: int, success: bool, now_ms: int) -> Decision:
        """An attempt ended and its slots are free again: Algorithm 1, HANDLETASKCOMPLETION.

        ``success`` is whether the attempt succeeded; a failed or killed one's task runs again unless it is
        done.
        """
        a = self._attempts.get(task)
        if a is None:
            return Decision(False, "unknown task")
        # 1. The slots are free, the task's time is known.
        self._holdings.forget(a)
        p, j = a.stage, a.stage.job
        e = self._executors.get(a.executor)
        if e is not None:
            e.free += a.slots
        was_done = a.index in p.done
        if was_done:
            if a.index in p.copied:
                self.counters.copies_wasted_ms += now_ms - a.launch_ms
        elif success:
            p.finish(a.index, now_ms - a.launch_ms)
            if a.copy:
                self.counters.copies_won += 1
        self._holdings.look_at_waiting(p, now_ms)
        # 2. Hold or release them.
        j.order.look(now_ms)
        active = p.key in self._stages
        completed = success and not was_done and active
        if completed and j.may_hold and not p.is_last():
            self._holdings.refresh_demand(j, now_ms, freed=a)
            ledger_demand.refresh_deadline(j, now_ms)
        again = active and not success and not was_done
        place = None if again else ledger_fit.place_of(a, self._executors, now_ms)
        if not active:
            decision = ledger_decisions.after_stage(p, now_ms, place)
        elif completed:
            decision = ledger_decisions.on_completion(p, now_ms, place)
        else:
            why = "retry" if again else "copy returned"
            decision = ledger_decisions.keep_unless_last(p, why, now_ms, place)
        wanted = ledger_decisions.slots_to_keep(a, completed, now_ms, place) if decision.keep else 0
        kept = 0
        while kept < wanted and self._holdings.hold(j, p, a.executor, now_ms):
            kept += 1
        # 3. Another job may wait for the slots that this job releases.
        for _ in range(kept, a.slots):
            self._holdings.offer_to_pre_reservers(a.executor, now_ms)
        if len(p.done) == p.tasks:
            if active:  # and not the loser of a race with a copy
                self._holdings.barrier_fell(p, now_ms)
            self.stage_ended(p.key, now_ms)
        self._holdings.pre_reserve_idle(j, now_ms)
        return Decision(False, "executor gone") if decision.keep and not kept else decision

    def task_undone(self, stage: str, index: int, now_ms: int) -> None:
        """The result of a finished task was lost with its executor or on the way: the task runs again."""
        p = self._stages.get(stage)
        if p is not None:
            p.done.discard(index)
            self._holdings.look_at_waiting(p, now_ms)
            self._holdings.refresh_demand(p.job, now_ms)

    def task_done_elsewhere(self, stage: str, index: int, now_ms: int) -> None:
        """Another attempt of the stage did the task, which runs no more in this one."""
        p = self._stages.get(stage)
        if p is None or index in p.done:
            return
        p.done.add(index)
        self._holdings.look_at_waiting(p, now_ms)
        if p.job.may_hold and not p.is_last():
            self._holdings.refresh_demand(p.job, now_ms)
            ledger_demand.refresh_deadline(p.job, now_ms)
        if len(p.done) == p.tasks:
            self._holdings.barrier_fell(p, now_ms)
            self.stage_ended(p.key, now_ms)
        self._holdings.pre_reserve_idle(p.job, now_ms)

    # ---- copies (section IV-C) ----

    def wants_copies(self, stage: str, now_ms: int) -> bool:
        """Whether a copy of some task of ``stage`` is due on a held slot."""
        p = self._stages.get(stage)
        return p is not None and bool(p.stragglers(now_ms))

    def any_copies_due(self, now_ms: int) -> bool:
        """Whether any stage wants a copy now."""
        return self._holdings.held_now > 0 and any(
            p.stragglers(now_ms) for j in self._jobs.values() if j.held > 0 for p in j.stages.values()
        )

    def pick_copy(self, stage: str, executor: str, now_ms: int) -> int | None:
        """Index of the task that a slot of ``executor``, held by the stage's job, should run a copy of."""
        p, e = self._stages.get(stage), self._executors.get(executor)
        return None if p is None or e is None else ledger_copies.pick(p, e, now_ms)

    # ---- time ----

    def expire(self, now_ms: int) -> bool:
        """Release expired holds. Returns whether there were any, so that the caller offers slots again."""
        freed = self._holdings.expire_deadlines(now_ms)
        return self._holdings.expire_budget(now_ms) or freed

    def next_wake_ms(self, now_ms: int) -> int | None:
        """When to call ``expire`` or ``any_copies_due`` next; None while no slot is held."""
        if self._holdings.held_now == 0:
            return None
        wakes = [self.pauses.budget_end_ms(now_ms)]
        for j in self._jobs.values():
            if j.held == 0:
                continue
            wakes.append(j.deadline_ms)
            if j.rule.copies:
                wakes += [at for p in j.stages.values() for at in ledger_copies.later_ages_ms(p, now_ms)]
        return min(wakes)

    @property
    def held_slots(self) -> int:
        """Slots held now."""
        return self._holdings.held_now

    def held_by(self, job: str) -> int:
        """Slots that the job holds now; 0 where it is unknown."""
        return self._jobs[job].held if job in self._jobs else 0

    def held_idle_ms(self, now_ms: int, job: str | None = None) -> int:
        """Slot time that a job, or all that ever were, held idle so far; 0 where the job is unknown."""
        if job is None:
            return self._holdings.held_idle_ms(now_ms)
        j = self._jobs.get(job)
        return 0 if j is None else j.held_time.until(j.held, now_ms)

    def predicted_idle_ms(self, job: str) -> int:
        """What the job's ended stages were expected to hold idle at most, by equation 4; 0 where it is
        unknown. Of all jobs that ever were the counters have the sum."""
        return self._jobs[job].held_time.predicted_ms if job in self._jobs else 0

    def idle_cost_ms(self, now_ms: int, job: str | None = None) -> int:
        """Slot time held between the actions of a job, or of all that ever were; 0 where it is unknown."""
        if job is None:
            return self.pauses.cost_ms(now_ms)
        return self.pauses.cost_ms(now_ms, self._jobs[job]) if job in self._jobs else 0

    def violations(self) -> list[str]:
        """A sentence for each violated invariant; empty if there is none."""
        return self._holdings.violations()
