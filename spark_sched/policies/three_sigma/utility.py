"""The utility of a job by its time of completion: 3Sigma §3.1, figure 3(a) and 3(d)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from spark_sched.arrays import Floats
from spark_sched.errors import BadInputError


@dataclass(frozen=True, slots=True)
class Utility:
    """A piecewise linear function of the time of completion that never rises and is never negative.

    Two points at one time are a drop; at the drop itself the upper value holds, so a job that ends exactly at
    its deadline meets it. Before the first point the function has the first value, after the last the last.

    Attributes:
        times_s: of the points, on whatever clock the caller uses, not falling.
        values: at the points, not rising, >= 0.
    """

    times_s: tuple[float, ...]
    values: tuple[float, ...]

    def __call__(self, at_s: ArrayLike) -> Floats:
        """Its value at times of completion, in the shape of ``at_s``."""
        # np.interp takes the last of two points at one time: mirrored in time that is the earlier, upper one.
        times = -np.array(self.times_s[::-1])
        return np.asarray(np.interp(-np.asarray(at_s, dtype=float), times, np.array(self.values[::-1])))

    def at(self, at_s: float) -> float:
        """Its value at one time of completion."""
        before_s, before = self.times_s[0], self.values[0]
        for time_s, value in zip(self.times_s, self.values, strict=True):
            if at_s <= time_s:
                if time_s == before_s:
                    return before
                return before + (value - before) * (at_s - before_s) / (time_s - before_s)
            before_s, before = time_s, value
        return before

    @property
    def most(self) -> float:
        """The value of a job that ends at once."""
        return self.values[0]


def piecewise(points: Iterable[tuple[float, float]]) -> Utility:
    """A utility of one's own from (time of completion in s, value) points, in the order of their times.

    Raises:
        BadInputError: no point, a time or value that is not a number, times out of order, a negative value,
            or a value that rises with time: ending later must never be worth more.
    """
    listed = [(float(time_s), float(value)) for time_s, value in points]
    if not listed:
        raise BadInputError("a utility has no point: give at least one (time, value)")
    for time_s, value in listed:
        if not (math.isfinite(time_s) and math.isfinite(value)):
            raise BadInputError(
                f"a utility has the point ({time_s:g} s, {value:g}): give finite numbers for both"
            )
        if value < 0.0:
            raise BadInputError(
                f"a utility is {value:g} at {time_s:g} s but must not be negative: 0 is worth nothing"
            )
    for (before_s, before), (after_s, after) in pairwise(listed):
        if after_s < before_s:
            raise BadInputError(
                f"a utility has {after_s:g} s after {before_s:g} s: give its points in order of time"
            )
        if after > before:
            raise BadInputError(
                f"a utility rises from {before:g} at {before_s:g} s to {after:g} at {after_s:g} s: ending "
                "later must never be worth more"
            )
    return Utility(tuple(t for t, _ in listed), tuple(v for _, v in listed))


def slo(deadline_s: float, weight: float = 1.0) -> Utility:
    """``weight`` up to the deadline, nothing after it (figure 3a)."""
    _check_weight(weight)
    return piecewise([(deadline_s, weight), (deadline_s, 0.0)])


def slo_with_decay(deadline_s: float, decay_s: float, weight: float = 1.0) -> Utility:
    """``weight`` up to the deadline, then falling to nothing within ``decay_s`` (figure 3d, §4.2.2)."""
    _check_weight(weight)
    if not decay_s > 0.0:
        raise BadInputError(f"the decay after a deadline is {decay_s:g} s but must be above 0")
    return piecewise([(deadline_s, weight), (deadline_s + decay_s, 0.0)])


def best_effort(submit_s: float, horizon_s: float, weight: float = 1.0, floor: float = 0.1) -> Utility:
    """Falls from ``weight`` at submission to ``floor · weight`` after ``horizon_s`` and stays there.

    Without a floor an old job would be worth nothing and never run.

    Raises:
        BadInputError: a negative weight, a horizon of 0 or less, or a floor outside [0, 1].
    """
    _check_weight(weight)
    if not horizon_s > 0.0:
        raise BadInputError(f"the horizon of a best-effort utility is {horizon_s:g} s but must be above 0")
    if not 0.0 <= floor <= 1.0:
        raise BadInputError(f"the floor of a best-effort utility is {floor:g} but must lie from 0 to 1")
    return piecewise([(submit_s, weight), (submit_s + horizon_s, floor * weight)])


def _check_weight(weight: float) -> None:
    if not (math.isfinite(weight) and weight >= 0.0):
        raise BadInputError(f"the weight of a utility is {weight:g} but must be 0 or more, and finite")
