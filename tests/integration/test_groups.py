"""Pipelined groups on real Spark 4.3 start whole or are refused, and never wait for held slots."""

from __future__ import annotations

import pyspark
import pytest

from tests.integration.harness import Scenario, on

pytestmark = pytest.mark.integration


@pytest.mark.skipif(
    pyspark.__version__.split(".") < ["4", "3"], reason="pipelined stages came with Spark 4.3"
)
@on("spark-sched:local[4,4]", "spark.sched.planner.enabled=false")
def test_a_group_starts_beside_held_slots_or_is_refused(scenario: Scenario) -> None:
    result = scenario("groups")
    needs = "its group of pipelined stages needs 2 slots at once, and of"
    # Spark's own check counts held slots as free.
    assert f"job refused: {needs} 3 free ones 2 are held for job holds two" in result["refused"]
    assert result["started"] == 100
    # Without Spark's check this scheduler counts busy slots, too.
    assert f"job beside_busy_slots: {needs} 1 free ones none is held" in result["beside_busy_slots"]
    assert [result[f"{group}_held"] for group in ("refused", "started", "beside_busy_slots")] == [2, 1, 0]
    assert result["counters"]["slots_held_now"] == 0
    assert result["counters"]["invariant_violations"] == 0
