"""The budget for holding slots between a job's actions, and the useful length of such holds.

The twin of ``schedcore/ledger/Idle.scala``: the same operations on floats in the same order.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from spark_sched.errors import BadInputError

FOREVER_MS = 2**63 - 1

#: Number of gaps that a job remembers, and the least time to hold slots.
_KEPT = 8
_MIN_HOLD_MS = 500


@dataclass(frozen=True, slots=True)
class IdleLimits:
    """What held slots may cost while no stage of their job is active, as shares of all slots.

    Attributes:
        job_share: of one job, in [0, 1]; 1 bounds nothing.
        share: of all jobs together, in [0, 1].
        burst_ms: how much either may exceed its share for a short time: the slot time of all slots for this
            long.
        waiting_cost: how many times its time a held slot costs while tasks of other jobs wait for slots, in
            [1, 100].
    """

    job_share: float
    share: float
    burst_ms: int
    waiting_cost: float = 1.0

    def __post_init__(self) -> None:
        for name, value in (("job_share", self.job_share), ("share", self.share)):
            if not 0.0 <= value <= 1.0:
                raise BadInputError(f"{name} of idle limits must be a number from 0 to 1, not {value!r}")
        if not 0 <= self.burst_ms <= 2**53:
            raise BadInputError(f"burst_ms of idle limits must be from 0 to 2^53, not {self.burst_ms!r}")
        if not 1.0 <= self.waiting_cost <= 100.0:
            raise BadInputError(
                f"waiting_cost of idle limits must be from 1 to 100, not {self.waiting_cost!r}"
            )


UNBOUNDED = IdleLimits(1.0, 1.0, 0)


class Capacity:
    """The slots of all executors and the slot time they could have given so far."""

    __slots__ = ("_known", "_since_ms", "slot_ms", "slots")

    def __init__(self) -> None:
        self._known = 0
        self._since_ms = -1
        #: Both as of the last ``advance``.
        self.slots = 0
        self.slot_ms = 0

    def add(self, more: int) -> None:
        """Add slots. They count from the next ``advance`` on, because an executor's arrival is reported
        without a time."""
        self._known += more

    def advance(self, now_ms: int) -> None:
        if self._since_ms >= 0:
            self.slot_ms += self.slots * max(0, now_ms - self._since_ms)
        self._since_ms = now_ms
        self.slots = self._known


class IdleBudget:
    """A token bucket: in any interval the cost is at most the share of the interval's capacity plus the
    burst. A held slot costs its time, or a multiple of it: at a multiple of w the slot time is at most 1/w of
    that."""

    __slots__ = ("_ahead_ms", "_at_ms", "_burst_ms", "_capacity_ms", "_share", "cost_ms")

    def __init__(self, share: float, burst_ms: int) -> None:
        self._share = share
        self._burst_ms = burst_ms
        self._ahead_ms = 0.0  # slot time spent ahead of the share
        self._at_ms = 0
        self._capacity_ms = 0
        #: Slot-milliseconds so far, whatever each cost.
        self.cost_ms = 0

    def settle(self, held: int, cost: float, now_ms: int, capacity: Capacity) -> None:
        """To be called before the number of held slots or what each of them costs changes; ``cost`` is what
        each cost since the last call."""
        spent_ms = held * max(0, now_ms - self._at_ms)
        self.cost_ms += spent_ms
        earned_ms = self._share * (capacity.slot_ms - self._capacity_ms)
        self._ahead_ms = max(0.0, self._ahead_ms + cost * spent_ms - earned_ms)
        self._at_ms = now_ms
        self._capacity_ms = capacity.slot_ms

    def end_ms(self, held: int, cost: float, now_ms: int, capacity: Capacity) -> int:
        """When ``held`` slots will have used up the budget at this cost of each; call `settle` first."""
        per_ms = cost * held - self._share * capacity.slots
        if self._share >= 1.0 or per_ms <= 0.0:
            return FOREVER_MS
        left_ms = float(self._burst_ms) * capacity.slots - self._ahead_ms
        return now_ms if left_ms <= 0.0 else now_ms + math.floor(left_ms / per_ms)


class Gaps:
    """How long a job's latest pauses between two actions were."""

    __slots__ = ("_latest",)

    def __init__(self) -> None:
        self._latest: deque[int] = deque(maxlen=_KEPT)

    def add(self, gap_ms: int) -> None:
        self._latest.append(gap_ms)

    @property
    def shortest_ms(self) -> int | None:
        return min(self._latest, default=None)

    @property
    def hold_ms(self) -> int | None:
        """How long to hold so that the next action most likely finds its slots; None before the first
        pause."""
        # Holding a little too long costs little; losing the slots costs the wait for others' tasks.
        return max(_MIN_HOLD_MS, 2 * max(self._latest)) if self._latest else None
