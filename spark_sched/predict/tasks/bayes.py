"""Mean task times from history and pilots together (SLearn §7): history is the prior, pilots the evidence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np

from spark_sched.arrays import Floats
from spark_sched.predict.runtimes.distribution import RuntimeDistribution
from spark_sched.predict.runtimes.histogram import LEAST_S

#: Default probability that history does not apply to a run.
USUAL_DOUBT = 0.02
#: Points of the grid over the logarithm of the mean task time.
_POINTS = 160
#: Log of the factor by which a run without history may be faster or slower than any before.
_FAR = math.log(1e3)
#: Least spread of task times within a stage (standard deviation of logarithms).
_LEAST_SPREAD = 0.01
_P95 = NormalDist().inv_cdf(0.95)
#: Nodes of the integral over spreads, in standard deviations, and their weights.
_AT, _WEIGHTS = np.polynomial.hermite_e.hermegauss(5)


@dataclass(frozen=True, slots=True)
class Posterior:
    """The posterior of a stage's mean task time.

    Attributes:
        task_s: its median, in seconds.
        log_sd: standard deviation of its logarithm.
        low_s, high_s: ends of its 90 % credible interval, in seconds.
    """

    task_s: float
    log_sd: float
    low_s: float
    high_s: float

    @property
    def harmonic_s(self) -> float:
        """The harmonic mean E[1/x]^-1, in seconds, for a log-normal posterior.

        The gain of running a job first is proportional to 1 / size. So if sizes only order jobs, a job of
        uncertain size should run earlier than its median size suggests; the harmonic mean achieves this.
        """
        return self.task_s * math.exp(-0.5 * self.log_sd**2)


def prior_log_sd(prior: RuntimeDistribution) -> float:
    """The uncertainty of a prior: standard deviation of the logarithm, from its 5 % and 95 % quantiles."""
    low, high = np.maximum(prior.quantile([0.05, 0.95]), LEAST_S).tolist()
    return math.log(high / low) / (2.0 * _P95)


def pilots_needed(prior: RuntimeDistribution, spread: float, target: float, most: int) -> int:
    """The least number of pilots after which the logarithm of the mean has a standard deviation of at most
    ``target``: 0 if the prior has it already, and never more than ``most``.

    1/σ² = 1/σ₀² + m/σ₁² in logarithms (§4.1's posterior variance).
    """
    log_sd = prior_log_sd(prior)
    if log_sd <= target:
        return 0
    missing = 1.0 / target**2 - 1.0 / log_sd**2
    return min(most, max(1, math.ceil(missing * max(spread, _LEAST_SPREAD) ** 2)))


@lru_cache(maxsize=4)
def _steps(points: int) -> Floats:
    return np.linspace(0.0, 1.0, points + 1)


def posterior(
    prior: RuntimeDistribution,
    spread: float,
    pilots_s: Sequence[float],
    doubt: float = USUAL_DOUBT,
    spread_log_sd: float = 0.0,
) -> Posterior:
    """The posterior of a mean task time after pilots took ``pilots_s``.

    The prior is history's distribution and, with probability ``doubt``, anything within a factor of 1000 of
    it. A task of a stage whose mean is x takes log-normally as long, with mean x and ``spread`` as the
    standard deviation of its logarithm.

    Args:
        prior: of the mean, in seconds.
        spread: >= 0.
        pilots_s: durations in seconds.
        spread_log_sd: standard deviation of the logarithm of ``spread`` itself, where stages of one kind
            differ in theirs. It widens the posterior more than it moves the median.
    """
    edges, by_history, by_surprise = _masses(prior, spread, pilots_s, spread_log_sd)
    mass = (1.0 - doubt) * by_history + doubt * by_surprise
    total = float(mass.sum())
    if total <= 0.0:
        # The doubt is 0, yet history gives such pilots a probability of 0.
        mass, total = by_surprise, float(by_surprise.sum())
    middle = 0.5 * (edges[1:] + edges[:-1])
    mean = float((mass * middle).sum()) / total
    variance = float((mass * (middle - mean) ** 2).sum()) / total
    upto = np.concatenate(([0.0], np.cumsum(mass) / total))
    low_s, task_s, high_s = np.exp(np.interp((0.05, 0.5, 0.95), upto, edges)).tolist()
    return Posterior(task_s, math.sqrt(variance), low_s, high_s)


def surprised(prior: RuntimeDistribution, spread: float, pilots_s: Sequence[float], doubt: float) -> float:
    """The posterior probability that the run is unlike history, after its pilots: Bayes' rule on ``doubt``.

    Arguments as of `posterior`.
    """
    _, by_history, by_surprise = _masses(prior, spread, pilots_s, 0.0)
    new = doubt * float(by_surprise.sum())
    return new / (new + (1.0 - doubt) * float(by_history.sum()))


def _masses(
    prior: RuntimeDistribution, spread: float, pilots_s: Sequence[float], spread_log_sd: float
) -> tuple[Floats, Floats, Floats]:
    """Edges of cells of the logarithm of the mean, shape (n + 1,), and how probable each cell and the pilots
    together are, up to one factor, if history tells of this run and if it does not, shape (n,)."""
    logs = np.log(np.maximum(np.asarray(pilots_s, dtype=np.float64), LEAST_S))
    spreads, weights = _spreads(spread, spread_log_sd, logs)
    first, last = np.log(np.maximum(prior.quantile([0.001, 0.999]), LEAST_S)).tolist()
    low, high = first - _FAR, last + _FAR
    if logs.size:
        # Outside this range the pilots' likelihood is about 0, so the grid leaves it out.
        means = float(logs.mean()) + 0.5 * spreads**2
        reach = 8.0 * spreads / math.sqrt(logs.size) + 1e-3
        least, most = float((means - reach).min()), float((means + reach).max())
        low, high = max(low, least), min(high, most)
        if low >= high:
            low, high = least, most
    # Fine enough for the least spread beside the largest one.
    points = _POINTS * spreads.size
    edges = low + (high - low) * _steps(points)
    by_history = np.diff(prior.cdf(np.exp(edges)))
    by_surprise = np.full(points, (high - low) / points / (last - first + 2.0 * _FAR))
    if logs.size:
        middle = 0.5 * (edges[1:] + edges[:-1])
        exponent = -0.5 * logs.size * ((middle[:, None] - means) / spreads) ** 2
        likelihood = np.exp(exponent - exponent.max()) @ weights
        by_history, by_surprise = by_history * likelihood, by_surprise * likelihood
    return edges, by_history, by_surprise


def _spreads(spread: float, log_sd: float, logs: Floats) -> tuple[Floats, Floats]:
    """Spreads that a stage may have and what each weighs after tasks whose times have these logarithms, up to
    one factor, both of shape (k,)."""
    if log_sd <= 0.0 or not logs.size:
        return np.array([max(spread, _LEAST_SPREAD)]), np.ones(1)
    spreads = np.maximum(spread * np.exp(log_sd * _AT), _LEAST_SPREAD)
    squares = float(((logs - logs.mean()) ** 2).sum())
    # s^-n of the tasks' densities: one of them is that of their mean.
    likelihood = -logs.size * np.log(spreads) - 0.5 * squares / spreads**2
    weights = _WEIGHTS * np.exp(likelihood - likelihood.max())
    counts = weights > 1e-6 * weights.max()
    return spreads[counts], weights[counts]
