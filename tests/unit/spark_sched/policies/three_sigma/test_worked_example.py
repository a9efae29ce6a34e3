"""The example of 3Sigma §4.3.2 to §4.3.4: an SLO job due in 15 min and a best-effort job on one node.

Times are in minutes here, as in the paper; nothing depends on the unit.
"""

from __future__ import annotations

import numpy as np
import pytest

from spark_sched.policies.three_sigma.milp import by_unions
from spark_sched.policies.three_sigma.problem import Candidate, Problem, build
from spark_sched.policies.three_sigma.solvers import Ask, create_solver
from spark_sched.policies.three_sigma.utility import best_effort, slo
from spark_sched.policies.three_sigma.window import Grid
from spark_sched.predict import RuntimeDistribution
from tests.splits import with_splits
from tests.unit.spark_sched.policies.three_sigma.expectation import (
    Knots,
    expected_consumption,
    expected_utility,
)

SLO, BE = 0, 1
STARTS = [0, 2.5, 5, 7.5, 10, 12.5, 15, 17.5]
#: In tenths of a minute, since slots begin at whole numbers.
GRID = Grid.of(tuple(round(10 * start) for start in STARTS))

SCENARIO_1 = RuntimeDistribution.uniform_s(0, 10)
SCENARIO_2 = RuntimeDistribution.uniform_s(2.5, 7.5)
every_solver = pytest.mark.parametrize("solver", ["prices", "highs", "cbc"])


def utilities(runtime: RuntimeDistribution) -> tuple[np.ndarray, np.ndarray]:
    knots, starts = Knots(runtime), np.array(STARTS)
    # A line with a significantly lower maximum, as the paper has it; its slope is ours.
    be = best_effort(0, 40, weight=0.4, floor=0.0)
    return expected_utility(slo(15), knots, starts), expected_utility(be, knots, starts)


def example(runtime: RuntimeDistribution) -> Problem:
    consumption = expected_consumption(Knots(runtime), GRID.elapsed_ms / 10)
    candidates = [Candidate(job, 1, 1, u, consumption) for job, u in enumerate(utilities(runtime))]
    return build(GRID, np.array([1.0]), 2, candidates, [])


def solved(problem: Problem, name: str) -> list[float]:
    if name != "prices":
        pytest.importorskip("highspy" if name == "highs" else "pulp")
    plan = create_solver(name).solve(problem, Ask(np.random.default_rng(0), gap=1e-6)).assignment
    return [STARTS[start] for start in plan.start]


def test_utilities_of_scenario_1():
    of_slo, of_be = utilities(SCENARIO_1)
    assert of_slo.tolist() == [1, 1, 1, 0.75, 0.5, 0.25, 0, 0]
    # A line of the expected completion, 5 min after the start.
    assert of_be == pytest.approx([0.4 * (1 - (start + 5) / 40) for start in STARTS])


def test_utilities_of_scenario_2():
    of_slo, of_be = utilities(SCENARIO_2)
    assert of_slo.tolist() == [1, 1, 1, 1, 0.5, 0, 0, 0]
    assert of_be == pytest.approx(utilities(SCENARIO_1)[1])


@pytest.mark.parametrize(
    ("runtime", "expected"),
    [(SCENARIO_1, [1, 0.75, 0.5, 0.25, 0, 0, 0, 0]), (SCENARIO_2, [1, 1, 0.5, 0, 0, 0, 0, 0])],
    ids=["scenario 1", "scenario 2"],
)
def test_consumption(runtime: RuntimeDistribution, expected: list[float]):
    assert expected_consumption(Knots(runtime), GRID.elapsed_ms / 10).tolist() == expected


def terms(problem: Problem, row: int) -> dict[tuple[int, float], float]:
    """A row of the program as {(job, start): coefficient}."""
    milp = by_unions(problem)
    mine = slice(milp.row_start[row], milp.row_start[row + 1])
    columns = milp.column[mine]
    jobs, starts = problem.job_of[milp.group[columns]], milp.start[columns]
    return {
        (int(job), STARTS[start]): value
        for job, start, value in zip(jobs, starts, milp.value[mine].tolist(), strict=True)
    }


def test_constraint_rows_of_scenario_1():
    problem = example(SCENARIO_1)
    milp = by_unions(problem)
    # Demand: at most one option per job; those of the SLO job that cannot pay are pruned (§4.3.6).
    assert terms(problem, 0) == {(SLO, start): 1 for start in STARTS if start < 15}
    assert terms(problem, 1) == {(BE, start): 1 for start in STARTS}
    # Capacity at 2.5 min, as the paper writes it out.
    assert terms(problem, 2 + 1) == {(SLO, 0): 0.75, (SLO, 2.5): 1, (BE, 0): 0.75, (BE, 2.5): 1}
    assert terms(problem, 2 + 0) == {(SLO, 0): 1, (BE, 0): 1}
    assert milp.row_upper.tolist() == [1] * (2 + len(STARTS))


def test_constraint_rows_of_scenario_2():
    problem = example(SCENARIO_2)
    assert terms(problem, 2 + 2) == {
        (SLO, 0): 0.5, (SLO, 2.5): 1, (SLO, 5): 1, (BE, 0): 0.5, (BE, 2.5): 1, (BE, 5): 1
    }  # fmt: skip


@every_solver
def test_scenario_1_runs_the_slo_job_first(solver: str):
    assert solved(example(SCENARIO_1), solver) == [0, 10]


@every_solver
def test_scenario_2_runs_the_best_effort_job_first(solver: str):
    """The SLO job is deferred to 7.5 min, when the other one has ended whatever its runtime."""
    assert solved(example(SCENARIO_2), solver) == [7.5, 0]


def test_one_partition_makes_both_formulations_the_same_problem():
    highs = pytest.importorskip("spark_sched.policies.three_sigma.solvers.highs")
    pytest.importorskip("highspy")
    problem = example(SCENARIO_1)
    values = []
    for program in (by_unions(problem), with_splits(problem)):
        plan = program.read(problem, highs.Highs().maximise(program, 1e-9).x)
        values.append(problem.value(plan))
    assert values[0] == pytest.approx(values[1])
    assert with_splits(problem).columns == 2 * by_unions(problem).columns
