"""What a policy may remember from one snapshot to the next, such that the same story gives the same plans."""

from __future__ import annotations

from typing import Generic, TypeVar

from spark_sched.state import Snapshot

__all__ = ["Memory"]

T = TypeVar("T")


class Memory(Generic[T]):
    """The state that a policy folded from the snapshots before the present one.

    Policies that rank by the past (service attained, virtual time) need one. A plan depends on the snapshots
    of lower versions and the present one alone: asking twice about one version gives the same plan, and a
    version below the last one begins a new story. States are never changed, only replaced.
    """

    def __init__(self) -> None:
        self._version = -1
        self._now_ms = -1
        self._before: T | None = None
        self._kept: T | None = None

    def before(self, snapshot: Snapshot) -> T | None:
        """The state after the snapshots of lower versions; None where there were none."""
        if snapshot.version < self._version or snapshot.now_ms < self._now_ms:
            self._before = None
        elif snapshot.version > self._version:
            self._before = self._kept
        self._version, self._now_ms = snapshot.version, snapshot.now_ms
        return self._before

    def keep(self, state: T) -> None:
        """The state with the snapshot of the last `before` in it."""
        self._kept = state
