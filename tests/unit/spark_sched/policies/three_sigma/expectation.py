"""Equations 1 and 2 of 3Sigma for one job at a time, written as the paper writes them: what `curves`
computes for all jobs at once is compared with them."""

from __future__ import annotations

from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from spark_sched.policies.three_sigma.curves import GONE, overrun_s
from spark_sched.policies.three_sigma.utility import Utility
from spark_sched.predict import RuntimeDistribution

Floats: TypeAlias = NDArray[np.float64]

#: A fall within so little time is a drop: its slope would magnify rounding.
_AT_ONCE_S = 1e-4


class Knots:
    """P(T > t) and its integral, ready to be asked many times.

    Args:
        runtime: the distribution.
        scale: every runtime times this, > 0: a slower place.
    """

    __slots__ = ("_area_known", "_level", "_t", "max_s")

    def __init__(self, runtime: RuntimeDistribution, scale: float = 1.0) -> None:
        # From 0 on, so that one interpolation serves all times.
        self._t = np.zeros(len(runtime.t_s) + 2)
        np.multiply(runtime.t_s, scale, out=self._t[2:])
        self._t[1] = self._t[2]
        self._level = np.ones(len(self._t))
        np.subtract(1.0, runtime.p, out=self._level[2:])
        self._level[-1] = 0.0
        self._area_known: Floats | None = None
        self.max_s = float(self._t[-1])

    @property
    def _area(self) -> Floats:
        """The integral of P(T > t) up to each knot."""
        if self._area_known is None:
            area = np.zeros(len(self._t))
            steps = (self._t[1:] - self._t[:-1]) * (self._level[1:] + self._level[:-1])
            np.cumsum(0.5 * steps, out=area[1:])
            self._area_known = area
        return self._area_known

    @property
    def mean_s(self) -> float:
        return float(self._area[-1])

    def mean_left_s(self, elapsed_s: float, cycle_s: float) -> float:
        """How much longer a job that has run ``elapsed_s`` is expected to run; see `overrun_s`."""
        alive = float(self.survival(elapsed_s))
        if alive <= GONE:
            return overrun_s(max(0.0, elapsed_s - self.max_s), cycle_s)
        return max(0.0, self.mean_s - float(self.lived(np.float64(elapsed_s)))) / alive

    def survival(self, t_s: Floats | float) -> Floats:
        """P(T > t); 1 below 0."""
        return np.asarray(np.interp(t_s, self._t, self._level))

    def lived(self, t_s: Floats | np.float64) -> Floats:
        """The integral of P(T > u) over u from 0 to t in s, exact between knots; 0 below 0."""
        at = np.clip(t_s, 0.0, self._t[-1])
        left = np.clip(np.searchsorted(self._t, at, side="right") - 1, 0, len(self._t) - 1)
        # The trapezoid from the knot on the left to here.
        return np.asarray(
            self._area[left] + (at - self._t[left]) * 0.5 * (self._level[left] + self.survival(at))
        )


def expected_utility(utility: Utility, runtime: Knots, starts_s: Floats) -> Floats:
    """Equation 1: E[U(start + T)] for each start, on the utility's clock; exact for piecewise linear CDFs.

    By parts, with S(t) = P(T > t): U(start) + ∫ U'(start + t) S(t) dt, where a drop of U at d adds its height
    times S(d − start).
    """
    times, values = utility.times_s, utility.values
    starts = np.asarray(starts_s, dtype=float)
    if times[0] == times[-1]:  # a step: the commonest one, an SLO's
        return np.asarray(values[0] + (values[-1] - values[0]) * _alive(runtime, times[0] - starts))
    total = np.full(starts.shape, values[0])
    for (t0, v0), (t1, v1) in pairwise(zip(times, values, strict=True)):
        if v1 == v0:
            continue
        if t1 - t0 <= _AT_ONCE_S:
            total += (v1 - v0) * _alive(runtime, t0 - starts)
        else:
            slope = (v1 - v0) / (t1 - t0)
            # Before the start the job is alive for certain: that part of the slope counts whole.
            before = np.clip(starts, t0, t1) - t0
            total += slope * (before + runtime.lived(t1 - starts) - runtime.lived(t0 - starts))
    return np.asarray(np.maximum(total, 0.0))


def _alive(runtime: Knots, t_s: Floats) -> Floats:
    """P(start + T > d) for t = d − start: certain where the start itself is after d."""
    return runtime.survival(t_s)


def expected_consumption(runtime: Knots, elapsed_s: Floats) -> Floats:
    """§3.2: the chance that a job holds its slots ``elapsed_s`` after its start; 1 at the start itself."""
    return np.where(elapsed_s <= 0.0, 1.0, runtime.survival(elapsed_s))


def remaining(runtime: Knots, elapsed_s: float, ahead_s: Floats, cycle_s: float) -> Floats:
    """Equation 2: P(still running ``ahead_s`` from now | it has run ``elapsed_s``), 1 for 0.

    A job that outlived its distribution runs for `overrun_s` more, for certain.
    """
    alive = float(runtime.survival(elapsed_s))
    if alive <= GONE:
        left_s = overrun_s(max(0.0, elapsed_s - runtime.max_s), cycle_s)
        return np.where(ahead_s < left_s, 1.0, 0.0)
    chance = np.minimum(1.0, runtime.survival(elapsed_s + ahead_s) / alive)
    return np.where(ahead_s <= 0.0, 1.0, chance)
