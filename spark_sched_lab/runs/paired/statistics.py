"""Statistics of paired runs: intervals and effect sizes. All comparisons of runs use this module.

Every comparison is made inside a block first: runs of one block share the input, the background and the state
of the machine. So there is one difference per block; for ratios it is a difference of logarithms.

**Intervals.** A studentised wild bootstrap: centred differences keep their sizes and get random signs, and
the quantile of the resulting t statistics replaces that of Student's distribution. If both runs of a pair
are disturbed alike, differences are symmetric and random signs are the right null distribution, also with
heavy tails. On samples of 5 to 20 pairs this covers 93 to 97 % where BCa covers 81 to 93 %
(docs/adr/0023-intervals-of-paired-runs.md).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

LEVEL = 0.95
#: There is no interval for fewer pairs: four pairs have only eight different sign patterns.
MIN_PAIRS = 5
_ALL_PATTERNS_UP_TO = 11
_RESAMPLES = 1_999


@dataclass(frozen=True)
class Estimate:
    """A mean over pairs with its interval.

    For ratios ``mean`` is the geometric mean. ``low`` and ``high`` are None if there are too few pairs for
    ``level``. ``effect`` is the mean difference in standard deviations of the differences (Hedges' correction
    for small samples), None for fewer than two pairs or equal differences.
    """

    mean: float
    low: float | None
    high: float | None
    level: float
    effect: float | None
    pairs: int

    def as_json(self) -> dict[str, float | int | None]:
        return asdict(self)

    def excludes(self, value: float) -> bool:
        """Whether there is an interval and ``value`` is outside."""
        return self.low is not None and self.high is not None and not self.low <= value <= self.high


def resolvable(pairs: int, level: float) -> bool:
    """Whether this number of pairs has enough sign patterns for an interval at this level."""
    return pairs >= MIN_PAIRS and 2.0**pairs >= 1.0 / (1.0 - level)


def least_pairs(level: float) -> int:
    """The smallest number of pairs that has an interval at this level, which is below 1."""
    pairs = MIN_PAIRS
    while not resolvable(pairs, level):
        pairs += 1
    return pairs


def intervals(
    differences: np.ndarray[Any, Any], level: float, rng: np.random.Generator
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Low and high ends of the mean's interval, for many samples at once.

    Args:
        differences: shape ``(samples, pairs)``.
        level: confidence, such as 0.95.
        rng: draws sign patterns if there are too many to take all.

    Returns two arrays of shape ``(samples,)``. Raises ValueError for fewer than `MIN_PAIRS` pairs.
    """
    pairs = differences.shape[1]
    if not resolvable(pairs, level):
        raise ValueError(f"{pairs} pairs are too few for an interval at {level:.4f}")
    means = differences.mean(axis=1)
    centred = differences - means[:, None]
    errors = differences.std(axis=1, ddof=1) / math.sqrt(pairs)
    flipped = centred @ _signs(pairs, rng).T / pairs
    # The sum of squares does not depend on the signs.
    squares = np.mean(centred**2, axis=1)[:, None]
    variances = np.maximum(squares - flipped**2, squares * 1e-12) / (pairs - 1)
    # Equal differences have no variance; any factor gives their interval of no width.
    statistics = np.abs(flipped) / np.sqrt(np.where(variances > 0, variances, 1.0))
    factors = np.quantile(statistics, level, axis=1)
    return means - factors * errors, means + factors * errors


def _signs(pairs: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    if pairs <= _ALL_PATTERNS_UP_TO:
        # A pattern and its opposite have the same absolute statistic: half of them are enough.
        rest = itertools.product((1.0, -1.0), repeat=pairs - 1)
        return np.array([(1.0, *signs) for signs in rest])
    return rng.choice(np.array([1.0, -1.0]), size=(_RESAMPLES, pairs))


def difference(
    treatment: Sequence[float],
    control: Sequence[float],
    rng: np.random.Generator,
    level: float = LEVEL,
) -> Estimate:
    """Mean of ``treatment[i] - control[i]``. Raises ValueError if the lengths differ or are 0."""
    if len(treatment) != len(control):
        raise ValueError(f"{len(treatment)} treated runs cannot be paired with {len(control)} control runs")
    return mean(np.subtract(treatment, control, dtype=float), rng, level)


def ratio(
    treatment: Sequence[float],
    control: Sequence[float],
    rng: np.random.Generator,
    level: float = LEVEL,
) -> Estimate:
    """Geometric mean of ``treatment[i] / control[i]``.

    Raises ValueError if the lengths differ or are 0, or a value is not positive.
    """
    if min([*treatment, *control], default=1.0) <= 0.0:
        raise ValueError("a run took no time: there is no ratio to it")
    of_logs = difference([math.log(t) for t in treatment], [math.log(c) for c in control], rng, level)
    low, high = (None if end is None else math.exp(end) for end in (of_logs.low, of_logs.high))
    return replace(of_logs, mean=math.exp(of_logs.mean), low=low, high=high)


def mean(
    values: Sequence[float] | np.ndarray[Any, Any], rng: np.random.Generator, level: float = LEVEL
) -> Estimate:
    """Mean of values that were measured once per block, such as a loss. Raises ValueError for none."""
    differences = np.asarray(values, dtype=float)
    pairs = len(differences)
    if pairs == 0:
        raise ValueError("no runs to summarise")
    low = high = None
    if resolvable(pairs, level):
        lows, highs = intervals(differences[None, :], level, rng)
        low, high = float(lows[0]), float(highs[0])
    return Estimate(float(differences.mean()), low, high, level, _effect(differences), pairs)


def _effect(differences: np.ndarray[Any, Any]) -> float | None:
    pairs = len(differences)
    if pairs < 2:
        return None
    deviation = float(differences.std(ddof=1))
    if deviation <= 1e-12 * max(1.0, float(np.abs(differences).max())):
        return None
    correction = 1.0 - 3.0 / (4.0 * (pairs - 1) - 1.0) if pairs > 2 else 1.0
    return float(differences.mean()) / deviation * correction


@dataclass(frozen=True)
class Spread:
    """A mean over runs with its spread.

    ``low`` and ``high`` bound the mean with 95 % confidence; both are None for fewer than `MIN_PAIRS` runs,
    which are too few for an interval. ``sd`` is the sample standard deviation, None for one run.
    """

    mean: float
    sd: float | None
    low: float | None
    high: float | None
    runs: int

    @property
    def ci95(self) -> tuple[float, float] | None:
        """Both bounds; None without an interval."""
        return None if self.low is None or self.high is None else (self.low, self.high)

    def as_json(self) -> dict[str, float | int | None]:
        return asdict(self)


def spread(values: Sequence[float], rng: np.random.Generator) -> Spread:
    """Mean of ``values`` with its standard deviation and 95 % interval.

    Raises ValueError for no values: a mean of nothing is a bug of the caller.
    """
    found = mean(values, rng)
    sd = float(np.std(values, ddof=1)) if found.pairs > 1 else None
    return Spread(found.mean, sd, found.low, found.high, found.pairs)


def paired_ratios(treatment: Sequence[float], control: Sequence[float]) -> list[float]:
    """``treatment[i] / control[i]`` for every pair.

    Raises ValueError if the lengths differ or a control is not positive.
    """
    if len(treatment) != len(control):
        raise ValueError(f"{len(treatment)} treated runs cannot be paired with {len(control)} control runs")
    if any(c <= 0 for c in control):
        raise ValueError("a control run took no time: there is no ratio to it")
    return [t / c for t, c in zip(treatment, control, strict=True)]
