"""When a recurring job's isolation level P changes, and by how much."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from spark_sched.policies.tuning.evidence import exceeds, interval

#: The value of a run is limited to this many times the goal, so that no single run decides.
CAP = 3.0
#: After this number of runs without a step the evidence is discarded: a changed job is noticed, and memory is
#: bounded.
MOST_RUNS = 100
#: Steps become no smaller than this part of the first one.
_LEAST_PART = 0.25


@dataclass(frozen=True, slots=True)
class Goal:
    """An upper bound on the mean over runs.

    Attributes:
        base: the least possible value: 0 for a share, 1 for a slowdown.
        sinks_with_level: whether a higher P lowers the value (a slowdown) or raises it.
        text: format string for people, with fields for the mean, low and high end, and the goal.
        scale: factor on these numbers in the text.
    """

    value: float
    base: float
    sinks_with_level: bool
    text: str
    scale: float

    @property
    def cap(self) -> float:
        """The greatest value above the base with which a run counts."""
        return CAP * (self.value - self.base)

    def counted(self, value: float) -> float:
        """A run's value as a number in [0, 1]; the goal itself is 1 / `CAP`."""
        return min(1.0, max(0.0, (value - self.base) / self.cap))

    def shown(self, values: tuple[float, ...]) -> str:
        """The mean of counted values with its interval."""
        array = np.asarray(values)
        numbers = (float(array.mean()), *interval(array))
        mean, low, high = (self.scale * (self.base + self.cap * number) for number in numbers)
        return self.text.format(mean=mean, low=low, high=high, goal=self.scale * self.value)


@dataclass(frozen=True, slots=True)
class Tuned:
    """A recurring job's level and what its runs have shown since the last step.

    Attributes:
        level: P of the runs that start now.
        steps: how many steps there were.
        step: the last one, with its sign; 0 before the first one.
        values: counted values of the runs since then (`Goal.counted`).
        stepped: the last step and its evidence; empty before the first one.
        why: the same with what came after it.
    """

    level: float
    steps: int = 0
    step: float = 0.0
    values: tuple[float, ...] = ()
    stepped: str = ""
    why: str = "no run has ended"


@dataclass(frozen=True, slots=True)
class StepRule:
    """A step needs runs that exclude the goal.

    A mean above the goal, or below ``1 - band`` times the goal, requires a step; between them P stays. A step
    in the opposite direction is half as long as the one before. A step in the same direction is twice as
    long, but at most ``step``.

    Attributes:
        goal: of the mean over runs.
        lowest, highest: bounds of P.
        runs: least runs between two steps.
        band: part of the goal (above its base) below it that is as good as the goal.
    """

    goal: Goal
    lowest: float
    highest: float
    step: float
    runs: int
    band: float

    def start(self, level: float) -> Tuned:
        """The state of a job without any run."""
        return Tuned(self._bounded(level))

    def after(self, tuned: Tuned, value: float) -> Tuned:
        """The state after one more run with the present level."""
        values = (*tuned.values, self.goal.counted(value))
        shown = self.goal.shown(values)
        sign = self._sign(values)
        step = self._next_step(tuned.step, sign)
        level = self._bounded(tuned.level + step)
        if level != tuned.level:
            message = f"P {tuned.level:g} -> {level:g} after {_runs(values)}: {shown}"
            return Tuned(level, tuned.steps + 1, step, (), message, message)
        bound = ""
        if sign:
            bound = f", its {'highest' if level >= self.highest else 'lowest'}"
        message = f"P {level:g}{bound} after {_runs(values)}: {shown}"
        return replace(
            tuned,
            values=values if len(values) < MOST_RUNS else (),
            why=f"{tuned.stepped}; {message}" if tuned.stepped else message,
        )

    def _sign(self, values: tuple[float, ...]) -> int:
        """1: raise P; -1: lower P; 0: these runs exclude neither."""
        if len(values) < self.runs:
            return 0
        array = np.asarray(values)
        upward = 1 if self.goal.sinks_with_level else -1
        if exceeds(array, 1.0 / CAP)[-1]:
            return upward
        if exceeds(1.0 - array, 1.0 - (1.0 - self.band) / CAP)[-1]:
            return -upward
        return 0

    def _next_step(self, last: float, sign: int) -> float:
        size = self.step
        if last:
            size = min(size, abs(last) * (2.0 if last * sign > 0 else 0.5))
        return sign * max(size, _LEAST_PART * self.step)

    def _bounded(self, level: float) -> float:
        return round(min(self.highest, max(self.lowest, level)), 4)


def _runs(values: tuple[float, ...]) -> str:
    return "1 run" if len(values) == 1 else f"{len(values)} runs"
