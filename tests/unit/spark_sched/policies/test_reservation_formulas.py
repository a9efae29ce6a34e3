"""Equations 2 and 4, the deadline and T' against golden numbers, limits and brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest

from spark_sched.errors import BadInputError
from spark_sched.policies.reservation import (
    isolation_probability,
    reservation_deadline_s,
    stage_time_with_copies_s,
    utilization_lower_bound,
)
from tests.shape import estimate_shape

# Computed from the paper's formulas with 60 decimal digits (Python's decimal module), not with this package.
GOLDEN = [
    # isolation, t_m_s, alpha, n_tasks, deadline_s, utilization
    (0.5, 1.0, 1.6, 20, 8.266427162881312, 0.26581720618813415),
    (0.9, 2.5, 1.6, 20, 66.4698537467971, 0.09153913672276583),
    (0.4, 0.25, 1.2, 200, 22.2808960301685, 0.0444673735844848),
    (0.999999999999, 1.0, 1.5, 1000000, 1000014748084.9589, 2.999953756441875e-12),
    (1e-06, 3.0, 2.0, 8, 3.3085667276796498, 0.9913020202188203),
    (0.2, 1.0, 1.01, 1, 1.2472413708845524, 0.978712186535378),
    (0.75, 10.0, 30.0, 64, 11.974979072620815, 0.8637155483784578),
]


@pytest.mark.parametrize(("p", "t_m", "alpha", "n", "deadline", "utilization"), GOLDEN)
def test_formulas_give_the_numbers_computed_independently_with_60_digits(
    p: float, t_m: float, alpha: float, n: int, deadline: float, utilization: float
) -> None:
    assert reservation_deadline_s(p, t_m, alpha, n) == pytest.approx(deadline, rel=1e-12)
    assert isolation_probability(deadline, t_m, alpha, n) == pytest.approx(p, rel=1e-12)
    assert utilization_lower_bound(p, alpha, n) == pytest.approx(utilization, rel=1e-12)


def test_no_isolation_means_deadline_t_m_and_full_utilization() -> None:
    assert reservation_deadline_s(0, 2.5, 1.6, 20) == 2.5
    assert utilization_lower_bound(0, 1.6, 20) == 1.0


def test_strict_isolation_means_no_deadline_and_no_utilization_bound() -> None:
    assert reservation_deadline_s(1, 2.5, 1.6, 20) == math.inf
    assert utilization_lower_bound(1, 1.6, 20) == 0.0
    assert isolation_probability(math.inf, 2.5, 1.6, 20) == 1.0


@pytest.mark.parametrize("deadline_s", [0, 1.0, 2.5])
def test_a_deadline_before_the_shortest_task_isolates_nothing(deadline_s: float) -> None:
    assert isolation_probability(deadline_s, 2.5, 1.6, 20) == 0.0


def test_scalars_give_a_python_float_and_arrays_broadcast() -> None:
    assert type(isolation_probability(np.float64(9.0), 1, 1.6, np.int64(4))) is float
    assert type(reservation_deadline_s(0.5, 1, 1.6, 4)) is float
    assert type(utilization_lower_bound(0.5, 1.6, 4)) is float
    p = np.linspace(0.0, 1.0, 5)
    n = np.array([[20], [200]])
    table = utilization_lower_bound(p, 1.6, n)
    assert isinstance(table, np.ndarray)
    assert table.shape == (2, 5)
    assert table[1, 2] == utilization_lower_bound(0.5, 1.6, 200)
    assert reservation_deadline_s([], 1.0, 1.6, 4).shape == (0,)  # type: ignore[union-attr]


def test_equation_2_agrees_with_simulated_stages() -> None:
    rng = np.random.default_rng(7)
    slowest = (2.0 * (rng.pareto(1.6, (40_000, 20)) + 1.0)).max(axis=1)
    deadlines = np.array([10.0, 20.0, 40.0])
    measured = (slowest[:, None] <= deadlines).mean(axis=0)
    assert isolation_probability(deadlines, 2.0, 1.6, 20) == pytest.approx(measured, abs=0.01)


def test_equation_4_is_the_mean_time_a_slot_is_busy_before_the_deadline() -> None:
    rng = np.random.default_rng(11)
    alpha, n, p = 1.6, 20, 0.4
    deadline = reservation_deadline_s(p, 1.0, alpha, n)
    t = rng.pareto(alpha, 2_000_000) + 1.0
    # The closed form of equation 3 is E[min(t, D)] / D. The integral printed before it leaves out tasks
    # beyond D.
    measured = np.minimum(t, deadline).mean() / deadline
    assert utilization_lower_bound(p, alpha, n) == pytest.approx(measured, rel=0.01)


def test_equation_4_does_not_cancel_for_a_shape_just_above_one() -> None:
    near = utilization_lower_bound(0.5, 1.0 + 1e-12, 20)
    q = 1.0 - 0.5 ** (1 / 20)
    assert near == pytest.approx(q * (1.0 - math.log(q)), rel=1e-9)  # the limit alpha -> 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"deadline_s": math.nan}, ["deadline_s", "nan", ">= 0"]),
        ({"deadline_s": -1}, ["deadline_s", "-1.0", ">= 0"]),
        ({"t_m_s": 0}, ["t_m_s", "0.0", "> 0"]),
        ({"t_m_s": math.inf}, ["t_m_s", "inf", "> 0"]),
        ({"alpha": 1.0}, ["alpha", "1.0", "> 1"]),
        ({"alpha": math.nan}, ["alpha", "nan", "> 1"]),
        ({"n_tasks": 0}, ["n_tasks", "0.0", ">= 1"]),
        ({"n_tasks": 2.5}, ["n_tasks", "2.5", "whole"]),
        ({"n_tasks": [3, 4, 0.5]}, ["n_tasks", "0.5", "index 2"]),
        ({"n_tasks": True}, ["n_tasks", "True", "bool"]),
        ({"alpha": "1.6"}, ["alpha", "'1.6'", "str"]),
        ({"t_m_s": None}, ["t_m_s", "None"]),
        ({"t_m_s": [1.0, 2.0], "alpha": [2.0, 3.0, 4.0]}, ["t_m_s (2,)", "alpha (3,)"]),
    ],
    ids=str,
)
def test_bad_values_are_refused_by_name_value_and_range(
    arguments: dict[str, object], words: list[str]
) -> None:
    good: dict[str, object] = {"deadline_s": 9.0, "t_m_s": 1.0, "alpha": 1.6, "n_tasks": 20}
    with pytest.raises(BadInputError) as refused:
        isolation_probability(**(good | arguments))  # type: ignore[arg-type]
    for word in words:
        assert word in str(refused.value)


@pytest.mark.parametrize("isolation", [-0.1, 1.1, math.nan])
def test_an_isolation_outside_zero_to_one_is_refused(isolation: float) -> None:
    with pytest.raises(BadInputError, match=r"isolation must be a probability in \[0, 1\]"):
        reservation_deadline_s(isolation, 1.0, 1.6, 20)
    with pytest.raises(BadInputError, match=r"isolation must be a probability in \[0, 1\]"):
        utilization_lower_bound(isolation, 1.6, 20)


def slow_stage_time(durations: list[float], copies: list[float]) -> float:
    """Section IV-C by playing the stage: each straggler races a copy that starts when half have ended."""
    order = sorted(range(len(durations)), key=lambda i: durations[i])
    half = math.ceil(len(order) / 2)
    start = durations[order[half - 1]]
    ends = [min(durations[i], start + copies[i]) for i in order[half:]]
    return max([start, *ends])


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 20])
def test_stage_time_with_copies_equals_a_stage_played_task_by_task(n: int) -> None:
    rng = np.random.default_rng(n)
    durations, copies = rng.pareto(1.6, (2, 30, n)) + 1.0
    expected = [slow_stage_time(list(t), list(c)) for t, c in zip(durations, copies, strict=True)]
    assert stage_time_with_copies_s(durations, copies) == pytest.approx(expected)
    assert type(stage_time_with_copies_s(durations[0], copies[0])) is float


def test_copies_halve_the_time_of_heavy_tailed_stages_as_figure_10_says() -> None:
    rng = np.random.default_rng(3)
    durations, copies = rng.pareto(1.6, (2, 20_000, 20)) + 1.0
    without = durations.max(axis=1)
    with_copies = np.asarray(stage_time_with_copies_s(durations, copies))
    assert np.mean(1.0 - with_copies / without) == pytest.approx(0.48, abs=0.01)
    assert 1.0 - with_copies.mean() / without.mean() > 0.5


@pytest.mark.parametrize(
    ("durations", "copies", "words"),
    [
        ([], [], "one or more tasks"),
        (3.0, 3.0, "one or more tasks"),
        ([1.0, -1.0], [1.0, 1.0], "durations_s"),
        ([1.0, 1.0], [1.0, math.nan], "copy_durations_s"),
        ([1.0, 1.0], [1.0], "copy_durations_s must have the shape"),
    ],
    ids=["no tasks", "a scalar", "a negative duration", "a copy that takes NaN", "a copy missing"],
)
def test_stage_time_refuses(durations: object, copies: object, words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        stage_time_with_copies_s(durations, copies)  # type: ignore[arg-type]


def test_shape_estimate_finds_the_shape_although_the_longest_tasks_still_run() -> None:
    rng = np.random.default_rng(5)
    t = rng.pareto(1.6, 4000) + 1.0
    now = 3.0
    estimate = estimate_shape(t[t <= now], np.full((t > now).sum(), now), 1.0, 3.0, 5)
    assert estimate == pytest.approx(1.6, rel=0.05)
    assert estimate_shape(t[t <= now], [], 1.0, 3.0, 5) > 2.0  # blind to those that run, it would be far off


def test_shape_estimate_starts_at_the_prior_and_leaves_it_with_evidence() -> None:
    assert estimate_shape([], [], 1.0, 1.6, 5) == pytest.approx(1.6)
    assert estimate_shape([1.0, 1.0, 1.0], [], 1.0, 1.6, 5) == pytest.approx(8 / (5 / 1.6))
    assert estimate_shape([1.0, math.e], [math.e**2, 0.5], 1.0, 1.6, 5) == pytest.approx(7 / (3 + 5 / 1.6))


def test_shape_estimate_stays_within_its_bounds() -> None:
    assert estimate_shape([], [], 1.0, 1.6, 0) == 100.0
    assert estimate_shape([2.0] * 50, [], 2.0, 1.6, 0) == 100.0
    assert estimate_shape([1.0], [1e9] * 50, 1.0, 1.6, 1) == 1.01


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"finished_s": [0.5]}, "finished_s must be >= t_m_s"),
        ({"t_m_s": 0.0}, "t_m_s"),
        ({"prior_alpha": 1.0}, "prior_alpha"),
        ({"prior_weight": -1}, "prior_weight"),
        ({"prior_weight": [1, 2]}, "prior_weight must be one number"),
        ({"running_age_s": [math.nan]}, "running_age_s"),
    ],
    ids=str,
)
def test_shape_estimate_refuses(arguments: dict[str, object], words: str) -> None:
    good: dict[str, object] = {
        "finished_s": [1.0],
        "running_age_s": [],
        "t_m_s": 1.0,
        "prior_alpha": 1.6,
        "prior_weight": 5,
    }
    with pytest.raises(BadInputError, match=words):
        estimate_shape(**(good | arguments))  # type: ignore[arg-type]
