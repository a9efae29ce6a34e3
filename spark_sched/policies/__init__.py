"""Every decision: ``decide(snapshot, forecasts, now_ms, rng) -> Plan``, a function that returns data."""

from spark_sched.policies.base import Policy, PolicySettings
from spark_sched.policies.plan import JobPlan, Plan, ReservationRule
from spark_sched.policies.registry import available, create

__all__ = [
    "JobPlan",
    "Plan",
    "Policy",
    "PolicySettings",
    "ReservationRule",
    "available",
    "create",
]
