"""Figure 5: the worked example of §4.3.2 to §4.3.4, by the planner's own functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.papers.figures import Chart, Figure, Value, figure
from benchmarks.papers.runs import Results, RunSpec, Scale, run_of
from spark_sched.policies.three_sigma.curves import consumption, curves, utilities
from spark_sched.policies.three_sigma.problem import Candidate, build
from spark_sched.policies.three_sigma.solvers import Ask, create_solver
from spark_sched.policies.three_sigma.utility import best_effort, slo
from spark_sched.policies.three_sigma.window import Grid
from spark_sched.predict import RuntimeDistribution

#: Starts in minutes; uniform runtimes in minutes; the paper's utilities of the SLO job and order of the two.
_STARTS = (0, 2.5, 5, 7.5, 10, 12.5, 15, 17.5)
_SCENARIOS = {
    "U(0, 10)": ((0.0, 10.0), (1, 1, 1, 0.75, 0.5, 0.25, 0, 0), (1, 0.75, 0.5, 0.25), 0.0),
    "U(2.5, 7.5)": ((2.5, 7.5), (1, 1, 1, 1, 0.5, 0, 0, 0), (1, 1, 0.5, 0), 7.5),
}


def plan(*, low: float, high: float) -> dict[str, Any]:
    """Utilities and expected use of an SLO job due at 15 and a best-effort job on one node; their starts."""
    starts = np.array(_STARTS)
    grid = Grid.of(tuple(round(10 * start) for start in _STARTS))
    known = curves([RuntimeDistribution.uniform_s(low, high)])
    which, factor = np.zeros(2, dtype=np.int64), np.ones(2)
    worth = utilities(known, which, factor, [slo(15.0), best_effort(0.0, 40.0, 0.4, 0.0)], starts)
    use = consumption(known, which, factor, grid.elapsed_ms / 10)
    candidates = [Candidate(job, 1, 1, worth[job], use[job]) for job in range(2)]
    problem = build(grid, np.array([1.0]), 2, candidates, [])
    solution = create_solver("prices").solve(problem, Ask(np.random.default_rng(0), gap=1e-6))
    return {
        "slo": worth[0].tolist(),
        "best_effort": worth[1].tolist(),
        "use": use[0].tolist(),
        "start": [_STARTS[start] for start in solution.assignment.start],
    }


def _run(scenario: str) -> RunSpec:
    low, high = _SCENARIOS[scenario][0]
    return run_of(plan, 0.01, low=low, high=high)


@figure("fig5", "The worked example: two jobs on one node", lambda _: [_run(name) for name in _SCENARIOS])
def figure_5(scale: Scale, results: Results) -> Figure:
    rows: list[dict[str, Any]] = []
    values: list[Value] = []
    charts = []
    for number, (scenario, (_, worth, use, starts_slo)) in enumerate(_SCENARIOS.items(), 1):
        found = results[_run(scenario)]
        for at, start in enumerate(_STARTS):
            rows.append(
                {
                    "runtimes": scenario,
                    "start or elapsed, min": start,
                    "E[U] of the SLO job": found["slo"][at],
                    "E[U] of the best-effort job": found["best_effort"][at],
                    "expected use": found["use"][at],
                }
            )
        for start, paper, ours in zip(_STARTS, worth, found["slo"], strict=True):
            values.append(Value(f"scenario_{number}_slo_utility_at_{start:g}", "", paper, ours))
        for at, paper in enumerate(use):
            values.append(Value(f"scenario_{number}_use_at_{_STARTS[at]:g}", "", paper, found["use"][at]))
        values.append(Value(f"scenario_{number}_slo_starts", "min", starts_slo, found["start"][0]))
        starts = 0.0 if number == 2 else None
        values.append(Value(f"scenario_{number}_best_effort_starts", "min", starts, found["start"][1]))
        charts.append(
            Chart(
                f"Scenario {number}: {scenario}",
                "start, or time since the start, min",
                "expected utility, or chance to run",
                {
                    "E[U], SLO": list(zip(_STARTS, found["slo"], strict=True)),
                    "chance to run": list(zip(_STARTS, found["use"], strict=True)),
                },
            )
        )
    notes = (
        "An SLO job due at 15 min and a best-effort job, one node, slots of 2.5 min. Where runtimes reach "
        "from 0 to 10 the SLO job starts first; from 2.5 to 7.5 it can start at 7.5 without risk. The paper"
        " calls the best-effort utility a falling line with a significantly lower maximum: here 0.4 falling"
        " to 0 after 40 min. Nothing is random."
    )
    return Figure(rows, values, notes, charts)
