"""When to look at the results of an A/B test, and at which levels its intervals are made.

A run may stop early when its intervals are narrow. Each of at most K looks uses the level 1 − α/K, so that by
the union bound the chance that any of the K intervals misses the truth is at most α, whatever rule decides
when to stop (docs/adr/0023-intervals-of-paired-runs.md).
"""

from __future__ import annotations

import math

from spark_sched_lab.runs.paired.statistics import Estimate

#: The null arm raises an alarm outside this interval. Wider than `LEVEL`: on skewed data, where an interval
#: covers 93 %, false alarms must still be rarer than 5 %.
NULL_LEVEL = 0.975


def adjusted(level: float, comparisons: int) -> float:
    """The level at which each of several intervals must be made for all of them to hold at ``level``."""
    return 1.0 - (1.0 - level) / max(1, comparisons)


def look_blocks(first: int, last: int, looks: int) -> tuple[int, ...]:
    """After how many blocks to look: at most ``looks`` numbers from ``first`` to ``last``, which is the last.

    They grow by a constant factor, since an interval's width falls with the square root of the number.
    """
    if looks <= 1 or first >= last:
        return (last,)
    factor = (last / first) ** (1.0 / (looks - 1))
    return tuple(sorted({*(round(first * factor**n) for n in range(looks - 1)), last}))


def width(estimate: Estimate) -> float | None:
    """Half the width of a ratio's interval relative to its mean: 0.1 for ±10 %. None without an interval."""
    if estimate.low is None or estimate.high is None:
        return None
    return math.sqrt(estimate.high / estimate.low) - 1.0


def blocks_needed(estimate: Estimate, precision: float) -> int | None:
    """Blocks in all for a ratio's interval to reach ``precision`` (a fraction), from its spread so far.

    The width falls with the square root of the number of blocks. None if there is no interval yet.
    """
    reached = width(estimate)
    if reached is None:
        return None
    if reached <= precision:
        return estimate.pairs
    return math.ceil(estimate.pairs * (math.log1p(reached) / math.log1p(precision)) ** 2)
