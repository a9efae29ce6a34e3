"""What the chapters' figures share: means over seeds and their table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spark_sched.experiments.paired.statistics import spread
from spark_sched.experiments.reproduce.figures import Value

__all__ = ["mean_value", "rows_of"]


def mean_value(name: str, unit: str, paper: float | None, values: Sequence[float]) -> Value:
    """The mean over seeds with its 95 % interval."""
    told = spread(values, np.random.default_rng(0))
    ci = None if told.low is None or told.high is None else (round(told.low, 4), round(told.high, 4))
    return Value(name, unit, paper, round(told.mean, 4), ci, told.runs)


def rows_of(values: Sequence[Value]) -> list[dict[str, Any]]:
    """Values as a table."""
    return [
        {
            "value": f"{value.name}{f' [{value.unit}]' if value.unit else ''}",
            "thesis": "-" if value.paper is None else f"{value.paper:g}",
            "ours": "-" if value.ours is None else f"{value.ours:g}",
        }
        for value in values
    ]
