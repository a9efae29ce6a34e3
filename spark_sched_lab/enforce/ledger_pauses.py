"""How long a job's slots stay held between its actions; ``schedcore.ledger.LedgerPauses`` has the same."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable

from spark_sched_lab.enforce.idle import FOREVER_MS, Capacity, IdleBudget, IdleLimits
from spark_sched_lab.enforce.ledger_state import LedgerJob, LedgerStage


class LedgerPauses:
    """Slots stay held for the job's usual pause, within the budgets of the job and of all jobs together
    (``docs/adr/0016-idle-holds.md``). While tasks of other jobs wait for slots each held slot costs more
    (``docs/adr/0057-holds-cost-more-while-others-wait.md``)."""

    __slots__ = (
        "_against_waiting_ms", "_budget", "_counted_ms", "_holding", "_waiting", "_waiting_cost", "capacity",
        "held", "reported",
    )  # fmt: skip

    def __init__(self, limits: IdleLimits) -> None:
        self.capacity = Capacity()
        self._budget = IdleBudget(limits.share, limits.burst_ms)
        self._waiting_cost = limits.waiting_cost
        self.held = 0  # slots held by jobs without an active stage
        self._holding: dict[LedgerJob, None] = {}  # these jobs
        # Active stages some of whose tasks wait for a slot. A job that pauses has none: they are of other
        # jobs than those that hold.
        self._waiting: set[Hashable] = set()
        #: Keys of stages of which the ledger does not have all tasks: its owner calls `set_waiting` itself.
        self.reported: set[str] = set()
        self._against_waiting_ms = 0  # until `_counted_ms`
        self._counted_ms = 0

    @property
    def _cost(self) -> float:
        """What a slot held by a job without an active stage costs now, as a multiple of its time."""
        return self._waiting_cost if self._waiting else 1.0

    def set_waiting(self, stage: Hashable, waits: bool, now_ms: int) -> None:
        """Whether some of the stage's tasks wait for a slot.

        Only the first stage that waits and the last one that did change what slots cost, and only then the
        jobs that hold any are looked at.
        """
        waiting = self._waiting
        if (stage in waiting) == waits:
            return
        turns = len(waiting) == (0 if waits else 1)
        if turns:
            self._count_against_waiting(now_ms)
        changes_cost = turns and self._waiting_cost != 1.0
        if changes_cost:
            self._settle_all(now_ms)
            for j in self._holding:
                self._settle(j, now_ms)
        if waits:
            waiting.add(stage)
        else:
            waiting.remove(stage)
        if changes_cost:
            for j in self._holding:
                self._refresh(j, now_ms)

    def begin(self, j: LedgerJob, after: LedgerStage, now_ms: int) -> None:
        """The last active stage of the job ended while more may follow."""
        self._settle(j, now_ms)
        j.pause.open = True
        j.pause.since_ms = now_ms
        j.pause.after_action = not after.following.known
        j.pause.after_failure = False
        self.held += j.held
        if j.held > 0:
            self._holding[j] = None
        self.plan(j, now_ms)

    def end(self, j: LedgerJob, now_ms: int) -> None:
        pause = j.pause
        if pause.open:
            self._settle(j, now_ms)
            if pause.after_action:
                pause.gaps.add(max(0, now_ms - pause.since_ms))
            self.held -= j.held
            self._holding.pop(j, None)
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
            pause.budget.end_ms(j.held, self._cost, now_ms, self.capacity),
            self._budget.end_ms(self.held, self._cost, now_ms, self.capacity),
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
            if j.held > 0:
                self._holding[j] = None
            else:
                self._holding.pop(j, None)
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
        budget_end_ms = j.pause.budget.end_ms(j.held, self._cost, now_ms, self.capacity)
        j.deadline_ms = min(j.pause.end_ms, budget_end_ms)

    def _settle(self, j: LedgerJob, now_ms: int) -> None:
        self._settle_all(now_ms)
        j.pause.budget.settle(j.held if j.pause.open else 0, self._cost, now_ms, self.capacity)

    def _settle_all(self, now_ms: int) -> None:
        self._count_against_waiting(now_ms)
        self.capacity.advance(now_ms)
        self._budget.settle(self.held, self._cost, now_ms, self.capacity)

    def _count_against_waiting(self, now_ms: int) -> None:
        if self._waiting:
            self._against_waiting_ms += self.held * max(0, now_ms - self._counted_ms)
        self._counted_ms = now_ms

    def budget_end_ms(self, now_ms: int) -> int:
        """When the budget of all jobs together will be used up."""
        if self.held == 0:
            return FOREVER_MS
        self._settle_all(now_ms)
        return self._budget.end_ms(self.held, self._cost, now_ms, self.capacity)

    def cost_ms(self, now_ms: int, j: LedgerJob | None = None) -> int:
        """Slot time held between the actions of a job, or of all that ever were."""
        if j is None:
            self._settle_all(now_ms)
            return self._budget.cost_ms
        self._settle(j, now_ms)
        return j.pause.budget.cost_ms

    def reported_waiting(self) -> set[Hashable]:
        """The stages with waiting tasks that are not the ledger's own."""
        return {p for p in self._waiting if not isinstance(p, LedgerStage)}

    def cost_against_waiting_ms(self, now_ms: int) -> int:
        """The part of all jobs' cost that was held while tasks of other jobs waited for slots."""
        self._count_against_waiting(now_ms)
        return self._against_waiting_ms

    def violations(self, jobs: Iterable[LedgerJob], waits: Collection[LedgerStage]) -> list[str]:
        """A sentence for each violated invariant; ``waits`` are the stages with waiting tasks."""
        found = []
        between = {j for j in jobs if j.pause.open and j.held > 0}
        held = sum(j.held for j in between)
        if held != self.held:
            found.append(f"{self.held} slots held between actions but jobs say {held}")
        if between != set(self._holding):
            found.append("the index of jobs that hold slots between actions is wrong")
        if set(waits) != {p for p in self._waiting if isinstance(p, LedgerStage)}:
            found.append("the index of stages with waiting tasks is wrong")
        return found
