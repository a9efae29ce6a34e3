"""Remaining times of running tasks, from their siblings' times, from history, or from their ages alone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import chain
from math import exp
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from spark_sched.arrays import Floats, Ints
from spark_sched.predict import Forecast, RuntimeDistribution
from spark_sched.predict.tasks.expectation import StageExpectation
from spark_sched.predict.tasks.pilots import TaskForecast

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
#: History expects nothing.
_NOTHING: HistoryKey = (b"", b"", 0.0)


def remaining_ms(stages: Sequence[tuple[Forecast, int]], counts: Ints, elapsed_ms: Floats) -> Floats:
    """Expected remaining times in ms, above 0, of running attempts.

    After ``elapsed_ms`` it is the mean of the task times that are longer, minus ``elapsed_ms``. The task
    times are those of the stage's tasks that ended, or else those that history expects. If none is longer, it
    is the mean residual life of a Pareto distribution with the shape of the job's task times. If nothing is
    known, a task is assumed to have run half of its time.

    All attempts are computed together: with some thousand stages, a few calls for each would take longer than
    all the rest of a plan.

    Args:
        stages: the forecast of each stage's job, and the stage's index.
        counts: attempts of each stage. Attempts are in the order of the stages.
        elapsed_ms: how long each attempt has run.
    """
    alpha = np.array([_shape(forecast) for forecast, _ in stages], np.float64)
    least_ms = np.array([forecast.t_m_ms or _LEAST_MS for forecast, _ in stages], np.float64)
    siblings = [_siblings(forecast, stage) for forecast, stage in stages]
    history: dict[HistoryKey, int] = {}
    expected = [history.setdefault(_history_key_of(*each), len(history)) for each in stages]

    grown = np.repeat(alpha / (alpha - 1.0), counts)
    left_ms = np.where(
        np.isnan(grown),
        np.maximum(elapsed_ms, _LEAST_MS),
        np.maximum(elapsed_ms, np.repeat(least_ms, counts)) * grown - elapsed_ms,
    )
    for sets, of_stage in (
        ([_history(*key) for key in history], np.array(expected, np.int64)),
        (siblings, np.arange(len(stages))),
    ):
        longer_ms = _TimeSets(sets).mean_above(np.repeat(of_stage, counts), elapsed_ms)
        left_ms = np.where(np.isnan(longer_ms), left_ms, longer_ms - elapsed_ms)
    return left_ms


def _shape(forecast: Forecast) -> float:
    alpha = forecast.alpha
    return alpha if alpha is not None and alpha >= _LEAST_SHAPE else float("nan")


def _siblings(forecast: Forecast, stage: int) -> Collection[float]:
    """Times of the stage's tasks that ended."""
    if not isinstance(forecast, TaskForecast):
        return ()
    times = forecast.times.get(stage)
    return () if times is None else times.ended_ms.values()


def _history_key_of(forecast: Forecast, stage: int) -> HistoryKey:
    if isinstance(forecast, TaskForecast) and stage < len(forecast.expected):
        return history_key(forecast.expected[stage])
    return _NOTHING


class _TimeSets:
    """Sets of equally likely times, and means of the longest of each."""

    __slots__ = ("_ends", "_keys", "_sums")

    def __init__(self, sets: Sequence[Collection[float]]) -> None:
        sizes = np.array([len(each) for each in sets], np.int64)
        self._ends = np.cumsum(sizes)
        times_ms = np.fromiter(chain.from_iterable(sets), np.float64, int(sizes.sum()))
        # Complex numbers are ordered by their real parts, then by their imaginary ones: set by set.
        self._keys = np.sort(_keys(np.repeat(np.arange(len(sets)), sizes), times_ms))
        self._sums = np.append(0.0, np.cumsum(self._keys.imag))

    def mean_above(self, sets: Ints, least_ms: Floats) -> Floats:
        """Of the times in each of these sets that are longer; not a number where none is."""
        first, end = np.searchsorted(self._keys, _keys(sets, least_ms), side="right"), self._ends[sets]
        count = np.where(end > first, end - first, np.nan)
        return np.asarray((self._sums[end] - self._sums[first]) / count)


def _keys(sets: Ints, times_ms: Floats) -> NDArray[np.complex128]:
    keys = np.empty(len(sets), np.complex128)
    keys.real, keys.imag = sets, times_ms
    return keys


def history_key(expected: StageExpectation) -> HistoryKey:
    """What history's task times follow from: equal for equal expectations, such as those of all jobs of one
    name."""
    mean_s = expected.calibrated or expected.task_s
    if mean_s is None:
        return _NOTHING
    return mean_s.t_s.tobytes(), mean_s.p.tobytes(), expected.spread or 0.0


# Plans ask for the same ones again and again.
@lru_cache(maxsize=2_048)
def _history(t_s: bytes, p: bytes, spread: float) -> tuple[float, ...]:
    """Equally likely task times of a stage, as history expects them."""
    if not t_s:
        return ()
    mean_s = RuntimeDistribution.trusted(np.frombuffer(t_s), np.frombuffer(p))
    factors = [exp(spread * normal - spread * spread / 2.0) for normal in _NORMALS]
    levels_s = mean_s.quantile(_LEVELS).tolist()
    return tuple(1000.0 * level_s * factor for level_s in levels_s for factor in factors)
