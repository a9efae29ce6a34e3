"""The paper's upper bound on idle held slot time, to compare with the measured time."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from spark_sched.policies.reservation.formulas import reservation_deadline_s, utilization_lower_bound
from spark_sched_lab.usage.records import Usage


def held_at_most_ms(usage: Usage) -> dict[str, float]:
    """Expected slot time held idle at the barriers of each job, in slot-milliseconds, at most: N D (1 - U).

    U is equation 4 of "Speculative Slot Reservation" and D equation 2 for the job's isolation level and a
    Pareto distribution fitted to the stage's task times (maximum likelihood). The paper assumes that all N
    slots of a stage are held until D. Infinite for isolation 1 and if the fit has no mean (alpha <= 1); 0 if
    all tasks took equally long. Jobs whose isolation level or stages the source does not record are left out.
    If the source records the bound itself, that value is used.
    """
    if usage.held_at_most_ms is not None:
        return usage.held_at_most_ms
    times_s: dict[str, list[float]] = defaultdict(list)
    for attempt in usage.attempts:
        if attempt.outcome == "success":
            times_s[attempt.stage].append(max(1, attempt.end_ms - attempt.start_ms) / 1000.0)
    found: dict[str, float] = {}
    for stage, job in usage.barriers.items():
        if job in usage.isolation and stage in times_s:
            loss_s = _held_s(np.array(times_s[stage]), usage.isolation[job])
            found[job] = found.get(job, 0.0) + 1000.0 * loss_s
    return found


def _held_s(times_s: np.ndarray, isolation: float) -> float:
    n, t_m_s = times_s.size, float(times_s.min())
    logs = float(np.log(times_s / t_m_s).sum())
    if isolation == 0.0 or logs == 0.0:
        return 0.0
    alpha = n / logs
    if isolation == 1.0 or alpha <= 1.0:
        return float("inf")
    deadline_s = reservation_deadline_s(isolation, t_m_s, alpha, n)
    return n * deadline_s * (1.0 - utilization_lower_bound(isolation, alpha, n))
