"""3Sigma's own formulation of the planning problem (§4.3.3), which `milp.by_unions` is compared with."""

from __future__ import annotations

import numpy as np

from spark_sched.policies.three_sigma.milp import Milp
from spark_sched.policies.three_sigma.problem import Problem


def with_splits(problem: Problem) -> Milp:
    """A variable for the part of an option on each partition of its set.

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
    row, column = np.concatenate(rows), np.concatenate(columns)
    order = np.lexsort((column, row))
    binary = np.arange(options + preemptions + len(part)) < options + preemptions
    return Milp(
        objective=np.concatenate([p.utility[group, start], -p.cost, np.zeros(len(part))]),
        upper=np.where(binary, 1.0, np.inf),
        whole=binary,
        row_start=np.concatenate([[0], np.cumsum(np.bincount(row, minlength=len(upper)))]),
        column=column[order],
        value=np.concatenate(values)[order],
        row_lower=lower,
        row_upper=upper,
        group=group,
        start=start,
        preemptions=preemptions,
    )
