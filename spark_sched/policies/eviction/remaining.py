"""Remaining time of a running task, from its siblings' times, from history, or from its age alone."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from math import exp
from typing import TypeAlias

import numpy as np

from spark_sched.arrays import Floats
from spark_sched.predict import Forecast, RuntimeDistribution
from spark_sched.predict.tasks.pilots import StageExpectation, TaskForecast

#: Knots of a distribution of mean task times as bytes, and the spread around the mean.
HistoryKey: TypeAlias = tuple[bytes, bytes, float]

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
        self._siblings = self._history = _UNKNOWN
        if isinstance(forecast, TaskForecast):
            if stage in forecast.times and forecast.times[stage].ended_ms:
                self._siblings = _Times(forecast.times[stage].ended_ms.values())
            if stage < len(forecast.expected):
                self._history = _history(*history_key(forecast.expected[stage]))
        self._alpha = forecast.alpha
        self._least_ms = forecast.t_m_ms or _LEAST_MS

    def after(self, elapsed_ms: Floats) -> Floats:
        """The expected remaining time in ms, above 0, of attempts that have run so long."""
        alpha = self._alpha
        if alpha is not None and alpha >= _LEAST_SHAPE:
            left_ms = np.maximum(elapsed_ms, self._least_ms) * alpha / (alpha - 1.0) - elapsed_ms
        else:
            left_ms = np.maximum(elapsed_ms, _LEAST_MS)
        for times in (self._history, self._siblings):
            if times is not _UNKNOWN:
                longer_ms = times.mean_above(elapsed_ms)
                left_ms = np.where(np.isnan(longer_ms), left_ms, longer_ms - elapsed_ms)
        return left_ms


class _Times:
    """Equally likely times, and means of the longest of them."""

    __slots__ = ("_means", "_sorted")

    def __init__(self, times_ms: Iterable[float]) -> None:
        self._sorted = np.sort(np.array(list(times_ms), np.float64))
        # The mean of all times from each place on; after the last one there is none.
        longest = np.cumsum(self._sorted[::-1]) / np.arange(1.0, len(self._sorted) + 1.0)
        self._means = np.append(longest[::-1], np.nan)

    def mean_above(self, least_ms: Floats) -> Floats:
        """Not a number where no time is longer."""
        return np.asarray(self._means[np.searchsorted(self._sorted, least_ms, side="right")])


_UNKNOWN = _Times(())


def history_key(expected: StageExpectation) -> HistoryKey:
    """What history's task times follow from: equal for equal expectations, such as those of all jobs of one
    name."""
    mean_s = expected.calibrated or expected.task_s
    if mean_s is None:
        return b"", b"", 0.0
    return mean_s.t_s.tobytes(), mean_s.p.tobytes(), expected.spread or 0.0


# Plans ask for the same ones again and again.
@lru_cache(maxsize=2_048)
def _history(t_s: bytes, p: bytes, spread: float) -> _Times:
    """Equally likely task times of a stage, as history expects them."""
    if not t_s:
        return _UNKNOWN
    mean_s = RuntimeDistribution.trusted(np.frombuffer(t_s), np.frombuffer(p))
    factors = [exp(spread * normal - spread * spread / 2.0) for normal in _NORMALS]
    levels_s = mean_s.quantile(_LEVELS).tolist()
    return _Times(1000.0 * level_s * factor for level_s in levels_s for factor in factors)
