"""Which job comes first and who holds slots, by each policy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spark_sched.config import validate
from spark_sched.policies import JobPlan, Plan, PolicySettings, ReservationRule, create
from spark_sched.predict import Forecast
from spark_sched.protocol.events import JobStarted
from spark_sched.state import ClusterState

DEFAULTS = PolicySettings.from_config(validate({}))


def plan(policy: str, *jobs: JobStarted, known: dict[str, Forecast] | None = None, **settings: Any) -> Plan:
    state = ClusterState()
    for job in jobs:
        state.apply(job)
    made = create(policy, replace(DEFAULTS, **settings))
    return made.decide(state.snapshot(), known or {}, 0, np.random.default_rng(0), None)[0]


def job(key: str, priority: int = 0, isolation: float | None = None, *, copies: bool = True) -> JobStarted:
    return JobStarted(0, key, key, None, priority, isolation, None, None, copies, True)


def order(of: Plan) -> list[str]:
    return [entry.job for entry in of.jobs]


def only(of: Plan) -> JobPlan:
    (entry,) = of.jobs
    return entry


@pytest.mark.parametrize("policy", ["priority", "reservation"])
def test_higher_priority_comes_first_and_earlier_arrival_among_equals(policy: str) -> None:
    made = plan(policy, job("a"), job("b", 5), job("c", -1), job("d", 5))
    assert order(made) == ["b", "d", "a", "c"]
    assert [entry.priority for entry in made.jobs] == [5, 5, 0, -1]
    assert not made.ordered  # Spark's FIFO or FAIR order stands among equals


def test_fifo_knows_neither_priorities_nor_reservations() -> None:
    made = plan("fifo", job("a"), job("b", 5, 1.0))
    assert order(made) == ["a", "b"]
    assert made.ordered
    assert all((entry.priority, entry.reservation) == (0, None) for entry in made.jobs)


def test_priority_reserves_nothing() -> None:
    assert only(plan("priority", job("a", 9, 1.0))).reservation is None


@pytest.mark.parametrize(
    ("priority", "isolation", "wanted"),
    [(1, None, 0.7), (0, None, None), (0, 0.3, 0.3), (9, 0.3, 0.3), (9, 0.0, None), (-5, 1.0, 1.0)],
    ids=[
        "a job of the least priority that holds gets the configured isolation",
        "a job below it holds nothing",
        "a job below it that sets its own isolation holds",
        "a job's own isolation goes before the configured one",
        "isolation 0 holds nothing at any priority",
        "even a negative priority may hold against equals",
    ],
)
def test_isolation_is_the_jobs_own_else_the_configured_one(
    priority: int, isolation: float | None, wanted: float | None
) -> None:
    entry = only(plan("reservation", job("a", priority, isolation), isolation=0.7))
    assert (entry.reservation.isolation if entry.reservation else None) == wanted
    assert f"priority {priority}" in entry.reason
    assert ("holds no slots between stages" in entry.reason) == (wanted is None)


def test_what_is_known_of_the_stages_goes_with_the_rule() -> None:
    known = {"a": Forecast((4, 2), 1.9, 120.0, "history", 3, 40)}
    entry = only(plan("reservation", job("a", 2), known=known))
    assert entry.reservation == ReservationRule(1.0, 1.9, 120.0, 0.5, (4, 2), True)
    assert entry.reservation.gap_ms is None
    assert entry.reason == (
        "priority 2: the configured isolation 1; 2 stages as in 3 earlier runs, task times from 40 tasks"
    )


@pytest.mark.parametrize(("usual_ms", "held_ms"), [(None, None), (0, 0), (1, 1000), (500, 1000), (700, 1400)])
def test_the_usual_pause_of_earlier_runs_says_how_long_to_hold_after_an_action(
    usual_ms: int | None, held_ms: int | None
) -> None:
    known = {"a": Forecast((4, 2), 1.9, 120.0, "history", 3, 40, gap_ms=usual_ms)}
    entry = only(plan("reservation", job("a", 2), known=known))
    assert entry.reservation is not None
    assert entry.reservation.gap_ms == held_ms


def test_history_holds_for_no_less_after_an_action_than_the_setting_for_jobs_without_history() -> None:
    known = {"a": Forecast((4, 2), 1.9, 120.0, "history", 3, 40, gap_ms=200)}
    for first_gap_ms, held_ms in ((3_000, 3_000), (100, 400)):
        entry = only(plan("reservation", job("a", 2), known=known, first_gap_ms=first_gap_ms))
        assert entry.reservation is not None
        assert entry.reservation.gap_ms == held_ms


@pytest.mark.parametrize(
    ("enabled", "allowed", "copies"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_copies_need_the_configuration_and_the_job(enabled: bool, allowed: bool, copies: bool) -> None:
    entry = only(plan("reservation", job("a", 2, copies=allowed), copies_enabled=enabled))
    assert entry.reservation is not None
    assert entry.reservation.copies is copies


def test_reservations_can_be_disabled_as_a_whole() -> None:
    entry = only(plan("reservation", job("a", 2, 1.0), reservation_enabled=False))
    assert (entry.reservation, entry.reason) == (None, "priority 2: reservations are disabled")
