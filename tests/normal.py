"""The conjugate normal posterior that SLearn §4.1 compares estimators with."""

from __future__ import annotations

import math
from collections.abc import Sequence


def normal_posterior(
    samples: Sequence[float], sample_variance: float, prior_mean: float, prior_variance: float
) -> tuple[float, float]:
    """Mean and variance of x given samples of N(x, σ₁²) and the prior N(µ, σ₀²) (§4.1).

    ``prior_variance`` may be infinite: nothing is known beforehand, and the answer is (ȳ, σ₁²/m).

    Raises:
        ValueError: no samples and an infinite prior: nothing is known at all.
    """
    prior = 0.0 if math.isinf(prior_variance) else 1.0 / prior_variance
    evidence = len(samples) / sample_variance
    if prior + evidence <= 0.0:
        raise ValueError("a posterior needs samples or a prior with finite variance")
    start = 0.0 if prior == 0.0 else prior_mean * prior
    return (sum(samples) / sample_variance + start) / (prior + evidence), 1.0 / (prior + evidence)
