"""One number from a distribution, for schedulers that order jobs by size (SLearn §4.3)."""

from __future__ import annotations

import math

import numpy as np

from spark_sched.predict.runtimes.distribution import RuntimeDistribution
from spark_sched.predict.runtimes.histogram import LEAST_S


def median_s(runtime: RuntimeDistribution) -> float:
    """The median, in seconds: "Point-Est"."""
    return float(runtime.quantile(0.5))


def inverse_square_s(runtime: RuntimeDistribution) -> float:
    """The runtime whose utility 1/t² is the distribution's expected utility, E[T⁻²]^(-1/2), in seconds: how
    SLearn §4.3 has 3Sigma choose one number.

    Between two knots a < b mass is spread evenly and ∫ t⁻² dt / (b - a) = 1 / (ab); at a jump it is 1 / t².
    """
    # A runtime of 0 would have infinite utility.
    t = np.maximum(runtime.t_s, LEAST_S)
    mass = np.diff(runtime.p, prepend=0.0)
    before = np.concatenate((t[:1], t[:-1]))
    return 1.0 / math.sqrt(float(np.sum(mass / (before * t))))
