"""Who comes first: whose claim to a slot is stronger, and whose held slots are safe from whom.

By priority, then by FAIR order where pools decide, else by place: the plan's rank, then the arrival
(``docs/adr/0038-order-among-equals.md``). Where tenants' queues have floors or weights, these decide between
jobs of two queues (``docs/adr/0061-held-slots-follow-weights.md``). ``schedcore.ledger.LedgerOrder`` has the
same.
"""

from __future__ import annotations

from collections.abc import Iterable

from spark_sched_lab.enforce.fair_shares import ceded, is_before
from spark_sched_lab.enforce.ledger_state import LedgerExecutor, LedgerJob


def refuses(holder: LedgerJob, asker: LedgerJob, slots: int, taken: int) -> int:
    """How many of the ``slots`` that it holds ``asker`` cannot take, if ``taken`` are already promised to
    ``asker`` (Algorithm 1, line 19)."""
    if asker is holder:
        return 0
    refused = _refuses_by_order(holder, asker, slots, taken)
    shares = holder.order.shares
    if shares is None:
        return refused
    return slots - shares.ceded(holder.key, asker.key, slots, slots - refused, taken)


def _refuses_by_order(holder: LedgerJob, asker: LedgerJob, slots: int, taken: int) -> int:
    if holder.rule.priority != asker.rule.priority:
        return slots if holder.rule.priority > asker.rule.priority else 0
    fair = ceded(holder, asker, slots, taken)
    if fair is not None:
        return slots - fair
    return slots if _keeps_from(holder, asker) else 0


def withheld(executor: LedgerExecutor, asker: LedgerJob | None, taken: int = 0) -> int:
    """Free slots of the executor that are held against tasks of the job; None: of an undeclared job.

    ``taken`` slots are promised to the job that do not count as used yet.
    """
    if asker is None:
        return executor.held
    slots = 0
    for holder, n in executor.held_by.items():
        slots += refuses(holder, asker, n, taken)
    return slots


def outranks(a: LedgerJob, b: LedgerJob, less: int = 0) -> bool:
    """Whether the claim of ``a`` to a slot comes before that of ``b``, if the pool of each used ``less``
    slots fewer."""
    if a.rule.priority != b.rule.priority:
        return a.rule.priority > b.rule.priority
    fair = is_before(a, b, less)
    return a.order.place < b.order.place if fair is None else fair


def protects(holder: LedgerJob, asker: LedgerJob, taken: int = 0) -> bool:
    """Whether its held slots are safe from ``asker`` however many both use: no pool is asked. Of jobs of
    two queues these decide by what they use, beside ``taken`` slots of the asker."""
    safe = _protects_by_order(holder, asker)
    shares = holder.order.shares
    if shares is None:
        return safe
    return shares.ceded(holder.key, asker.key, 1, 0 if safe else 1, taken) == 0


def _protects_by_order(holder: LedgerJob, asker: LedgerJob) -> bool:
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
