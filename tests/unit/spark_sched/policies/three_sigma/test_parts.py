"""Grid, split, verification and solvers' answers, each by itself."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_sched.errors import BadInputError
from spark_sched.policies.three_sigma.milp import by_unions
from spark_sched.policies.three_sigma.problem import (
    NO_OPTION,
    Assignment,
    Candidate,
    Problem,
    build,
    closed_under_union,
)
from spark_sched.policies.three_sigma.solvers import Ask, Prices, create_solver
from spark_sched.policies.three_sigma.split import split
from spark_sched.policies.three_sigma.window import Grid, growing, uniform


def test_equal_slots_have_as_many_elapsed_times_as_slots():
    grid = uniform(4, 500)
    assert grid.starts_ms.tolist() == [0, 500, 1000, 1500]
    assert grid.elapsed_ms.tolist() == [0, 500, 1000, 1500]
    assert grid.elapsed_of.tolist() == [[0, 1, 2, 3], [4, 0, 1, 2], [4, 4, 0, 1], [4, 4, 4, 0]]


def test_growing_slots_reach_the_end_of_the_window():
    grid = growing(24, 5_000, 4 * 3_600_000)
    lengths = np.diff(grid.starts_ms)
    assert lengths[0] == 5_000
    assert (np.diff(lengths) >= 0).all()
    assert grid.steps <= 24
    assert 2 * 3_600_000 < grid.starts_ms[-1] < 4 * 3_600_000


def test_a_window_without_steps_is_refused():
    with pytest.raises(BadInputError, match="a window of 0 steps"):
        uniform(0, 100)
    with pytest.raises(BadInputError, match="must begin at 0 and rise"):
        Grid.of((0, 5, 5))


def test_unions_of_partition_sets():
    assert closed_under_union([0b011, 0b110], 9) == (0b011, 0b110, 0b111)
    assert closed_under_union([0b0001, 0b0010, 0b0100, 0b1000], 6) == (1, 2, 4, 8, 15)


@given(
    demands=st.lists(st.tuples(st.integers(1, 7), st.integers(1, 4)), max_size=4),
    free=st.lists(st.integers(0, 5), min_size=3, max_size=3),
)
def test_a_split_exists_exactly_if_halls_condition_holds(demands: list[tuple[int, int]], free: list[int]):
    shares, refused = split(demands, free)
    used = [sum(share.get(q, 0) for share in shares) for q in range(3)]
    assert all(u <= f for u, f in zip(used, free, strict=True))
    for job, ((mask, slots), share) in enumerate(zip(demands, shares, strict=True)):
        assert sum(share.values()) == (0 if job in refused else slots)
        assert all(mask >> q & 1 and n > 0 for q, n in share.items())
    holds = all(
        sum(slots for mask, slots in demands if mask & ~union == 0)
        <= sum(free[q] for q in range(3) if union >> q & 1)
        for union in range(1, 8)
    )
    assert (not refused) == holds


def two_jobs() -> Problem:
    """Two jobs of one slot, one free slot, two time steps, certain to run through both."""
    candidates = [Candidate(job, 1, 1, np.array([1.0, 0.5]), np.array([1.0, 1.0])) for job in range(2)]
    return build(uniform(2, 1000), np.array([1.0]), 2, candidates, [])


@pytest.mark.parametrize(
    ("x", "what"),
    [
        ([0.5, 0, 0.5, 0], "fractional"),
        ([1, 1, 0, 0], "two options of one job"),
        ([1, 0], "too short"),
        ([float("nan")] * 4, "no number"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_solvers_answer_is_checked_before_it_is_believed(x: list[float], what: str):
    problem = two_jobs()
    assert by_unions(problem).read(problem, np.array(x)) is None, what


@pytest.mark.parametrize(
    ("x", "bound", "ended", "status", "proven"),
    [
        ([1.0, 0, 0, 0], 1.0, True, "optimal", 1.0),
        ([1.0, 0, 0, 0], 1.5, False, "feasible", 1.5),
        ([1.0, 0, 0, 0], np.inf, False, "feasible", np.inf),
        ([1.0, 0, 0, 0], np.inf, True, "optimal", 1.0 / 0.995),
        ([1.0, 0, 0, 1.0], 2.0, True, "none", 2.0),
        (None, np.inf, False, "none", np.inf),
    ],
    ids=["proven", "open gap", "no bound", "ended without a bound", "too much", "nothing"],
)
def test_a_linear_solvers_answer_becomes_a_plan_with_what_it_proves(
    x: list[float] | None,
    bound: float,
    ended: bool,
    status: str,
    proven: float,
    monkeypatch: pytest.MonkeyPatch,
):
    pytest.importorskip("highspy")
    solver = create_solver("highs")
    answer = SimpleNamespace(x=None if x is None else np.array(x), bound=bound, ended=ended, note="")
    monkeypatch.setattr(solver, "maximise", lambda *_: answer)
    solution = solver.solve(two_jobs(), Ask(np.random.default_rng(0), gap=0.005))
    assert (solution.status, solution.bound) == (status, pytest.approx(proven))


def test_a_plan_that_takes_too_much_does_not_fit():
    problem = two_jobs()
    both = by_unions(problem).read(problem, np.array([1.0, 0, 0, 1.0]))
    assert both is not None
    assert not problem.fits(both)
    assert problem.fits(Assignment.empty(problem))


def test_a_plan_has_what_its_point_chooses():
    problem = two_jobs()
    milp = by_unions(problem)
    options = [*zip(milp.group.tolist(), milp.start.tolist(), strict=True)]
    for x in product((0.0, 1.0), repeat=milp.columns):
        plan = milp.read(problem, np.array(x))
        if plan is not None:
            starts = zip(plan.group.tolist(), plan.start.tolist(), strict=True)
            taken = {(group, start) for group, start in starts if group != NO_OPTION}
            assert [*(option in taken for option in options), *plan.preempted.tolist()] == list(x)


def test_prices_move_with_the_clock():
    problem = two_jobs()
    prices = Prices(np.array([10_000, 11_000]), (1, 2), np.array([[4.0, 2.0], [9.0, 9.0]]))
    assert prices.moved_to(problem, 10_000).tolist() == [[4, 2]]
    assert prices.moved_to(problem, 10_500).tolist() == [[3, 2]]


def test_an_unknown_solver_is_refused_with_a_hint():
    with pytest.raises(BadInputError, match=r"solver is 'price' \(did you mean 'prices'\?\): choose one of"):
        create_solver("price")


def test_an_unknown_solver_of_pulp_is_refused_with_those_there_are():
    pytest.importorskip("pulp")
    with pytest.raises(BadInputError, match="PuLP has no solver 'NOPE' here"):
        create_solver("pulp:NOPE")


def test_our_solver_needs_no_clock_and_repeats_itself():
    rng = np.random.default_rng(3)
    candidates = [
        Candidate(
            job,
            1,
            int(rng.integers(1, 5)),
            np.sort(rng.random(8))[::-1],
            np.sort(np.append(rng.random(7), 1.0))[::-1],
        )
        for job in range(30)
    ]
    problem = build(uniform(8, 1000), np.array([12.0]), 30, candidates, [])
    answers = [create_solver("prices").solve(problem, Ask(np.random.default_rng(5))) for _ in range(2)]
    assert answers[0].runtime_s is None
    assert answers[0].assignment.group.tolist() == answers[1].assignment.group.tolist()
    assert answers[0].bound == answers[1].bound
    assert 0.9 * answers[0].bound < answers[0].value <= answers[0].bound


def test_prices_of_the_cycle_before_save_steps():
    rng = np.random.default_rng(4)
    candidates = [
        Candidate(job, 1, int(rng.integers(1, 5)), np.sort(rng.random(8))[::-1],
               np.sort(np.append(rng.random(7), 1.0))[::-1])
        for job in range(60)
    ]  # fmt: skip
    problem = build(uniform(8, 1000), np.array([25.0]), 60, candidates, [])
    cold = create_solver("prices").solve(problem, Ask(np.random.default_rng(5)))
    warm = create_solver("prices").solve(problem, Ask(np.random.default_rng(5), start=cold.price))
    assert warm.bound <= cold.bound * 1.0005
