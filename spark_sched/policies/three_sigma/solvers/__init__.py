"""Solvers of the planning problem behind one interface; `create_solver` knows them by name."""

from spark_sched.policies.three_sigma.solvers.base import Ask, Prices, Solution, Solver, SolverStatus
from spark_sched.policies.three_sigma.solvers.by_name import SOLVERS, create_solver
from spark_sched.policies.three_sigma.solvers.guarded import create_guarded
from spark_sched.policies.three_sigma.solvers.lagrangian import Lagrangian

__all__ = ["SOLVERS", "Ask", "Lagrangian", "Prices", "Solution", "Solver", "SolverStatus", "create_guarded",
           "create_solver"]  # fmt: skip
