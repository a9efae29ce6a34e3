#!/usr/bin/env python3
"""Completion times under SLearn by its first queue, in the simulator: jobs of seconds, and the same in hours.

    python benchmarks/first_queue.py [--sets N] [--json]

Each set has sixty jobs of 3 to 47 tasks on eight slots, as benchmarks/slearn_live.py has them, at 1.2 times
the load that the slots can serve; tests/unit/spark_sched/policies/test_scale.py has the same jobs. In hours
all times are 3,600 times as long. A completion time counts in that unit.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
from _common import publish

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.unit.spark_sched.policies.test_scale import mean_jct_ms

FIRST_QUEUES = ("auto", "100ms", "1s", "10s", "100s", "1000s")
UNITS_MS = {"seconds": 1_000.0, "hours": 3_600_000.0}


@click.command()
@click.option("--sets", default=5, show_default=True, help="Sets of sixty jobs.")
@click.option("--json", "json_output", is_flag=True, help="Print one JSON document.")
def main(sets: int, json_output: bool) -> None:
    """Mean completion times by first queue."""
    found: dict[str, Any] = {
        unit: {text: mean_jct_ms("slearn", unit_ms, text, sets) / unit_ms for text in FIRST_QUEUES}
        for unit, unit_ms in UNITS_MS.items()
    }
    lines = [
        f"jobs of {unit}: " + ", ".join(f"{text} {mean:.2f}" for text, mean in means.items())
        for unit, means in found.items()
    ]
    publish({"benchmark": "first_queue", "runs": sets, "mean_jct": found}, lines, json_output)


if __name__ == "__main__":
    main()
