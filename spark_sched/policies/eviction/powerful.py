"""Levels of executors by speed: jobs of high priority take the fastest ones first (WASP, thesis §8.1.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from spark_sched.predict import Forecast
from spark_sched.predict.tasks.pilots import TaskForecast

#: Executors whose slowness differs by less than this factor are on the same level: a stage is spread over all
#: of them instead of packed on the first one for a negligible difference.
_ALIKE = 1.1
#: Slowness has two decimals, and must be above 0 on the wire.
_LEAST = 0.01


def known_slowness(forecasts: Iterable[Forecast]) -> Mapping[str, float]:
    """Slowness of the executors that differ, which all forecasts of task times share; empty where none
    does."""
    for forecast in forecasts:
        if isinstance(forecast, TaskForecast) and forecast.slowness:
            return forecast.slowness
    return {}


def speed_levels(slowness: Mapping[str, float], executors: Iterable[str]) -> dict[str, float]:
    """The slowness of each executor's level: that of its fastest executor; 1 for average ones.

    Args:
        slowness: of executors, a task's time there over its time on an average one; absent: 1.

    Returns:
        by executor, without those of the average level; empty where all are of one level.
    """
    levels: list[list[tuple[float, str]]] = []
    for each in sorted((max(_LEAST, slowness.get(key, 1.0)), key) for key in executors):
        if not levels or each[0] > _ALIKE * levels[-1][0][0]:
            levels.append([])
        levels[-1].append(each)
    if len(levels) < 2:
        return {}
    found: dict[str, float] = {}
    for level in levels:
        if all(value != 1.0 for value, _ in level):
            found.update((key, level[0][0]) for _, key in level)
    return found
