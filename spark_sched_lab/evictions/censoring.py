"""Durations of attempts that the tables do not see end, drawn from Kaplan and Meier's estimate."""

from __future__ import annotations

import numpy as np


def completed_durations(
    rng: np.random.Generator, duration_s: np.ndarray, ended: np.ndarray, group: np.ndarray
) -> np.ndarray:
    """The durations in s, with a draw in place of each that is only a lower bound.

    A draw follows the distribution of its group, given that the duration is longer than the bound (Kaplan
    and Meier, "Nonparametric estimation from incomplete observations", 1958, with one estimate per group).
    Nothing is known beyond the longest duration of a group: what the estimate leaves there gets this duration
    (Efron, "The two sample problem with censored data", 1967), so that long tasks stay underestimated.

    Args:
        duration_s: how long each attempt ran, shape (n,).
        ended: whether it ended by itself then; False: it was evicted, or still ran at the end of the tables.
        group: attempts of one group have one distribution (the priority).
    """
    found = np.array(duration_s, dtype=float)
    for each in np.unique(group):
        rows = np.flatnonzero(group == each)
        # Ends before bounds of the same length: what is cut off at a time has survived the ends at that time.
        rows = rows[np.lexsort((~ended[rows], duration_s[rows]))]
        at_risk = np.arange(len(rows), 0, -1)
        survival = np.cumprod(1.0 - ended[rows] / at_risk)
        cut = np.flatnonzero(~ended[rows])
        level = survival[cut] * rng.random(len(cut))
        # The first duration up to which the survival falls to the level; beyond the last: the longest.
        end = np.searchsorted(-survival, -level)
        found[rows[cut]] = duration_s[rows][np.minimum(end, len(rows) - 1)]
    return found
