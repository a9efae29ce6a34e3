"""The descent along prices by itself: its bound, its tolerance, its ends."""

from __future__ import annotations

import numpy as np
import pytest

from spark_sched.policies.three_sigma.problem import Candidate, Problem, build
from spark_sched.policies.three_sigma.solvers.capacity_prices import Choices, Dual, Floats, descend
from spark_sched.policies.three_sigma.window import uniform

STEPS, LOOKS = 40, (5, 10, 20)


def contended(worth: float = 1.0, jobs: int = 30) -> Problem:
    """Jobs of one to four slots on 12 slots; the best option of each is worth about ``worth``."""
    rng = np.random.default_rng(3)
    candidates = [
        Candidate(
            job,
            1,
            int(rng.integers(1, 5)),
            worth * np.sort(rng.random(8))[::-1],
            np.sort(np.append(rng.random(7), 1.0))[::-1],
        )
        for job in range(jobs)
    ]
    return build(uniform(8, 1000), np.array([12.0]), jobs, candidates, [])


class Plans:
    """What a greedy planner would be: each look finds a plan worth this share of the least bound so far."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._least = float("inf")
        self.looks = 0

    def improve(self, price: Floats, answer: Choices) -> float:
        self.looks += 1
        self._least = min(self._least, answer.bound)
        return self._share * self._least


def fall(
    problem: Problem, plans: Plans, *, gap: float = 0.01, value: float = 0.0
) -> tuple[Floats, float, int]:
    return descend(
        Dual(problem),
        np.zeros_like(problem.free),
        STEPS,
        value,
        improve=plans.improve,
        improve_at=LOOKS,
        gap=gap,
    )


@pytest.mark.parametrize("worth", [1e-3, 1.0, 1e3])
def test_a_plan_far_below_the_bound_never_ends_the_descent(worth: float):
    plans = Plans(0.5)
    _, _, steps = fall(contended(worth), plans)
    assert steps == STEPS
    assert plans.looks >= len(LOOKS)


@pytest.mark.parametrize("worth", [1e-3, 1.0, 1e3])
def test_a_plan_within_the_gap_ends_it_at_that_look(worth: float):
    assert fall(contended(worth), Plans(0.995), gap=0.01)[2] == LOOKS[0]
    assert fall(contended(worth), Plans(0.98), gap=0.01)[2] == STEPS


def test_the_unit_of_utility_changes_nothing():
    ones, thousands = (fall(contended(worth), Plans(0.9)) for worth in (1.0, 1024.0))
    assert thousands[2] == ones[2]
    assert thousands[1] == pytest.approx(1024.0 * ones[1])
    assert np.allclose(thousands[0], 1024.0 * ones[0])


def test_the_bound_is_that_of_the_prices_and_falls():
    problem = contended()
    price, bound, _ = fall(problem, Plans(0.5))
    assert (price >= 0.0).all()
    assert bound == Dual(problem).answer(price).bound
    assert bound < Dual(problem).answer(np.zeros_like(price)).bound


def test_it_stops_when_asked_and_keeps_the_best_so_far():
    asked = iter([False] * 7 + [True])
    problem = contended()
    price, bound, steps = descend(
        Dual(problem), np.zeros_like(problem.free), STEPS, 0.0, stop=lambda: next(asked)
    )
    assert steps == 7
    assert bound == Dual(problem).answer(price).bound
