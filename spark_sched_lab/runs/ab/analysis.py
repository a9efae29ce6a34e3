"""From the runs of an A/B test to its JSON document: comparisons, verdict, recommended P.

Only whole blocks count. A comparison over all workloads takes, per block, the geometric mean over them, so
that there is one independent difference per block.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from spark_sched.errors import BadInputError
from spark_sched_lab.runs.ab.looks import NULL_LEVEL, adjusted, blocks_needed, width
from spark_sched_lab.runs.ab.schedule import RunKey
from spark_sched_lab.runs.ab.store import Record
from spark_sched_lab.runs.ab.suite import ALONE, Suite
from spark_sched_lab.runs.paired.statistics import (
    LEVEL,
    Estimate,
    difference,
    least_pairs,
    mean,
    ratio,
    resolvable,
)
from spark_sched_lab.runs.workloads.foreground import same_results

Records = Mapping[RunKey, Record]
RunMeasure = Callable[[Record], float | None]


def whole_blocks(suite: Suite, records: Records) -> int:
    """How many blocks, from the first on, have all their runs."""
    labels = [job.label for job in suite.workloads]
    for block in range(suite.runs.blocks):
        if any(RunKey(block, label, name) not in records for label in labels for name in suite.settings):
            return block
    return suite.runs.blocks


def narrow_enough(suite: Suite, records: Records, blocks: int) -> bool:
    """Whether every arm's ratio of JCTs to the baseline is known as precisely as the suite asks."""
    compare = Estimates(suite, records, blocks)
    if not resolvable(blocks, _family_level(suite)):
        return False  # no winner could be named
    widths = [width(compare.jct(arm.name)) for arm in suite.arms if arm.name != suite.baseline]
    return all(found is not None and found <= suite.runs.precision for found in widths)


class Estimates:
    """Estimates over the first ``blocks`` blocks. The same runs give the same intervals."""

    def __init__(self, suite: Suite, records: Records, blocks: int) -> None:
        self.suite = suite
        self.blocks = blocks
        self._records = records
        self._labels = [job.label for job in suite.workloads]
        self.looks = len(suite.runs.looked_after)
        self.level = adjusted(LEVEL, self.looks)

    def values(self, setting: str, label: str, measure: RunMeasure) -> list[float]:
        """One workload's measure per block, without blocks that have none."""
        runs = (self._records[RunKey(block, label, setting)] for block in range(self.blocks))
        return [value for run in runs if (value := measure(run)) is not None]

    def _table(self, setting: str, measure: RunMeasure, label: str = "") -> np.ndarray[Any, Any]:
        """`values` of one workload, or of all; shape (workloads, blocks)."""
        return np.array([self.values(setting, one, measure) for one in ([label] if label else self._labels)])

    def jct(self, setting: str, *, to: str = "", label: str = "", level: float | None = None) -> Estimate:
        """JCT over that of another setting (the baseline) on one workload, or on all."""
        return self.ratio(setting, to or self.suite.baseline, lambda run: run.jct_s, label, level)

    def ratio(
        self, setting: str, to: str, measure: RunMeasure, label: str = "", level: float | None = None
    ) -> Estimate:
        """A measure over that of another setting, inside blocks."""
        ours, other = (
            np.exp(np.log(self._table(name, measure, label)).mean(axis=0)).tolist() for name in (setting, to)
        )
        return ratio(ours, other, self._rng(), self.level if level is None else level)

    def mean(self, setting: str, measure: RunMeasure, label: str = "") -> Estimate:
        return mean(self._table(setting, measure, label).mean(axis=0).tolist(), self._rng(), self.level)

    def difference(self, setting: str, to: str, measure: RunMeasure, level: float) -> Estimate:
        """A measure's mean difference to another setting, inside blocks, over all workloads."""
        ours, other = (self._table(name, measure).mean(axis=0).tolist() for name in (setting, to))
        return difference(ours, other, self._rng(), level)

    def total(self, setting: str, measure: RunMeasure, label: str = "") -> float:
        return float(sum(self._table(setting, measure, label).ravel().tolist()))

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng([self.suite.seed, 5])


