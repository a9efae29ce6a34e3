"""The trade-off between isolation and utilization ("Speculative Slot Reservation", section IV-B and IV-C).

A stage of N tasks starts all of them at time 0; durations are independent Pareto(t_m, alpha) (equation 1).
Every function broadcasts its arguments as NumPy does: scalars give a Python float, arrays give an array.
All terms are evaluated as logarithms, since 1 - P^(1/N) loses every digit when P is near 1 or N is large.
"""

from __future__ import annotations

import math
from typing import overload

import numpy as np
import numpy.typing as npt

from spark_sched.arrays import Floats
from spark_sched.errors import BadInputError
from spark_sched.policies.reservation import checks


@overload
def isolation_probability(deadline_s: float, t_m_s: float, alpha: float, n_tasks: int) -> float: ...
@overload
def isolation_probability(
    deadline_s: npt.ArrayLike, t_m_s: npt.ArrayLike, alpha: npt.ArrayLike, n_tasks: npt.ArrayLike
) -> float | Floats: ...
def isolation_probability(
    deadline_s: npt.ArrayLike, t_m_s: npt.ArrayLike, alpha: npt.ArrayLike, n_tasks: npt.ArrayLike
) -> float | Floats:
    """Probability that all tasks of a stage end before its reservations expire: equation 2.

    P = (1 - (t_m / D)^alpha)^N, and 0 where D <= t_m.

    Args:
        deadline_s: D, seconds from the stage's start, >= 0; infinity gives 1.
        t_m_s: scale of the Pareto distribution in seconds (the shortest task time), > 0.
        alpha: its shape, > 1.
        n_tasks: N, tasks of the stage, a whole number >= 1.

    Returns:
        P in [0, 1]: a float for scalars, else an array of the broadcast shape.

    Raises:
        BadInputError: an argument is out of range, NaN or no number, or the shapes do not broadcast.
    """
    d, t_m, a, n = checks.arguments(deadline_s=deadline_s, t_m_s=t_m_s, alpha=alpha, n_tasks=n_tasks)
    # Where D <= t_m the clipped excess is 0, so that the logarithm below is -inf and P is 0.
    with np.errstate(over="ignore"):
        log_tail = -a * np.log1p(np.maximum(d - t_m, 0.0) / t_m)  # ln (t_m / D)^alpha
    return _result(np.exp(n * _log1mexp(log_tail)))


@overload
def reservation_deadline_s(isolation: float, t_m_s: float, alpha: float, n_tasks: int) -> float: ...
@overload
def reservation_deadline_s(
    isolation: npt.ArrayLike, t_m_s: npt.ArrayLike, alpha: npt.ArrayLike, n_tasks: npt.ArrayLike
) -> float | Floats: ...
def reservation_deadline_s(
    isolation: npt.ArrayLike, t_m_s: npt.ArrayLike, alpha: npt.ArrayLike, n_tasks: npt.ArrayLike
) -> float | Floats:
    """Deadline that keeps a stage's reservations effective with a given probability: equation 2 solved for D.

    D = t_m (1 - P^(1/N))^(-1/alpha); t_m at P = 0 and infinity at P = 1.

    Args:
        isolation: P in [0, 1], the probability that all tasks end before the deadline.
        t_m_s: scale of the Pareto distribution in seconds, > 0.
        alpha: its shape, > 1.
        n_tasks: N, tasks of the stage, a whole number >= 1.

    Returns:
        D in seconds from the stage's start: a float for scalars, else an array of the broadcast shape.

    Raises:
        BadInputError: an argument is out of range, NaN or no number, or the shapes do not broadcast.
    """
    p, t_m, a, n = checks.arguments(isolation=isolation, t_m_s=t_m_s, alpha=alpha, n_tasks=n_tasks)
    with np.errstate(over="ignore"):
        return _result(t_m * np.exp(-_log_tail(p, n) / a))


