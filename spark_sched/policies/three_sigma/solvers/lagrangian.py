"""This project's solver: prices, a greedy plan at these prices, local search, and the bound that the prices
prove."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from spark_sched.policies.three_sigma.problem import Assignment, Problem
from spark_sched.policies.three_sigma.solvers.base import Ask, Solution
from spark_sched.policies.three_sigma.solvers.capacity_prices import Choices, Dual, descend
from spark_sched.policies.three_sigma.solvers.packing import (
    Packing,
    Tables,
    assignment,
    pack,
    relent,
    settle,
    tables,
)
from spark_sched.policies.three_sigma.solvers.search import search

__all__ = ["Lagrangian"]

Floats: TypeAlias = NDArray[np.float64]

#: A preemption that loses at most this share of its cost at the prices is tried.
_NEAR = 0.5


class Lagrangian:
    """For the live loop: its work is a number of steps, so the same problem and generator give the same plan.

    Args:
        cold_steps: of the descent without prices to begin with.
        warm_steps: with prices of the cycle before.
        moves: of the local search at most.
        patience: moves without a better plan after which it gives up; half as many with warm prices.
    """

    name = "prices"

    def __init__(
        self, *, cold_steps: int = 150, warm_steps: int = 20, moves: int = 200, patience: int = 60
    ) -> None:
        self._cold_steps = cold_steps
        self._warm_steps = warm_steps
        self._moves = moves
        self._patience = patience

    def solve(self, problem: Problem, ask: Ask) -> Solution:
        began_s = ask.clock_s() if ask.clock_s else 0.0
        if not problem.groups:
            empty = Assignment.empty(problem)
            return Solution(self.name, "optimal", empty, 0.0, 0.0, ask.since_s(began_s), problem.free * 0.0)
        dual = Dual(problem)
        t = tables(problem)
        best: Packing | None = None

        def improve(price: Floats, answer: Choices) -> float:
            nonlocal best
            plan = _greedy(dual, t, price, answer, both=best is not None)
            if best is None or plan.value[0] > best.value[0]:
                best = plan
            return float(best.value[0])

        # 1. Prices. The first plan, at the initial prices, shows the gap to close.
        cold = ask.start is None
        price = np.zeros_like(problem.free) if ask.start is None else ask.start
        steps = self._cold_steps if cold else self._warm_steps
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
        # 2. A plan at the best prices, unless there is one that is good enough.
        if best is None or best.value[0] < bound * (1.0 - ask.gap):
            improve(price, dual.answer(price))
        assert best is not None
        # 3. Local search, if that is not good enough.
        gains = dual.option_gains(price)
        worth = dual.answer(price).worth
        best = search(
            t,
            best,
            gains,
            worth,
            self._moves,
            # The next cycle searches on.
            self._patience if cold else self._patience // 2,
            bound * (1.0 - ask.gap),
            ask.rng,
            ask.stop,
        )
        order = _order(problem, gains)
        best = relent(t, best, order, self._moves)
        settle(t, best, order)
        found = assignment(best)
        value = problem.value(found)
        # Rounding must not put a plan above its bound.
        bound = max(bound, value)
        status = "optimal" if bound - value <= ask.gap * bound else "feasible"
        return Solution(
            self.name,
            status,  # type: ignore[arg-type]
            found,
            value,
            bound,
            ask.since_s(began_s),
            price,
        )


def _greedy(dual: Dual, t: Tables, price: Floats, answer: Choices, *, both: bool) -> Packing:
    """Jobs by their gain at the prices, each its best option that fits, with the preemptions that pay.

    At the best prices the worth of a preemption that the relaxation makes only in part is nearly 0, so
    preemptions near 0 count as well. Preemptions that pay at the prices may not pay in whole jobs: with
    ``both`` plans with those above 0 alone and with none are made as well. Where single jobs are worth more
    than any
    preemption the prices near the optimum are too small to say which to preempt: one more plan lets all
    running jobs go, places these, and keeps what they do not need. The best one is taken.
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


def _order(problem: Problem, gains: Floats) -> NDArray[np.int64]:
    """Jobs by their gain, the greatest first; those without an option are left out."""
    gain = np.append(gains.max(axis=1), -np.inf)[problem.groups_of].max(axis=1)
    order = np.argsort(-gain, kind="stable")
    return np.asarray(order[gain[order] > -np.inf])
