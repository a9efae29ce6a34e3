"""Means over seeds as values of a figure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from spark_sched.experiments.paired.statistics import spread
from spark_sched.experiments.reproduce.figures import Value

__all__ = ["mean_value"]


def mean_value(
    name: str, unit: str, paper: float | None, values: Sequence[float | None], *, digits: int = 3
) -> Value:
    """The mean over seeds with its 95 % interval, rounded; seeds that gave nothing are left out."""
    known = [value for value in values if value is not None]
    if not known:
        return Value(name, unit, paper, None, None, 0)
    found = spread(known, np.random.default_rng(0))
    ci95 = None
    if found.low is not None and found.high is not None:
        ci95 = round(found.low, digits), round(found.high, digits)
    return Value(name, unit, paper, round(found.mean, digits), ci95, found.runs)
