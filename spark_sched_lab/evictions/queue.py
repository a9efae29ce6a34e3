"""The central queue: one heap per priority, in the order of first arrival."""

from __future__ import annotations

import heapq


class CentralQueue:
    """Tasks are numbered by first arrival, so that a number orders them. Keys are minus the priority; without
    priorities there is one key."""

    def __init__(self, *, by_priority: bool) -> None:
        self.count = 0
        self._by_priority = by_priority
        self._heaps: dict[int, list[int]] = {}

    def push(self, priority: int, task: int) -> None:
        key = -priority if self._by_priority else 0
        heapq.heappush(self._heaps.setdefault(key, []), task)
        self.count += 1

    def priorities(self) -> list[int]:
        """All keys, highest priority first."""
        return sorted(self._heaps)

    def has(self, key: int) -> bool:
        return bool(self._heaps[key])

    def head(self, key: int) -> int:
        return self._heaps[key][0]

    def pop(self, key: int) -> int:
        self.count -= 1
        return heapq.heappop(self._heaps[key])

    def first(self, priorities: frozenset[int] | None = None) -> int | None:
        """The key of the task that arrived first, of any priority or of certain ones; None: none waits."""
        heads = (
            (heap[0], key)
            for key, heap in self._heaps.items()
            if heap and (priorities is None or -key in priorities)
        )
        return min(heads, default=(0, None))[1]

    def length(self, key: int) -> int:
        return len(self._heaps.get(key, ()))

    def ahead(self, key: int) -> int:
        """Waiting tasks of higher priority."""
        return sum(len(heap) for other, heap in self._heaps.items() if other < key)
