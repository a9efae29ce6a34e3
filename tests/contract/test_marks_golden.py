"""Jobs' keys, names and users: the reader of event logs and `JobMark.scala` must find the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spark_sched_lab.traces.readers.spark_marks import Origin, mark_of

CASES = json.loads(
    (Path(__file__).parents[2] / "protocol" / "golden" / "marks" / "jobs.json").read_text("utf-8")
)["cases"]


@pytest.mark.parametrize("case", [pytest.param(case, id=case["title"]) for case in CASES])
def test_a_spark_job_belongs_to_the_job_that_it_belongs_to_live(case: dict[str, Any]) -> None:
    origin = Origin(
        case.get("session"), case.get("settings", {}), case.get("user_of_session"), case.get("inherited")
    )
    found = mark_of(case["properties"], 7, case.get("users_of_groups"), case.get("allowed"), origin)
    assert {"key": found.key, "name": found.name, "user": found.user} == case["expect"]
