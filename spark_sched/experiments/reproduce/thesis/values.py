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
    estimate = spread(values, np.random.default_rng(0))
    ci = (
        None
        if estimate.low is None or estimate.high is None
        else (round(estimate.low, 4), round(estimate.high, 4))
    )
    return Value(name, unit, paper, round(estimate.mean, 4), ci, estimate.runs)


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
