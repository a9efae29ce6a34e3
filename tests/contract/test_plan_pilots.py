"""The plan's pilots and queues on the wire: schema, codec and the example that the JVM's tests read too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from spark_sched.policies import JobPlan, PilotSet, Plan

PROTOCOL = Path(__file__).parents[2] / "protocol"
SCHEMA = Draft202012Validator(json.loads((PROTOCOL / "plan.schema.json").read_text()))


def the_plan() -> Plan:
    return Plan(
        snapshot=21,
        made_at_ms=1789000004000,
        valid_for_ms=10_000,
        policy="slearn",
        ordered=True,
        number=7,
        new_jobs_wait=True,
        queue_weights=(1.0, 0.1, 0.01),
        jobs=(
            JobPlan(
                "mark-9c1d", 0, 0, None, "1.2 slot-seconds expected: 40 tasks of 30 ms by 2 pilots", queue=0
            ),
            JobPlan(
                "spark-4", 1, 0, None, "2 of 60 tasks first, to learn its size",
                pilots=PilotSet(0, (3, 17)), queue=1,
            ),
        ),
    )  # fmt: skip


def test_the_codec_writes_the_example_that_both_sides_read() -> None:
    example = json.loads((PROTOCOL / "examples" / "plan.pilots.json").read_text())
    SCHEMA.validate(example)
    assert json.loads(the_plan().to_text()) == example


def test_what_is_not_set_is_left_out() -> None:
    plain = Plan(1, 0, 1, "fifo", True, (JobPlan("a", 0, 0, None, "arrival 0"),)).to_json()
    assert "queue_weights" not in plain
    assert not {"pilots", "queue"} & plain["jobs"][0].keys()


@pytest.mark.parametrize(
    "pilots",
    [
        {"stage": 0, "tasks": []},
        {"stage": 0, "tasks": [3, 3]},
        {"stage": 0, "tasks": [-1]},
        {"stage": -1, "tasks": [0]},
        {"tasks": [0]},
        {"stage": 0},
    ],
    ids=str,
)
def test_a_bad_pilot_set_is_no_valid_plan(pilots: dict[str, Any]) -> None:
    document = the_plan().to_json()
    document["jobs"][1]["pilots"] = pilots
    assert not SCHEMA.is_valid(document)
