"""Golden applications: simulator and driver (WholeApplicationGoldenSuite.scala) start their tasks alike."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from application_walk import launches, run

GOLDEN = Path(__file__).parents[2] / "protocol" / "golden" / "enforcement" / "applications.json.gz"
APPLICATIONS: list[dict[str, Any]] = json.loads(gzip.decompress(GOLDEN.read_bytes()))["applications"]


def test_each_task_of_an_application_starts_when_and_where_it_was_generated() -> None:
    for written in APPLICATIONS:
        result = run(written)
        assert launches(result) == written["expect"], f"seed {written['seed']}"
        assert result.unfinished == 0, f"seed {written['seed']}"


def _entries(written: dict[str, Any]) -> list[dict[str, Any]]:
    return [entry for plan in written["plans"] for entry in plan["jobs"]]


@pytest.mark.parametrize(
    ("has", "least"),
    [
        pytest.param(lambda a: len(a["executors"]) > 1, 100, id="resource profiles"),
        pytest.param(lambda a: bool(a["pools"]), 100, id="FAIR pools"),
        pytest.param(lambda a: any(pool["fair"] for pool in a["pools"]), 50, id="pools that are fair within"),
        pytest.param(lambda a: bool(a["pools"]) and len(a["executors"]) > 1, 50, id="both"),
        pytest.param(lambda a: any("reservation" in each for each in _entries(a)), 100, id="reservations"),
        pytest.param(lambda a: any("deferred" in each for each in _entries(a)), 30, id="starts"),
        pytest.param(lambda a: any("pilots" in each for each in _entries(a)), 30, id="pilots"),
        pytest.param(lambda a: any("pool" in each for each in _entries(a)), 30, id="pools of plans"),
        pytest.param(lambda a: any(s["gang"] for job in a["jobs"] for s in job["stages"]), 50, id="gangs"),
    ],
)
def test_the_applications_have_what_the_rules_are_about(
    has: Callable[[dict[str, Any]], bool], least: int
) -> None:
    assert sum(map(has, APPLICATIONS)) >= least
