"""Arrival processes: times in seconds from 0, ascending."""

from __future__ import annotations

import math

import numpy as np

from spark_sched.arrays import Floats
from spark_sched.errors import BadInputError


def poisson(rng: np.random.Generator, count: int, mean_gap_s: float) -> Floats:
    """``count`` arrivals with exponential gaps (c² = 1)."""
    check_positive("mean_gap_s", mean_gap_s)
    return np.cumsum(rng.exponential(mean_gap_s, count))


def hyperexponential(rng: np.random.Generator, count: int, mean_gap_s: float, c2: float = 4.0) -> Floats:
    """``count`` arrivals whose gaps have squared coefficient of variation ``c2`` (3Sigma §5: c_a² = 4).

    Gaps are exponential with rate λ₁ = 2p/m (probability p) or λ₂ = 2(1-p)/m, p = (1 +
    sqrt((c²-1)/(c²+1)))/2: the two-phase hyper-exponential with balanced means, the usual member of the
    family when only mean and c² are given.

    Raises:
        BadInputError: ``c2`` < 1, which no mixture of exponentials has.
    """
    check_positive("mean_gap_s", mean_gap_s)
    if not c2 >= 1:
        raise BadInputError(f"c2 is {c2} but must be at least 1, which gives Poisson arrivals")
    often = (1 + math.sqrt((c2 - 1) / (c2 + 1))) / 2
    short = rng.random(count) < often
    mean_s = np.where(short, mean_gap_s / (2 * often), mean_gap_s / (2 * (1 - often)))
    return np.cumsum(rng.exponential(1.0, count) * mean_s)


def bursty(
    rng: np.random.Generator,
    horizon_s: float,
    *,
    mean_gap_s: float,
    burst_gap_s: float,
    between_bursts_s: float,
    mean_burst_s: float,
) -> Floats:
    """Poisson arrivals over ``horizon_s`` with bursts of more (thesis §9.3.4, table 9.4).

    Bursts begin as a Poisson process of mean distance ``between_bursts_s``, last exponentially with mean
    ``mean_burst_s``, and add Poisson arrivals of mean gap ``burst_gap_s`` to the base process while they
    last.
    """
    parts = [_poisson_within(rng, 0.0, horizon_s, mean_gap_s)]
    for begin_s in _poisson_within(rng, 0.0, horizon_s, between_bursts_s):
        end_s = min(horizon_s, begin_s + rng.exponential(mean_burst_s))
        parts.append(_poisson_within(rng, float(begin_s), float(end_s), burst_gap_s))
    return np.sort(np.concatenate(parts))


def _poisson_within(rng: np.random.Generator, begin_s: float, end_s: float, mean_gap_s: float) -> Floats:
    check_positive("mean gap", mean_gap_s)
    count = int(rng.poisson((end_s - begin_s) / mean_gap_s))
    return np.sort(rng.uniform(begin_s, end_s, count))


def check_positive(name: str, value: float) -> None:
    """Raises `BadInputError` unless ``value`` is finite and above 0."""
    if not (math.isfinite(value) and value > 0):
        raise BadInputError(f"{name} is {value}: give a number above 0")


def check_fraction(name: str, value: float) -> None:
    """Raises `BadInputError` unless ``value`` is from 0 to 1."""
    if not 0 <= value <= 1:
        raise BadInputError(f"{name} is {value}: give a number from 0 to 1")
