"""What is learned of task times: means by feature, spreads, and how alike the stages of a job are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from spark_sched.predict.runtimes.features import JobAttributes
from spark_sched.predict.runtimes.histogram import LEAST_S
from spark_sched.predict.runtimes.predictor import Lesson, ThreeSigmaPredict
from spark_sched.predict.tasks.fading import FadingSums
from spark_sched.predict.tasks.likeness import Likeness

#: Weight, in stages, of all jobs' spread against one job's own: an unknown job has the spread of all jobs.
_SPREAD_DOUBT = 2.0
#: Expected spread until a stage has ended: a factor of 1.3 in either direction.
_FIRST_SPREAD = math.log(1.3)
#: How far actual spreads are from the expected one until a stage has ended: a factor of two in either
#: direction.
_FIRST_LOG_SD = math.log(2.0)
#: Smaller spreads count as this one.
_LEAST_SPREAD = 0.001


class Spreads:
    """The standard deviation of the logarithm of task times within a stage, by recurring name: its geometric
    mean over stages, since a few stages with a straggler say nothing about most stages."""

    def __init__(self) -> None:
        self.logs = FadingSums((math.log(_FIRST_SPREAD), 1.0))
        self.squares = FadingSums((_FIRST_LOG_SD**2, 1.0))

    def add(self, job: JobAttributes, spread: float) -> None:
        """Learn one stage's spread, >= 0."""
        value = math.log(max(spread, _LEAST_SPREAD))
        self.squares.add(job, (value - _mean(self.logs, job)) ** 2)
        self.logs.add(job, value)

    def expect(self, job: JobAttributes) -> float:
        """The expected spread of a stage of this job: its own past's, or all jobs' where that is short."""
        return math.exp(_mean(self.logs, job))

    def log_sd(self, job: JobAttributes) -> float:
        """How far such stages' spreads are from that: the root of the mean square, in logarithms."""
        return math.sqrt(_mean(self.squares, job))


def _mean(sums: FadingSums, job: JobAttributes) -> float:
    total, weight = sums.everyone
    mine, runs = sums.of(job)
    return (mine + _SPREAD_DOUBT * total / weight) / (runs + _SPREAD_DOUBT)


def log_spread(tasks_s: Sequence[float]) -> float | None:
    """The standard deviation of the logarithm of task times (each above 0); None for fewer than two."""
    if len(tasks_s) < 2:
        return None
    logs = [math.log(max(LEAST_S, value)) for value in tasks_s]
    mean = sum(logs) / len(logs)
    return math.sqrt(sum((value - mean) ** 2 for value in logs) / (len(logs) - 1))


@dataclass(frozen=True, slots=True)
class StageLesson:
    """What one stage of an ended job taught: all that a store must keep.

    Attributes:
        mean: the lesson of its mean task time.
        recurs: the user and the name of the recurring stage.
        spread: standard deviation of the logarithm of its task times; None: it had fewer than two.
        errors: logarithms of history's errors on the job's first stage and on this one; None: it is the first
            one, or nothing was predicted.
    """

    mean: Lesson
    recurs: tuple[str | None, str | None]
    spread: float | None = None
    errors: tuple[float, float] | None = None


class TaskTimes:
    """What was learned of task times: their means by feature, their spreads, and how alike the stages of a
    job are. A function of the lessons and their order."""

    def __init__(self, predictor: ThreeSigmaPredict) -> None:
        self.predictor = predictor
        self.spreads = Spreads()
        self.likeness = Likeness()

    def take(self, stage: StageLesson) -> Sequence[tuple[str, str]]:
        """Learn from a stage. Returns the feature values that were dropped to make room."""
        dropped = self.predictor.take(stage.mean)
        user, name = stage.recurs
        job = JobAttributes(user=user, name=name)
        if stage.spread is not None:
            self.spreads.add(job, stage.spread)
        if stage.errors is not None:
            self.likeness.add(job, *stage.errors)
        return dropped

    def sums(self) -> dict[str, Any]:
        """Spreads and likeness as JSON has them."""
        return {name: sums.to_list() for name, sums in self._sums()}

    def restore_sums(self, state: Mapping[str, Any] | None) -> None:
        """What `sums` returned; None: the initial ones. Raises ValueError, TypeError or KeyError for anything
        else."""
        for name, sums in self._sums():
            sums.restore(None if state is None else state[name])

    def _sums(self) -> Sequence[tuple[str, FadingSums]]:
        return (
            ("spread", self.spreads.logs),
            ("spread_squares", self.spreads.squares),
            ("likeness", self.likeness.sums),
        )


class TaskTimeStore(Protocol):
    """Stores what `TaskTimes` learns beyond the end of this process. Must not raise."""

    def load(self) -> TaskTimes:
        """All that was kept."""
        ...

    def save(self, state: TaskTimes, ended: Sequence[StageLesson]) -> None:
        """Store the lessons of a job's stages and let ``state`` learn them, with those that other processes
        stored."""
        ...
