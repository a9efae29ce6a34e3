"""The resources that one task of a stage needs on its executor."""

from __future__ import annotations

from typing import NamedTuple


class TaskShape(NamedTuple):
    """The resources that one task of a stage needs on its executor, as ``schedcore.ledger.TaskShape``.

    Attributes:
        slots: that it takes there, >= 1; as many as the executor has if it has fewer and room for the task.
        least: slots of the smallest executor that may have room for it, >= 1. It is less than ``slots`` where
            whole slots round the need up.
        profile: resource profile of the executors that may run it.
    """

    slots: int = 1
    least: int = 1
    profile: int = 0

    def round_up(self, slots: int) -> int:
        """Slots of as many whole tasks as need this many at least."""
        return -(-slots // self.slots) * self.slots


ANY_SHAPE = TaskShape()
