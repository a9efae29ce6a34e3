"""Who holds which idle slot, and until when: Algorithm 1 of "Speculative Slot Reservation" step by step.

The twin of ``schedcore.Ledger`` in the JVM bridge: the same operations, the same decisions, the same order of
listener calls. ``protocol/golden`` and ``tests/contract/test_ledger_golden.py`` bind the two; change both or
none.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from spark_sched.sim.idle import FOREVER_MS, UNBOUNDED, Capacity, IdleBudget, IdleLimits
from spark_sched.sim.ledger_state import Counters, Executor, HeldAttempt, HeldJob, Stage
from spark_sched.sim.rule import Rule

__all__ = ["UNBOUNDED", "Counters", "Decision", "IdleLimits", "Ledger", "LedgerListener", "Rule"]

# Below any priority a job can have: what nobody declared yields to every reservation.
_LOWEST_PRIORITY = -(2**31)


class LedgerListener(Protocol):
    """Told about every slot that the ledger starts or stops holding, in order."""

    def slot_held(self, job: str, stage: str, executor: str, deadline_ms: int, now_ms: int) -> None: ...

    def slot_freed(self, job: str, executor: str, reason: str, now_ms: int) -> None: ...


class Decision(NamedTuple):
    """What happened to a freed slot, and why, in words for people."""

    keep: bool
    reason: str


class Ledger:
    """Holds are counts per (executor, job): slots of one executor are interchangeable. A slot is what one
    task of the executor's own kind needs; a task of a stage that needs more takes several of one executor.

    Time comes in with every call, in milliseconds of one clock that never runs backwards; nothing is ever
    scheduled from here. Not thread safe. Between a job's actions slots stay held for its usual pause and
    within a budget (``docs/adr/0016-idle-holds.md``).

    Invariants (:meth:`violations`): on each executor the held slots never exceed the free ones; a job that
    ended holds nothing; every hold has a finite deadline.
    """

    __slots__ = (
        "_attempts", "_budget", "_capacity", "_executors", "_held_now", "_held_since_ms", "_idle_held",
        "_jobs", "_limits", "_listener", "_stages", "counters",
    )  # fmt: skip

    def __init__(self, listener: LedgerListener, limits: IdleLimits = UNBOUNDED) -> None:
        self._listener = listener
        # Dictionaries iterate in insertion order, which decides ties here and in Scala alike.
        self._executors: dict[str, Executor] = {}
        self._jobs: dict[str, HeldJob] = {}
        self._stages: dict[str, Stage] = {}
        self._attempts: dict[int, HeldAttempt] = {}
        self.counters = Counters()
        self._held_now = 0
        self._held_since_ms = 0
        self._limits = limits
        self._capacity = Capacity()
        self._budget = IdleBudget(limits.share, limits.burst_ms)
        self._idle_held = 0  # by jobs without an active stage

    # ---- executors ----

    def executor_added(self, executor: str, slots: int) -> None:
        """A new executor with all its slots free; one that is known already stays as it is."""
        if executor not in self._executors:
            self._new_executor(executor, slots)

    def observe_free(self, executor: str, free: int, now_ms: int) -> None:
        """Sets the free slots to what the cluster really offers; holds that no longer fit are dropped."""
        e = self._executors.get(executor)
        if e is None:
            e = self._new_executor(executor, free)
        e.free = free
        if free > e.slots:
            self._capacity.add(free - e.slots)
            e.slots = free
        self._drop_what_does_not_fit(e, now_ms)

    def executor_draining(self, executor: str, now_ms: int) -> None:
        """No new holds there and the present ones go: decommissioned. Running tasks go on."""
        e = self._executors.get(executor)
        if e is not None:
            e.draining = True
            self._release_all_on(e, "executor_lost", now_ms)

    def executor_excluded(self, executor: str, now_ms: int) -> None:
        """What is held there goes, though the executor may come back: it is excluded for a while."""
        e = self._executors.get(executor)
        if e is not None:
            self._release_all_on(e, "executor_lost", now_ms)

    def executor_removed(self, executor: str, now_ms: int) -> None:
        """The executor is gone with all that ran and was held there."""
        e = self._executors.get(executor)
        if e is not None:
            self._release_all_on(e, "executor_lost", now_ms)
            del self._executors[executor]
            self._capacity.advance(now_ms)
            self._capacity.add(-e.slots)
            self._capacity.advance(now_ms)
            for j in self._jobs.values():
                if j.idle:
                    self._settle_idle(j, now_ms)
                    self._refresh_idle(j, now_ms)
            for a in [a for a in self._attempts.values() if a.executor == executor]:
                self._forget(a)

    def _new_executor(self, executor: str, slots: int) -> Executor:
        self._capacity.add(slots)
        e = self._executors[executor] = Executor(executor, slots)
        return e

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
        """A job and its rule; one that runs already keeps its own.

        Args:
            job: its key.
            marked: its owner named it: more Spark jobs may follow any one of them.
            rule: what holds for its reservations.
        """
        if job not in self._jobs:
            self._jobs[job] = HeldJob(job, marked, rule, self._limits)

    def rule_of(self, job: str) -> Rule | None:
        """The job's rule; None where it is unknown."""
        j = self._jobs.get(job)
        return None if j is None else j.rule

    def rule_changed(self, job: str, rule: Rule, now_ms: int) -> None:
        """Replaces a job's rule; holds that the new rule does not want are freed."""
        j = self._jobs.get(job)
        if j is not None and j.rule != rule:
            j.rule = rule
            if j.may_hold:
                j.refresh_deadline(now_ms)
                if j.idle and rule.first_gap_ms is not None:
                    self._plan_idle(j, now_ms)
            else:
                self._release_all_of(j, "disabled", now_ms)

    def job_ended(self, job: str, now_ms: int) -> None:
        """The job ended, failed or was cancelled: it holds nothing more."""
        j = self._jobs.pop(job, None)
        if j is not None:
            j.ended = True
            self._release_all_of(j, "job_ended", now_ms)
            for key in j.stages:
                self._stages.pop(key, None)
            j.stages.clear()

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
    ) -> None:
        """A stage's tasks are ready to be launched.

        Args:
            job: key of its job; the call does nothing where the job is unknown.
            stage: key of the stage.
            index: place of the stage within its job, from 0.
            tasks: m, its number of tasks.
            next_tasks: n, slots that the stage which follows in the DAG needs; None where that is unknown.
            last: nothing follows: the job ends with this stage.
            barrier: its tasks run all at once or not at all, so that none gets a copy.
            now_ms: the time.
            slots_per_task: slots that each of the stage's tasks takes.
            restartable: its tasks may get copies at all.
        """
        j = self._jobs.get(job)
        if j is not None:
            self._end_idle(j, now_ms)
            runs_again = restartable and not barrier
            p = Stage(stage, j, index, tasks, next_tasks, last, runs_again, now_ms, slots_per_task)
            self._stages[stage] = p
            j.stages[stage] = p
            j.overridden = 0  # From here on the stage's own tasks ask.
            self._refresh_demand(j, now_ms)
            j.refresh_deadline(now_ms)

    def stage_ended(self, stage: str, now_ms: int) -> None:
        """The stage ended, by its last task or otherwise; ending it twice is harmless."""
        p = self._stages.pop(stage, None)
        if p is None:
            return
        j = p.job
        j.stages.pop(stage, None)
        if j.stages:
            self._refresh_demand(j, now_ms)
            j.refresh_deadline(now_ms)
        elif p.last:
            self._release_all_of(j, "released", now_ms)
        else:
            self._begin_idle(j, p, now_ms)

    # ---- tasks ----

    def may_launch(self, job: str, executor: str, already_taken: int = 0, slots: int = 1) -> bool:
        """Algorithm 1, TRYALLOCATETASK: may a task of ``job`` take ``slots`` of ``executor`` now?

        ``already_taken`` slots of it are promised to tasks of this offer round that the ledger has not heard
        of.
        """
        e = self._executors.get(executor)
        if e is None or e.held == 0:
            return True
        asker = self._jobs.get(job)
        priority = _LOWEST_PRIORITY if asker is None else asker.rule.priority
        refused = sum(
            n for holder, n in e.held_by.items() if holder is not asker and holder.rule.priority >= priority
        )
        # Where nothing is held against it, a large task may take an executor's rest: see task_launched.
        return e.free - already_taken - refused >= (slots if refused else 1)

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
        self._attempts[task] = p.attempts[task] = HeldAttempt(task, p, index, executor, copy, now_ms, slots)
        if copy:
            p.copied.add(index)
            self.counters.copies_launched += 1
        else:
            p.last_launch_ms = now_ms
            j.running += slots
            j.peak_slots = max(j.peak_slots, j.running)
        if e is not None:
            used = 0
            while used < slots and j in e.held_by:
                self._unhold(e, j, "used", now_ms)
                self.counters.holds_used += 1
                used += 1
            e.free -= slots
            self._drop_what_does_not_fit(e, now_ms)
        if j.held > 0:
            self._trim(j, now_ms)

    def task_ended(self, task: int, success: bool, now_ms: int) -> Decision:
        """An attempt ended and its slots are free again: Algorithm 1, HANDLETASKCOMPLETION.

        ``success`` is whether the attempt succeeded; a failed or killed one's task runs again unless it is
        done.
        """
        a = self._attempts.get(task)
        if a is None:
            return Decision(False, "unknown task")
        # 1. The slots are free, the task's time is known.
        self._forget(a)
        p = a.stage
        j = p.job
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
        # 2. Keep them or let them go.
        if p.key not in self._stages:
            decision = _after_stage(p, now_ms)
        elif success and not was_done:
            decision = self._on_completion(p, now_ms)
        else:
            decision = _keep_unless_last(p, "copy returned" if was_done else "retry", now_ms)
        wanted = self._slots_to_keep(a, success and not was_done) if decision.keep else 0
        kept = 0
        while kept < wanted and self._hold(j, p, a.executor, now_ms):
            kept += 1
        # 3. What this job lets go may be what another one waits for.
        for _ in range(kept, a.slots):
            self._offer_to_pre_reservers(a.executor, now_ms)
        if len(p.done) == p.tasks:
            self.stage_ended(p.key, now_ms)
        self._pre_reserve_idle(j, now_ms)
        return Decision(False, "executor gone") if decision.keep and not kept else decision

    def task_undone(self, stage: str, index: int) -> None:
        """The result of a finished task was lost with its executor or on the way: the task runs again."""
        p = self._stages.get(stage)
        if p is not None:
            p.done.discard(index)

    def done_tasks(self, stage: str) -> frozenset[int]:
        """Indices of the stage's tasks that are done; empty where the stage is unknown."""
        p = self._stages.get(stage)
        return frozenset() if p is None else frozenset(p.done)

    # ---- copies (section IV-C) ----

    def wants_copies(self, stage: str, now_ms: int) -> bool:
        """Whether a copy of some task of ``stage`` is due on a held slot."""
        p = self._stages.get(stage)
        return p is not None and bool(p.stragglers(now_ms))

    def any_copies_due(self, now_ms: int) -> bool:
        """Whether any stage wants a copy now."""
        return self._held_now > 0 and any(
            p.stragglers(now_ms) for j in self._jobs.values() if j.held > 0 for p in j.stages.values()
        )

    def pick_copy(self, stage: str, executor: str, now_ms: int) -> int | None:
        """Index of the task that a slot of ``executor``, held by the stage's job, should run a copy of."""
        p = self._stages.get(stage)
        e = self._executors.get(executor)
        if p is None or e is None or p.job not in e.held_by:
            return None
        due = p.stragglers(now_ms)
        for a in due:
            if a.executor != executor:
                return a.index
        # A copy beside its original shares the fate of the host: only where the job holds no slot elsewhere.
        return due[0].index if due and p.job.held == e.held_by[p.job] else None

    # ---- time ----

    def expire(self, now_ms: int) -> bool:
        """Frees what has expired; returns whether that freed any, so that the caller offers slots again."""
        freed = False
        for j in self._jobs.values():
            if j.held > 0 and j.deadline_ms <= now_ms:
                if j.idle and j.deadline_ms < j.idle_end_ms:
                    self._release_unaffordable(j, now_ms)
                else:
                    self.counters.holds_expired += j.held
                    self._release_all_of(j, "expired", now_ms)
                freed = True
        return self._expire_budget(now_ms) or freed

    def next_wake_ms(self, now_ms: int) -> int | None:
        """When ``expire`` or ``any_copies_due`` should next be asked; None while nothing is held."""
        if self._held_now == 0:
            return None
        wakes = [self._budget_end_ms(now_ms)]
        for j in self._jobs.values():
            if j.held == 0:
                continue
            wakes.append(j.deadline_ms)
            if j.rule.copies:
                for p in j.stages.values():
                    if p.restartable and p.pace_known():
                        age_ms = p.copy_age_ms()
                        wakes += [
                            a.launch_ms + age_ms
                            for a in p.attempts.values()
                            if not a.copy and a.index not in p.copied and a.launch_ms + age_ms > now_ms
                        ]
        return min(wakes)

    @property
    def held_slots(self) -> int:
        """Slots held now."""
        return self._held_now

    def held_by(self, job: str) -> int:
        """Slots that the job holds now; 0 where it is unknown."""
        j = self._jobs.get(job)
        return 0 if j is None else j.held

    def held_idle_ms(self, now_ms: int) -> int:
        """Idle-held slot time so far, in slot-milliseconds."""
        return self.counters.held_idle_slot_ms + self._held_now * (now_ms - self._held_since_ms)

    def violations(self) -> list[str]:
        """Sentences about what must never be; empty when all is well."""
        found = []
        for e in self._executors.values():
            holders = sum(e.held_by.values())
            if holders != e.held:
                found.append(f"executor {e.id}: held {e.held} but its holders have {holders}")
            if e.held > max(e.free, 0):
                found.append(f"executor {e.id}: {e.held} held of {e.free} free slots")
            if any(n <= 0 for n in e.held_by.values()):
                found.append(f"executor {e.id}: a holder with no slots")
            found += [f"executor {e.id}: ended job {j.key} holds slots" for j in e.held_by if j.ended]
        on_executors = sum(e.held for e in self._executors.values())
        if on_executors != self._held_now:
            found.append(f"{self._held_now} slots held in all but {on_executors} on executors")
        for j in self._jobs.values():
            on_executors = sum(e.held_by.get(j, 0) for e in self._executors.values())
            if on_executors != j.held:
                found.append(f"job {j.key}: holds {j.held} but executors say {on_executors}")
            if j.held > 0 and j.rule.isolation <= 0:
                found.append(f"job {j.key}: holds slots at isolation 0")
            if j.running < 0:
                found.append(f"job {j.key}: {j.running} tasks run")
        between = sum(j.held for j in self._jobs.values() if j.idle)
        if between != self._idle_held:
            found.append(f"{self._idle_held} slots held between actions but jobs say {between}")
        return found

    # ---- Algorithm 1 ----

    def _on_completion(self, p: Stage, now_ms: int) -> Decision:
        j = p.job
        if not j.may_hold:
            return Decision(False, "no isolation")
        if p.last:  # lines 2-3
            return Decision(False, "last stage")
        m = p.slots
        n = p.expected_next()
        self._refresh_demand(j, now_ms)
        j.refresh_deadline(now_ms)
        if n is not None and m > n and len(p.done) * p.slots_per_task <= m - n:  # lines 9-11
            return Decision(False, "fewer tasks next")
        return _room(j, now_ms, "next stage unknown" if n is None else "next stage")  # lines 6-8, 12-15

    def _slots_to_keep(self, a: HeldAttempt, completed: bool) -> int:
        """How many of an ended attempt's slots its job keeps, if it keeps any."""
        if a.slots == 1:
            return 1
        p = a.stage
        most = min(a.slots, p.job.demand - p.job.running - p.job.held)
        n = p.expected_next() if completed and p.key in self._stages else None
        if n is not None and n < p.slots:
            # The first m - n slots go: of the task that crosses this bound the slots beyond it stay.
            most = min(most, len(p.done) * p.slots_per_task - (p.slots - n))
        return most

    def _refresh_demand(self, j: HeldJob, now_ms: int) -> None:
        if j.stages:
            j.demand = j.widest()
            self._trim(j, now_ms)

    def _trim(self, j: HeldJob, now_ms: int) -> None:
        surplus = j.running + j.held - j.demand
        if surplus > 0 and j.held > 0:
            for e in [e for e in reversed(self._executors.values()) if j in e.held_by]:
                while surplus > 0 and j in e.held_by:
                    self._give_back(e, j, "trimmed", now_ms)
                    surplus -= 1

    # ---- between a job's actions ----

    def _begin_idle(self, j: HeldJob, after: Stage, now_ms: int) -> None:
        self._settle_idle(j, now_ms)
        j.idle = True
        j.idle_since_ms = now_ms
        j.after_action = after.dag_next_tasks is None
        self._idle_held += j.held
        self._plan_idle(j, now_ms)

    def _end_idle(self, j: HeldJob, now_ms: int) -> None:
        if j.idle:
            self._settle_idle(j, now_ms)
            if j.after_action:
                j.gaps.add(max(0, now_ms - j.idle_since_ms))
            self._idle_held -= j.held
            j.idle = False

    def _plan_idle(self, j: HeldJob, now_ms: int) -> None:
        self._settle_idle(j, now_ms)
        # Without a rule for pauses what comes back later is kept as long as the stage's own slots were.
        plain = j.rule.first_gap_ms is None and j.held == 0
        j.idle_end_ms = j.deadline_ms if plain else j.idle_since_ms + self._idle_hold_ms(j, now_ms)
        self._refresh_idle(j, now_ms)

    def _idle_hold_ms(self, j: HeldJob, now_ms: int) -> int:
        first_ms = j.rule.first_gap_ms
        if first_ms is None or not j.after_action:
            return j.rule.gap_ms
        learned_ms = j.gaps.hold_ms
        usual_ms = min(j.rule.gap_ms, first_ms if learned_ms is None else learned_ms)
        end_ms = min(
            j.budget.end_ms(j.held, now_ms, self._capacity),
            self._budget.end_ms(self._idle_held, now_ms, self._capacity),
        )
        # What would end before every one of the latest pauses did is of no use to anybody.
        shortest_ms = j.gaps.shortest_ms
        useless = shortest_ms is not None and shortest_ms > min(usual_ms, end_ms - j.idle_since_ms)
        return 0 if useless else usual_ms

    def _refresh_idle(self, j: HeldJob, now_ms: int) -> None:
        """The budget's end moves with the number of slots: they share what is left."""
        j.deadline_ms = min(j.idle_end_ms, j.budget.end_ms(j.held, now_ms, self._capacity))

    def _settle_idle(self, j: HeldJob, now_ms: int) -> None:
        self._settle_all(now_ms)
        j.budget.settle(j.held if j.idle else 0, now_ms, self._capacity)

    def _settle_all(self, now_ms: int) -> None:
        self._capacity.advance(now_ms)
        self._budget.settle(self._idle_held, now_ms, self._capacity)

    def _budget_end_ms(self, now_ms: int) -> int:
        if self._idle_held == 0:
            return FOREVER_MS
        self._settle_all(now_ms)
        return self._budget.end_ms(self._idle_held, now_ms, self._capacity)

    def _expire_budget(self, now_ms: int) -> bool:
        """The lowest priority gives way first, of equals the latest to start."""
        freed = False
        while self._budget_end_ms(now_ms) <= now_ms:
            idle = [j for j in self._jobs.values() if j.idle and j.held > 0]
            self._release_unaffordable(min(reversed(idle), key=lambda j: j.rule.priority), now_ms)
            freed = True
        return freed

    def _release_unaffordable(self, j: HeldJob, now_ms: int) -> None:
        j.idle_end_ms = now_ms
        self.counters.holds_over_budget += j.held
        self._release_all_of(j, "over_budget", now_ms)
        j.deadline_ms = now_ms

    def idle_cost_ms(self, now_ms: int, job: str | None = None) -> int:
        """Slot time held between the actions of a job, or of all that ever were; 0 where it is unknown."""
        if job is None:
            self._settle_all(now_ms)
            return self._budget.cost_ms
        j = self._jobs.get(job)
        if j is None:
            return 0
        self._settle_idle(j, now_ms)
        return j.budget.cost_ms

    # ---- pre-reservation (Algorithm 1, lines 14-17) ----

    def _offer_to_pre_reservers(self, executor: str, now_ms: int) -> None:
        best: HeldJob | None = None
        for j in self._jobs.values():
            if (best is None or j.rule.priority > best.rule.priority) and j.wanted(now_ms) > 0:
                best = j
        e = self._executors.get(executor)
        if best is not None and e is not None:
            self._take_idle(best, e, now_ms)

    def _pre_reserve_idle(self, j: HeldJob, now_ms: int) -> None:
        """Slots that idle unheld when the threshold is crossed are taken at once."""
        want = j.wanted(now_ms) if j.stages else 0
        if want > 0:
            for e in self._executors.values():
                while want > 0 and self._take_idle(j, e, now_ms):
                    want -= 1

    def _take_idle(self, j: HeldJob, e: Executor, now_ms: int) -> bool:
        stages = j.stages.values()
        p = next((p for p in stages if not p.last and p.past_threshold()), next(iter(stages), None))
        if not self._hold(j, p, e.id, now_ms):
            return False
        # What was lost comes first; only slots beyond it count against n - m.
        if j.overridden > 0:
            j.overridden -= 1
        elif p is not None:
            p.pre_reserved += 1
        self.counters.pre_reserved += 1
        return True

    # ---- bookkeeping ----

    def _forget(self, a: HeldAttempt) -> None:
        self._attempts.pop(a.task, None)
        a.stage.attempts.pop(a.task, None)
        if not a.copy:
            a.stage.job.running -= a.slots

    def _hold(self, j: HeldJob, p: Stage | None, executor: str, now_ms: int) -> bool:
        e = self._executors.get(executor)
        if e is None or e.draining or e.free <= e.held:
            return False
        self._integrate(now_ms)
        if j.idle:
            self._settle_idle(j, now_ms)
        e.held += 1
        e.held_by[j] = e.held_by.get(j, 0) + 1
        j.held += 1
        self._held_now += 1
        if j.idle:
            self._idle_held += 1
            self._refresh_idle(j, now_ms)
        self.counters.holds += 1
        self._listener.slot_held(j.key, "" if p is None else p.key, executor, j.deadline_ms, now_ms)
        return True

    def _unhold(self, e: Executor, j: HeldJob, reason: str, now_ms: int) -> None:
        self._integrate(now_ms)
        if j.idle:
            self._settle_idle(j, now_ms)
        left = e.held_by[j] - 1
        if left == 0:
            del e.held_by[j]
        else:
            e.held_by[j] = left
        e.held -= 1
        j.held -= 1
        self._held_now -= 1
        if j.idle:
            self._idle_held -= 1
            self._refresh_idle(j, now_ms)
        self._listener.slot_freed(j.key, e.id, reason, now_ms)

    def _release_all_on(self, e: Executor, reason: str, now_ms: int) -> None:
        for j in list(e.held_by):
            while j in e.held_by:
                self._unhold(e, j, reason, now_ms)

    def _release_all_of(self, j: HeldJob, reason: str, now_ms: int) -> None:
        j.overridden = 0
        if j.held > 0:
            for e in self._executors.values():
                while j in e.held_by:
                    self._give_back(e, j, reason, now_ms)

    def _give_back(self, e: Executor, j: HeldJob, reason: str, now_ms: int) -> None:
        """A slot that one job holds no more is a released slot to those that wait for one."""
        self._unhold(e, j, reason, now_ms)
        self._offer_to_pre_reservers(e.id, now_ms)

    def _drop_what_does_not_fit(self, e: Executor, now_ms: int) -> None:
        """A task of higher priority took the slot: the lowest priority gives way, of equals the latest to
        hold."""
        while e.held > max(e.free, 0):
            loser: HeldJob | None = None
            for j in e.held_by:
                if loser is None or j.rule.priority <= loser.rule.priority:
                    loser = j
            assert loser is not None, f"executor {e.id} holds {e.held} slots for nobody"
            self._unhold(e, loser, "overridden", now_ms)
            loser.overridden += 1
            self.counters.holds_overridden += 1

    def _integrate(self, now_ms: int) -> None:
        self.counters.held_idle_slot_ms += self._held_now * (now_ms - self._held_since_ms)
        self._held_since_ms = now_ms


def _keep_unless_last(p: Stage, why: str, now_ms: int) -> Decision:
    if not p.job.may_hold:
        return Decision(False, "no isolation")
    if p.last:
        return Decision(False, "last stage")
    return _room(p.job, now_ms, why)


def _after_stage(p: Stage, now_ms: int) -> Decision:
    """A killed twin's slot comes back after its stage ended: it was the job's, so it stays until the gap
    ends."""
    if p.last or not p.job.may_hold:
        return Decision(False, "stage over")
    return _room(p.job, now_ms, "copy returned")


def _room(j: HeldJob, now_ms: int, why: str) -> Decision:
    if j.deadline_ms <= now_ms:
        return Decision(False, "deadline passed")
    if j.running + j.held >= j.demand:
        return Decision(False, "enough held")
    return Decision(True, why)
