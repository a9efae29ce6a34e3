"""Every decision: ``decide(snapshot, forecasts, now_ms, rng) -> Plan``, a function that returns data."""

from spark_sched.policies.base import Policy, PolicySettings, depends_on_tasks, warm_up
from spark_sched.policies.checks import check_settings
from spark_sched.policies.plan import JobPlan, PilotSet, Plan, PlanQuality, ReservationRule
from spark_sched.policies.registry import available, create

__all__ = [
    "JobPlan",
    "PilotSet",
    "Plan",
    "PlanQuality",
    "Policy",
    "PolicySettings",
    "ReservationRule",
    "available",
    "check_settings",
    "create",
    "depends_on_tasks",
    "warm_up",
]
