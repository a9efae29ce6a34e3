"""The optimum of a small problem by depth-first branch and bound, within a fixed amount of work.

Every waiting and every running job is an item that takes one of its options or none. The options of a waiting
job are its starts. The one option of a running job is to run on: it is worth what its preemption would cost,
and needs the slots that the job holds. So the problem is a knapsack problem with many capacities, in which no
option has a negative worth and every part of a plan is a plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from spark_sched.arrays import Floats, Ints
from spark_sched.compiled import COMPILED, compiled
from spark_sched.policies.three_sigma.problem import NO_OPTION, SLACK_SLOTS, Assignment, Problem

_NONE = NO_OPTION
#: Problems with more waiting jobs, or with more slots by option, union and time step, are not small.
_MOST_JOBS, _MOST_CELLS = 16, 250_000
#: Work of a node besides that of its options; slots by union and time step that count as one more for each.
_NODE, _PLACES = 16, 128
#: Plans whose values differ by less, as a share of the greatest worth, are the same but for rounding.
SAME = 1e-9


class _Items(NamedTuple):
    """The problem as items and options, I and O in all, options ordered by item.

    ``worth``: of options, shape (O,). ``use``: their slots by union and time step, shape (O, N · T).
    ``item``: whose they are, shape (O,). ``free``: capacity if every job that may be preempted is, shape
    (N · T,).
    """

    worth: Floats
    use: Floats
    item: Ints
    free: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Explored:
    """What the search proved and found.

    Attributes:
        assignment: a plan of more value than the one to beat; None if there is none, or none was found.
        bound: no plan has more than this; inf if the search ended by its limit.
        work: nodes and options looked at.
    """

    assignment: Assignment | None
    bound: float
    work: int


def is_small(problem: Problem) -> bool:
    """Whether the problem may be solved to the optimum in about the time of a heuristic's plan."""
    options = problem.options + len(problem.cost)
    return problem.jobs <= _MOST_JOBS and options * problem.free.size <= _MOST_CELLS


def explore(problem: Problem, prices: Sequence[Floats], beat: float, gap: float, limit: int) -> Explored:
    """Look for a plan worth more than ``beat`` until none can be better by more than ``gap``.

    Args:
        problem: P jobs.
        prices: of capacity, each of shape (N, T) and ≥ 0. Each gives a bound of its own beside the sum of the
            jobs' most useful options that still fit; the first one says which options are tried first.
        beat: value of a plan that is known.
        gap: relative.
        limit: greatest amount of work.
    """
    p = problem
    group, start = np.nonzero(p.utility > 0.0)
    by_job = np.argsort(p.job_of[group], kind="stable")
    group, start = group[by_job], start[by_job]
    items = _items(p, group, start)
    lost = float(p.cost.sum())
    gains = np.stack([*(items.worth - items.use @ price.ravel() for price in prices), items.worth])
    paid = np.array([*(float(price.ravel() @ items.free) for price in prices), 0.0]) - lost
    chosen, bound, work = _explore(items, gains, paid, p.jobs + len(p.cost), -lost, beat, gap, limit)
    if not len(chosen):
        return Explored(None, bound, work)
    plan = Assignment.empty(p)
    jobs = np.flatnonzero(chosen[: p.jobs] != _NONE)
    plan.group[jobs], plan.start[jobs] = group[chosen[jobs]], start[chosen[jobs]]
    return Explored(Assignment(plan.group, plan.start, chosen[p.jobs :] == _NONE), bound, work)


def _items(p: Problem, group: Ints, start: Ints) -> _Items:
    """The options of waiting jobs, which are ordered by job, then those of running jobs."""
    size = p.free.size
    rows = p.inside[p.mask_of[group], :, None] * p.rows(group, start)[:, None, :]
    held = p.credit[:, :, None] * p.remaining[:, None, :]
    return _Items(
        np.concatenate([p.utility[group, start], p.cost]),
        np.concatenate([rows.reshape(len(group), size), held.reshape(len(p.cost), size)]),
        np.concatenate([p.job_of[group], p.jobs + np.arange(len(p.cost))]),
        p.free.ravel() + held.sum(axis=0).ravel(),
    )


