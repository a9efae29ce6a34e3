"""Solvers by the names that ``spark.sched.planner.solver`` has for them."""

from __future__ import annotations

from spark_sched.errors import BadInputError, did_you_mean
from spark_sched.policies.three_sigma.solvers.base import Solver
from spark_sched.policies.three_sigma.solvers.lagrangian import Lagrangian

#: Values of ``spark.sched.planner.solver``; beside them ``pulp:NAME`` for any other solver that PuLP finds.
SOLVERS = ("prices", "highs", "cbc")


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
