"""The answer as sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_sched_lab.whatif.accuracy import by_length, doubts

#: A job whose completion time changes by less is called unchanged.
_SAME = 0.02
#: Most jobs that get a sentence of their own.
_NAMED = 5


def sentences(document: Mapping[str, Any]) -> list[str]:
    """The replay's error first, then a few sentences for every other arm."""
    lines = [_error(document)]
    lines += [line for line in (by_length(document["replay"]), _away(document["model"])) if line is not None]
    base = document["arms"][0]
    if base["slots_held"] or base["copies"]:
        lines.append(f"As it ran: {_held(base)}.")
    if (measured := document.get("measured")) is not None:
        until = "" if measured["complete"] else " until the log breaks off"
        lines.append(
            f"Measured live{until}: {measured['held_idle_slot_s']:.1f} slot-seconds held idle (the replay "
            f"has {base['held_idle_slot_s']:.1f}), {measured['copied_slot_s']:.1f} run by copies, "
            f"{measured['evicted_slot_s']:.1f} by attempts that were evicted."
        )
        if "would_have" in measured:
            lines.append(_shadow(measured["would_have"], until))
    for arm in document["arms"][1:]:
        lines += _arm(arm, base)
    return lines


def _shadow(would_have: Mapping[str, int], until: str) -> str:
    """What the driver counted in shadow mode, beside the order that really ran."""
    count = would_have.get
    return (
        f"Counted in shadow mode{until}: slots would have been held {count('holds_total', 0)} times, for "
        f"{count('held_idle_slot_ms', 0) / 1000.0:.1f} idle slot-seconds; "
        f"{count('copies_launched', 0)} copies and {count('evictions', 0)} evictions would have been made."
    )


def _error(document: Mapping[str, Any]) -> str:
    replay = document["replay"]
    ran = f"Replayed under {document['scheduler']}, as it ran"
    if not replay["jobs"]:
        return f"{ran}: the log shows no job's end, so the replay cannot be checked."
    right = round(replay["within_10_percent"] * replay["jobs"])
    line = (
        f"{ran}: {right} of {replay['jobs']} jobs ({replay['within_10_percent']:.0%}) are within 10 % of the "
        f"recording, median error {replay['median_error']:.1%}"
    )
    doubt = doubts(replay)
    return f"{line}." if doubt is None else f"{line}; {doubt}."


def _away(model: Mapping[str, Any]) -> str | None:
    """What tasks cost away from the executor that caches their input."""
    if not model["cached_tasks"]:
        return None
    line = f"{model['cached_tasks']} tasks read input that an executor caches"
    if model["away_factor"] is not None:
        return (
            f"{line}; {model['away_tasks']} of them ran on other executors and took "
            f"{model['away_factor']:.2f} times as long there (median)."
        )
    few = f"{model['away_tasks']} of them" if model["away_tasks"] else "none of them"
    return f"{line}; {few} ran on other executors, so a replay assumes that they take as long there."


def _arm(arm: Mapping[str, Any], base: Mapping[str, Any]) -> list[str]:
    before = {row["job"]: row for row in base["jobs"]}
    changes = []
    for row in arm["jobs"]:
        was = before[row["job"]]["jct_s"] if row["job"] in before else None
        if row["jct_s"] is not None and was:
            changes.append((row["jct_s"] / was - 1.0, was, row))
    sooner = [change for change in changes if change[0] < -_SAME]
    later = [change for change in changes if change[0] > _SAME]
    lines = []
    if arm["jct_mean_s"] is not None and base["jct_mean_s"]:
        change = arm["jct_mean_s"] / base["jct_mean_s"] - 1.0
        lines.append(
            f"Under {arm['arm']}: jobs would have taken {arm['jct_mean_s']:.1f} s on average instead of "
            f"{base['jct_mean_s']:.1f} s ({change:+.0%}); {len(sooner)} faster, {len(later)} slower, "
            f"{len(changes) - len(sooner) - len(later)} unchanged within {_SAME:.0%}; {_held(arm)}."
        )
    # By priority, then by the size of the change.
    shown = sorted(sooner + later, key=lambda c: (-c[2]["priority"], -abs(c[0] * c[1]), c[2]["job"]))
    lines += [
        f"{_name(row)} would have finished after {row['jct_s']:.1f} s instead of {was:.1f} s ({change:+.0%})."
        for change, was, row in shown[:_NAMED]
    ]
    if arm["unfinished"] > base["unfinished"]:
        lines.append(f"{arm['unfinished'] - base['unfinished']} more jobs would not have finished.")
    return lines


def _held(arm: Mapping[str, Any]) -> str:
    if not arm["slots_held"]:
        return "no slot held, no copy made" if not arm["copies"] else f"{_copies(arm)}, no slot held"
    return (
        f"slots held {arm['slots_held']} times, for {arm['held_idle_slot_s']:.1f} idle slot-seconds, "
        f"{_copies(arm)}"
    )


def _copies(arm: Mapping[str, Any]) -> str:
    return f"{arm['copies']} copies made, {arm['copies_won']} of them finished first"


def _name(row: Mapping[str, Any]) -> str:
    name = str(row["name"] or row["job"]).splitlines()[0][:60]
    return f"{name!r} (priority {row['priority']})" if row["priority"] else f"{name!r}"
