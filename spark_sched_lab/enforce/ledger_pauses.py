"""How long a job's slots stay held between its actions; ``schedcore.ledger.LedgerPauses`` has the same."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from spark_sched_lab.enforce.idle import FOREVER_MS, Capacity, Gaps, IdleBudget, IdleLimits

if TYPE_CHECKING:
    from spark_sched_lab.enforce.ledger_state import LedgerJob, LedgerStage


class JobPause:
    """The time of one job without an active stage, while more may follow."""

    __slots__ = ("after_action", "after_failure", "budget", "end_ms", "gaps", "open", "since_ms")

    def __init__(self, limits: IdleLimits) -> None:
        self.open = False
        self.since_ms = 0
        self.end_ms = 0
        self.after_action = False  # what comes next is up to the driver's program
        self.after_failure = False  # the action failed, and whether the program goes on is not known
        self.gaps = Gaps()
        self.budget = IdleBudget(limits.job_share, limits.burst_ms)


class LedgerPauses:
    """Slots stay held for the job's usual pause, within the budgets of the job and of all jobs together
    (``docs/adr/0016-idle-holds.md``)."""

    __slots__ = ("_budget", "capacity", "held")

    def __init__(self, limits: IdleLimits) -> None:
        self.capacity = Capacity()
        self._budget = IdleBudget(limits.share, limits.burst_ms)
        self.held = 0  # slots held by jobs without an active stage

    def begin(self, j: LedgerJob, after: LedgerStage, now_ms: int) -> None:
        """The last active stage of the job ended while more may follow."""
        self._settle(j, now_ms)
        j.pause.open = True
        j.pause.since_ms = now_ms
        j.pause.after_action = not after.following.known
        j.pause.after_failure = False
        self.held += j.held
        self.plan(j, now_ms)

    def end(self, j: LedgerJob, now_ms: int) -> None:
        pause = j.pause
        if pause.open:
            self._settle(j, now_ms)
            if pause.after_action:
                pause.gaps.add(max(0, now_ms - pause.since_ms))
            self.held -= j.held
            pause.open = False

    def cut(self, j: LedgerJob, now_ms: int) -> None:
        """No further stage of the DAG starts: slots that are released later are not kept either."""
        j.pause.after_failure = True
        self.plan(j, now_ms)

    def plan(self, j: LedgerJob, now_ms: int) -> None:
        """Update how long the pausing job's slots stay held."""
        self._settle(j, now_ms)
        # Without a rule for pauses, slots released later are kept as long as the stage's own slots were.
        plain = j.rule.first_gap_ms is None and j.held == 0
        if j.pause.after_failure:
            j.pause.end_ms = j.pause.since_ms
        else:
            j.pause.end_ms = j.deadline_ms if plain else j.pause.since_ms + self._hold_ms(j, now_ms)
        self._refresh(j, now_ms)

    def _hold_ms(self, j: LedgerJob, now_ms: int) -> int:
        first_ms, pause = j.rule.first_gap_ms, j.pause
        if first_ms is None or not pause.after_action:
            return j.rule.gap_ms
        learned_ms = pause.gaps.hold_ms
        usual_ms = min(j.rule.gap_ms, first_ms if learned_ms is None else learned_ms)
        end_ms = min(
            pause.budget.end_ms(j.held, now_ms, self.capacity),
            self._budget.end_ms(self.held, now_ms, self.capacity),
        )
        # A hold that ends before all of the latest pauses did would be useless.
        shortest_ms = pause.gaps.shortest_ms
        useless = shortest_ms is not None and shortest_ms > min(usual_ms, end_ms - pause.since_ms)
        return 0 if useless else usual_ms

    def changing(self, j: LedgerJob, now_ms: int) -> None:
        """To be called before the number of slots that the job holds changes."""
        if j.pause.open:
            self._settle(j, now_ms)

    def changed(self, j: LedgerJob, by: int, now_ms: int) -> None:
        """The number of slots that the job holds changed by ``by``."""
        if j.pause.open:
            self.held += by
            self._refresh(j, now_ms)

    def capacity_lost(self, slots: int, jobs: Iterable[LedgerJob], now_ms: int) -> None:
        """An executor with ``slots`` slots is gone."""
        self.capacity.advance(now_ms)
        self.capacity.add(-slots)
        self.capacity.advance(now_ms)
        for j in jobs:
            if j.pause.open:
                self._settle(j, now_ms)
                self._refresh(j, now_ms)

    def _refresh(self, j: LedgerJob, now_ms: int) -> None:
        """The budget's end moves with the number of slots: they share what is left."""
        j.deadline_ms = min(j.pause.end_ms, j.pause.budget.end_ms(j.held, now_ms, self.capacity))

    def _settle(self, j: LedgerJob, now_ms: int) -> None:
        self._settle_all(now_ms)
        j.pause.budget.settle(j.held if j.pause.open else 0, now_ms, self.capacity)

    def _settle_all(self, now_ms: int) -> None:
        self.capacity.advance(now_ms)
        self._budget.settle(self.held, now_ms, self.capacity)

    def budget_end_ms(self, now_ms: int) -> int:
        """When the budget of all jobs together will be used up."""
        if self.held == 0:
            return FOREVER_MS
        self._settle_all(now_ms)
        return self._budget.end_ms(self.held, now_ms, self.capacity)

    def cost_ms(self, now_ms: int, j: LedgerJob | None = None) -> int:
        """Slot time held between the actions of a job, or of all that ever were."""
        if j is None:
            self._settle_all(now_ms)
            return self._budget.cost_ms
        self._settle(j, now_ms)
        return j.pause.budget.cost_ms
