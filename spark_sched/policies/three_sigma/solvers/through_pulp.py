"""CBC, and whatever else PuLP finds installed (Gurobi, CPLEX, SCIP, …)."""

from __future__ import annotations

from typing import Any

import numpy as np

from spark_sched.errors import BadInputError, did_you_mean
from spark_sched.policies.three_sigma.milp import Milp, by_unions
from spark_sched.policies.three_sigma.problem import Assignment, Problem
from spark_sched.policies.three_sigma.solvers.base import Ask, Solution

_CBC = "PULP_CBC_CMD"


def _pulp() -> Any:
    try:
        import pulp
    except ImportError:
        raise BadInputError(
            "this solver needs the package pulp: pip install 'spark-sched[solvers]', or choose 'prices'"
        ) from None
    return pulp


def found_by_pulp() -> list[str]:
    """The solvers that PuLP can run here, by PuLP's names."""
    return list(_pulp().listSolvers(onlyAvailable=True))


class ThroughPulp:
    """One of PuLP's solvers in a process of its own.

    Every solution is checked before it is used: CBC, stopped by time, has been seen to return
    fractional values and to call an incumbent optimal. PuLP reports no bound, so ``bound`` is inf unless the
    solver ended by itself; time limits leave out the time to write and read the problem.

    Args:
        backend: PuLP's name of the solver.
    """

    def __init__(self, backend: str = _CBC) -> None:
        self._pulp = _pulp()
        available = found_by_pulp()
        if backend not in available:
            raise BadInputError(
                f"PuLP has no solver {backend!r} here{did_you_mean(backend, available)}: choose one of "
                f"{', '.join(available)}"
            )
        self._backend = backend
        self.name = "cbc" if backend == _CBC else f"pulp:{backend}"

    def solve(self, problem: Problem, ask: Ask) -> Solution:
        began_s = ask.clock_s() if ask.clock_s else 0.0
        plan = Assignment.empty(problem)
        if not problem.groups:
            return Solution(self.name, "optimal", plan, 0.0, 0.0, ask.since_s(began_s))
        milp = by_unions(problem)
        model, variables = self._model(milp)
        options: dict[str, Any] = {"msg": False, "gapRel": ask.gap}
        if ask.limit_s is not None:
            options["timeLimit"] = ask.limit_s
        note, ended = "", False
        try:
            model.solve(self._pulp.getSolver(self._backend, **options))
            note = self._pulp.LpStatus[model.status]
            # The status "Optimal" alone is also given to the best plan at the time limit.
            ended = model.sol_status == self._pulp.LpSolutionOptimal
        except self._pulp.PulpSolverError as error:
            note = str(error)
        values = [variable.varValue for variable in variables]
        found = None
        if all(value is not None for value in values):
            found = milp.read(problem, np.array(values, dtype=float))
        if found is not None and not problem.fits(found):
            found = None
        status = "none"
        if found is not None:
            plan, status = found, "optimal" if ended else "feasible"
        value = problem.value(plan)
        # All that "ended" proves is the gap asked for.
        bound = value / (1.0 - ask.gap) if status == "optimal" and ask.gap < 1.0 else np.inf
        return Solution(self.name, status, plan, value, bound, ask.since_s(began_s), note=note)  # type: ignore[arg-type]

    def _model(self, milp: Milp) -> tuple[Any, list[Any]]:
        pulp = self._pulp
        model = pulp.LpProblem("plan", pulp.LpMaximize)
        variables = [
            pulp.LpVariable(
                f"x{i}",
                0,
                None if np.isinf(most) else float(most),
                pulp.LpBinary if whole else pulp.LpContinuous,
            )
            for i, (most, whole) in enumerate(zip(milp.upper.tolist(), milp.whole.tolist(), strict=True))
        ]
        model += pulp.LpAffineExpression(list(zip(variables, milp.objective.tolist(), strict=True)))
        columns, values = milp.column.tolist(), milp.value.tolist()
        for i in range(milp.rows):
            first, last = int(milp.row_start[i]), int(milp.row_start[i + 1])
            if first == last:
                continue
            # Expressions from pairs: pulp.lpSum builds one per term.
            terms = pulp.LpAffineExpression(
                [(variables[c], v) for c, v in zip(columns[first:last], values[first:last], strict=True)]
            )
            low, high = float(milp.row_lower[i]), float(milp.row_upper[i])
            sense = pulp.LpConstraintEQ if low == high else pulp.LpConstraintLE
            model += pulp.LpConstraint(terms, sense, f"r{i}", high)
        return model, variables
