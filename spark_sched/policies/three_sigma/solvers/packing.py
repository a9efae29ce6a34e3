"""A plan under construction: the chosen options, the capacity left, and the options that still fit.

Compiled functions on two tuples of arrays: what does not change (`Tables`) and what does (`Packing`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from spark_sched.arrays import Bools, Floats, Ints
from spark_sched.compiled import COMPILED, compiled
from spark_sched.policies.three_sigma.problem import NO_OPTION, SLACK_SLOTS, Assignment, Problem

#: Half of the problem's slack, so that the rounding errors of repeated moves cannot add up to more.
_EPS = 0.5 * SLACK_SLOTS
_NONE = NO_OPTION


class Tables(NamedTuple):
    """The problem's arrays of these names.

    Besides ``plain``: utilities, −inf where there is no option, shape (G, T); and ``dearest``: the
    preemptible jobs by falling cost, shape (R,).
    """

    job_of: Ints
    mask_of: Ints
    demand: Floats
    utility: Floats
    plain: Floats
    use: Floats
    groups_of: Ints
    inside: Bools
    cost: Floats
    credit: Floats
    remaining: Floats
    free: Floats
    elapsed_of: Ints
    dearest: Ints


class Packing(NamedTuple):
    """A feasible assignment that changes by one job or one preemption at a time.

    ``group``, ``start``, ``preempted`` are as in `Assignment`; ``value`` is Σ U − Σ P, shape (1,); ``left``
    is left by union and time step, shape (N, T); ``room`` the least left over all unions around a
    set, shape (M, T): what an option on that set must fit into.
    """

    group: Ints
    start: Ints
    preempted: Bools
    value: Floats
    left: Floats
    room: Floats


def tables(problem: Problem) -> Tables:
    p = problem
    arrays = (
        p.job_of,
        p.mask_of,
        p.demand,
        p.utility,
        np.where(p.utility > 0.0, p.utility, -np.inf),
        p.use,
        p.groups_of,
        p.inside,
        p.cost,
        p.credit,
        p.remaining,
        p.free,
        p.grid.elapsed_of.copy(),  # read-only arrays are of another type to numba
        np.argsort(-p.cost, kind="stable"),
    )
    return Tables(*(np.ascontiguousarray(array) for array in arrays))


def assignment(packing: Packing) -> Assignment:
    return Assignment(packing.group.copy(), packing.start.copy(), packing.preempted.copy())


def packing_of(t: Tables, plan: Assignment) -> Packing:
    """That plan, which must be feasible; jobs that it preempts without need run on."""
    placed = plan.group != _NONE
    # Each job's own option is the only one it may take.
    only = np.full(t.plain.shape, -np.inf)
    only[plan.group[placed], plan.start[placed]] = 0.0
    order = np.flatnonzero(placed)
    return pack(t, order, only, plan.preempted, len(order))


@compiled
def pack(t: Tables, order: Ints, worth: Floats, preempted: Bools, first: int) -> Packing:
    """A plan with those of these preemptions that are needed. The jobs take, in that order, the option with
    the largest ``worth``, shape (G, T), that still fits. Starts of −inf are not allowed.

    When the ``first`` jobs of the order have options, preempted jobs whose slots they do not need continue to
    run; the other jobs get the remaining slots.
    """
    jobs, slots = len(t.groups_of), t.free.shape[1]
    nothing = np.empty(jobs, dtype=np.int64)
    nothing.fill(_NONE)
    packing = Packing(
        nothing,
        nothing.copy(),
        preempted.copy(),
        np.zeros(1),
        t.free.copy(),
        np.empty((len(t.inside), slots)),
    )
    for running in range(len(preempted)):
        if preempted[running]:
            packing.value[0] -= t.cost[running]
            _credit(t, packing, running, 1.0)
    _refresh(t, packing)
    for job in order[:first]:
        fill(t, packing, job, worth)
    spare_all(t, packing)
    for job in order[first:]:
        fill(t, packing, job, worth)
    spare_all(t, packing)
    settle(t, packing, order)
    return packing


@compiled
def settle(t: Tables, packing: Packing, order: Ints) -> None:
    """Give the jobs, in that order, the remaining option with the largest utility; the value never falls.

    Prices make a job leave the next slots to jobs that are worth more; it can still get the slots left over.
    """
    for job in order:
        if packing.group[job] != _NONE:
            if packing.start[job] == 0:
                continue
            take_out(t, packing, job)
        fill(t, packing, job, t.plain)


@compiled
def relent(t: Tables, packing: Packing, order: Ints, most: int) -> Packing:
    """Move jobs of the plan if this saves preemptions that cost more. The first ``most`` jobs of that order
    that are in the plan are tried.

    A job may do as well later, when slots fall free by themselves: without it preempted jobs run on, and it
    takes its most useful option beside them.
    """
    tried = 0
    for job in order:
        if tried >= most or not packing.preempted.any():
            break
        if packing.group[job] == _NONE:
            continue
        tried += 1
        trial = twin(packing)
        take_out(t, trial, job)
        if not spare_all(t, trial):
            continue
        fill(t, trial, job, t.plain)
        if trial.value[0] > packing.value[0]:
            packing = trial
    return packing


@compiled
def twin(packing: Packing) -> Packing:
    """An independent copy."""
    return Packing(
        packing.group.copy(),
        packing.start.copy(),
        packing.preempted.copy(),
        packing.value.copy(),
        packing.left.copy(),
        packing.room.copy(),
    )


@compiled
def fill(t: Tables, packing: Packing, job: int, worth: Floats) -> None:
    """Give the job its option of most ``worth`` that fits, if it has none yet and there is one."""
    if packing.group[job] != _NONE:
        return
    best, best_group, best_start = -np.inf, _NONE, _NONE
    for group in t.groups_of[job]:
        if group == len(t.job_of):
            break
        row, use, demand = worth[group], t.use[group], t.demand[group]
        room = packing.room[t.mask_of[group]] + _EPS
        for start in range(len(row)):
            if row[start] > best and room[start] >= demand and _fits(use, t.elapsed_of[start], room, start):
                best, best_group, best_start = row[start], group, start
    if best_group != _NONE:
        packing.group[job], packing.start[job] = best_group, best_start
        packing.value[0] += t.utility[best_group, best_start]
        _take(t, packing, best_group, best_start, 1.0)


@compiled
def _fits(use: Floats, elapsed: Ints, room: Floats, start: int) -> bool:
    for slot in range(start, len(room)):  # noqa: SIM110 - numba knows no generators in all()
        if use[elapsed[slot]] > room[slot]:
            return False
    return True


@compiled
def take_out(t: Tables, packing: Packing, job: int) -> None:
    """Take away the option of a job that has one."""
    group, start = packing.group[job], packing.start[job]
    packing.group[job] = packing.start[job] = _NONE
    packing.value[0] -= t.utility[group, start]
    _take(t, packing, group, start, -1.0)


@compiled
def preempt(t: Tables, packing: Packing, running: int) -> None:
    packing.preempted[running] = True
    packing.value[0] -= t.cost[running]
    _credit(t, packing, running, 1.0)
    _refresh(t, packing)


@compiled
def spare_all(t: Tables, packing: Packing) -> bool:
    """Undo preemptions that the plan does not need, the most expensive first. Returns whether it did."""
    changed = False
    for running in t.dearest:
        if not packing.preempted[running]:
            continue
        if _needed(packing.left, t.credit[running], t.remaining[running]):
            continue
        packing.preempted[running] = False
        packing.value[0] += t.cost[running]
        _credit(t, packing, running, -1.0)
        changed = True
    if changed:
        _refresh(t, packing)
    return changed


@compiled
def _needed(left: Floats, credit: Floats, remaining: Floats) -> bool:
    for union in range(len(left)):
        if credit[union] > 0.0:
            row, slots = left[union], credit[union]
            for slot in range(len(row)):
                if row[slot] - slots * remaining[slot] < -_EPS:
                    return True
    return False


if not COMPILED:
    # The same answers: without compilation NumPy's loops are faster than Python's.
    def _fits(use: Floats, elapsed: Ints, room: Floats, start: int) -> bool:
        return bool((use[elapsed[start:]] <= room[start:]).all())

    def _needed(left: Floats, credit: Floats, remaining: Floats) -> bool:
        return bool((left - credit[:, None] * remaining < -_EPS)[credit > 0.0].any())


# Ufuncs with a place for their answer: assignments to slices take numba seconds to compile.


@compiled
def _take(t: Tables, packing: Packing, group: int, start: int, sign: float) -> None:
    row = sign * t.use[group][t.elapsed_of[start]]
    outer = t.inside[t.mask_of[group]]
    for union in range(len(outer)):
        if outer[union]:
            left = packing.left[union]
            np.subtract(left, row, left)
    _refresh(t, packing)


@compiled
def _credit(t: Tables, packing: Packing, running: int, sign: float) -> None:
    for union in range(len(packing.left)):
        left, slots = packing.left[union], sign * t.credit[running, union]
        if slots != 0.0:
            np.add(left, slots * t.remaining[running], left)


@compiled
def _refresh(t: Tables, packing: Packing) -> None:
    for mask in range(len(t.inside)):
        room = packing.room[mask]
        room.fill(np.inf)
        for union in range(len(packing.left)):
            if t.inside[mask, union]:
                np.minimum(room, packing.left[union], room)
