"""Online estimate of the Pareto shape from a stage's tasks, finished and still running.

The ledger folds the same sums, and is compared with it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from spark_sched.errors import BadInputError
from spark_sched.policies.reservation import checks
from spark_sched.predict.stages.pareto import shape_from_sums


def estimate_shape(
    finished_s: npt.ArrayLike,
    running_age_s: npt.ArrayLike,
    t_m_s: float,
    prior_alpha: float,
    prior_weight: float,
) -> float:
    """Shape alpha of a stage's task durations while some of its tasks still run.

    (k + w) / (sum ln(t_i / t_m) over the k finished + sum ln(max(age, t_m) / t_m) over running + w /
    prior_alpha), clipped to [1.01, 100]: the maximum-likelihood estimate under right censoring, where a
    running task says only that it takes longer than its age, with a Gamma prior worth w finished tasks.
    Leaving running tasks out would call every stage light-tailed, because its stragglers finish last.

    Args:
        finished_s: durations of finished tasks in seconds, shape (k,), each >= ``t_m_s``; may be empty.
        running_age_s: seconds since the start of each running task, shape (r,), >= 0; may be empty.
        t_m_s: scale in seconds, > 0: the shortest finished duration (section IV-B2), or an earlier run's.
        prior_alpha: shape expected before any task ended, > 1.
        prior_weight: w, how many finished tasks that is worth, >= 0; 0 is plain maximum likelihood.

    Returns:
        alpha; 100 where nothing at all is known (no tasks, ``prior_weight`` 0).

    Raises:
        BadInputError: a value is out of range, NaN or no number.
    """
    t_m = checks.scale("t_m_s", t_m_s)
    alpha = checks.shape("prior_alpha", prior_alpha)
    weight = checks.weight("prior_weight", prior_weight)
    for name, scalar in (("t_m_s", t_m), ("prior_alpha", alpha), ("prior_weight", weight)):
        if scalar.ndim != 0:
            raise BadInputError(f"{name} must be one number, not an array of shape {scalar.shape}")
    finished = checks.durations("finished_s", finished_s)
    ages = checks.durations("running_age_s", running_age_s)
    if (finished < t_m).any():
        raise BadInputError(f"finished_s must be >= t_m_s ({float(t_m)!r}), not {float(finished.min())!r}")
    sum_log_ratios = float(np.log(finished / t_m).sum() + np.log(np.maximum(ages, t_m) / t_m).sum())
    return shape_from_sums(finished.size, sum_log_ratios, float(alpha), float(weight))
