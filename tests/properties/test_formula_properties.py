"""What must hold of the formulas for all legal arguments."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from spark_sched.policies.reservation import (
    isolation_probability,
    reservation_deadline_s,
    stage_time_with_copies_s,
    utilization_lower_bound,
)
from tests.shape import estimate_shape

isolations = st.floats(1e-9, 1.0 - 1e-9)
scales = st.floats(1e-3, 1e4)
shapes = st.floats(1.001, 50.0)
tasks = st.integers(1, 10**6)


@given(isolations, scales, shapes, tasks)
def test_deadline_and_isolation_are_inverse(p: float, t_m: float, alpha: float, n: int) -> None:
    deadline = reservation_deadline_s(p, t_m, alpha, n)
    # A deadline within rounding of t_m (small P, steep tail) no longer says which P it came from.
    assume(deadline > t_m * (1.0 + 1e-6))
    assert isolation_probability(deadline, t_m, alpha, n) == pytest.approx(p, rel=1e-4)


@given(isolations, isolations, scales, shapes, tasks)
def test_more_isolation_needs_a_later_deadline_and_costs_utilization(
    p: float, q: float, t_m: float, alpha: float, n: int
) -> None:
    low, high = sorted((p, q))
    assert t_m <= reservation_deadline_s(low, t_m, alpha, n) <= reservation_deadline_s(high, t_m, alpha, n)
    loose, strict = utilization_lower_bound(low, alpha, n), utilization_lower_bound(high, alpha, n)
    assert 0.0 <= strict <= loose + 1e-12 <= 1.0 + 1e-12


@given(st.floats(0.0, 1e6), st.floats(0.0, 1e6), scales, shapes, tasks, tasks)
def test_isolation_rises_with_the_deadline_and_falls_with_the_number_of_tasks(
    d1: float, d2: float, t_m: float, alpha: float, n1: int, n2: int
) -> None:
    early, late = sorted((d1, d2))
    few, many = sorted((n1, n2))
    assert isolation_probability(early, t_m, alpha, few) <= isolation_probability(late, t_m, alpha, few)
    assert isolation_probability(late, t_m, alpha, many) <= isolation_probability(late, t_m, alpha, few)


@given(st.lists(st.tuples(st.floats(0.0, 1e4), st.floats(0.0, 1e4)), min_size=1, max_size=30))
def test_copies_never_make_a_stage_longer_nor_shorter_than_its_faster_half(
    runs: list[tuple[float, float]],
) -> None:
    durations = sorted(t for t, _ in runs)
    with_copies = stage_time_with_copies_s([t for t, _ in runs], [c for _, c in runs])
    assert durations[math.ceil(len(durations) / 2) - 1] <= with_copies <= durations[-1] + 1e-6


@given(
    st.lists(st.floats(1.0, 1e6), max_size=30), st.lists(st.floats(0.0, 1e6), max_size=30),
    st.floats(1.01, 50.0), st.floats(0.0, 50.0),
)  # fmt: skip
def test_shape_is_legal_and_an_older_running_task_never_makes_the_tail_lighter(
    finished: list[float], ages: list[float], prior: float, weight: float
) -> None:
    shape = estimate_shape(finished, ages, 1.0, prior, weight)
    assert 1.01 <= shape <= 100.0
    assert estimate_shape(finished, [age * 2 for age in ages], 1.0, prior, weight) <= shape
