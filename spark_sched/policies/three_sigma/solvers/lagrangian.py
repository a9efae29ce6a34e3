"""This project's solver: the optimum of small problems; for others prices, a greedy plan at these prices,
local search, and the bound that the prices prove."""

from __future__ import annotations

import numpy as np

from spark_sched.arrays import Floats, Ints
from spark_sched.policies.three_sigma.problem import Assignment, Problem
from spark_sched.policies.three_sigma.solvers.base import Ask, Solution, SolverStatus
from spark_sched.policies.three_sigma.solvers.branch_and_bound import SAME, explore, is_small
from spark_sched.policies.three_sigma.solvers.capacity_prices import Choices, Dual, descend
from spark_sched.policies.three_sigma.solvers.packing import (
    Packing,
    Tables,
    assignment,
    pack,
    packing_of,
    relent,
    settle,
    tables,
)
from spark_sched.policies.three_sigma.solvers.search import search

#: A preemption that loses at most this share of its cost at the prices is tried.
_NEAR = 0.5
#: Of the work of branch and bound: before the search, and after one with warm prices, which is short.
_FIRST = 0.2
#: Steps of the descent that begins with prices of the cycle before.
_WARM_STEPS = 20
#: Moves without a better plan after which the local search gives up; half as many with warm prices.
_PATIENCE = 60


class Lagrangian:
    """For the live loop: its work is a number of steps, so the same problem and generator give the same plan.

    Args:
        cold_steps: of the descent without prices to begin with.
        moves: of the local search at most.
        work: limit of the branch and bound of a small problem; 0: none.
    """

    name = "prices"

    def __init__(self, *, cold_steps: int = 150, moves: int = 200, work: int = 100_000) -> None:
        self._cold_steps = cold_steps
        self._moves = moves
        self._work = work

    def solve(self, problem: Problem, ask: Ask) -> Solution:
        began_s = ask.clock_s() if ask.clock_s else 0.0
        if not problem.groups:
            empty = Assignment.empty(problem)
            return Solution(self.name, "optimal", empty, 0.0, 0.0, ask.since_s(began_s), problem.free * 0.0)
        dual = Dual(problem)
        t = tables(problem)
        small = self._work > 0 and is_small(problem)
        best, bound, price = None, np.inf, ask.start
        # 1. A small problem: the optimum, if a bounded search proves it.
        if small:
            start = np.zeros_like(problem.free) if price is None else price
            best = _greedy(dual, t, start, dual.answer(start), both=False)
            best, bound = self._explore(t, problem, best, price, ask.gap, _FIRST)
        # 2. Any other, and one that is not as small as it looked: prices, and a search.
        if not np.isfinite(bound):
            best, bound, price = self._search(dual, t, best, ask)
            # 3. Its prices and its plan cut off parts of the small problem that were open.
            if small and best.value[0] < bound * (1.0 - ask.gap) and not ask.stop():
                share = 1.0 - _FIRST if ask.start is None else _FIRST
                best, proven = self._explore(t, problem, best, price, ask.gap, share)
                bound = min(bound, proven)
        assert best is not None
        gains = dual.option_gains(np.zeros_like(problem.free) if price is None else price)
        order = _order(problem, gains)
        best = relent(t, best, order, self._moves)
        settle(t, best, order)
        found = assignment(best)
        value = problem.value(found)
        # Rounding puts neither a plan above its bound nor the bound of an optimum above that.
        if bound <= value + SAME * float(problem.utility.max()):
            bound = value
        status: SolverStatus = "optimal" if bound - value <= ask.gap * bound else "feasible"
        return Solution(self.name, status, found, value, bound, ask.since_s(began_s), price)

    def _explore(
        self, t: Tables, problem: Problem, best: Packing, price: Floats | None, gap: float, share: float
    ) -> tuple[Packing, float]:
        """A plan at least as good by branch and bound; the proven bound, inf without a proof."""
        prices = () if price is None else (price, 0.5 * price)
        explored = explore(problem, prices, float(best.value[0]), gap, int(share * self._work))
        if explored.assignment is not None:
            better = packing_of(t, explored.assignment)
            best = better if better.value[0] > best.value[0] else best
        return best, explored.bound

    def _search(self, dual: Dual, t: Tables, best: Packing | None, ask: Ask) -> tuple[Packing, float, Floats]:
        """A plan, if there is one at least as good as ``best``; the proven bound; the prices."""
        problem = dual.problem
        looked = False

        def improve(price: Floats, answer: Choices) -> float:
            nonlocal best, looked
            plan = _greedy(dual, t, price, answer, both=looked)
            looked = True
            if best is None or plan.value[0] > best.value[0]:
                best = plan
            return float(best.value[0])

        # Prices. The first plan, at the initial prices, shows the gap to close.
        cold = ask.start is None
        price = np.zeros_like(problem.free) if ask.start is None else ask.start
        steps = self._cold_steps if cold else _WARM_STEPS
        price, bound, _ = descend(
            dual,
            price,
            steps,
            0.5 * float(problem.utility.max(axis=1).sum()) if cold else 0.0,
            improve=improve,
            improve_at=(steps * 2 // 5, steps * 2 // 3) if cold else (0, steps // 2),
            gap=ask.gap,
            stop=ask.stop,
        )
        # A plan at the best prices, unless there is one that is good enough.
        if best is None or best.value[0] < bound * (1.0 - ask.gap):
            improve(price, dual.answer(price))
        assert best is not None
        # Local search, if that is not good enough.
        best = search(
            t,
            best,
            dual.option_gains(price),
            dual.answer(price).worth,
            self._moves,
            # The next cycle searches on.
            _PATIENCE if cold else _PATIENCE // 2,
            bound * (1.0 - ask.gap),
            ask.rng,
            ask.stop,
        )
        return best, bound, price


def _greedy(dual: Dual, t: Tables, price: Floats, answer: Choices, *, both: bool) -> Packing:
    """Jobs by their gain at the prices, each its best option that fits, with the preemptions that pay.

    At the best prices the worth of a preemption that the relaxation makes only in part is nearly 0, so
    preemptions near 0 count as well. Preemptions that pay at the prices may not pay in whole jobs: with
    ``both`` plans with those above 0 alone and with none are made as well. Where single jobs are worth more
    than any preemption the prices near the optimum are too small to say which to preempt: one more plan lets
    all running jobs go, places these, and keeps what they do not need. The best one is taken.
    """
    p = dual.problem
    gains = dual.option_gains(price)
    order = _order(p, gains)
    near = answer.worth > -_NEAR * p.cost
    sets = [near]
    if both:
        sets += [answer.preempted, np.zeros_like(near)]
    plans = [
        pack(t, order, gains, preempted, len(order))
        for preempted in {each.tobytes(): each for each in sets}.values()
    ]
    if len(p.cost):
        most = np.append(p.utility.max(axis=1), 0.0)[p.groups_of[order]].max(axis=1)
        dear = most > p.cost.max()
        if dear.any():
            split = np.concatenate([order[dear], order[~dear]])
            plans.append(pack(t, split, gains, np.ones_like(near), int(dear.sum())))
    return max(plans, key=lambda plan: float(plan.value[0]))


def _order(problem: Problem, gains: Floats) -> Ints:
    """Jobs by their gain, the greatest first; those without an option are left out."""
    gain = np.append(gains.max(axis=1), -np.inf)[problem.groups_of].max(axis=1)
    order = np.argsort(-gain, kind="stable")
    return np.asarray(order[gain[order] > -np.inf])
