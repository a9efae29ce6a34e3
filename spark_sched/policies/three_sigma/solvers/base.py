"""The input and output of solvers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import numpy as np

from spark_sched.arrays import Floats, Ints
from spark_sched.policies.three_sigma.problem import Assignment, Problem

#: ``optimal``: proven to be within the gap asked for. ``feasible``: a plan, not proven to be that good.
#: ``none``: the solver has no plan of its own; the assignment is the empty plan.
SolverStatus: TypeAlias = Literal["optimal", "feasible", "none"]


@dataclass(frozen=True, slots=True, eq=False)
class Prices:
    """Prices of capacity on the absolute clock: the start of the next cycle's search.

    Attributes:
        at_ms: when the time steps begin, shape (T,).
        unions: partition sets as bits, N of them.
        price: shape (N, T), >= 0.
    """

    at_ms: Ints
    unions: tuple[int, ...]
    price: Floats

    def moved_to(self, problem: Problem, now_ms: int) -> Floats:
        """These prices on another problem's unions and slots, shape (N, T); 0 where nothing is known."""
        at = problem.grid.starts_ms + now_ms
        place = {union: n for n, union in enumerate(self.unions)}
        found = np.zeros((len(problem.unions), len(at)))
        for n, union in enumerate(problem.unions):
            if union in place:
                found[n] = np.interp(at, self.at_ms, self.price[place[union]])
        return found


@dataclass(frozen=True, slots=True)
class Ask:
    """How to solve.

    Attributes:
        gap: relative gap at which a plan is good enough.
        limit_s: wall time for solvers that have a limit of their own; None: none.
        start: prices of an earlier cycle on this problem's rows, shape (N, T), if any.
        stop: asked between steps; true: return the best so far at once.
        clock_s: measures the runtime; None: not measured, and the solution is a function of the problem, the
            generator and the prices alone.
    """

    rng: np.random.Generator
    gap: float = 0.005
    limit_s: float | None = None
    start: Floats | None = None
    stop: Callable[[], bool] = lambda: False
    clock_s: Callable[[], float] | None = None

    def since_s(self, began_s: float) -> float | None:
        """The runtime since ``began_s``, if it is measured."""
        return self.clock_s() - began_s if self.clock_s else None


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """A plan and, separately, its proven quality.

    Attributes:
        assignment: feasible for the problem's rows.
        value: of the assignment, recomputed from the problem.
        bound: no plan has more than this; inf where the solver proved nothing.
        runtime_s: wall time; None where no clock was given.
        price: the prices found, shape (N, T); None for solvers without.
    """

    solver: str
    status: SolverStatus
    assignment: Assignment
    value: float
    bound: float
    runtime_s: float | None = None
    price: Floats | None = None
    note: str = ""


class Solver(Protocol):
    """Finds a plan. Never raises for a problem: no plan is an answer (``none``)."""

    name: str

    def solve(self, problem: Problem, ask: Ask) -> Solution: ...
