"""Solvers of the planning problem behind one interface; `create_solver` knows them by name."""

from __future__ import annotations

from spark_sched.errors import BadInputError, did_you_mean
from spark_sched.policies.three_sigma.solvers.base import Ask, Prices, Solution, Solver, SolverStatus
from spark_sched.policies.three_sigma.solvers.guarded import Guarded
from spark_sched.policies.three_sigma.solvers.lagrangian import Lagrangian

__all__ = ["SOLVERS", "Ask", "Lagrangian", "Prices", "Solution", "Solver", "SolverStatus", "create_guarded",
           "create_solver"]  # fmt: skip

#: Values of ``spark.sched.planner.solver``; beside them ``pulp:NAME`` for any other solver that PuLP finds.
SOLVERS = ("prices", "highs", "cbc")


def create_guarded(name: str) -> Solver:
    """As `create_solver`, for a loop with a time limit: a late external solver is killed, and the built-in
    one plans.

    Raises:
        BadInputError: as `create_solver`.
    """
    solver = create_solver(name)
    return solver if isinstance(solver, Lagrangian) else Guarded(name, spare=Lagrangian())


def create_solver(name: str) -> Solver:
    """A solver by its name.

    Raises:
        BadInputError: the name is unknown, or what the solver needs is not installed.
    """
    if name == "prices":
        return Lagrangian()
    if name == "highs":
        from spark_sched.policies.three_sigma.solvers.highs import Highs

        return Highs()
    if name == "cbc" or name.startswith("pulp:"):
        from spark_sched.policies.three_sigma.solvers.through_pulp import ThroughPulp

        return ThroughPulp() if name == "cbc" else ThroughPulp(name.removeprefix("pulp:"))
    raise BadInputError(
        f"spark.sched.planner.solver is {name!r}{did_you_mean(name, SOLVERS)}: choose one of "
        f"{', '.join(SOLVERS)}, or pulp:NAME for another solver that PuLP finds"
    )
