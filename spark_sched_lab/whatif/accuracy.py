"""How far a replay is from the recording: over all jobs, by their length, and weighted by time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

#: A replayed job within this share of the recorded time counts as right.
NEAR = 0.10
#: Share of jobs, or of their time, that must be right for answers to count as reliable.
TRUSTED = 0.9
#: Shortest jobs, in seconds, of the groups by length. Short jobs are many and easy: alone they say little.
LENGTHS_S = (1, 5, 20)


def errors(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The error of the replay, over jobs that ended in both."""
    compared = [row for row in rows if row["real_jct_s"] is not None]
    found = [
        # A job that the replay never ends is as wrong as can be.
        1.0 if row["jct_s"] is None else abs(row["jct_s"] - row["real_jct_s"]) / max(row["real_jct_s"], 0.001)
        for row in compared
    ]
    real_s = [row["real_jct_s"] for row in compared]
    document: dict[str, Any] = {
        "jobs": len(compared),
        "jobs_without_end_in_log": len(rows) - len(compared),
        "within_10_percent": None,
        "within_5_percent": None,
        "median_error": None,
        "p90_error": None,
        "worst": None,
        "time_s": sum(real_s),
        "time_within_10_percent": _by_time(real_s, found),
        "by_length": [_at_least(seconds, real_s, found) for seconds in LENGTHS_S],
    }
    if compared:
        worst = max(range(len(compared)), key=found.__getitem__)
        document |= {
            "within_10_percent": float(np.mean([error <= NEAR for error in found])),
            "within_5_percent": float(np.mean([error <= NEAR / 2 for error in found])),
            "median_error": float(np.median(found)),
            "p90_error": float(np.percentile(found, 90)),
            "worst": {"job": compared[worst]["job"], "error": found[worst]},
        }
    return document


def _by_time(real_s: Sequence[float], found: Sequence[float]) -> float | None:
    total_s = sum(real_s)
    right_s = sum(seconds for seconds, error in zip(real_s, found, strict=True) if error <= NEAR)
    return right_s / total_s if total_s else None


def _at_least(seconds: int, real_s: Sequence[float], found: Sequence[float]) -> dict[str, Any]:
    own = [error for length_s, error in zip(real_s, found, strict=True) if length_s >= seconds]
    return {
        "at_least_s": seconds,
        "jobs": len(own),
        "within_10_percent": float(np.mean([error <= NEAR for error in own])) if own else None,
        "median_error": float(np.median(own)) if own else None,
    }


def together(replays: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The same shares over the jobs of several logs."""
    lengths = [
        {"at_least_s": group[0]["at_least_s"], **_share(group, "jobs", "within_10_percent")}
        for group in zip(*(replay["by_length"] for replay in replays), strict=True)
    ]
    by_time = _share(replays, "time_s", "time_within_10_percent")
    return {
        "logs": len(replays),
        **_share(replays, "jobs", "within_10_percent"),
        "time_within_10_percent": by_time["time_within_10_percent"],
        "by_length": lengths,
    }


def _share(parts: Sequence[Mapping[str, Any]], weight: str, share: str) -> dict[str, Any]:
    total = sum(part[weight] for part in parts)
    right = sum((part[share] or 0.0) * part[weight] for part in parts)
    return {weight: total, share: right / total if total else None}


def doubts(replay: Mapping[str, Any]) -> str | None:
    """For which jobs answers are not reliable, as the end of a sentence; None: for none."""
    if replay["within_10_percent"] < TRUSTED:
        return "the answers below are not reliable"
    for group in replay["by_length"]:
        if group["jobs"] and group["within_10_percent"] < TRUSTED:
            return f"the answers below are not reliable for jobs of {group['at_least_s']} s or more"
    if replay["time_within_10_percent"] is not None and replay["time_within_10_percent"] < TRUSTED:
        return "the answers below are not reliable for long jobs"
    return None


def by_length(replay: Mapping[str, Any]) -> str | None:
    """The shares of long jobs, as a sentence; None if no job is long."""
    groups = [group for group in replay["by_length"] if group["jobs"]]
    if not groups:
        return None
    shares = [
        f"{round(group['within_10_percent'] * group['jobs'])} of {group['jobs']} of at least "
        f"{group['at_least_s']} s"
        for group in groups
    ]
    return f"Within 10 % are {', '.join(shares)}; of all jobs' time {replay['time_within_10_percent']:.0%}."
