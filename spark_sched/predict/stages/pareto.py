"""The Pareto model of task durations ("Speculative Slot Reservation", section IV-B, equation 1).

Scalars only and no NumPy: the estimate is needed per job and planning cycle.
"""

from __future__ import annotations

#: The mean exists only above 1.
MIN_SHAPE = 1.01
#: Above this the tail is a step already.
MAX_SHAPE = 100.0


def shape_from_sums(finished: int, sum_log_ratios: float, prior_alpha: float, prior_weight: float) -> float:
    """Shape alpha of right-censored Pareto durations, from sufficient statistics.

    With k finished tasks and S = sum ln(t_i / t_m) over finished plus sum ln(max(age, t_m) / t_m) over
    running tasks, the likelihood of alpha is proportional to alpha^k exp(-alpha S). A Gamma prior worth
    ``prior_weight`` finished tasks of shape ``prior_alpha`` gives (k + w) / (S + w / prior_alpha), clipped to
    [``MIN_SHAPE``, ``MAX_SHAPE``]. The Scala ledger computes the same (``sparksched.Pareto.shape``).

    Args:
        finished: k, the number of finished tasks.
        sum_log_ratios: S, dimensionless.
        prior_alpha: shape expected before any task finished.
        prior_weight: w, how many finished tasks that expectation is worth.
    """
    denominator = sum_log_ratios + prior_weight / prior_alpha
    if denominator <= 0.0:
        return MAX_SHAPE
    return min(MAX_SHAPE, max(MIN_SHAPE, (finished + prior_weight) / denominator))
