"""Free slots: a random one, or a random one among the most powerful, in constant time."""

from __future__ import annotations

import random
from collections.abc import Sequence


class FreeSlots:
    """``servers``: slots and level of each. All slots are free in the beginning."""

    def __init__(self, servers: Sequence[tuple[int, int]], rng: random.Random) -> None:
        self.levels = 1 + max(level for _, level in servers)
        self.count = sum(slots for slots, _ in servers)
        self._rng = rng
        self._level = [level for _, level in servers]
        # A server stands in its level's list once for each free slot. Entries beyond what is free are stale
        # and passed over; `take` leaves them behind.
        self._lists: list[list[int]] = [[] for _ in range(self.levels)]
        self._stale = [0] * len(servers)
        for number, (slots, level) in enumerate(servers):
            self._lists[level] += [number] * slots

    def give(self, number: int) -> None:
        """A slot of this server is free."""
        self.count += 1
        if self._stale[number]:
            self._stale[number] -= 1
        else:
            self._lists[self._level[number]].append(number)

    def take(self, number: int) -> None:
        """A certain server's free slot is taken."""
        self.count -= 1
        self._stale[number] += 1

    def take_any(self) -> int:
        """A random free slot is taken; its server."""
        lists = self._lists
        while True:
            at = int(self._rng.random() * sum(map(len, lists)))
            for slots in lists:
                if at < len(slots):
                    number = self._draw(slots, at)
                    if number is not None:
                        return number
                    break
                at -= len(slots)

    def take_powerful(self) -> int:
        """A random free slot of the most powerful level that has one is taken; its server."""
        for slots in self._lists:
            while slots:
                number = self._draw(slots, int(self._rng.random() * len(slots)))
                if number is not None:
                    return number
        raise RuntimeError("no slot is free")

    def _draw(self, slots: list[int], at: int) -> int | None:
        number = slots[at]
        slots[at] = slots[-1]
        slots.pop()
        if self._stale[number]:
            self._stale[number] -= 1
            return None
        self.count -= 1
        return number
