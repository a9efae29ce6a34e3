"""Spark's locality levels, and how long a stage waits at each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple


class Level(IntEnum):
    """Spark's locality levels, the nearest first. A task without preferences is of level ``NO_PREF``."""

    PROCESS = 0
    NODE = 1
    NO_PREF = 2
    RACK = 3
    ANY = 4


class LocalityWaits(NamedTuple):
    """Spark's settings of delay scheduling.

    Attributes:
        process_ms, node_ms, rack_ms: ``spark.locality.wait.process``, ``.node``, ``.rack``.
        restarts_at_launch: ``spark.locality.wait.legacyResetOnTaskLaunch``, and Spark before 3.1.
        revive_ms: time between two offers of all free slots (``spark.scheduler.revive.interval``); 0: a free
            slot is offered whenever anything happens.
        revive_at_ms: one of the moments at which all free slots are offered.
    """

    process_ms: int
    node_ms: int
    rack_ms: int
    restarts_at_launch: bool = False
    revive_ms: int = 0
    revive_at_ms: int = 0

    def of(self, level: Level) -> int:
        waits = {Level.PROCESS: self.process_ms, Level.NODE: self.node_ms, Level.RACK: self.rack_ms}
        return waits.get(level, 0)

    def offered_at_ms(self, at_ms: int) -> int:
        """When all free slots are offered, at ``at_ms`` or later."""
        if not self.revive_ms:
            return at_ms
        return at_ms + (self.revive_at_ms - at_ms) % self.revive_ms


@dataclass(frozen=True, slots=True)
class Delay:
    """Delay scheduling of one stage.

    Attributes:
        waits: for how long it waits at each level.
        cached: by task, the names of nodes that cache its input (PROCESS_LOCAL). Empty: none does.
        away: how many times as long a task runs elsewhere than on a node that caches its input. Tasks took
            their durations where they were seen.
    """

    waits: LocalityWaits
    cached: Sequence[frozenset[str]] = ()
    away: float = 1.0
