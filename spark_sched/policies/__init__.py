"""Every decision: ``decide(snapshot, forecasts, now_ms, rng) -> Plan``, a function that returns data."""

from spark_sched.policies.base import Capabilities, ChangesWith, Policy, PolicySettings
from spark_sched.policies.checks import check_settings
from spark_sched.policies.plan import JobPlan, PilotSet, Plan, PlanQuality, ReservationRule
from spark_sched.policies.registry import available, create

__all__ = [
    "Capabilities",
    "ChangesWith",
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
]