def build_document(
    suite: Suite, records: Records, basis: Mapping[str, Any], blocks: int | None = None
) -> dict[str, Any]:
    """The report as a JSON object.

    ``blocks``: the number of blocks to report; None: all whole ones. Without a whole block there are no
    comparisons, and the verdict states this.
    """
    blocks = whole_blocks(suite, records) if blocks is None else blocks
    compare = Estimates(suite, records, blocks)
    labels = [job.label for job in suite.workloads]
    names = [name for name in suite.settings if name != ALONE]
    rows = [_row(compare, name, label) for name in names for label in ("", *labels)] if blocks else []
    return {
        "schema": 1,
        "suite": suite.name,
        "seed": suite.seed,
        "baseline": suite.baseline,
        "null_arm": suite.null,
        "blocks": blocks,
        "blocks_at_most": suite.runs.blocks,
        "runs": sum(key.block < blocks for key in records),
        "runs_stored": len(records),
        "level": LEVEL,
        "looks": compare.looks,
        "level_per_look": round(compare.level, 6),
        "slots": suite.cluster.all_slots,
        "results_equal": _results_equal(records),
        "arms": [arm.as_json() for arm in suite.arms],
        "rows": rows,
        "verdict": _verdict(compare, basis.get("on"))
        if blocks
        else {"kind": "no_runs", "text": "No block is complete yet."},
        "recommended": _recommended(compare) if blocks else None,
        **_monotone(compare),
        **basis,
    }


def loss(slots: int) -> RunMeasure:
    """Share of all slots' time during the job that its reservations kept idle."""
    return lambda run: run.held_idle_slot_s / (slots * run.jct_s)


def _row(compare: Estimates, name: str, label: str) -> dict[str, Any]:
    suite = compare.suite
    slowdown = background = background_jct = None
    if suite.background is not None:
        slowdown = compare.jct(name, to=ALONE, label=label).as_json()
        background = compare.ratio(name, suite.baseline, _background_jct, label).as_json()
        background_jct = compare.mean(name, _background_jct, label).as_json()
    jct = compare.jct(name, label=label) if name != suite.baseline else None
    return {
        "arm": name,
        "workload": label or None,
        "jct_s": compare.mean(name, lambda run: run.jct_s, label).as_json(),
        "jct_ratio": None if jct is None else jct.as_json(),
        "slowdown": slowdown,
        "background_jct_s": background_jct,
        "background_jct_ratio": None if name == suite.baseline else background,
        "utilization_loss": compare.mean(name, loss(suite.cluster.all_slots), label).as_json(),
        "holds_expired": int(compare.total(name, lambda run: run.holds_expired, label)),
        "copies": {
            "launched": int(compare.total(name, lambda run: run.copies_launched, label)),
            "won": int(compare.total(name, lambda run: run.copies_won, label)),
            "wasted_s": round(compare.total(name, lambda run: run.copies_wasted_s, label), 3),
            "won_per_run": compare.mean(name, lambda run: run.copies_won, label).as_json(),
            "wasted_s_per_run": compare.mean(name, lambda run: run.copies_wasted_s, label).as_json(),
        },
    }


def _background_jct(run: Record) -> float | None:
    return run.background_jct_s


