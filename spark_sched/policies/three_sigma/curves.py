"""Expected utility and expected use of slots of many jobs at once (3Sigma §3 and §4.2.1), a row per job."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from spark_sched.arrays import Floats, Ints
from spark_sched.compiled import compiled
from spark_sched.policies.three_sigma.utility import Utility
from spark_sched.predict import RuntimeDistribution

#: Survival below this is a rounding error: such a job has outlived its distribution.
GONE = 1e-9
#: A fall within less than this time counts as a drop: its slope would magnify rounding errors.
_AT_ONCE_S = 1e-4
# Differences of clock times at a drop are rounded to µs: who ends exactly there has the upper value.
_PER_S = 1e6


class Curves(NamedTuple):
    """P(T > t) of J runtimes, one after the other.

    ``first``: where each begins in the other arrays, and their end, shape (J + 1,); ``t``: knots in seconds
    from 0 on; ``level``: P(T > t) there; ``area``: its integral from 0.
    """

    first: Ints
    t: Floats
    level: Floats
    area: Floats


def curves(runtimes: Sequence[RuntimeDistribution]) -> Curves:
    count = len(runtimes)
    sizes = np.fromiter((len(each.t_s) for each in runtimes), np.int64, count)
    # Two knots more each: at 0 and where the first one is, alive at both.
    first = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(sizes + 2, out=first[1:])
    t, level = np.zeros(int(first[-1])), np.ones(int(first[-1]))
    if count:
        given = np.arange(int(sizes.sum())) + 2 * np.repeat(np.arange(1, count + 1), sizes)
        t[given] = np.concatenate([each.t_s for each in runtimes])
        level[given] = 1.0 - np.concatenate([each.p for each in runtimes])
        t[first[:-1] + 1] = t[first[:-1] + 2]
        level[first[1:] - 1] = 0.0
    return Curves(first, t, level, _areas(first, t, level))


def means(known: Curves) -> Floats:
    """E[T] in seconds, shape (J,)."""
    return np.asarray(known.area[known.first[1:] - 1])


def survivals(known: Curves, at_s: Floats) -> Floats:
    """P(T > at) of each, shape (J,)."""
    return np.asarray(_rows(known, np.arange(len(at_s)), np.ones(len(at_s)), at_s.reshape(-1, 1))[:, 0])


def consumption(known: Curves, which: Ints, factor: Floats, elapsed_s: Floats) -> Floats:
    """§3.2: the probability that a job still holds its slots after each elapsed time; 1 at the start itself.

    Args:
        which: of the curves, shape (G,).
        factor: every runtime times this, shape (G,): a slower place.
        elapsed_s: shape (E,), not falling.

    Returns:
        shape (G, E).
    """
    found = _rows(known, which, factor, elapsed_s.reshape(1, -1))
    found[:, elapsed_s <= 0.0] = 1.0
    return np.asarray(found)


def utilities(
    known: Curves, which: Ints, factor: Floats, wanted: Sequence[Utility], starts_s: Floats
) -> Floats:
    """Equation 1: E[U(start + T)], exact for piecewise linear CDFs; 0 at least.

    Args:
        which, factor: as for `consumption`, shape (G,).
        wanted: a utility for each, on the clock of the starts.
        starts_s: shape (T,).

    Returns:
        shape (G, T).
    """
    sizes = np.fromiter((len(each.times_s) for each in wanted), np.int64, len(wanted))
    first = np.zeros(len(wanted) + 1, dtype=np.int64)
    np.cumsum(sizes, out=first[1:])
    # From the first start on: differences of clock times would lose digits otherwise.
    zero = float(starts_s[0]) if len(starts_s) else 0.0
    times = np.array([time for each in wanted for time in each.times_s], dtype=float) - zero
    values = np.array([value for each in wanted for value in each.values], dtype=float)
    return np.asarray(_utilities(known, which, factor, first, times, values, starts_s - zero))


def conditional(
    known: Curves, factor: Floats, elapsed_s: Floats, ahead_s: Floats
) -> tuple[Floats, Floats, Floats]:
    """Equation 2 of all curves: P(T > elapsed + ahead | T > elapsed), shape (J, T); how much longer each is
    expected to run in s, shape (J,); and P(T > elapsed), shape (J,). The first two mean nothing where the
    last is (about) 0.
    """
    which = np.arange(len(elapsed_s))
    times_s = np.concatenate([elapsed_s[:, None], elapsed_s[:, None] + ahead_s], axis=1)
    alive = _rows(known, which, factor, times_s)
    at_risk = np.maximum(alive[:, 0], 1e-300)
    stays = np.minimum(alive[:, 1:] / at_risk[:, None], 1.0)
    stays[:, ahead_s <= 0.0] = 1.0
    lived = _lived_rows(known, which, factor, elapsed_s.reshape(-1, 1))[:, 0]
    left_s = np.maximum(0.0, means(known) * factor - lived) / at_risk
    return stays, left_s, alive[:, 0]


@compiled
def _areas(first: Ints, t: Floats, level: Floats) -> Floats:
    area = np.zeros(len(t))
    for j in range(len(first) - 1):
        a, b = first[j], first[j + 1]
        steps = 0.5 * (t[a + 1 : b] - t[a : b - 1]) * (level[a + 1 : b] + level[a : b - 1])
        # One running sum for each job, so that a job's result does not depend on the other jobs.
        total = np.cumsum(steps)
        np.add(total, 0.0, area[a + 1 : b])
    return area


@compiled
def _alive(t: Floats, level: Floats, x: Floats) -> Floats:
    """P(T > x); t rises from 0."""
    last = len(t) - 1
    at = np.minimum(np.maximum(x, 0.0), t[last])
    left = np.minimum(np.searchsorted(t, at, side="right") - 1, last - 1)
    low, height = t[left], level[left]
    width = np.maximum(t[left + 1] - low, 1e-300)
    alive: Floats = (height + (level[left + 1] - height) * ((at - low) / width)) * (x < t[last])
    np.maximum(alive, (x < 0.0) * 1.0, alive)
    return alive


@compiled
def _lived(t: Floats, level: Floats, area: Floats, x: Floats) -> Floats:
    """The integral of P(T > u) over u from 0 to x; 0 below 0."""
    last = len(t) - 1
    at = np.minimum(np.maximum(x, 0.0), t[last])
    left = np.minimum(np.searchsorted(t, at, side="right") - 1, last - 1)
    low, height = t[left], level[left]
    width = np.maximum(t[left + 1] - low, 1e-300)
    past = at - low
    here = height + (level[left + 1] - height) * (past / width)
    lived: Floats = area[left] + past * 0.5 * (height + here)
    return lived


@compiled
def _rows(known: Curves, which: Ints, factor: Floats, x: Floats) -> Floats:
    """P(factor · T > x) for each row; x has one row for all or one each."""
    found = np.empty((len(which), x.shape[1]))
    for g in range(len(which)):
        a, b = known.first[which[g]], known.first[which[g] + 1]
        row = x[min(g, len(x) - 1)] / factor[g]
        np.add(_alive(known.t[a:b], known.level[a:b], row), 0.0, found[g])
    return found


@compiled
def _lived_rows(known: Curves, which: Ints, factor: Floats, x: Floats) -> Floats:
    found = np.empty((len(which), x.shape[1]))
    for g in range(len(which)):
        a, b = known.first[which[g]], known.first[which[g] + 1]
        row = x[min(g, len(x) - 1)] / factor[g]
        np.multiply(_lived(known.t[a:b], known.level[a:b], known.area[a:b], row), factor[g], found[g])
    return found


@compiled
def _utilities(
    known: Curves, which: Ints, factor: Floats, first: Ints, times: Floats, values: Floats, starts: Floats
) -> Floats:
    """By parts, with S(t) = P(T > t): U(start) + ∫ U'(start + t) S(t) dt, where a drop of U at d adds its
    height times S(d − start)."""
    found = np.zeros((len(which), len(starts)))
    for g in range(len(which)):
        a, b, f = known.first[which[g]], known.first[which[g] + 1], factor[g]
        t, level, area = known.t[a:b], known.level[a:b], known.area[a:b]
        total = found[g]
        np.add(total, values[first[g]], total)
        for n in range(first[g], first[g + 1] - 1):
            fall, span = values[n + 1] - values[n], times[n + 1] - times[n]
            if fall == 0.0:
                continue
            if span <= _AT_ONCE_S:
                left = np.rint((times[n] - starts) * _PER_S) / _PER_S
                np.add(total, fall * _alive(t, level, left / f), total)
            else:
                # Before the start the job is alive for certain: that part of the slope counts whole.
                before = np.minimum(np.maximum(starts, times[n]), times[n + 1]) - times[n]
                later = _lived(t, level, area, (times[n + 1] - starts) / f)
                sooner = _lived(t, level, area, (times[n] - starts) / f)
                np.add(total, (fall / span) * (before + f * (later - sooner)), total)
        np.maximum(total, 0.0, total)
    return found


def overrun_s(over_s: float, cycle_s: float) -> float:
    """§4.2.1: the expected remaining time of a job that outlived its distribution by ``over_s`` >= 0.

    The estimate of its end grows by 1, 2, 4, … cycles each time it is reached: 1, 3, 7, … cycles past the
    longest runtime known.
    """
    over = over_s / cycle_s
    # A rounding error must not count as a cycle that has passed.
    reached = math.floor(math.log2(over * (1.0 + 1e-12) + 1.0))
    return (2.0 ** (reached + 1) - 1.0 - over) * cycle_s
