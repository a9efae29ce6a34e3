"""Which slots are free, which are held and for whom, how a slot passes from one job to another.

``schedcore.ledger.LedgerHoldings`` has the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from spark_sched_lab.enforce import ledger_demand, ledger_fit
from spark_sched_lab.enforce.ledger_order import outranks, protects
from spark_sched_lab.enforce.ledger_pauses import LedgerPauses
from spark_sched_lab.enforce.ledger_standing import PoolUse
from spark_sched_lab.enforce.ledger_state import (
    LedgerAttempt,
    LedgerCounters,
    LedgerExecutor,
    LedgerJob,
    LedgerStage,
)


class LedgerListener(Protocol):
    """Notified of every slot that the ledger starts or stops holding, in order."""

    def slot_held(self, job: str, stage: str, executor: str, deadline_ms: int, now_ms: int) -> None: ...

    def slot_freed(self, job: str, executor: str, reason: str, now_ms: int) -> None: ...


class LedgerHoldings:
    """Dictionaries iterate in insertion order, which decides ties here and in Scala alike."""

    __slots__ = (
        "_held_since_ms", "_listener", "_pools", "attempts", "counters", "executors", "held_now", "jobs",
        "may_hold", "pauses", "stages",
    )  # fmt: skip

    def __init__(self, listener: LedgerListener, pauses: LedgerPauses) -> None:
        self._listener = listener
        self.pauses = pauses
        self.executors: dict[str, LedgerExecutor] = {}
        self.jobs: dict[str, LedgerJob] = {}
        self.stages: dict[str, LedgerStage] = {}
        self.attempts: dict[int, LedgerAttempt] = {}
        self.counters = LedgerCounters()
        self.held_now = 0
        self._held_since_ms = 0
        self._pools: dict[str, PoolUse] = {}
        #: Whether the queue of the job of this key lets it hold one more slot.
        self.may_hold: Callable[[str], bool] | None = None

    def held_idle_ms(self, now_ms: int) -> int:
        """Idle-held slot time so far, in slot-milliseconds."""
        return self.counters.held_idle_slot_ms + self.held_now * (now_ms - self._held_since_ms)

    def barrier_fell(self, p: LedgerStage, now_ms: int) -> None:
        """All tasks of the stage are done."""
        p.fell(now_ms)
        predicted_ms = p.predicted_idle_ms()
        p.job.held_time.predicted_ms += predicted_ms
        self.counters.predicted_idle_slot_ms += predicted_ms

    def new_executor(self, executor: str, slots: int, profile: int = 0) -> LedgerExecutor:
        self.pauses.capacity.add(slots)
        e = self.executors[executor] = LedgerExecutor(executor, slots, profile)
        return e

    def join_pool(self, j: LedgerJob) -> None:
        """The job's slots count against the pool that its rule names."""
        share = j.rule.pool
        if (None if j.pool is None else j.pool.share) == share:
            return
        self.leave_pool(j)
        if share is not None:
            pool = j.pool = self._pools.setdefault(share.name, PoolUse(share))
            pool.share = share  # the newest word counts for all of its jobs
            pool.jobs += 1
            pool.used += j.busy + j.held

    def leave_pool(self, j: LedgerJob) -> None:
        pool, j.pool = j.pool, None
        if pool is not None:
            pool.used -= j.busy + j.held
            pool.jobs -= 1
            if pool.jobs == 0:
                del self._pools[pool.share.name]

    def launched(self, a: LedgerAttempt) -> None:
        self.attempts[a.task] = a.stage.attempts[a.task] = a
        self.look_at_waiting(a.stage, a.launch_ms)
        _occupied(a, a.slots)

    def forget(self, a: LedgerAttempt) -> None:
        self.attempts.pop(a.task, None)
        a.stage.attempts.pop(a.task, None)
        _occupied(a, -a.slots)

    def stage_begins(self, p: LedgerStage, now_ms: int) -> None:
        replaced = self.stages.get(p.key)
        self.stages[p.key] = p.job.stages[p.key] = p
        if replaced is not None:
            self.look_at_waiting(replaced, now_ms)
        self.look_at_waiting(p, now_ms)

    def stages_over(self, j: LedgerJob, now_ms: int) -> None:
        """All stages of the job end with it."""
        for p in j.stages.values():
            if self.stages.get(p.key) is p:
                del self.stages[p.key]
            self.look_at_waiting(p, now_ms)
        j.stages.clear()

    def look_at_waiting(self, p: LedgerStage, now_ms: int) -> None:
        """To be called after a change of the stage's tasks and after its end."""
        self.pauses.set_waiting(p, self._waits(p), now_ms)

    def _waits(self, p: LedgerStage) -> bool:
        return p.waits() and self.stages.get(p.key) is p and p.key not in self.pauses.reported

    # ---- one slot ----

    def hold(self, j: LedgerJob, p: LedgerStage | None, executor: str, now_ms: int) -> bool:
        e = self.executors.get(executor)
        if e is None or not e.open or e.free <= e.held:
            return False
        if self.may_hold is not None and not self.may_hold(j.key):
            return False
        self._integrate(j, now_ms)
        self.pauses.changing(j, now_ms)
        e.held += 1
        e.held_by[j] = e.held_by.get(j, 0) + 1
        j.held += 1
        if j.pool is not None:
            j.pool.used += 1
        self.held_now += 1
        self.pauses.changed(j, 1, now_ms)
        self.counters.holds += 1
        self._listener.slot_held(j.key, "" if p is None else p.key, executor, j.deadline_ms, now_ms)
        return True

    def unhold(self, e: LedgerExecutor, j: LedgerJob, reason: str, now_ms: int) -> None:
        self._integrate(j, now_ms)
        self.pauses.changing(j, now_ms)
        left = e.held_by[j] - 1
        if left == 0:
            del e.held_by[j]
        else:
            e.held_by[j] = left
        e.held -= 1
        j.held -= 1
        if j.pool is not None:
            j.pool.used -= 1
        self.held_now -= 1
        self.pauses.changed(j, -1, now_ms)
        self._listener.slot_freed(j.key, e.id, reason, now_ms)

    def _integrate(self, j: LedgerJob, now_ms: int) -> None:
        j.held_time.settle(j.held, now_ms)
        self.counters.held_idle_slot_ms += self.held_now * (now_ms - self._held_since_ms)
        self._held_since_ms = now_ms

    # ---- many slots ----

    def use(self, e: LedgerExecutor, j: LedgerJob, slots: int, now_ms: int) -> None:
        """A task of the job takes as many of its held slots there as it needs and it has."""
        for _ in range(min(slots, e.held_by.get(j, 0))):
            self.unhold(e, j, "used", now_ms)
            self.counters.holds_used += 1

    def release_all_on(self, e: LedgerExecutor, reason: str, now_ms: int) -> None:
        for j in list(e.held_by):
            while j in e.held_by:
                self.unhold(e, j, reason, now_ms)

    def release_all_of(self, j: LedgerJob, reason: str, now_ms: int) -> None:
        j.demand.overridden = 0
        if j.held > 0:
            for e in self.executors.values():
                while j in e.held_by:
                    self._give_back(e, j, reason, now_ms)

    def _give_back(self, e: LedgerExecutor, j: LedgerJob, reason: str, now_ms: int) -> None:
        """A slot that one job no longer holds counts as released for the jobs that wait for one."""
        self.unhold(e, j, reason, now_ms)
        self.offer_to_pre_reservers(e.id, now_ms)

    def drop_what_does_not_fit(
        self, e: LedgerExecutor, now_ms: int, by: LedgerJob | None = None, slots: int = 0
    ) -> None:
        """A task of another job, ``by`` where it is known, took a held slot: of the holds that it may take
        the one with the lowest claim is dropped, among equal claims the latest. The queue of ``by`` counts
        the task's ``slots`` already."""
        while e.held > max(e.free, 0):
            loser: LedgerJob | None = None
            for j in [h for h in e.held_by if by is None or not protects(h, by, -slots)] or e.held_by:
                if loser is None or not outranks(j, loser, less=1):
                    loser = j
            assert loser is not None, f"executor {e.id} holds {e.held} slots for no job"
            self.unhold(e, loser, "overridden", now_ms)
            loser.demand.overridden += 1
            self.counters.holds_overridden += 1

    def demand_learned(self, j: LedgerJob, now_ms: int) -> None:
        """Successors of a running stage became known."""
        self.refresh_demand(j, now_ms)
        self.pre_reserve_idle(j, now_ms)

    def refresh_demand(self, j: LedgerJob, now_ms: int, freed: LedgerAttempt | None = None) -> None:
        """``freed`` is an attempt of the job that ended and whose slots it may keep: what it holds beside
        them stays."""
        if j.stages:
            ledger_demand.refresh(j, now_ms)
            self.trim(j, now_ms, freed)

    def trim(self, j: LedgerJob, now_ms: int, freed: LedgerAttempt | None = None) -> None:
        if ledger_demand.shaped(j):
            self._release_what_does_not_fit(j, now_ms, freed)
            return
        surplus = j.running + j.held - j.demand.slots
        if surplus > 0 and j.held > 0:
            for e in [e for e in reversed(self.executors.values()) if j in e.held_by]:
                while surplus > 0 and j in e.held_by:
                    self._give_back(e, j, "trimmed", now_ms)
                    surplus -= 1

    def _release_what_does_not_fit(self, j: LedgerJob, now_ms: int, freed: LedgerAttempt | None) -> None:
        if j.held > 0:
            for name, over in ledger_fit.surplus(j, self.executors, now_ms, freed).items():
                for _ in range(over):
                    self._give_back(self.executors[name], j, "trimmed", now_ms)

    def expire_deadlines(self, now_ms: int) -> bool:
        """Drop the holds whose deadline is over. Returns whether there were any."""
        freed = False
        for j in self.jobs.values():
            if j.held > 0 and j.deadline_ms <= now_ms:
                if j.pause.open and j.deadline_ms < j.pause.end_ms:
                    self.release_unaffordable(j, now_ms)
                else:
                    self.counters.holds_expired += j.held
                    self.release_all_of(j, "expired", now_ms)
                freed = True
        return freed

    def expire_budget(self, now_ms: int) -> bool:
        """Drop the holds of the lowest priority first, among equals those of the job that comes last."""
        freed = False
        while self.pauses.budget_end_ms(now_ms) <= now_ms:
            idle = [j for j in self.jobs.values() if j.pause.open and j.held > 0]
            last = min(idle, key=lambda j: (j.rule.priority, *(-n for n in j.order.place)))
            self.release_unaffordable(last, now_ms)
            freed = True
        return freed

    def release_unaffordable(self, j: LedgerJob, now_ms: int) -> None:
        j.pause.end_ms = now_ms
        self.counters.holds_over_budget += j.held
        self.release_all_of(j, "over_budget", now_ms)
        j.deadline_ms = now_ms

    # ---- pre-reservation (Algorithm 1, lines 14-17) ----

    def offer_to_pre_reservers(self, executor: str, now_ms: int) -> None:
        e = self.executors.get(executor)
        if e is None:
            return
        best: LedgerJob | None = None
        for j in self.jobs.values():
            if (best is None or outranks(j, best)) and self._wanted_on(j, e, now_ms) > 0:
                best = j
        if best is not None:
            self._take_idle(best, e, now_ms)

    def _wanted_on(self, j: LedgerJob, e: LedgerExecutor, now_ms: int) -> int:
        """Slots that the job would take of this executor."""
        if not j.may_hold or j.deadline_ms <= now_ms:
            return 0
        if self.may_hold is not None and not self.may_hold(j.key):
            return 0
        if ledger_demand.shaped(j):
            return ledger_fit.wanted_on(j, e, self.executors, now_ms)
        return ledger_demand.wanted(j, now_ms) if _runs_on(j, e) else 0

    def pre_reserve_idle(self, j: LedgerJob, now_ms: int) -> None:
        """Slots that idle unheld when the threshold is crossed are taken at once."""
        if ledger_demand.shaped(j):
            self._pre_reserve_fitting(j, now_ms)
            return
        want = ledger_demand.wanted(j, now_ms) if j.stages else 0
        if want > 0:
            for e in self.executors.values():
                # Most have no idle slot, and `hold` finds that out last.
                while want > 0 and e.free > e.held and _runs_on(j, e) and self._take_idle(j, e, now_ms):
                    want -= 1

    def _pre_reserve_fitting(self, j: LedgerJob, now_ms: int) -> None:
        """Whole tasks first, then parts of them, which others' slots complete as they are released."""
        if not j.stages or not j.may_hold or j.deadline_ms <= now_ms:
            return
        for whole in (True, False):
            for e in self.executors.values():
                idle = e.free - e.held
                want = self._wanted_on(j, e, now_ms) if idle > 0 else 0
                while want > 0 and (want <= idle or not whole) and self._take_idle(j, e, now_ms):
                    want -= 1
                    idle -= 1

    def _take_idle(self, j: LedgerJob, e: LedgerExecutor, now_ms: int) -> bool:
        stages = j.stages.values()
        p = next((p for p in stages if not p.is_last() and p.past_threshold()), next(iter(stages), None))
        if not self.hold(j, p, e.id, now_ms):
            return False
        # Slots that were lost are taken back first; only slots beyond these count against n - m.
        if j.demand.overridden > 0:
            j.demand.overridden -= 1
        elif p is not None:
            p.pre_reserved += 1
        self.counters.pre_reserved += 1
        return True

    # ---- checks ----

    def violations(self) -> list[str]:
        """A sentence for each violated invariant; empty if there is none."""
        found = []
        for e in self.executors.values():
            holders = sum(e.held_by.values())
            if holders != e.held:
                found.append(f"executor {e.id}: held {e.held} but its holders have {holders}")
            if e.held > max(e.free, 0):
                found.append(f"executor {e.id}: {e.held} held of {e.free} free slots")
            if any(n <= 0 for n in e.held_by.values()):
                found.append(f"executor {e.id}: a holder with no slots")
            found += [f"executor {e.id}: ended job {j.key} holds slots" for j in e.held_by if j.ended]
        on_executors = sum(e.held for e in self.executors.values())
        if on_executors != self.held_now:
            found.append(f"{self.held_now} slots held in all but {on_executors} on executors")
        for j in self.jobs.values():
            on_executors = sum(e.held_by.get(j, 0) for e in self.executors.values())
            if on_executors != j.held:
                found.append(f"job {j.key}: holds {j.held} but executors say {on_executors}")
            if j.held > 0 and j.rule.isolation <= 0:
                found.append(f"job {j.key}: holds slots at isolation 0")
            if j.running < 0:
                found.append(f"job {j.key}: {j.running} tasks run")
        for pool in self._pools.values():
            used = sum(j.busy + j.held for j in self.jobs.values() if j.pool is pool)
            if used != pool.used:
                found.append(f"pool {pool.share.name}: {pool.used} slots used but its jobs have {used}")
        waits = [p for p in self.stages.values() if self._waits(p)]
        return found + self.pauses.violations(self.jobs.values(), waits)


def _runs_on(j: LedgerJob, e: LedgerExecutor) -> bool:
    """Whether the active stages' slots and those of the executor are of one profile."""
    return not j.stages or any(p.profile == e.profile for p in j.stages.values())


def _occupied(a: LedgerAttempt, slots: int) -> None:
    j = a.stage.job
    if not a.copy:
        j.running += slots
    j.busy += slots
    if j.pool is not None:
        j.pool.used += slots