def _verdict(compare: Estimates, on: str | None) -> dict[str, Any]:
    """The verdict: interference, a winner with its cost, or the reason why there is none. ``on``: where the
    runs took place."""
    suite = compare.suite
    others = [arm.name for arm in suite.arms if arm.name != suite.baseline]
    null = compare.jct(suite.null, level=adjusted(NULL_LEVEL, compare.looks))
    family = _family_level(suite)
    ratios = {name: compare.jct(name, level=family) for name in others}
    widest = max((compare.jct(name) for name in others), key=lambda found: width(found) or math.inf)
    precise = blocks_needed(widest, suite.runs.precision)
    least = blocks_for_a_winner(suite)
    needed = max(precise or 0, least)
    found: dict[str, Any] = {
        "null": null.as_json(),
        "level_per_arm": round(family, 6),
        "blocks_needed": needed,
        "precision": suite.runs.precision,
        "winner": None,
        "equal_to_winner": [],
    }
    best = min(ratios, key=lambda name: ratios[name].mean)
    if null.low is None or ratios[best].low is None:
        kind = "too_few"
        blocks = "1 block is" if compare.blocks == 1 else f"{compare.blocks} blocks are"
        text = f"{blocks} too few for intervals at this level: no winner is named before block {least}."
    elif null.excludes(1.0):
        kind = "interference"
        text = (
            f"The null arm differs: the baseline's second run takes {null.mean:.2f} times as long as its "
            f"first ({null.low:.2f} to {null.high:.2f}). Something but the settings changes the runs, so no "
            "winner is named."
        )
    elif ratios[best].excludes(1.0) and ratios[best].mean < 1.0:
        kind = "winner"
        found["winner"] = best
        found["equal_to_winner"] = [
            name
            for name in others
            if name != best and not compare.jct(name, to=best, level=family).excludes(1)
        ]
        text = (
            f"{best} is fastest: {_percent(ratios[best])} than {suite.baseline}; {_cost(compare, best, on)}."
        )
        if found["equal_to_winner"]:
            text += f" Not distinguishable from it: {', '.join(found['equal_to_winner'])}."
    elif all(found.excludes(1.0) for found in ratios.values()):
        kind, text = "winner", f"{suite.baseline}, the baseline, is faster than every other arm."
        found["winner"] = suite.baseline
    else:
        kind = "no_difference"
        text = f"No arm is shown to be faster than {suite.baseline}: no winner is named."
    more = needed - compare.blocks
    if more > 0 and needed == least:
        text += f" At least {more} more block{'s are' if more > 1 else ' is'} needed."
    elif more > 0:
        text += f" Intervals of ±{suite.runs.precision:.0%} need about {more} more block{'s' * (more > 1)}."
    return {"kind": kind, "text": text, **found}


def _cost(compare: Estimates, name: str, on: str | None) -> str:
    """What others pay for a setting: the background's time and the slots held idle."""
    parts = []
    if compare.suite.background is not None:
        change = compare.ratio(name, compare.suite.baseline, _background_jct).mean - 1.0
        parts.append(f"background {abs(change):.0%} {'longer' if change >= 0 else 'shorter'}")
    idle = compare.mean(name, loss(compare.suite.cluster.all_slots)).mean
    parts.append(f"{idle:.0%} of slots held idle")
    return ", ".join(parts) + (f"; on {on}" if on else "")


def blocks_for_a_winner(suite: Suite) -> int:
    """The least blocks after which a winner can be named: all arms and the null arm have intervals."""
    looks = len(suite.runs.looked_after)
    return max(least_pairs(_family_level(suite)), least_pairs(adjusted(NULL_LEVEL, looks)))


def _family_level(suite: Suite) -> float:
    """The level at which all arms' intervals hold at all looks together."""
    return adjusted(LEVEL, len(suite.runs.looked_after) * (len(suite.arms) - 1))


def _percent(found: Estimate) -> str:
    assert found.low is not None
    assert found.high is not None
    return f"{1 - found.mean:.0%} shorter JCT ({1 - found.high:.0%} to {1 - found.low:.0%})"


def _levels(compare: Estimates) -> list[tuple[float, str]]:
    """Isolation levels with their arms, if all of these arms differ in nothing else."""
    arms = [arm for arm in compare.suite.arms if not arm.stock]
    rest = {(arm.application, arm.copies, arm.priority, arm.deadline_s) for arm in arms}
    return sorted((arm.level, arm.name) for arm in arms) if len(rest) == 1 and len(arms) > 1 else []


