"""The slot time that a tenants' queue had in the last 24 hours.

The twin of ``schedcore.enforce.DayUse``: the same operations and results. ``protocol/golden/queues`` and
``tests/contract/test_queue_usage_golden.py`` compare the two: change both together.
"""

from __future__ import annotations

from collections import deque

PART_MS = 15 * 60 * 1000
#: In 24 hours. The present one, which is not over, is one of them.
PARTS = 96


class DayUse:
    """Slots times time, in parts of a quarter of an hour: each part counts until 24 hours after its begin.

    Attributes:
        slot_ms: of the last 24 hours.
    """

    def __init__(self) -> None:
        self._parts: deque[tuple[int, int]] = deque()  # number of the part, its slot time
        self._at_ms: int | None = None
        self.slot_ms = 0

    def advance(self, slots: int, now_ms: int) -> None:
        """The queue has had so many slots since the last call, or none before the first one."""
        at_ms = now_ms if self._at_ms is None else self._at_ms
        while slots > 0 and at_ms < now_ms:
            part = at_ms // PART_MS
            until_ms = min(now_ms, (part + 1) * PART_MS)
            self._add(part, slots * (until_ms - at_ms))
            at_ms = until_ms
        self._at_ms = max(now_ms, at_ms)
        while self._parts and self._parts[0][0] <= self._at_ms // PART_MS - PARTS:
            self.slot_ms -= self._parts.popleft()[1]

    def _add(self, part: int, slot_ms: int) -> None:
        self.slot_ms += slot_ms
        if self._parts and self._parts[-1][0] == part:
            slot_ms += self._parts.pop()[1]
        self._parts.append((part, slot_ms))

    def below_ms(self, most_ms: int) -> int | None:
        """When the slot time falls below this if the queue gets no more; None: it is below it."""
        left, at_ms = self.slot_ms, None
        for part, slot_ms in self._parts:
            if left < most_ms:
                break
            left -= slot_ms
            at_ms = (part + PARTS) * PART_MS
        return at_ms
