"""The planning problem as a mixed-integer linear program in sparse arrays, for solvers of any problem.

maximise objective · x  subject to  row_lower ≤ A x ≤ row_upper,  0 ≤ x ≤ upper,  x whole where ``whole``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_sched.arrays import Bools, Floats, Ints
from spark_sched.policies.three_sigma.problem import Assignment, Problem

#: How far from 0 or 1 a solver's whole variable may be: their own tolerance is 1e-6.
_WHOLE = 1e-5


@dataclass(frozen=True, slots=True, eq=False)
class LinearProgram:
    """Any problem of that form: the argument of the solvers' ``maximise``.

    Attributes:
        objective, upper: by column, shape (n,).
        whole: whether a column must be a whole number, shape (n,).
        row_start, column, value: A by rows (CSR): row i is ``column[row_start[i]:row_start[i + 1]]``.
        row_lower, row_upper: shape (m,).
    """

    objective: Floats
    upper: Floats
    whole: Bools
    row_start: Ints
    column: Ints
    value: Floats
    row_lower: Floats
    row_upper: Floats

    @property
    def columns(self) -> int:
        return len(self.objective)

    @property
    def rows(self) -> int:
        return len(self.row_upper)


@dataclass(frozen=True, slots=True, eq=False)
class Milp(LinearProgram):
    """A planning problem: first the options' columns, then preemptions, then any others.

    Attributes:
        group, start: of the options.
        preemptions: R, how many columns follow the options.
    """

    group: Ints
    start: Ints
    preemptions: int

    def read(self, problem: Problem, x: Floats) -> Assignment | None:
        """The plan in a solver's answer; None if it is fractional, or has two options for a job.

        Solvers that run out of time have been seen to return fractional values as a plan.
        """
        options = len(self.group)
        binary = x[: options + self.preemptions]
        if len(binary) < options + self.preemptions or not np.isfinite(binary).all():
            return None
        chosen = binary > 0.5
        if (np.abs(binary - chosen) > _WHOLE).any():
            return None
        plan = Assignment.empty(problem)
        picked = np.flatnonzero(chosen[:options])
        jobs = problem.job_of[self.group[picked]]
        if len(np.unique(jobs)) < len(jobs):
            return None
        group, start = plan.group.copy(), plan.start.copy()
        group[jobs], start[jobs] = self.group[picked], self.start[picked]
        return Assignment(group, start, chosen[options:])


def by_unions(problem: Problem) -> Milp:
    """Equation 3 with §4.3.5's credits, a row per (union of partitions, time step)."""
    p = problem
    group, start = np.nonzero(p.utility > 0.0)
    options, steps = len(group), p.grid.steps
    use = p.rows(group, start)
    rows, columns, values = [p.job_of[group]], [np.arange(options)], [np.ones(options)]
    taken, step = np.nonzero(use > 0.0)
    amount = use[taken, step]
    inside = p.inside[p.mask_of[group]]
    back, back_step = np.nonzero(p.remaining > 0.0)
    for n in range(len(p.unions)):
        mine = inside[taken, n]
        rows.append(p.jobs + n * steps + step[mine])
        columns.append(taken[mine])
        values.append(amount[mine])
        credit = p.credit[back, n] * p.remaining[back, back_step]
        given = credit > 0.0
        rows.append(p.jobs + n * steps + back_step[given])
        columns.append(options + back[given])
        values.append(-credit[given])
    row, column = np.concatenate(rows), np.concatenate(columns)
    order = np.lexsort((column, row))
    upper = np.concatenate([np.ones(p.jobs), p.free.ravel()])
    binary = options + len(p.cost)
    return Milp(
        objective=np.concatenate([p.utility[group, start], -p.cost]),
        upper=np.ones(binary),
        whole=np.ones(binary, dtype=bool),
        row_start=np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(upper)))]),
        column=column[order],
        value=np.concatenate(values)[order],
        row_lower=np.full(len(upper), -np.inf),
        row_upper=upper,
        group=group,
        start=start,
        preemptions=len(p.cost),
    )
