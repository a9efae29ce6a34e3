"""The distribution of a job's runtime: predictors return it, and policies plan with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from spark_sched.arrays import Bools, Floats
from spark_sched.errors import BadInputError

#: Survival below this is a rounding error and counts as 0.
_GONE = 1e-12
#: Knots of a normal distribution, equally spaced over ± `_NORMAL_SDS`: its CDF is right to 3e-4.
_NORMAL_KNOTS = 161
_NORMAL_SDS = 4.0


@dataclass(frozen=True, slots=True, eq=False)
class RuntimeDistribution:
    """Runtimes in seconds as a piecewise linear CDF that may jump; immutable.

    One form represents all of them: a histogram is a polygon, a point estimate a jump, a uniform distribution
    a straight line. Between two knots the CDF is the line through them, two knots at one time are a jump, and
    so is a first knot above 0; at a jump the CDF has its upper value. Below the first knot it is 0, from the
    last on it is 1.

    Methods take a number or an array of any shape and give NumPy values of that shape.

    Attributes:
        t_s: times of the knots in seconds, shape (k,), k >= 1, finite, >= 0, not falling.
        p: CDF at the knots, shape (k,), in [0, 1], not falling, the last one 1.
    """

    t_s: Floats
    p: Floats

    @classmethod
    def from_knots(cls, t_s: ArrayLike, p: ArrayLike) -> RuntimeDistribution:
        """A distribution from the knots of its CDF. Raises BadInputError if they do not form one."""
        times = np.array(t_s, dtype=np.float64)
        levels = np.array(p, dtype=np.float64)
        if times.ndim != 1 or times.shape != levels.shape or not times.size:
            raise BadInputError(
                f"a runtime distribution has knots of shapes {times.shape} and {levels.shape}: give one "
                "probability for each time, and at least one"
            )
        if not (np.isfinite(times).all() and times[0] >= 0.0 and (np.diff(times) >= 0.0).all()):
            raise BadInputError("the times of a runtime distribution must be finite, rising and not negative")
        if not (levels[0] >= 0.0 and (np.diff(levels) >= 0.0).all() and abs(levels[-1] - 1.0) < 1e-9):
            raise BadInputError("the probabilities of a runtime distribution must rise from 0 or more to 1")
        levels[-1] = 1.0
        return cls.trusted(times, np.minimum(levels, 1.0))

    @classmethod
    def point_s(cls, runtime_s: float) -> RuntimeDistribution:
        """All mass at one runtime."""
        return cls.from_knots([runtime_s], [1.0])

    @classmethod
    def uniform_s(cls, low_s: float, high_s: float) -> RuntimeDistribution:
        """U(low, high); a point where both are the same."""
        if low_s == high_s:
            return cls.point_s(low_s)
        return cls.from_knots([low_s, high_s], [0.0, 1.0])

    @classmethod
    def normal_s(cls, mean_s: float, sigma_s: float) -> RuntimeDistribution:
        """N(mean, sigma), cut off at 4 sigma and at 0 (no runtime is negative); a point for sigma 0.

        Raises:
            BadInputError: the mean is not above 0, or sigma below 0.
        """
        if not (math.isfinite(mean_s) and mean_s > 0.0 and math.isfinite(sigma_s) and sigma_s >= 0.0):
            raise BadInputError(
                f"a normal runtime has mean {mean_s!r} s and sigma {sigma_s!r} s: the mean must be above 0 "
                "and sigma at least 0"
            )
        if sigma_s == 0.0:
            return cls.point_s(mean_s)
        low = max(-_NORMAL_SDS, -mean_s / sigma_s)
        z = np.linspace(low, _NORMAL_SDS, _NORMAL_KNOTS)
        levels = np.array([NormalDist().cdf(value) for value in z.tolist()])
        levels = (levels - levels[0]) / (levels[-1] - levels[0])
        return cls.from_knots(np.maximum(0.0, mean_s + sigma_s * z), levels)

    @classmethod
    def from_histogram(
        cls,
        centers_s: ArrayLike,
        counts: ArrayLike,
        *,
        min_s: float | None = None,
        max_s: float | None = None,
        exact: ArrayLike = False,
    ) -> RuntimeDistribution:
        """From the bins of a streaming histogram (Ben-Haim and Tom-Tov, "A streaming parallel decision tree
        algorithm", JMLR 2010, procedure "sum").

        Half of a bin's mass lies on either side of its center and reaches to the next center, or to the
        least and greatest value seen. A bin that holds one value over and over keeps that value's mass in
        place, except for one sample's worth: constant runtimes stay constant.

        Args:
            centers_s: of the bins, rising, shape (k,).
            counts: mass of the bins, each above 0, shape (k,).
            min_s: least value seen; by default the first center.
            max_s: greatest value seen; by default the last center.
            exact: whether a bin holds its center alone, shape (k,) or one answer for all.
        """
        centers = np.asarray(centers_s, dtype=np.float64)
        mass = np.asarray(counts, dtype=np.float64)
        if centers.ndim != 1 or centers.shape != mass.shape or not centers.size or not (mass > 0.0).all():
            raise BadInputError("a histogram needs at least one center, and a count above 0 for each")
        if not (np.diff(centers) > 0.0).all():
            raise BadInputError("the centers of a histogram must rise")
        first = float(centers[0]) if min_s is None else min(min_s, float(centers[0]))
        last = float(centers[-1]) if max_s is None else max(max_s, float(centers[-1]))
        alone = np.broadcast_to(np.asarray(exact, dtype=np.bool_), centers.shape)
        made = cls.trusted_histogram(centers, mass, first, last, alone)
        return cls.from_knots(made.t_s, made.p)

    @classmethod
    def trusted_histogram(
        cls, centers_s: Floats, counts: Floats, min_s: float, max_s: float, exact: Bools
    ) -> RuntimeDistribution:
        """`from_histogram` without checks, for callers whose bins are valid by construction."""
        jump = np.maximum(counts - 1.0, 0.0) * exact
        after = counts.cumsum()
        total = after[-1]
        after -= (counts - jump) * 0.5
        # Two knots per bin, before and after its jump; one where the CDF does not jump.
        size = counts.size
        times = np.empty(2 * size + 2)
        levels = np.empty(2 * size + 2)
        times[1:-1:2] = times[2::2] = centers_s
        levels[1:-1:2] = after - jump
        levels[2::2] = after
        times[0], times[-1] = min_s, max_s
        # The outermost values are samples themselves: half of one lies at either end.
        levels[0] = min(0.5, levels[1])
        levels[-1] = total
        levels /= total
        kept = np.empty(2 * size + 2, dtype=np.bool_)
        kept[0::2] = True
        np.greater(jump, 0.0, out=kept[1:-1:2])
        kept[-1] = True
        times, levels = times[kept], levels[kept]
        # Sums of halves can step back by a rounding error.
        np.maximum.accumulate(levels, out=levels)
        return cls.trusted(times, levels)

    @classmethod
    def trusted(cls, t_s: Floats, p: Floats) -> RuntimeDistribution:
        """From arrays that are valid by construction: they are made read-only and not checked."""
        t_s.flags.writeable = False
        p.flags.writeable = False
        return cls(t_s, p)

    @classmethod
    def from_samples_s(cls, samples_s: Sequence[float] | Floats) -> RuntimeDistribution:
        """The empirical distribution of samples, smoothed by half a sample on either side of each (Hazen's
        plotting positions). Raises BadInputError for none."""
        values, counts = np.unique(np.asarray(samples_s, dtype=np.float64), return_counts=True)
        if not values.size:
            raise BadInputError("a runtime distribution needs at least one sample")
        return cls.from_histogram(values, counts, exact=True)

    @property
    def min_s(self) -> float:
        return float(self.t_s[0])

    @property
    def max_s(self) -> float:
        return float(self.t_s[-1])

    @property
    def mean_s(self) -> float:
        t, p = self.t_s, self.p
        return float(p[0] * t[0] + np.dot(np.diff(p), t[1:] + t[:-1]) * 0.5)

    def cdf(self, t_s: ArrayLike) -> Floats:
        """P(T <= t)."""
        return np.asarray(np.interp(np.asarray(t_s, dtype=np.float64), self.t_s, self.p, left=0.0, right=1.0))

    def survival(self, t_s: ArrayLike) -> Floats:
        """P(T > t): the chance that a job still holds its slots after ``t_s`` (3Sigma §3.2)."""
        return np.asarray(1.0 - self.cdf(t_s))

    def quantile(self, p: ArrayLike) -> Floats:
        """The least t with P(T <= t) >= p, for p in [0, 1]."""
        wanted = np.asarray(p, dtype=np.float64)
        upper = np.minimum(np.searchsorted(self.p, wanted, side="left"), self.p.size - 1)
        lower = np.maximum(upper - 1, 0)
        rise = self.p[upper] - self.p[lower]
        share = np.divide(wanted - self.p[lower], rise, out=np.ones_like(wanted), where=rise > 0.0)
        t = self.t_s[lower] + np.clip(share, 0.0, 1.0) * (self.t_s[upper] - self.t_s[lower])
        # The sum may be a rounding error past the knot.
        return np.asarray(np.minimum(t, self.t_s[upper]))

    def later(self, by_s: float) -> RuntimeDistribution:
        """The time from now until the end of a run that starts ``by_s`` seconds from now."""
        return self.trusted(self.t_s + by_s, self.p.copy())

    def conditional(self, elapsed_s: float) -> RuntimeDistribution:
        """The runtime, from its start, of a job that has run ``elapsed_s`` and still runs (3Sigma eq. 2).

        A job that has outlived the distribution gets the point ``elapsed_s``: it is expected to end now. The
        planner corrects such under-estimates (§4.2.1).
        """
        first = int(np.searchsorted(self.t_s, elapsed_s, side="right"))
        if first == 0:
            return self
        gone = float(self.cdf(elapsed_s))
        if first == self.t_s.size or 1.0 - gone <= _GONE:
            return RuntimeDistribution.point_s(elapsed_s)
        times = np.concatenate(([elapsed_s], self.t_s[first:]))
        levels = np.concatenate(([0.0], (self.p[first:] - gone) / (1.0 - gone)))
        levels[-1] = 1.0
        return RuntimeDistribution.trusted(times, levels)

    def scaled(self, factor: float) -> RuntimeDistribution:
        """Every runtime multiplied by ``factor`` > 0, as on a slower executor."""
        if not (math.isfinite(factor) and factor > 0.0):
            raise BadInputError(f"the factor of a runtime is {factor!r} but must be above 0")
        return RuntimeDistribution.trusted(self.t_s * factor, self.p)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RuntimeDistribution):
            return NotImplemented
        return np.array_equal(self.t_s, other.t_s) and np.array_equal(self.p, other.p)

    def __hash__(self) -> int:
        return hash((self.t_s.tobytes(), self.p.tobytes()))
