"""The benchmark of memory, in small: it runs, and nothing grows by more than noise."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.conftest import Run

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def test_short_jobs_and_micro_batches_leave_nothing_in_driver_and_planner(run: Run, root: Path) -> None:
    small = ("--jobs", "800", "--batches", "60", "--intervals", "4", "--json")
    done = run(sys.executable, root / "benchmarks" / "memory.py", *small)
    assert done.status == 0, done.output
    document = json.loads(done.stdout)
    assert document["counters"]["slots_held_now"] == 0
    for load, wanted in (("short_jobs", 800), ("micro_batches", 60)):
        series = document[load]
        assert series["done"][-1] == wanted
        assert series["planner_mb"][0] > 0
        # Neither of them could keep a task or a plan of each and stay below.
        assert series["driver_mb"][-1] - min(series["driver_mb"]) < 40
        assert series["planner_mb"][-1] - series["planner_mb"][0] < 40
