"""The pilots of one stage, and whether its other tasks still wait for them."""

from __future__ import annotations

from collections.abc import Iterable


class PilotGate:
    """Closed until each pilot has ended in any way or was lost, as ``schedcore.enforce.PilotGate``.

    Only first attempts count: a pilot that fails or is killed opens the gate like one that succeeds, so no
    failure keeps the stage waiting.

    Args:
        over: tasks with an attempt that has ended.
    """

    __slots__ = ("_over", "_pilots", "_tasks")

    def __init__(self, tasks: int, over: Iterable[int] = ()) -> None:
        self._tasks = tasks
        self._over = set(over)
        self._pilots: tuple[int, ...] = ()

    def put(self, wanted: Iterable[int]) -> None:
        """Set the pilots of the plan in force; task numbers that the stage does not have are ignored."""
        self._pilots = tuple(wanted)

    @property
    def closed(self) -> bool:
        """Whether a pilot is not over."""
        return any(index < self._tasks and index not in self._over for index in self._pilots)

    @property
    def waiting(self) -> list[int]:
        """The pilots that are not over, in the plan's order."""
        return [index for index in self._pilots if index < self._tasks and index not in self._over]

    def ended(self, task: int) -> bool:
        """An attempt of a task ended, or was lost. Returns whether that opened the gate."""
        was_closed = self.closed
        self._over.add(task)
        return was_closed and not self.closed