@overload
def utilization_lower_bound(isolation: float, alpha: float, n_tasks: int) -> float: ...
@overload
def utilization_lower_bound(
    isolation: npt.ArrayLike, alpha: npt.ArrayLike, n_tasks: npt.ArrayLike
) -> float | Floats: ...
def utilization_lower_bound(
    isolation: npt.ArrayLike, alpha: npt.ArrayLike, n_tasks: npt.ArrayLike
) -> float | Floats:
    """Lower bound of a stage's expected slot utilization at an isolation level: equation 4.

    E[U] >= alpha / (alpha - 1) q^(1/alpha) - q / (alpha - 1) with q = 1 - P^(1/N); 1 at P = 0 and 0 at P = 1.

    Args:
        isolation: P in [0, 1].
        alpha: shape of the Pareto distribution, > 1.
        n_tasks: N, tasks of the stage, a whole number >= 1.

    Returns:
        The bound in [0, 1]: a float for scalars, else an array of the broadcast shape.

    Raises:
        BadInputError: an argument is out of range, NaN or no number, or the shapes do not broadcast.
    """
    p, a, n = checks.arguments(isolation=isolation, alpha=alpha, n_tasks=n_tasks)
    log_q = _log_tail(p, n)
    # Equation 4 as q^(1/alpha) (1 + (1 - q^(1 - 1/alpha)) / (alpha - 1)): its own form cancels for alpha
    # near 1.
    bound = np.exp(log_q / a) * (1.0 - np.expm1((1.0 - 1.0 / a) * log_q) / (a - 1.0))
    return _result(np.clip(bound, 0.0, 1.0))


def stage_time_with_copies_s(durations_s: npt.ArrayLike, copy_durations_s: npt.ArrayLike) -> float | Floats:
    """Completion time of stages whose slower half gets copies on reserved slots: section IV-C.

    T' = t_(h) + max over k > h of min(t_(k) - t_(h), t'_(k)) with h = ceil(N / 2): when half of the N tasks
    have ended, their slots are as many as the tasks that still run, and each of those gets one copy.

    Args:
        durations_s: task durations in seconds, shape (..., N): one stage run per row, tasks in any order.
        copy_durations_s: how long a copy of each of these tasks would run, shape (..., N), in the
            same order; the faster half's are not used.

    Returns:
        T' in seconds, shape (...): a float for a single run.

    Raises:
        BadInputError: a duration is negative, infinite, NaN or no number, a run has no tasks, or the
            shapes differ.
    """
    durations = checks.durations("durations_s", durations_s)
    copies = checks.durations("copy_durations_s", copy_durations_s)
    if durations.ndim == 0 or durations.shape[-1] == 0:
        raise BadInputError(
            f"durations_s must have one or more tasks on its last axis, not shape {durations.shape}"
        )
    if durations.shape != copies.shape:
        raise BadInputError(
            f"copy_durations_s must have the shape of durations_s, {durations.shape}, not {copies.shape}"
        )
    order = np.argsort(durations, axis=-1, kind="stable")
    t = np.take_along_axis(durations, order, axis=-1)
    t_copy = np.take_along_axis(copies, order, axis=-1)
    half = math.ceil(t.shape[-1] / 2)
    start = t[..., half - 1 : half]
    rest = np.minimum(t[..., half:] - start, t_copy[..., half:])
    return _result(start[..., 0] + rest.max(axis=-1, initial=0.0))


def _log_tail(p: Floats, n: Floats) -> Floats:
    """ln(1 - P^(1/N)): 0 at P = 0, -inf at P = 1."""
    with np.errstate(divide="ignore"):
        return _log1mexp(np.log(p) / n)


def _log1mexp(x: Floats) -> Floats:
    """ln(1 - e^x) for x <= 0, by whichever of two forms keeps its digits there (Maechler 2012)."""
    near_zero = x > -math.log(2.0)
    with np.errstate(divide="ignore"):
        return np.asarray(
            np.where(
                near_zero,
                np.log(-np.expm1(np.where(near_zero, x, -1.0))),
                np.log1p(-np.exp(np.where(near_zero, -1.0, x))),
            )
        )


def _result(array: Floats) -> float | Floats:
    return float(array) if np.ndim(array) == 0 else array
