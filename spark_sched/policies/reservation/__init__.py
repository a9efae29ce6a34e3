"""Speculative slot reservation (Chen, Wang and Li): its formulas and its policy.

The formulas are public and vectorised: :func:`isolation_probability` (equation 2),
:func:`reservation_deadline_s` (equation 2 solved for the deadline), :func:`utilization_lower_bound`
(equation 4) and :func:`stage_time_with_copies_s` (section IV-C).
"""

from spark_sched.policies.reservation.formulas import (
    isolation_probability,
    reservation_deadline_s,
    stage_time_with_copies_s,
    utilization_lower_bound,
)

__all__ = [
    "isolation_probability",
    "reservation_deadline_s",
    "stage_time_with_copies_s",
    "utilization_lower_bound",
]
