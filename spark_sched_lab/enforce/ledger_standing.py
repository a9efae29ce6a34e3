"""A job's standing among jobs of equal priority: its place, its waiting time, and its pool's slots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from spark_sched.policies.simple.fair import fair_order
from spark_sched.protocol.plan import PoolShare

#: A job that waited for more than this part of its life, a tenth of the rest of it, lends its held slots.
_LENT_PART = 11


class HoldShares(Protocol):
    """What the order of the tenants' queues says about held slots."""

    def ceded(self, holder: str, asker: str, slots: int, asks: int, taken: int) -> int:
        """How many of the ``slots`` that ``holder`` holds ``asker``, to which ``taken`` are promised, may
        take where it may take ``asks`` by the order of jobs. Both are jobs' keys."""
        ...


class JobOrder:
    """A job's place among jobs of equal priority, and how long its stages waited behind other jobs.

    Attributes:
        place: the plan's rank, then the arrival; lower is first.
        lends: the job waited for so long that later equals may take its held slots.
        shares: floors and weights of the tenants' queues; None: no queue has one.
    """

    __slots__ = ("_behind_since_ms", "_since_ms", "_waited_ms", "lends", "place", "shares")

    def __init__(self, arrival: int, shares: HoldShares | None = None) -> None:
        self.place = (0, arrival)
        self.shares = shares
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


@dataclass(slots=True, eq=False)
class PoolUse:
    """The slots that the jobs of one pool use: those of their attempts, and those that they hold."""

    share: PoolShare
    jobs: int = 0
    used: int = 0

    def standing(self, more: int) -> tuple[bool, float]:
        """The pool's place in FAIR order if it used ``more`` slots, lowest first."""
        return fair_order(self.used + more, self.share.weight, self.share.min_share)
