"""What a policy is, and the settings it may read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from spark_sched.config import Settings, keys
from spark_sched.policies.plan import JobPlan, Plan, ReservationRule
from spark_sched.predict import Forecast
from spark_sched.state import JobView, Snapshot

__all__ = ["Policy", "PolicySettings", "make_plan"]


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """The application's settings that policies read; ``docs/configuration.md`` says what each means."""

    reservation_enabled: bool
    isolation: float
    min_priority: int
    prereserve_threshold: float
    copies_enabled: bool
    plan_validity_ms: int

    @classmethod
    def from_config(cls, settings: Settings) -> PolicySettings:
        return cls(
            reservation_enabled=settings[keys.RESERVATION_ENABLED],
            isolation=settings[keys.RESERVATION_ISOLATION],
            min_priority=settings[keys.RESERVATION_MIN_PRIORITY],
            prereserve_threshold=settings[keys.RESERVATION_PRE_RESERVE_THRESHOLD],
            copies_enabled=settings[keys.COPIES_ENABLED],
            plan_validity_ms=settings[keys.PLANNER_PLAN_VALIDITY],
        )


class Policy(Protocol):
    """Decides. Built once with its settings; ``decide`` is a function of its arguments alone.

    The same snapshot, forecasts, time and generator state give the same plan. Every active job of the
    snapshot is in the plan exactly once; nothing else is. A policy may draw from ``rng`` and must use no
    other randomness and no clock.
    """

    name: str

    def decide(
        self,
        snapshot: Snapshot,
        forecasts: Mapping[str, Forecast],
        now_ms: int,
        rng: np.random.Generator,
    ) -> Plan: ...


Decision = tuple[int, ReservationRule | None, str]


def make_plan(
    policy: str,
    settings: PolicySettings,
    snapshot: Snapshot,
    now_ms: int,
    *,
    ordered: bool,
    rank_by: Callable[[JobView], Any],
    decide_job: Callable[[JobView], Decision],
) -> Plan:
    """The plan of a policy that sorts jobs by a key and decides on each by itself.

    ``decide_job`` answers with the job's priority in force, its reservation rule and the reason.
    """
    ranked: Iterable[JobView] = sorted(snapshot.jobs.values(), key=rank_by)
    jobs = []
    for rank, job in enumerate(ranked):
        priority, rule, reason = decide_job(job)
        jobs.append(JobPlan(job.job, rank, priority, rule, reason))
    return Plan(
        snapshot=snapshot.version,
        made_at_ms=now_ms,
        valid_for_ms=settings.plan_validity_ms,
        policy=policy,
        ordered=ordered,
        jobs=tuple(jobs),
    )
