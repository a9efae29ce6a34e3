"""Golden cases: the simulator's overlay and the JVM's (OverlayGoldenSuite.scala) give jobs the same rules."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from ledger_steps import fields_of, rule_of
from overlay_walk import rule_in_force

GOLDEN = Path(__file__).parents[2] / "protocol" / "golden" / "rules"
BY_HAND = json.loads((GOLDEN / "overlay.json").read_text())
GENERATED = json.loads(gzip.decompress((GOLDEN / "random.json.gz").read_bytes()))["cases"]


@pytest.mark.parametrize("case", BY_HAND["cases"], ids=lambda case: case["title"])
def test_a_job_has_the_rule_that_is_written(case: dict[str, Any]) -> None:
    rule, idle = rule_in_force(case)
    assert rule == rule_of({**BY_HAND["base_rule"], **case["expect"]})
    assert idle == {**BY_HAND["base_idle"], **case.get("expect_idle", {})}


def test_jobs_have_the_rules_that_were_generated() -> None:
    assert len(GENERATED) >= 2000
    for number, case in enumerate(GENERATED):
        rule, idle = rule_in_force(case)
        assert json.loads(json.dumps(fields_of(rule))) == case["expect"], f"case {number}: {case}"
        assert idle == case["expect_idle"], f"case {number}: {case}"


def test_every_field_of_a_rule_differs_somewhere_from_the_default_one() -> None:
    assert set(BY_HAND["base_rule"]) == {name for case in BY_HAND["cases"] for name in case["expect"]} | {
        "priority"
    }
