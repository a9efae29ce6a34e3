"""Earlier runs of a job name: the record of a run, and the interface of its store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from spark_sched.state import DurationSummary

#: A run is remembered up to this many stages: longer ones are loops whose stages repeat.
MAX_STAGES = 2_000


@dataclass(frozen=True, slots=True)
class EarlierStage:
    """One stage of one run: its name, number of tasks and task times."""

    name: str
    tasks: int
    durations: DurationSummary


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """One completed run of a job name.

    Attributes:
        ended_ms: ms since 1970.
        stages: in the order of their index from 0.
        gap_ms: its usual pause between two actions; 0: it had none; None: not known.
    """

    ended_ms: int
    stages: tuple[EarlierStage, ...]
    gap_ms: int | None = None


class LatestRuns:
    """The latest runs of any names. All forecasts of a predictor share one object, so that they stay the same
    when a run ends: it has the runs that are known when it is read."""

    __slots__ = ("runs",)

    def __init__(self) -> None:
        self.runs: tuple[EarlierRun, ...] = ()

    def add(self, run: EarlierRun, most: int) -> None:
        self.runs = (*self.runs, run)[-most:]


#: Where there are none, and for forecasts that need none.
NO_RUNS = LatestRuns()


class EarlierRunStore(Protocol):
    """Stores runs beyond the end of the planner. Must not raise: a lost history reduces quality, but must not
    stop progress."""

    def load(self, name: str, limit: int, user: str | None = None) -> Sequence[EarlierRun]:
        """The latest runs of a user's job name, the oldest first; without a user, of everybody's."""
        ...

    def save(self, name: str, run: EarlierRun, limit: int, user: str | None = None) -> None:
        """Keep a run; all but the latest ``limit`` of the user's name may be dropped."""
        ...
