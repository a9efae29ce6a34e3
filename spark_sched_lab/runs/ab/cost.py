"""The cost of an A/B test's runs on a rented cluster: hours × price, per arm and in all."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spark_sched.errors import BadInputError
from spark_sched.files import read_text, write_whole
from spark_sched_lab.runs.ab.schedule import RunKey
from spark_sched_lab.runs.ab.store import Record

_FILE = "cost.json"


def add_command(out: Path, dollars_per_hour: float, seconds: float, nodes: Mapping[str, Any]) -> None:
    """Record how long a command used the cluster, even if it failed."""
    row = {"seconds": round(seconds, 1), "dollars_per_hour": dollars_per_hour, "nodes": dict(nodes)}
    write_whole(out / _FILE, json.dumps([*_commands(out), row], indent=1) + "\n")


def cost_of(out: Path, records: Mapping[RunKey, Record]) -> dict[str, Any] | None:
    """Dollars of a folder's test; None if it did not run on a rented cluster.

    An arm's dollars are those of its runs on the whole cluster. What no arm's run used (start, warm-up, gaps)
    is ``other_dollars``. Runs of several commands at different prices are charged the mean price.
    """
    commands = _commands(out)
    if not commands:
        return None
    seconds = sum(row["seconds"] for row in commands)
    dollars = sum(row["seconds"] / 3600 * row["dollars_per_hour"] for row in commands)
    per_hour = dollars / seconds * 3600 if seconds else commands[-1]["dollars_per_hour"]
    used_s: dict[str, float] = defaultdict(float)
    for run in records.values():
        # A run ends with its background.
        used_s[run.setting] += max(run.jct_s, run.background_makespan_s or 0.0)
    arms = {
        name: {"hours": round(s / 3600, 6), "dollars": round(s / 3600 * per_hour, 6)}
        for name, s in used_s.items()
    }
    return {
        "dollars_per_hour": round(per_hour, 6),
        "nodes": commands[-1]["nodes"],
        "hours": round(seconds / 3600, 6),
        "dollars": round(dollars, 6),
        "arms": arms,
        "other_dollars": round(dollars - sum(row["dollars"] for row in arms.values()), 6),
        "without": "disks, data transfer, S3, and the cluster's hours outside of these commands",
    }


def _commands(out: Path) -> list[dict[str, Any]]:
    path = out / _FILE
    if not path.exists():
        return []
    try:
        rows: list[dict[str, Any]] = json.loads(read_text(path))
    except (ValueError, RecursionError):
        raise BadInputError(
            f"{str(path)!r}, which has the costs so far, is not a JSON document: repair or remove it"
        ) from None
    return rows
