"""How often Python collects cyclic garbage while a simulation runs."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: New objects between two collections.
_COLLECT_EVERY = 50_000


@contextmanager
def seldom_collected() -> Iterator[None]:
    """Collect garbage rarely inside the block.

    The cycle collector repeatedly traverses all live objects, and a run creates almost no cycles. With the
    default threshold the cost of an event would grow with the number of running tasks.
    """
    before = gc.get_threshold()
    if 0 < before[0] < _COLLECT_EVERY:
        gc.set_threshold(_COLLECT_EVERY, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