def _recommended(compare: Estimates) -> dict[str, Any] | None:
    """The level with the fewest idle slots among those that are almost as fast as the fastest level.

    Almost as fast: the ratio of JCTs to the fastest level's, with its interval, is at most 1 + precision, so
    that without evidence the fastest level stays. None without levels to compare, or under interference.
    """
    levels = _levels(compare)
    null = compare.jct(compare.suite.null, level=adjusted(NULL_LEVEL, compare.looks))
    if not levels or null.low is None or null.excludes(1.0):
        return None
    bound = 1.0 + compare.suite.runs.precision
    _, best = min(levels, key=lambda level: compare.jct(level[1]).mean)
    idle = loss(compare.suite.cluster.all_slots)
    near = [
        (compare.mean(name, idle).mean, isolation, name)
        for isolation, name in levels
        if name == best or (compare.jct(name, to=best).high or math.inf) <= bound
    ]
    lost, isolation, name = min(near)
    return {
        "isolation": isolation,
        "arm": name,
        "fastest": best,
        "utilization_loss": compare.mean(name, idle).as_json(),
        "text": f"P = {isolation:g} keeps fewest slots idle ({lost:.1%}) among the levels whose JCT is "
        f"within {bound - 1:.0%} of the fastest ({best}).",
    }


def _monotone(compare: Estimates) -> dict[str, bool | None]:
    """Whether the trade-off curve is monotone within its intervals, as a whole and each of its sides.

    No higher P is shown to be slower than a lower one, and none to keep fewer slots idle (figure 14 of the
    paper). None without levels or intervals: nothing can be shown.
    """
    levels = _levels(compare) if compare.blocks else []
    pairs = [(low[1], high[1]) for n, low in enumerate(levels) for high in levels[n + 1 :]]
    level = adjusted(compare.level, 2 * len(pairs))
    if not pairs or not resolvable(compare.blocks, level):
        return dict.fromkeys(("monotone", "monotone_jct", "monotone_idle"))
    idle = loss(compare.suite.cluster.all_slots)
    slower = [compare.jct(high, to=low, level=level) for low, high in pairs]
    less_idle = [compare.difference(high, low, idle, level) for low, high in pairs]
    falls = not any(one.mean > 1.0 and one.excludes(1.0) for one in slower)
    rises = not any(one.mean < 0.0 and one.excludes(0.0) for one in less_idle)
    return {"monotone": falls and rises, "monotone_jct": falls, "monotone_idle": rises}


def _results_equal(records: Records) -> bool:
    """Whether every workload computed the same in all settings of a block."""
    first: dict[tuple[int, str], Sequence[float]] = {}
    return all(
        same_results(first.setdefault((key.block, key.workload), run.values), run.values)
        for key, run in records.items()
    )


def order_agreement(document: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """Kendall's τ-b between the orders of the arms by JCT in two documents of one suite.

    1 where both have the same order, as a simulation that predicts a live run; 0 where one cannot tell its
    arms apart. The null arm is left out. Raises BadInputError for documents of other arms, or without a
    whole block.
    """
    from scipy.stats import kendalltau

    sides = []
    for one in (document, other):
        rows = [row for row in one["rows"] if row["workload"] is None and row["arm"] != one["null_arm"]]
        sides.append({row["arm"]: row["jct_s"]["mean"] for row in rows})
    if not sides[0] or sides[0].keys() != sides[1].keys():
        raise BadInputError(
            f"the tests {document['suite']!r} and {other['suite']!r} cannot be compared: name two folders of "
            "one suite, each with a whole block"
        )
    found = float(kendalltau(list(sides[0].values()), [sides[1][arm] for arm in sides[0]]).statistic)
    return 0.0 if math.isnan(found) else found
