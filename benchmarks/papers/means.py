"""Means over seeds as values of a figure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.papers.figures import Value
from spark_sched_lab.runs.paired.statistics import spread


def mean_value(
    name: str,
    unit: str,
    paper: float | None,
    values: Sequence[float | None],
    *,
    digits: int = 3,
    text: str = "",
) -> Value:
    """The mean over seeds with its 95 % interval, rounded; seeds that gave nothing are left out.

    ``text`` is the paper's, as in `Value`.
    """
    known = [value for value in values if value is not None]
    if not known:
        return Value(name, unit, paper, None, None, 0, text)
    found = spread(known, np.random.default_rng(0))
    ci95 = found.ci95 and (round(found.ci95[0], digits), round(found.ci95[1], digits))
    return Value(name, unit, paper, round(found.mean, digits), ci95, found.runs, text)


def samples_value(
    name: str, unit: str, paper: float | None, samples: Sequence[float], runs: int, *, text: str = ""
) -> Value:
    """The mean of ``samples``, pooled over ``runs`` seeds, with its 95 % interval over the samples; without a
    number if there is no sample.

    ``text`` is the paper's, as in `Value`.
    """
    if not samples:
        return Value(name, unit, paper, None, None, runs, text)
    found = spread(samples, np.random.default_rng(0))
    return Value(name, unit, paper, found.mean, found.ci95, runs, text)