class _Stack(NamedTuple):
    """The path from the root to the present node, by depth; K bounds per node.

    ``left``: capacity, shape (I + 1, N · T). ``open``: options that may still be taken, the first ``opened``
    of a row of shape (O,). ``value``: of what is taken. ``sure``: the same at each bound's prices, with the
    worth of all capacity, shape (I + 1, K). ``item``: decided at this node. ``tried``: its options, and none,
    in the order in which they are tried, the first ``tries`` of a row of shape (O + 1,). ``next``: place of
    the next one. ``others``: the node's bounds without that item, shape (I + 1, K). ``taken``: the option
    tried last.
    """

    left: Floats
    open: Ints
    opened: Ints
    value: Floats
    sure: Floats
    item: Ints
    tried: Ints
    tries: Ints
    next: Ints
    others: Floats
    taken: Ints


@compiled
def _stack(items: _Items, paid: Floats, count: int, value: float) -> _Stack:
    options, ways = len(items.worth), len(paid)
    stack = _Stack(
        np.empty((count + 1, len(items.free))),
        np.empty((count + 1, options), dtype=np.int64),
        np.zeros(count + 1, dtype=np.int64),
        np.zeros(count + 1),
        np.zeros((count + 1, ways)),
        np.zeros(count + 1, dtype=np.int64),
        np.empty((count + 1, options + 1), dtype=np.int64),
        np.zeros(count + 1, dtype=np.int64),
        np.zeros(count + 1, dtype=np.int64),
        np.zeros((count + 1, ways)),
        np.zeros(count + 1, dtype=np.int64),
    )
    # Half of the problem's slack, as in other plans.
    stack.left[0] = items.free + 0.5 * SLACK_SLOTS
    stack.sure[0] += paid
    stack.value[0] = value
    stack.opened[0] = _narrow(items, np.arange(options), _NONE, stack.left[0], stack.open[0])
    return stack


@compiled
def _explore(
    items: _Items, gains: Floats, paid: Floats, count: int, value: float, beat: float, gap: float, limit: int
) -> tuple[Ints, float, int]:
    """The option of each item in the best plan, or an empty array; the bound; the work."""
    stack = _stack(items, paid, count, value)
    best, closed, work, depth = beat, -np.inf, 0, 0
    each = 1 + len(items.free) // _PLACES
    same = SAME * items.worth.max() if len(items.worth) else 0.0
    found = np.empty(0, dtype=np.int64)
    enter = True
    while depth >= 0:
        if enter:
            # 1. A node: the plan so far, then which item to decide next.
            work += _NODE + each * stack.opened[depth]
            if work > limit:
                return found, np.inf, work
            if stack.value[depth] > best + same:
                best = stack.value[depth]
                found = np.empty(count, dtype=np.int64)
                found.fill(_NONE)
                for above in range(depth):
                    found[stack.item[above]] = stack.taken[above]
            bound = _branch(items, gains, stack, depth, count, best + gap * best + same)
            closed = max(closed, bound)
            if stack.tries[depth] == 0:
                depth -= 1
            enter = False
        elif stack.next[depth] == stack.tries[depth]:
            depth -= 1
        else:
            # 2. Its next option, or none.
            option = stack.tried[depth, stack.next[depth]]
            stack.next[depth] += 1
            bound = np.inf
            for way in range(len(gains)):
                gain = 0.0 if option == _NONE else gains[way, option]
                bound = min(bound, stack.others[depth, way] + gain)
            if bound <= best + gap * best + same:
                closed = max(closed, bound)
                continue
            _descend(items, gains, stack, depth, option)
            depth += 1
            enter = True
    return found, max(best, closed), work


