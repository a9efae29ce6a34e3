"""Every decision: ``decide(snapshot, forecasts, now_ms, rng, memory) -> (Plan, memory)``, a function."""

from spark_sched.policies.base import Capabilities, ChangesWith, Policy, PolicyKind, PolicySettings
from spark_sched.policies.checks import check_options, check_settings
from spark_sched.policies.options import Option, Options
from spark_sched.policies.registry import available, create, kind_of
from spark_sched.protocol.plan import (
    EndQuantiles,
    JobForecast,
    JobPlan,
    PilotSet,
    Plan,
    PlanQuality,
    QueuedBehind,
    ReservationRule,
)

__all__ = [
    "Capabilities",
    "ChangesWith",
    "EndQuantiles",
    "JobForecast",
    "JobPlan",
    "Option",
    "Options",
    "PilotSet",
    "Plan",
    "PlanQuality",
    "Policy",
    "PolicyKind",
    "PolicySettings",
    "QueuedBehind",
    "ReservationRule",
    "available",
    "check_options",
    "check_settings",
    "create",
    "kind_of",
]
