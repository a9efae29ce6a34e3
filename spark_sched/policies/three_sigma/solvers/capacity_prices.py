"""Prices on capacity: the Lagrangian relaxation of the capacity rows, its bound and its subgradient.

With a price λ ≥ 0 per (union, time step) every job chooses for itself the option whose utility most exceeds
what its expected slots cost, or none. The sum of these gains plus the worth of all capacity,

    L(λ) = Σ_j max(0, max_o U_jo − λ·a_jo) + Σ_r max(0, λ·c_r − P_r) + λ·b,

is at least the value of any plan, whatever λ: a proven bound. Falling along L's subgradient b − (use at these
prices) makes it sharp; its least value is that of the LP relaxation.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from spark_sched.arrays import Bools, Floats, Ints
from spark_sched.policies.three_sigma.problem import Problem


@dataclass(frozen=True, slots=True, eq=False)
class Choices:
    """What jobs choose at some prices.

    Attributes:
        bound: L(λ).
        gain: of each group's best option, U − λ·a, shape (G,).
        start: of that option, shape (G,).
        group: each job's best group, G for none with a gain, shape (P,).
        worth: of the running jobs' credit, less what their preemption costs, shape (R,).
        preempted: those of a worth above 0, shape (R,).
        slope: capacity less use by union and time step, shape (N, T): the subgradient of L.
    """

    bound: float
    gain: Floats
    start: Ints
    group: Ints
    worth: Floats
    preempted: Bools
    slope: Floats


class Dual:
    """L(λ) of one problem, fast: one matrix product per equivalence set prices all its options."""

    def __init__(self, problem: Problem) -> None:
        p = problem
        self.problem = p
        self._worth = np.where(p.utility > 0.0, p.utility, -np.inf)
        self._inside = p.inside.astype(float)
        self._starts = np.arange(p.grid.steps)
        self._gain = np.full(p.groups + 1, -np.inf)
        self._jobs = np.arange(p.jobs)
        self._cost = np.empty((p.groups, p.grid.steps))

    def option_gains(self, price: Floats) -> Floats:
        """U − λ·a of every option, shape (G, T); −inf where there is none."""
        p = self.problem
        by_mask = self._inside @ price  # (M, T)
        elapsed = p.use.shape[1]
        for m, (first, last) in enumerate(zip(p.first.tolist(), p.last.tolist(), strict=True)):
            # table[e, s]: the price at elapsed time e of a job that starts at s.
            table = np.zeros((elapsed, p.grid.steps))
            table[p.grid.elapsed_of, self._starts[:, None]] = by_mask[m]
            np.matmul(p.use[first:last], table, out=self._cost[first:last])
        return np.asarray(self._worth - self._cost)

    def answer(self, price: Floats) -> Choices:
        """What jobs choose at these prices, shape (N, T)."""
        p = self.problem
        gains = self.option_gains(price)
        start = gains.argmax(axis=1)
        gain = self._gain
        gain[:-1] = gains[np.arange(p.groups), start]
        of_job = gain[p.groups_of]
        place = of_job.argmax(axis=1)
        best = of_job[self._jobs, place]
        wins = best > 0.0
        group = np.where(wins, p.groups_of[self._jobs, place], p.groups)
        chosen = group[wins]
        by_mask = np.zeros((len(p.masks), p.grid.steps))
        if len(chosen):
            chosen = np.sort(chosen)  # by set, so that each one's rows are a block
            rows = p.rows(chosen, start[chosen])
            edges = np.searchsorted(chosen, np.stack([p.first, p.last]))
            for m, (first, last) in enumerate(edges.T.tolist()):
                if last > first:
                    rows[first:last].sum(axis=0, out=by_mask[m])
        worth = (self.problem.credit * (p.remaining @ price.T)).sum(axis=1) - p.cost
        preempted = worth > 0.0
        slope = p.free - self._inside.T @ by_mask
        if preempted.any():
            slope += p.credit[preempted].T @ p.remaining[preempted]
        bound = float(best[wins].sum() + worth[preempted].sum() + (price * p.free).sum())
        return Choices(bound, gain[:-1].copy(), start, group, worth, preempted, slope)


def descend(
    dual: Dual,
    price: Floats,
    steps: int,
    value: float,
    *,
    improve: Callable[[Floats, Choices], float] | None = None,
    improve_at: tuple[int, ...] = (),
    gap: float = 0.0,
    stop: Callable[[], bool] = lambda: False,
) -> tuple[Floats, float, int]:
    """Lower L by deflected subgradient steps of Polyak's length (Camerini, Fratta and Maffioli 1975).

    Args:
        price: to begin with, shape (N, T).
        steps: greatest number of steps.
        value: of the best plan known: what Polyak's step aims at.
        improve: called at the steps of ``improve_at`` with the best prices so far and what jobs choose there;
            gives the value of the best plan then known.
        gap: end where the best plan known is proven within this share of the bound.
        stop: asked before every step.

    Returns:
        The best prices, their bound and the steps made.
    """
    best_price, best = price, float("inf")
    best_answer: Choices | None = None
    direction = np.zeros_like(price)
    length, stale = 1.0, 0
    scale = 1.0 / np.maximum(dual.problem.free.max(axis=1, keepdims=True), 1.0)
    for step in range(steps):
        if stop():
            return best_price, best, step
        answer = dual.answer(price)
        stale = 0 if answer.bound < best * (1.0 - 1e-6) else stale + 1
        if answer.bound < best:
            best, best_price, best_answer = answer.bound, price, answer
        if step in improve_at and improve is not None and best_answer is not None:
            value = improve(best_price, best_answer)
            if answer is not best_answer and value < best * (1.0 - gap):
                # Where almost no capacity is scarce the best prices may be 0 and do not guide a plan.
                value = improve(price, answer)
            if value >= best * (1.0 - gap):
                return best_price, best, step
        if stale >= 5 and best_answer is not None:
            # Too far: shorter steps, from the best prices again.
            length, stale = length * 0.5, 0
            price, answer, direction = best_price, best_answer, np.zeros_like(price)
        # Rows of large unions are large: in units of their capacity all prices move alike.
        slope = answer.slope * scale
        # A price at 0 that would fall further stays: its part of the direction does not count.
        slope[(price <= 0.0) & (slope > 0.0)] = 0.0
        direction = 0.6 * direction + slope if step else slope
        inner = float((direction * slope).sum())
        norm = float((direction * direction).sum())
        if inner <= 0.0:
            direction, norm = slope, float((slope * slope).sum())
        if norm <= 1e-18:
            break
        distance = max(answer.bound - value, 1e-3 * abs(value), 1e-12)
        price = np.maximum(0.0, price - length * distance / norm * direction * scale)
    return best_price, best, steps
