"""Remaining time of a running task, from its siblings' times, from history, or from its age alone."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from math import exp

from spark_sched.predict import Forecast
from spark_sched.predict.tasks.pilots import StageExpectation, TaskForecast

#: A task about which nothing is known is expected to need at least this long.
_LEAST_MS = 1_000.0
#: Quantiles that stand for history's distribution of a stage's mean task time.
_LEVELS = (0.1, 0.3, 0.5, 0.7, 0.9)
#: Standard normal values at these levels: how single tasks spread around the mean.
_NORMALS = (-1.2816, -0.5244, 0.0, 0.5244, 1.2816)
#: Below this shape the mean of a Pareto distribution is too unreliable to use.
_LEAST_SHAPE = 1.1


class RemainingTimes:
    """Expected remaining times of the running attempts of one stage.

    After ``elapsed_ms`` it is the mean of the task times that are longer, minus ``elapsed_ms``. The task
    times are those of the stage's tasks that ended, or else those that history expects. If none is longer, it
    is the mean residual life of a Pareto distribution with the shape of the job's task times. If nothing is
    known, a task is assumed to have run half of its time.
    """

    __slots__ = ("_alpha", "_history", "_least_ms", "_siblings")

    def __init__(self, forecast: Forecast, stage: int) -> None:
        self._siblings = self._history = _Times(())
        if isinstance(forecast, TaskForecast):
            if stage in forecast.times:
                self._siblings = _Times(forecast.times[stage].ended_ms.values())
            if stage < len(forecast.expected):
                self._history = _Times(_expected_ms(forecast.expected[stage]))
        self._alpha = forecast.alpha
        self._least_ms = forecast.t_m_ms or _LEAST_MS

    def after(self, elapsed_ms: float) -> float:
        """The expected remaining time in ms, above 0."""
        for times in (self._siblings, self._history):
            longer_ms = times.mean_above(elapsed_ms)
            if longer_ms is not None:
                return longer_ms - elapsed_ms
        alpha = self._alpha
        if alpha is not None and alpha >= _LEAST_SHAPE:
            return max(elapsed_ms, self._least_ms) * alpha / (alpha - 1.0) - elapsed_ms
        return max(elapsed_ms, _LEAST_MS)


class _Times:
    """Equally likely times, and means of the longest of them."""

    __slots__ = ("_sorted", "_sums")

    def __init__(self, times_ms: Iterable[float]) -> None:
        self._sorted = sorted(times_ms)
        self._sums = list(accumulate(reversed(self._sorted)))  # of the longest

    def mean_above(self, least_ms: float) -> float | None:
        longer = len(self._sorted) - bisect_right(self._sorted, least_ms)
        return self._sums[longer - 1] / longer if longer else None


def _expected_ms(expected: StageExpectation) -> list[float]:
    """Equally likely task times of a stage, as history expects them."""
    mean_s = expected.calibrated or expected.task_s
    if mean_s is None:
        return []
    spread = expected.spread or 0.0
    factors = [exp(spread * normal - spread * spread / 2.0) for normal in _NORMALS]
    return [1000.0 * float(mean_s.quantile(level)) * factor for level in _LEVELS for factor in factors]
