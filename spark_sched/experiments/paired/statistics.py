"""Statistics of paired runs: every ratio is formed inside a pair, then summarised over the pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np


@dataclass(frozen=True)
class Spread:
    """A mean over runs with its spread.

    ``low`` and ``high`` bound the mean with 95 % confidence (bootstrap); both are None for fewer than three
    runs, of which no interval can be made honestly. ``sd`` is the sample standard deviation, None for one.
    """

    mean: float
    sd: float | None
    low: float | None
    high: float | None
    runs: int

    def as_json(self) -> dict[str, float | int | None]:
        """Field names and values, for a JSON document."""
        return asdict(self)


def spread(values: Sequence[float], rng: np.random.Generator) -> Spread:
    """Mean of ``values`` with its 95 % bootstrap interval (SciPy's BCa; percentile where BCa is undefined).

    Raises ValueError for no values: a mean of nothing is a bug of the caller.
    """
    if len(values) == 0:
        raise ValueError("no runs to summarise")
    data = np.asarray(values, dtype=float)
    mean, runs = float(data.mean()), len(data)
    if runs < 3:
        return Spread(mean, float(data.std(ddof=1)) if runs > 1 else None, None, None, runs)
    sd = float(data.std(ddof=1))
    if sd == 0.0:
        return Spread(mean, 0.0, mean, mean, runs)
    from scipy.stats import bootstrap

    method = "BCa" if len(np.unique(data)) > 2 else "percentile"
    interval = bootstrap((data,), np.mean, method=method, rng=rng).confidence_interval
    return Spread(mean, sd, float(interval.low), float(interval.high), runs)


def paired_ratios(treatment: Sequence[float], control: Sequence[float]) -> list[float]:
    """``treatment[i] / control[i]`` for every pair.

    Raises ValueError if the lengths differ or a control is not positive.
    """
    if len(treatment) != len(control):
        raise ValueError(f"{len(treatment)} treated runs cannot be paired with {len(control)} control runs")
    if any(c <= 0 for c in control):
        raise ValueError("a control run took no time: there is no ratio to it")
    return [t / c for t, c in zip(treatment, control, strict=True)]
