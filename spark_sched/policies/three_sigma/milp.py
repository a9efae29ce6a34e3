"""The planning problem as a mixed-integer linear program in sparse arrays, for solvers of any problem.

maximise objective · x  subject to  row_lower ≤ A x ≤ row_upper,  0 ≤ x ≤ upper,  x whole where ``whole``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_sched.arrays import Bools, Floats, Ints
from spark_sched.policies.three_sigma.problem import NO_OPTION, Assignment, Problem

__all__ = ["LinearProgram", "Milp", "by_unions", "with_splits"]


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
    """A planning problem: first the options' columns, then preemptions, then (in one formulation) splits.

    Attributes:
        group, start: of the options.
        preemptions: R, how many columns follow the options.
    """

    group: Ints
    start: Ints
    preemptions: int

    def read(self, problem: Problem, x: Floats) -> Assignment | None:
        """The plan in a solver's answer, or None if the answer is not a plan: fractional, or two options for
        a job.

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

    def point(self, assignment: Assignment) -> Floats:
        """The values of the binary columns for a plan, shape (options + R,)."""
        chosen = assignment.group != NO_OPTION
        taken = set(zip(assignment.group[chosen].tolist(), assignment.start[chosen].tolist(), strict=True))
        options = [(g, s) in taken for g, s in zip(self.group.tolist(), self.start.tolist(), strict=True)]
        return np.concatenate([np.array(options, dtype=float), assignment.preempted.astype(float)])


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
    upper = np.concatenate([np.ones(p.jobs), p.free.ravel()])
    return _assemble(p, group, start, 0, rows, columns, values, np.full(len(upper), -np.inf), upper)


def with_splits(problem: Problem) -> Milp:
    """The paper's own form (§4.3.3): a variable for the part of an option on each partition of its set.

    Demand rows say that the parts sum to k; a row per (partition, time step) bounds them. A part stays the
    same for as long as the job runs, so this is a little stricter than `by_unions`.
    """
    p = problem
    group, start = np.nonzero(p.utility > 0.0)
    options, steps, preemptions = len(group), p.grid.steps, len(p.cost)
    partitions = len(p.free_of)
    in_mask = ((np.array(p.masks, dtype=np.int64)[:, None] >> np.arange(partitions)) & 1).astype(bool)
    of_option, partition = np.nonzero(in_mask[p.mask_of[group]])
    part = options + preemptions + np.arange(len(of_option))
    # At most one option per job; the parts of an option sum to its demand.
    rows = [p.job_of[group], p.jobs + np.arange(options), p.jobs + of_option]
    columns = [np.arange(options), np.arange(options), part]
    values = [np.ones(options), -p.demand[group], np.ones(len(part))]
    # The use of a part by step, per slot of its own.
    share = p.rows(group, start) / p.demand[group][:, None]
    taken, step = np.nonzero(share[of_option] > 0.0)
    first = p.jobs + options
    rows.append(first + partition[taken] * steps + step)
    columns.append(part[taken])
    values.append(share[of_option[taken], step])
    back, held_in = np.nonzero(p.held > 0.0)
    at, back_step = np.nonzero(p.remaining[back] > 0.0)
    rows.append(first + held_in[at] * steps + back_step)
    columns.append(options + back[at])
    values.append(-p.held[back[at], held_in[at]] * p.remaining[back[at], back_step])
    lower = np.concatenate(
        [np.full(p.jobs, -np.inf), np.zeros(options), np.full(partitions * steps, -np.inf)]
    )
    upper = np.concatenate([np.ones(p.jobs), np.zeros(options), p.free_of.ravel()])
    return _assemble(p, group, start, len(part), rows, columns, values, lower, upper)


def _assemble(
    problem: Problem,
    group: Ints,
    start: Ints,
    parts: int,
    rows: list[Ints],
    columns: list[Ints],
    values: list[Floats],
    lower: Floats,
    upper: Floats,
) -> Milp:
    options, preemptions = len(group), len(problem.cost)
    row, column, value = np.concatenate(rows), np.concatenate(columns), np.concatenate(values)
    order = np.lexsort((column, row))
    counts = np.bincount(row, minlength=len(upper))
    binary = options + preemptions
    most = np.ones(binary + parts)
    most[binary:] = np.inf
    return Milp(
        objective=np.concatenate([problem.utility[group, start], -problem.cost, np.zeros(parts)]),
        upper=most,
        whole=np.arange(binary + parts) < binary,
        row_start=np.concatenate([[0], np.cumsum(counts)]),
        column=column[order],
        value=value[order],
        row_lower=lower,
        row_upper=upper,
        group=group,
        start=start,
        preemptions=preemptions,
    )
