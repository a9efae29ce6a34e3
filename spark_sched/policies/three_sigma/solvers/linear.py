"""The planning problem given to a solver of any linear program."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from spark_sched.arrays import Floats
from spark_sched.policies.three_sigma.milp import LinearProgram, by_unions
from spark_sched.policies.three_sigma.problem import Assignment, Problem
from spark_sched.policies.three_sigma.solvers.base import Ask, Solution, SolverStatus


@dataclass(frozen=True, slots=True, eq=False)
class LinearSolution:
    """A solver's answer to a linear program.

    Attributes:
        x: its values, shape (n,); None where it found none.
        bound: no feasible x has a larger objective; inf where the solver reports none.
        ended: by itself rather than by its limits.
    """

    x: Floats | None
    bound: float
    ended: bool
    note: str = ""


class LinearSolver(ABC):
    """A `Solver` of the planning problem as a mixed-integer linear program.

    Every solution is checked before it is used: solvers stopped by time have been seen to return fractional
    values, and to call an incumbent optimal.
    """

    name: str

    @abstractmethod
    def maximise(self, program: LinearProgram, gap: float, limit_s: float | None = None) -> LinearSolution:
        """Solve any mixed-integer linear program to a relative gap, within a time limit if there is one."""

    def solve(self, problem: Problem, ask: Ask) -> Solution:
        began_s = ask.clock_s() if ask.clock_s else 0.0
        plan = Assignment.empty(problem)
        if not problem.groups:
            return Solution(self.name, "optimal", plan, 0.0, 0.0, ask.since_s(began_s))
        milp = by_unions(problem)
        answer = self.maximise(milp, ask.gap, ask.limit_s)
        found = None if answer.x is None else milp.read(problem, answer.x)
        status: SolverStatus = "none"
        if found is not None and problem.fits(found):
            plan, status = found, "feasible"
        value = problem.value(plan)
        bound = max(answer.bound, value)
        if status == "feasible":
            if np.isinf(bound) and answer.ended and ask.gap < 1.0:
                bound = value / (1.0 - ask.gap)  # all that its end proves is the gap asked for
            if answer.ended if np.isinf(bound) else bound - value <= ask.gap * abs(bound) + 1e-9:
                status = "optimal"
        return Solution(self.name, status, plan, value, bound, ask.since_s(began_s), note=answer.note)
