"""The accuracy of past distributions from history, and the correction of new ones.

Distributions from history are too narrow: a few runs do not show the whole range, and runtimes drift. So each
ended job is scored by the quantile of its runtime in the distribution that was predicted for it, and later
distributions are transformed until these quantiles are uniform (conformal prediction with the exceedance
learned separately; Vovk et al., "Nonparametric predictive distributions based on conformal prediction",
2019). Only jobs that ended before the prediction are used.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from spark_sched.arrays import Floats
from spark_sched.predict.runtimes.distribution import RuntimeDistribution
from spark_sched.predict.runtimes.histogram import LEAST_S

#: Inside the range of history: classes of equal width in the CDF.
_INSIDE = 20
_GRID = np.linspace(0.0, 1.0, _INSIDE + 1)
_INNER_GRID = _GRID[1:-1]
#: Outside the range: classes by distance, as a share of the runtime at the nearer end of the range.
_EXCESS = np.concatenate(([0.0], np.logspace(-3.0, 2.0, 11)))
_OUTSIDE = _EXCESS.size - 1
#: Similar jobs are grouped by the number of runs behind the answer (upper ends) and by the expert's error so
#: far.
_RUNS = (1, 2, 4, 8, 16, 32)
_ERRORS = (0.1, 0.3, 0.6)
_LEAST_RUNS = (1, *(most + 1 for most in _RUNS))
#: Knots outside the range, relative to its ends.
_LOW = 1.0 / (1.0 + _EXCESS[::-1])
_HIGH = 1.0 + _EXCESS
#: Weight of the prior, in jobs.
_PRIOR_JOBS = 5.0
#: Probability that is cut off at each end.
_TAIL = 0.005
#: Jobs that a class remembers.
_MEMORY_JOBS = 2_000.0
#: Equidistributed in [0, 1): stands in for a random number where a runtime hit a jump of the CDF.
GOLDEN = 0.6180339887498949


@dataclass(frozen=True, slots=True)
class RangePosition:
    """Where a runtime fell: ``side`` -1 below the range, 1 above it, 0 inside; ``low`` to ``high`` the CDF's
    jump there (both the same where it does not jump); ``excess`` how far outside, as a share."""

    side: int
    low: float
    high: float
    excess: float = 0.0


def place_of(given: RuntimeDistribution, runtime_s: float) -> RangePosition:
    """The place of a runtime in an uncalibrated distribution."""
    if runtime_s < given.min_s:
        return RangePosition(-1, 0.0, 0.0, given.min_s / max(runtime_s, LEAST_S) - 1.0)
    if runtime_s > given.max_s:
        return RangePosition(1, 1.0, 1.0, runtime_s / max(given.max_s, LEAST_S) - 1.0)
    high = float(given.cdf(runtime_s))
    first = int(np.searchsorted(given.t_s, runtime_s, side="left"))
    if given.t_s[first] == runtime_s:
        low = float(given.p[first]) if first else 0.0
        return RangePosition(0, min(low, high), high)
    return RangePosition(0, high, high)


class Calibration:
    """Learns where runtimes fall and corrects distributions accordingly. Deterministic; constant memory."""

    def __init__(self) -> None:
        shape = (len(_RUNS) + 1, len(_ERRORS) + 1)
        # Jobs below, inside and above; where inside; how far below; how far above.
        self._sides = np.zeros((*shape, 3))
        self._inside = np.zeros((*shape, _INSIDE))
        self._outside = np.zeros((*shape, 2, _OUTSIDE))
        # Per feature: the sum of errors of the first guesses on its values, and their number.
        self._first: dict[str, tuple[float, int]] = {}
        self._bends: dict[tuple[int, int], tuple[Floats, Floats, Floats]] = {}
        self.jobs = 0

    def learn_first(self, feature: str, guess_s: float, runtime_s: float) -> None:
        """Learn the error of the first guess for a value of a feature."""
        error, count = self._first.get(feature, (0.0, 0))
        greater = max(guess_s, runtime_s)
        self._first[feature] = (
            error + (abs(guess_s - runtime_s) / greater if greater > 0.0 else 0.0),
            count + 1,
        )

    def doubt(self, feature: str) -> float:
        """The expected error of a guess from a single run with the same value of the feature, as a share of
        the larger of guess and runtime; 1 until a first guess has been checked."""
        error, count = self._first.get(feature, (0.0, 0))
        return (error + 1.0) / (count + 1.0)

    def learn(self, place: RangePosition, runs: int, nmae: float) -> None:
        """Learn where a job's runtime fell in its predicted distribution, which came from ``runs`` runs of an
        expert with that error."""
        kind = _kind(runs, nmae)
        self.jobs += 1
        keep = 1.0 - 1.0 / _MEMORY_JOBS
        sides = self._sides[kind]
        sides *= keep
        sides[place.side + 1] += 1.0
        if place.side == 0:
            share = (self.jobs * GOLDEN) % 1.0
            at = place.low + share * (place.high - place.low)
            inside = self._inside[kind]
            inside *= keep
            inside[min(_INSIDE - 1, int(at * _INSIDE))] += 1.0
        else:
            outside = self._outside[kind][0 if place.side < 0 else 1]
            outside *= keep
            outside[min(_OUTSIDE - 1, max(0, int(np.searchsorted(_EXCESS, place.excess)) - 1))] += 1.0
        # Updated when jobs end, not on a query: a submitted job waits for its answer, an ended one does not.
        self._bends[kind] = self._bend(kind)

    def calibrated(self, given: RuntimeDistribution, runs: int, nmae: float) -> RuntimeDistribution:
        """The corrected distribution: wider if earlier runtimes often fell outside their history's range."""
        kind = _kind(runs, nmae)
        bend = self._bends.get(kind)
        if bend is None:
            bend = self._bends[kind] = self._bend(kind)
        below, inside, above = bend
        # 1. Inside the range: the transformed CDF. If it has few knots, those of the transformation are
        # added.
        levels, times = given.p, given.t_s
        if levels.size < 2 * _INSIDE:
            # Both rise together, so that each sorted by itself is the pairs sorted.
            times = np.concatenate((times, np.interp(_INNER_GRID, levels, times)))
            levels = np.concatenate((levels, _INNER_GRID))
            times.sort()
            levels.sort()
        # 2. Outside the range: as far as earlier runtimes fell outside. The CDF has no jumps on either side,
        # but may jump at the border.
        low, high = given.t_s[0] * _LOW[-below.size :], given.t_s[-1] * _HIGH[: above.size]
        return RuntimeDistribution.trusted(
            np.concatenate((low, times, high)),
            np.concatenate((below, np.interp(levels, _GRID, inside), above)),
        )

    def _bend(self, kind: tuple[int, int]) -> tuple[Floats, Floats, Floats]:
        """CDF at the knots below the range, at `_GRID` inside it, and at the knots above it."""
        # Prior: of n + 1 runs in random order the last is the shortest with probability 1 / (n + 1), and the
        # longest likewise.
        outer = 1.0 / (_LEAST_RUNS[kind[0]] + 1.5)
        sides = _mean(self._sides[kind], np.array([outer, 1.0 - 2.0 * outer, outer]))
        inside = np.cumsum(_mean(self._inside[kind], np.full(_INSIDE, 1.0 / _INSIDE)))
        far = np.full(_OUTSIDE, 1.0 / _OUTSIDE)
        below, above = (np.cumsum(_mean(self._outside[kind][side], far)) for side in (0, 1))
        low = sides[0] * np.concatenate(([0.0], 1.0 - below[-2::-1], [1.0]))
        high = sides[0] + sides[1] * np.concatenate(([0.0], inside))
        levels = sides[0] + sides[1] + sides[2] * np.concatenate(([0.0], above))
        levels[-1] = 1.0
        # The last half percent of a tail is cut off: otherwise it would determine the range and the mean.
        kept = int(np.searchsorted(levels, 1.0 - _TAIL)) + 1
        levels = levels[:kept]
        levels[-1] = 1.0
        cut = int(np.searchsorted(low, _TAIL))
        low[:cut] = 0.0
        return low[max(0, cut - 1) :], np.minimum(high, 1.0), np.minimum(levels, 1.0)

    def to_bytes(self) -> bytes:
        """The state: 8-byte little-endian floats, then the record of first guesses as JSON."""
        parts = [np.array([float(self.jobs)]), self._sides, self._inside, self._outside]
        numbers = np.concatenate([part.ravel() for part in parts]).astype("<f8").tobytes()
        return numbers + json.dumps(self._first).encode()

    @classmethod
    def from_bytes(cls, state: bytes) -> Calibration:
        """What `to_bytes` wrote. Raises ValueError if it cannot be that."""
        made = cls()
        parts = (made._sides, made._inside, made._outside)
        size = 8 * (1 + sum(part.size for part in parts))
        if len(state) < size:
            raise ValueError("no calibration")
        rows = np.frombuffer(state[:size], dtype="<f8")
        made._first = {str(k): (float(e), int(n)) for k, (e, n) in json.loads(state[size:]).items()}
        if not (np.isfinite(rows) & (rows >= 0.0)).all():
            raise ValueError("no calibration")
        made.jobs = int(rows[0])
        at = 1
        for part in parts:
            part[...] = rows[at : at + part.size].reshape(part.shape)
            at += part.size
        return made


def _kind(runs: int, nmae: float) -> tuple[int, int]:
    return bisect_left(_RUNS, runs), bisect_left(_ERRORS, nmae)


def _mean(seen: Floats, prior: Floats) -> Floats:
    return (seen + _PRIOR_JOBS * prior) / (float(seen.sum()) + _PRIOR_JOBS)
