"""The benchmark of the driver at 16,000 slots, in its quick form: the real classes run beside Spark's own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.conftest import Run

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def test_both_schedulers_run_the_same_tasks_in_one_jvm(run: Run, root: Path) -> None:
    done = run(sys.executable, root / "benchmarks" / "driver_scale.py", "--quick", "--json")
    assert done.status == 0, done.output
    plain, holding = json.loads(done.stdout)["cells"]
    assert (plain["held"], plain["running"]) == (0, 20 * 16)
    # Held slots are idle ones, and a plan was in force.
    assert holding["held"] > 0
    assert holding["running"] + holding["held"] <= 20 * 16
    assert holding["operations"]["plan"]["ours_us"] > holding["operations"]["locked"]["ours_us"] > 0
    for cell in (plain, holding):
        assert set(cell["operations"]) >= {"end", "offer", "result", "round", "burst", "document"}
        assert cell["operations"]["end"]["null_ratio"] > 0