@compiled
def _branch(items: _Items, gains: Floats, stack: _Stack, depth: int, count: int, enough: float) -> float:
    """Choose the item to decide next and the order of its options; the greatest bound of what is cut off.

    Options whose bound is at most ``enough`` are cut off here and below.
    """
    rows = stack.open[depth, : stack.opened[depth]]
    most = np.zeros((len(gains), count))
    _look(items, gains, rows, most)
    # Of the item's taking none, and then how many options it has besides.
    none = np.empty(count)
    none.fill(np.inf)
    bound = np.inf
    for way in range(len(gains)):
        total = stack.sure[depth, way] + np.cumsum(most[way])[-1]
        stack.others[depth, way] = total
        bound = min(bound, total)
        none = np.minimum(none, total - most[way])
    stack.next[depth] = 0
    stack.tries[depth] = 0
    if bound <= enough:
        return bound
    number = np.zeros(count, dtype=np.int64)
    kept, closed = _cut(items, gains, rows, stack.others[depth], most, enough, number)
    stack.opened[depth] = kept
    rows = stack.open[depth, :kept]
    branches = number + (none > enough)
    score = most[-1] / (1.0 + branches)
    for each in range(count):
        if number[each] == 0:
            score[each] = -1.0
        elif branches[each] == 1:
            score[each] = np.inf  # nothing to choose
    item = np.argmax(score)
    if number[item] == 0:
        return closed
    stack.item[depth] = item
    own = np.append(rows[items.item[rows] == item], _NONE)
    keys = np.zeros(len(own))
    for n in range(len(own) - 1):
        keys[n] = -gains[0, own[n]]
    for place in np.argsort(keys, kind="mergesort"):
        stack.tried[depth, stack.tries[depth]] = own[place]
        stack.tries[depth] += 1
    for way in range(len(gains)):
        stack.others[depth, way] -= most[way, item]
    return closed


@compiled
def _cut(
    items: _Items, gains: Floats, rows: Ints, total: Floats, most: Floats, enough: float, number: Ints
) -> tuple[int, float]:
    """Drop options whose bound is at most ``enough``; how many stay, and the greatest bound of the others."""
    kept, closed = 0, -np.inf
    for option in rows:
        item = items.item[option]
        bound = np.inf
        for way in range(len(gains)):
            bound = min(bound, total[way] - most[way, item] + gains[way, option])
        if bound > enough:
            rows[kept] = option
            kept += 1
            number[item] += 1
        else:
            closed = max(closed, bound)
    return kept, closed


@compiled
def _descend(items: _Items, gains: Floats, stack: _Stack, depth: int, option: int) -> None:
    """The node below, with this option of the item."""
    below = depth + 1
    stack.taken[depth] = option
    stack.value[below] = stack.value[depth]
    for way in range(len(gains)):
        stack.sure[below, way] = stack.sure[depth, way]
    if option == _NONE:
        np.add(stack.left[depth], 0.0, stack.left[below])
    else:
        stack.value[below] += items.worth[option]
        for way in range(len(gains)):
            stack.sure[below, way] += gains[way, option]
        np.subtract(stack.left[depth], items.use[option], stack.left[below])
    rows = stack.open[depth, : stack.opened[depth]]
    stack.opened[below] = _narrow(items, rows, stack.item[depth], stack.left[below], stack.open[below])


@compiled
def _look(items: _Items, gains: Floats, rows: Ints, most: Floats) -> None:
    """The greatest gain of each item among these options, at least 0."""
    for option in rows:
        item = items.item[option]
        for way in range(len(gains)):
            most[way, item] = max(most[way, item], gains[way, option])


@compiled
def _narrow(items: _Items, rows: Ints, decided: int, left: Floats, out: Ints) -> int:
    """Those of the options that fit and are of another item; how many."""
    count = 0
    for option in rows:
        if items.item[option] == decided:
            continue
        use = items.use[option]
        fits = True
        for place in range(len(left)):
            if use[place] > left[place]:
                fits = False
                break
        if fits:
            out[count] = option
            count += 1
    return count


if not COMPILED:
    # The same answers: without compilation NumPy's loops are faster than Python's.
    def _look(items: _Items, gains: Floats, rows: Ints, most: Floats) -> None:
        of_rows = items.item[rows]
        for way in range(len(gains)):
            np.maximum.at(most[way], of_rows, gains[way, rows])

    def _cut(
        items: _Items, gains: Floats, rows: Ints, total: Floats, most: Floats, enough: float, number: Ints
    ) -> tuple[int, float]:
        of_rows = items.item[rows]
        bounds = (total[:, None] - most[:, of_rows] + gains[:, rows]).min(axis=0)
        kept = rows[bounds > enough]
        np.add.at(number, items.item[kept], 1)
        rows[: len(kept)] = kept
        return len(kept), float(bounds[bounds <= enough].max(initial=-np.inf))

    def _narrow(items: _Items, rows: Ints, decided: int, left: Floats, out: Ints) -> int:
        others = rows[items.item[rows] != decided]
        fitting = others[(items.use[others] <= left).all(axis=1)]
        out[: len(fitting)] = fitting
        return len(fitting)
