"""The rules of the jobs in random sequences of ledger operations (`ledger_walk`)."""

from __future__ import annotations

from typing import Any

from ledger_steps import fields_of, rule_of

from spark_sched_lab.enforce.ledger import IdleLimits, Rule

BASE = Rule(priority=0, copies=True, shape_weight=5.0, max_hold_ms=60_000, gap_ms=2_000, deadline="pareto")
RULES: dict[str, dict[str, Any]] = {
    "background": {"isolation": 0.0},
    "high": {"priority": 10},
    "higher": {"priority": 20, "pre_reserve_threshold": 0.0},
    "equal_to_high": {"priority": 10, "isolation": 0.9, "copy_min_slowdown": 0.0, "copy_min_task_ms": 0},
    "half": {"priority": 5, "isolation": 0.5, "shape_weight": 0.0},
    "slack": {"priority": 10, "isolation": 0.2, "shape": 1.2, "shape_weight": 20.0},
    "known": {"priority": 7, "isolation": 0.4, "scale_ms": 250.5, "stage_tasks": [4, 2, 6, 3]},
    "narrow_view": {"priority": 10, "whole_job": False, "pre_reserve_threshold": 0.25, "stage_tasks": [3, 6]},
    "no_copies": {"priority": 12, "copies": False, "pre_reserve_threshold": 1.0},
    "short": {"priority": 3, "max_hold_ms": 700, "gap_ms": 0},
    "below": {"priority": -5, "isolation": 0.7},
    "fair": {"priority": 10, "pool": {"name": "one", "weight": 1.0, "min_share": 0.0, "fair": True}},
    "twice": {"priority": 10, "pool": {"name": "two", "weight": 2.0, "min_share": 0.0}},
    "owed": {"priority": 10, "isolation": 0.0, "pool": {"name": "three", "weight": 1.0, "min_share": 3.0}},
}

# Jobs that mostly pause, under limits that are felt.
IDLE_RULES: dict[str, dict[str, Any]] = {
    "background": {"isolation": 0.0},
    "unknown": {"priority": 10, "first_gap_ms": 1_000},
    "equal": {"priority": 10, "first_gap_ms": 4_000, "gap_ms": 3_000},
    "never_pauses": {"priority": 5, "first_gap_ms": 0},
    "high": {"priority": 20, "first_gap_ms": 1_000, "isolation": 0.9},
    "as_before": {"priority": 7},
}
# Jobs whose deadlines follow their earlier stages.
CALIBRATED_RULES: dict[str, dict[str, Any]] = {
    "background": {"isolation": 0.0},
    "low": {"priority": 5, "isolation": 0.2, "deadline": "calibrated"},
    "half": {"priority": 10, "isolation": 0.5, "deadline": "calibrated", "whole_job": False},
    "high": {"priority": 10, "isolation": 0.95, "deadline": "calibrated", "shape_weight": 0.0},
    "until_the_end": {"priority": 12, "isolation": 0.5, "deadline": "fixed"},
}
IDLE_LIMITS = IdleLimits(job_share=0.2, share=0.3, burst_ms=700)
# Jobs that hold for seconds while tasks of others wait.
WAITING_RULES: dict[str, dict[str, Any]] = {
    "background": {"isolation": 0.0},
    "unknown": {"priority": 10, "first_gap_ms": 6_000, "gap_ms": 9_000},
    "equal": {"priority": 10, "first_gap_ms": 4_000, "gap_ms": 8_000},
    "low": {"priority": 5, "first_gap_ms": 3_000},
    "high": {"priority": 20, "first_gap_ms": 7_000, "gap_ms": 8_000, "isolation": 0.9},
    "as_before": {"priority": 7},
}
WAITING_LIMITS = IdleLimits(job_share=0.1, share=0.15, burst_ms=400, waiting_cost=2.5)


def rules(named: dict[str, dict[str, Any]] = RULES) -> dict[str, Rule]:
    base = fields_of(BASE)
    return {name: rule_of({**base, **changes}) for name, changes in named.items()}
