"""Free slots that waiting tasks take one after the other."""

from __future__ import annotations

from collections.abc import Mapping


class FreeSlots:
    """Slots that a demand may take without an eviction, by executor in a fixed order.

    Args:
        given: the demand's.
        taken: what demands before took of them.
    """

    def __init__(self, given: Mapping[str, int], taken: Mapping[str, int]) -> None:
        self.given = given
        self._taken = taken
        self.slots = {executor: self._left(executor) for executor in given}
        self._order = list(self.slots)
        self._at = {executor: at for at, executor in enumerate(self._order)}
        self._next, self._width = 0, 0
        self.before: dict[str, int] = {}  # the slots of the executors that this demand changed

    def _left(self, executor: str) -> int:
        # Slots that two demands count as free are free for only one of them.
        return max(0, self.given[executor] - self._taken.get(executor, 0))

    def begin(self) -> list[str]:
        """Another demand may take them. Returns the executors that the last one changed."""
        changed = list(self.before)
        for executor in changed:
            if executor in self.given:
                self.put(executor, self._left(executor))
            else:
                del self.slots[executor], self._at[executor]
        del self._order[len(self.given) :]
        self._next = min(self._next, len(self._order))
        self.before = {}
        return changed

    def first(self, width: int) -> str | None:
        """The first executor with so many slots."""
        if width != self._width:
            self._next, self._width = 0, width
        while self._next < len(self._order):
            executor = self._order[self._next]
            if self.slots[executor] >= width:
                return executor
            self._next += 1
        return None

    def put(self, executor: str, slots: int) -> None:
        """So many slots of the executor are free now."""
        if executor not in self._at:
            self._at[executor] = len(self._order)
            self._order.append(executor)
        self.before.setdefault(executor, self.slots.get(executor, 0))
        self.slots[executor] = slots
        self._next = min(self._next, self._at[executor])

    def restore(self) -> None:
        """As before this demand."""
        for executor, slots in self.before.items():
            self.put(executor, slots)

    def touched(self) -> list[str]:
        """The executors that this demand changed, in their order."""
        return sorted(self.before, key=self._at.__getitem__)
