"""Local search on a plan: remove a few jobs, then add better ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from spark_sched.arrays import Floats, Ints
from spark_sched.compiled import compiled
from spark_sched.policies.three_sigma.problem import NO_OPTION
from spark_sched.policies.three_sigma.solvers.packing import (
    Packing,
    Tables,
    fill,
    preempt,
    spare_all,
    take_out,
    twin,
)

#: Jobs considered for the slots that a move frees; a preemption frees many, so more are considered after it.
_CANDIDATES, _MANY = 10, 40
#: Largest number of jobs that one move removes.
_MOST_OUT = 3
#: Random numbers of a move: its choices, then the candidates, then noise for candidates and those taken out.
_CHOICES = 9 + _MOST_OUT
_DRAWS = _CHOICES + 2 * _MANY + _MOST_OUT + 1
#: Moves between two questions whether to stop.
_AT_ONCE = 50
_NONE = NO_OPTION
#: Share of the moves with preemptions that preempt all tempting jobs at once.
_TOGETHER = 0.3


def search(
    t: Tables,
    packing: Packing,
    gains: Floats,
    worth_of_preemption: Floats,
    moves: int,
    patience: int,
    good_enough: float,
    rng: np.random.Generator,
    stop: Callable[[], bool] = lambda: False,
) -> Packing:
    """The best plan found by ``moves`` moves from ``packing``, which is used up.

    A move picks a job that lost something by the plan (it has no option, or a worse one than it could have),
    takes out up to three others that use slots at the same time, preempts one or all of the tempting running
    jobs, and refills the free slots in a random order that favours gain. The move is kept if the plan is no
    worse.

    Args:
        gains: of options at the solver's prices, shape (G, T); −inf where there is none.
        worth_of_preemption: credit at these prices less cost, shape (R,).
        patience: stop after this number of successive moves without an improvement.
        good_enough: stop at a plan of this value.
        stop: asked every 50 moves.
    """
    groups = len(t.job_of)
    if not groups:
        return packing
    best_gain = np.append(gains.max(axis=1), -np.inf)[t.groups_of].max(axis=1)
    most = np.append(t.utility.max(axis=1), 0.0)[t.groups_of].max(axis=1)
    scale = max(float(np.median(most[most > 0.0])), 1e-12) if (most > 0.0).any() else 1.0
    # The gain of each job at these prices: near 0 it hardly matters whether it runs. Jobs with more to gain
    # are picked more often.
    pull = np.exp(np.clip(best_gain / scale, -6.0, 6.0))
    # Preemptions that pay at the prices, and those with many slots for a low cost at any prices.
    ratio = t.cost / np.maximum(t.credit.max(axis=1, initial=0.0), 1e-9)
    by_worth, by_ratio = (np.argsort(key, kind="stable")[:12] for key in (-worth_of_preemption, ratio))
    tempting = np.unique(np.concatenate([by_worth, by_ratio]))
    since_better = 0
    for done in range(0, moves, _AT_ONCE):
        if stop():
            break
        draws = rng.random((min(_AT_ONCE, moves - done), _DRAWS))
        packing, since_better = _moves(
            t, packing, gains, best_gain, most, pull, tempting, scale, draws, patience, since_better,
            good_enough,
        )  # fmt: skip
        if packing.value[0] >= good_enough or since_better >= patience:
            break
    return packing


@compiled
def _moves(
    t: Tables,
    packing: Packing,
    gains: Floats,
    best_gain: Floats,
    most: Floats,
    pull: Floats,
    tempting: Ints,
    scale: float,
    draws: Floats,
    patience: int,
    since_better: int,
    good_enough: float,
) -> tuple[Packing, int]:
    """A move for each row of ``draws``; the plan and how many moves ago it was last made better."""
    stale = True
    wanting = placed = placed_start = np.empty(0, dtype=np.int64)
    cumulated = np.empty(0)
    for draw in draws:
        if packing.value[0] >= good_enough or since_better >= patience:
            break
        if stale:
            lost = _lost(t, packing, most)
            wanting = np.flatnonzero(lost > 1e-9)
            if not len(wanting):
                since_better = patience
                break
            cumulated = np.cumsum(pull[wanting] * lost[wanting])
            placed = np.flatnonzero(packing.group != _NONE)
            placed_start = packing.start[placed]
            stale = False
        trial = twin(packing)
        # Prices guide well among many jobs; where few compete, plain utility finds other moves.
        at_prices = draw[0] < 0.6
        worth = gains if at_prices else t.plain
        wanted = wanting[min(np.searchsorted(cumulated, draw[1] * cumulated[-1]), len(wanting) - 1)]
        pool = np.empty(_MOST_OUT + 1 + _MANY, dtype=np.int64)
        count = _make_room(t, trial, wanted, worth, placed, placed_start, tempting, draw, pool)
        if draw[2] < 0.7:
            fill(t, trial, wanted, worth)
        else:
            pool[count] = wanted
            count += 1
        # Jobs to put in again: those taken out and some that lost, by gain with noise.
        some = _CANDIDATES
        if (trial.preempted != packing.preempted).any():
            some = _MANY
        for n in range(min(some, len(wanting))):
            pool[count] = wanting[int(draw[_CHOICES + n] * len(wanting))]
            count += 1
        noise = draw[_CHOICES + _MANY :][:count] * (0.2 * scale if at_prices else scale)
        keys = best_gain[pool[:count]] + noise
        # A job that is there twice is filled once.
        for place in np.argsort(-keys, kind="mergesort"):
            fill(t, trial, pool[place], worth)
        spare_all(t, trial)
        if trial.value[0] > packing.value[0] * (1.0 + 1e-9):
            since_better = 0
        else:
            since_better += 1
        if trial.value[0] >= packing.value[0] - 1e-12:
            stale = stale or (trial.group != packing.group).any() or (trial.start != packing.start).any()
            packing = trial
    return packing, since_better


@compiled
def _lost(t: Tables, packing: Packing, most: Floats) -> Floats:
    """The greatest gain of each job over what the plan gives it."""
    slots = t.utility.shape[1]
    placed = packing.group != _NONE
    option = (packing.group * slots + packing.start) * placed
    lost: Floats = np.maximum(most - t.utility.ravel()[option] * placed, 0.0)
    return lost


@compiled
def _make_room(
    t: Tables,
    trial: Packing,
    wanted: int,
    worth: Floats,
    placed: Ints,
    placed_start: Ints,
    tempting: Ints,
    draw: Floats,
    out: Ints,
) -> int:
    """Take out a few jobs, or preempt one, for the job ``wanted``; those taken out and their number."""
    if trial.group[wanted] != _NONE:
        take_out(t, trial, wanted)
    if len(tempting) and draw[3] < 0.25:
        if draw[2] < _TOGETHER:
            # A job may need the slots of several; those that the plan does not need run on in the end.
            for running in tempting:
                if not trial.preempted[running]:
                    preempt(t, trial, running)
        else:
            running = tempting[int(draw[4] * len(tempting))]
            if not trial.preempted[running]:
                preempt(t, trial, running)
                return 0
    groups = t.groups_of[wanted]
    some = 0
    while some < len(groups) and groups[some] < len(t.job_of):
        some += 1
    row = worth[groups[int(draw[5] * some)]]
    start = row.argmax() if draw[6] < 0.7 else int(draw[7] * len(row))
    if not len(placed):
        return 0
    # Jobs of at least about its size that start at about its time are most likely to make room.
    near = placed[np.abs(placed_start - start) <= 2]
    if not len(near):
        near = placed
    count = 0
    for n in range(1 + int(draw[8] * _MOST_OUT)):
        victim = near[int(draw[9 + n] * len(near))]
        if trial.group[victim] != _NONE and victim != wanted:
            take_out(t, trial, victim)
            out[count] = victim
            count += 1
    return count
