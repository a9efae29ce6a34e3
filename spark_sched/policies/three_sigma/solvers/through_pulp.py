"""CBC, and whatever else PuLP finds installed (Gurobi, CPLEX, SCIP, …)."""

from __future__ import annotations

from typing import Any

import numpy as np

from spark_sched.errors import BadInputError, did_you_mean
from spark_sched.policies.three_sigma.milp import LinearProgram
from spark_sched.policies.three_sigma.solvers.linear import LinearSolution, LinearSolver

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


class ThroughPulp(LinearSolver):
    """One of PuLP's solvers in a process of its own.

    PuLP reports no bound; time limits leave out the time to write and read the problem.

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

    def maximise(self, program: LinearProgram, gap: float, limit_s: float | None = None) -> LinearSolution:
        model, variables = self._model(program)
        options: dict[str, Any] = {"msg": False, "gapRel": gap}
        if limit_s is not None:
            options["timeLimit"] = limit_s
        ended = False
        try:
            model.solve(self._pulp.getSolver(self._backend, **options))
            note = self._pulp.LpStatus[model.status]
            # The status "Optimal" alone is also given to the best plan at the time limit.
            ended = model.sol_status == self._pulp.LpSolutionOptimal
        except self._pulp.PulpSolverError as error:
            note = str(error)
        values = [variable.varValue for variable in variables]
        x = None if None in values else np.array(values, dtype=float)
        return LinearSolution(x, np.inf, ended, note)

    def _model(self, milp: LinearProgram) -> tuple[Any, list[Any]]:
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
