"""Anytime-valid confidence bounds on a mean: valid for any distribution and any number of looks.

Values lie in [0, 1]. The test of a mean m starts with a capital of 1 and bets a fraction f of it on each
value x: the capital is multiplied by 1 + f (x / m - 1). If m is the true mean, no bet gains on average, and
by Ville's inequality the capital ever reaches 1 / e with a probability of at most e. The capital is split
between ten fractions, so that the spread of the values need not be known. (Waudby-Smith and Ramdas,
"Estimating means of bounded random variables by betting".)

An interval for a fixed number of runs, as A/B tests use, does not suffice: a rule that looks after each run
would sooner or later see an interval that misses the true mean. Equal runs, such as a few without any idle
time, would also give an interval of width zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np

#: Probability that an interval misses the mean after any number of runs, half of it on either side.
ERROR = 0.05
_FRACTIONS = np.arange(1, 11) / 11.0
_HALVINGS = 20

_Array = np.ndarray[Any, Any]


def _capital(values: _Array, mean: float) -> _Array:
    """The capital after each of the values, when betting that their mean is above ``mean``."""
    gains = values[..., None] / mean - 1.0
    return np.asarray(np.exp(np.cumsum(np.log1p(_FRACTIONS * gains), axis=-2)).mean(axis=-1))


def exceeds(values: _Array, mean: float) -> _Array:
    """After each value: whether the values up to it show that their mean is above ``mean``.

    Args:
        values: in [0, 1], in the order of the runs; shape ``(..., runs)``.
        mean: in (0, 1).

    Returns booleans of the same shape. If the true mean is at most ``mean``, any of a row's is true with
    probability `ERROR` / 2 at most.
    """
    return _capital(values, mean) >= 2.0 / ERROR


def interval(values: _Array) -> tuple[float, float]:
    """Low and high end of the mean's interval, of values in [0, 1]; shape ``(runs,)``, at least one run."""
    return _low(values), 1.0 - _low(1.0 - values)


def _low(values: _Array) -> float:
    """The greatest mean that the values exceed, by bisection: the capital falls with the mean."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        if exceeds(values, middle)[-1]:
            low = middle
        else:
            high = middle
    return low
