"""Who comes first: whose claim to a slot is stronger, and whose held slots are safe from whom.

By priority, then by FAIR order where pools decide, else by place: the plan's rank, then the arrival
(``docs/adr/0038-order-among-equals.md``). ``schedcore.ledger.LedgerOrder`` has the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from spark_sched_lab.enforce.fair_shares import ceded, is_before

if TYPE_CHECKING:
    from spark_sched_lab.enforce.ledger_state import LedgerJob

#: A job that waited for more than this part of its life, a tenth of the rest of it, lends its held slots.
_LENT_PART = 11


class JobOrder:
    """A job's place among jobs of equal priority, and how long its stages waited behind other jobs.

    Attributes:
        place: the plan's rank, then the arrival; lower is first.
        lends: the job waited for so long that later equals may take its held slots.
    """

    __slots__ = ("_behind_since_ms", "_since_ms", "_waited_ms", "lends", "place")

    def __init__(self, arrival: int) -> None:
        self.place = (0, arrival)
        self.lends = False
        self._since_ms: int | None = None  # its first stage is ready
        self._waited_ms = 0
        self._behind_since_ms: dict[str, int] = {}  # stages whose first task waits behind another job's

    def stage_ready(self, stage: str, *, behind: bool, now_ms: int) -> None:
        if self._since_ms is None:
            self._since_ms = now_ms
        if behind:
            self._behind_since_ms[stage] = now_ms

    def launched(self, stage: str, now_ms: int) -> None:
        """A task of the stage starts: if it is the first, the stage waits no more."""
        since_ms = self._behind_since_ms.pop(stage, None)
        if since_ms is not None:
            self._waited_ms += now_ms - since_ms
            self.look(now_ms)

    def stage_over(self, stage: str) -> None:
        self._behind_since_ms.pop(stage, None)

    def look(self, now_ms: int) -> None:
        """Tasks of the job start or end: the answer changes at no other time."""
        if self._waited_ms and self._since_ms is not None:
            self.lends = self._waited_ms * _LENT_PART > now_ms - self._since_ms


def refuses(holder: LedgerJob, asker: LedgerJob, slots: int, taken: int) -> int:
    """How many of the ``slots`` that it holds ``asker`` cannot take, if ``taken`` are already promised to
    ``asker`` (Algorithm 1, line 19)."""
    if asker is holder:
        return 0
    if holder.rule.priority != asker.rule.priority:
        return slots if holder.rule.priority > asker.rule.priority else 0
    fair = ceded(holder, asker, slots, taken)
    if fair is not None:
        return slots - fair
    return slots if _keeps_from(holder, asker) else 0


def outranks(a: LedgerJob, b: LedgerJob, less: int = 0) -> bool:
    """Whether the claim of ``a`` to a slot comes before that of ``b``, if the pool of each used ``less``
    slots fewer."""
    if a.rule.priority != b.rule.priority:
        return a.rule.priority > b.rule.priority
    fair = is_before(a, b, less)
    return a.order.place < b.order.place if fair is None else fair


def protects(holder: LedgerJob, asker: LedgerJob) -> bool:
    """Whether its held slots are safe from ``asker`` however many both use: no pool is asked."""
    if holder.rule.priority != asker.rule.priority:
        return holder.rule.priority > asker.rule.priority
    return is_before(holder, asker) is None and _keeps_from(holder, asker)


def waits_behind(job: LedgerJob, others: Iterable[LedgerJob]) -> bool:
    """Whether one of the others comes before the job and may hold what it needs. Where pools decide, nobody
    comes before others for good."""
    return job.may_hold and any(_is_behind(job, other) for other in others)


def _is_behind(job: LedgerJob, other: LedgerJob) -> bool:
    if not other.may_hold or not (other.stages or other.held):
        return False
    if other.rule.priority != job.rule.priority:
        return other.rule.priority > job.rule.priority
    return other.order.place < job.order.place and is_before(other, job) is None


def _keeps_from(holder: LedgerJob, equal: LedgerJob) -> bool:
    """Whether it keeps its held slots from a job of equal priority, where no pool decides."""
    return holder.order.place <= equal.order.place and not holder.order.lends
