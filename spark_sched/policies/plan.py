"""A plan: the rules the driver applies to every event until the next plan (``protocol/plan.schema.json``)."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

__all__ = ["SCHEMA", "JobPlan", "Plan", "ReservationRule"]

#: Version of the plan's layout. New optional fields do not change it.
SCHEMA = 1


@dataclass(frozen=True, slots=True)
class ReservationRule:
    """How one job holds slots ("Speculative Slot Reservation"); None means the configured default.

    Attributes:
        isolation: P in (0, 1], the probability that a phase ends before its reservations expire.
        alpha: Pareto shape of the task times, in [1.01, 100]: the prior of the driver's own estimate.
        t_m_ms: their scale in milliseconds, until the phase's own first task ends.
        prereserve_threshold: R in [0, 1], the finished fraction past which slots of others are taken.
        phase_tasks: tasks of the job's phases by index, each at least 1; empty when unknown.
        copies: whether held idle slots may run copies of straggling tasks.
    """

    isolation: float
    alpha: float | None
    t_m_ms: float | None
    prereserve_threshold: float
    phase_tasks: tuple[int, ...]
    copies: bool

    def to_json(self) -> dict[str, Any]:
        return {
            "isolation": self.isolation,
            "alpha": self.alpha,
            "t_m_ms": self.t_m_ms,
            "prereserve_threshold": self.prereserve_threshold,
            "phase_tasks": list(self.phase_tasks),
            "copies": self.copies,
        }


@dataclass(frozen=True, slots=True)
class JobPlan:
    """One job's rules and why it got them. ``reservation`` None: it holds nothing."""

    job: str
    rank: int
    priority: int
    reservation: ReservationRule | None
    reason: str

    def to_json(self) -> dict[str, Any]:
        return {
            "job": self.job,
            "rank": self.rank,
            "priority": self.priority,
            "reservation": None if self.reservation is None else self.reservation.to_json(),
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class Plan:
    """Rules for all active jobs of one snapshot, ranks rising from 0.

    Attributes:
        snapshot: version of the last event the plan knows.
        made_at_ms: the driver's clock; the rules hold until ``made_at_ms + valid_for_ms``.
        ordered: ranks order jobs of equal priority; otherwise Spark's own FIFO or FAIR order does.
        number: given by whoever sends the plan, rising from 1.
    """

    snapshot: int
    made_at_ms: int
    valid_for_ms: int
    policy: str
    ordered: bool
    jobs: tuple[JobPlan, ...]
    number: int = 1

    def numbered(self, number: int) -> Plan:
        return replace(self, number=number)

    def to_json(self) -> dict[str, Any]:
        """The plan as a JSON object."""
        return {
            "schema": SCHEMA,
            "plan": self.number,
            "snapshot": self.snapshot,
            "made_at_ms": self.made_at_ms,
            "valid_for_ms": self.valid_for_ms,
            "policy": self.policy,
            "ordered": self.ordered,
            "jobs": [job.to_json() for job in self.jobs],
        }

    def to_text(self) -> str:
        """The plan as compact JSON text, the same bytes for the same plan."""
        return json.dumps(self.to_json(), separators=(",", ":"), allow_nan=False)
