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

__all__ = ["Policy", "PolicySettings", "dated_plan", "depends_on_tasks", "make_plan", "warm_up"]


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """The application's settings that policies read: ``docs/reference/configuration.md``."""

    reservation_enabled: bool
    isolation: float
    min_priority: int
    prereserve_threshold: float
    copies_enabled: bool
    plan_validity_ms: int
    solver: str = "prices"
    first_queue_ms: int = 1_000_000
    first_slot_ms: int = 5_000
    window_ms: int = 4 * 3_600_000

    @classmethod
    def from_config(cls, settings: Settings) -> PolicySettings:
        return cls(
            reservation_enabled=settings[keys.RESERVATION_ENABLED],
            isolation=settings[keys.RESERVATION_ISOLATION],
            min_priority=settings[keys.RESERVATION_MIN_PRIORITY],
            prereserve_threshold=settings[keys.RESERVATION_PRE_RESERVE_THRESHOLD],
            copies_enabled=settings[keys.COPIES_ENABLED],
            plan_validity_ms=settings[keys.PLANNER_PLAN_VALIDITY],
            solver=settings[keys.PLANNER_SOLVER],
            first_queue_ms=settings[keys.PLANNER_FIRST_QUEUE],
            first_slot_ms=settings[keys.PLANNER_FIRST_SLOT],
            window_ms=settings[keys.PLANNER_WINDOW],
        )


class Policy(Protocol):
    """Decides. Built once with its settings; ``decide`` is a function of its arguments alone.

    The same snapshot, forecasts, time and generator state give the same plan. Every active job of the
    snapshot is in the plan exactly once; nothing else is. A policy may draw from ``rng`` and must use no
    other randomness and no clock.

    Attributes of the class that are optional: ``task_times``: it wants `predict.pilots.TaskForecast`s.
    ``warm_up()`` makes it ready, as `warm_up` calls it: compiling takes a while the first time on a machine.
    The others save plans and never change one. ``changes_with`` says what its plans can depend on:
    ``arrival`` (a job's rules follow from its own marks and its order among equals from its arrival),
    ``jobs``, ``stages``, ``gates`` (the last pilot of a stage ended or was lost), ``tasks``, ``rounds`` or
    ``launches``, each taking in the one before; without it they depend on ``tasks``. ``changes_unforecast``
    says the same for as long as nothing is forecast.
    """

    name: str

    def decide(
        self,
        snapshot: Snapshot,
        forecasts: Mapping[str, Forecast],
        now_ms: int,
        rng: np.random.Generator,
    ) -> Plan: ...


def warm_up(policy: Policy) -> None:
    """Make the policy ready, so that its first plan takes no longer than others."""
    getattr(policy, "warm_up", lambda: None)()


def depends_on_tasks(policy: Policy) -> bool:
    """Whether what single tasks do can make another plan (``changes_with``)."""
    return getattr(policy, "changes_with", "tasks") not in ("arrival", "jobs", "stages")


def dated_plan(
    policy: str,
    settings: PolicySettings,
    snapshot: Snapshot,
    now_ms: int,
    jobs: Iterable[JobPlan],
    *,
    ordered: bool = True,
    **more: Any,
) -> Plan:
    """The plan made from this snapshot at this time, valid for as long as the settings say.

    ``more`` are further fields of `Plan`.
    """
    return Plan(
        snapshot=snapshot.version,
        made_at_ms=now_ms,
        valid_for_ms=settings.plan_validity_ms,
        policy=policy,
        ordered=ordered,
        jobs=tuple(jobs),
        **more,
    )


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
    return dated_plan(policy, settings, snapshot, now_ms, jobs, ordered=ordered)
