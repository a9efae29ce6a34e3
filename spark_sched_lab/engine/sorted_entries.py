"""A sorted collection of tuples whose cost of a change does not depend on their number."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Any, TypeAlias

#: A key, and after it what the key stands for. No two entries have equal keys.
Entry: TypeAlias = tuple[Any, ...]

#: Entries of one block at most: a block is a list, in which a change moves the entries behind it.
_MOST = 512


class SortedEntries:
    """Entries in rising order, in blocks of bounded length.

    A search halves the list of the blocks' last entries, then one block. So an addition or a removal moves
    at most one block and, where a block is split or emptied, one place for each block behind it.
    """

    __slots__ = ("_blocks", "_lasts", "count")

    def __init__(self) -> None:
        self._blocks: list[list[Entry]] = []
        self._lasts: list[Entry] = []
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Entry]:
        for block in self._blocks:
            yield from block

    def put(self, entries: list[Entry]) -> None:
        """Have these entries, sorted, and no others."""
        step = _MOST // 2
        self._blocks = [entries[at : at + step] for at in range(0, len(entries), step)]
        self._lasts = [block[-1] for block in self._blocks]
        self.count = len(entries)

    def add(self, entry: Entry) -> None:
        self.count += 1
        lasts = self._lasts
        at = bisect_left(lasts, entry)
        if at < len(lasts):
            block = self._blocks[at]
            insort(block, entry)
        elif lasts:
            at -= 1
            block = self._blocks[at]
            block.append(entry)
            lasts[at] = entry
        else:
            block = [entry]
            self._blocks.append(block)
            lasts.append(entry)
        if len(block) > _MOST:
            half = len(block) // 2
            self._blocks.insert(at, block[:half])
            lasts.insert(at, block[half - 1])
            del block[:half]

    def remove(self, entry: Entry) -> None:
        """Remove an entry that is present."""
        lasts = self._lasts
        at = bisect_left(lasts, entry)
        block = self._blocks[at]
        place = bisect_left(block, entry)
        assert block[place] is entry, f"{entry} is not where its key says"
        self.count -= 1
        del block[place]
        if not block:
            del self._blocks[at], lasts[at]
        elif place == len(block):
            lasts[at] = block[-1]

    def first(self) -> Entry | None:
        blocks = self._blocks
        return blocks[0][0] if blocks else None

    def after(self, entry: Entry) -> Entry | None:
        """The next one behind ``entry``, which may have been removed."""
        at = bisect_right(self._lasts, entry)
        if at == len(self._lasts):
            return None
        block = self._blocks[at]
        return block[bisect_right(block, entry)]
