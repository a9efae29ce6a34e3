"""Fair sharing as a dynamic priority ("Speculative Slot Reservation", section I).

A hold has the rank of its pool, and a held slot counts as used by the pool. It does not
decide between jobs without a pool, or of one FIFO pool. ``schedcore.ledger.FairShares`` is the twin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from spark_sched.policies.simple.fair import fair_order
from spark_sched.protocol.plan import PoolShare

if TYPE_CHECKING:
    from spark_sched_lab.enforce.ledger_state import LedgerJob

#: A place in FAIR order, lowest first, by the slots that it would use more.
_Claim: TypeAlias = Callable[[int], tuple[bool, float]]


@dataclass(slots=True, eq=False)
class PoolUse:
    """The slots that the jobs of one pool use: those of their attempts, and those that they hold."""

    share: PoolShare
    jobs: int = 0
    used: int = 0

    def standing(self, more: int) -> tuple[bool, float]:
        """The pool's place in FAIR order if it used ``more`` slots, lowest first."""
        return fair_order(self.used + more, self.share.weight, self.share.min_share)


def ceded(holder: LedgerJob, asker: LedgerJob, slots: int, taken: int) -> int | None:
    """How many of the holder's ``slots`` FAIR order gives to ``asker``, which took ``taken`` already; None
    where it does not decide."""
    claims = _claims(holder, asker)
    if claims is None:
        return None
    of, to = claims
    n = 0
    while n < slots and to(taken + n) < of(-n - 1):
        n += 1
    return n


def is_before(a: LedgerJob, b: LedgerJob, less: int = 0) -> bool | None:
    """Whether FAIR order puts ``a`` before ``b`` if each used ``less`` slots fewer; None where it does not
    decide."""
    claims = _claims(a, b)
    if claims is None:
        return None
    x, y = claims
    return x(-less) < y(-less)


def _claims(a: LedgerJob, b: LedgerJob) -> tuple[_Claim, _Claim] | None:
    """The entities that are compared: pools, or the jobs of a fair pool."""
    x, y = a.pool, b.pool
    if x is None or y is None:
        return None
    if x is not y:
        return x.standing, y.standing
    return (_alone(a), _alone(b)) if x.share.fair else None


def _alone(j: LedgerJob) -> _Claim:
    return lambda more: (True, float(j.busy + j.held + more))
