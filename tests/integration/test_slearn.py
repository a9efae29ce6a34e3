"""SLearn live: pilots go first on real Spark, and whatever becomes of them every task of every job runs."""

from __future__ import annotations

import pytest

from tests.integration.harness import Scenario, on

pytestmark = pytest.mark.integration

#: Executors in processes of their own: one that dies comes back.
CLUSTER = ("spark-sched:local-cluster[2,2,1024]", "spark.sched.planner.policy=slearn")


@on(*CLUSTER)
def test_one_random_task_of_each_wide_job_runs_before_its_others(scenario: Scenario) -> None:
    result = scenario("pilots_live")
    assert result["partitions"] == [list(range(8))] * 6
    # The last two pilots wait for slots; by then tasks of jobs that are sized may want all of them, or not.
    assert result["alone_at_first"] >= 4
    assert set(result["first_tasks"]) != {0}, "pilots are drawn, not the first partitions"
    assert result["counters"]["invariant_violations"] == 0


@pytest.mark.slow
@on(*CLUSTER, "spark.sched.planner.restartBackoff=100ms", "spark.sched.planner.restartBackoffMax=1s")
def test_every_task_runs_whatever_becomes_of_pilots_executors_and_planner(scenario: Scenario) -> None:
    result = scenario("pilots_lost")
    assert result["partitions"] == [list(range(8))] * 5
    assert min(result["failing_attempts"]) == 1
    assert result["executor_died"]
    assert result["queries"] == [{"right": True, "adaptive": True}] * 3
    assert result["counters"]["planner_restarts"] >= 1
    assert result["counters"]["invariant_violations"] == 0
    assert result["counters"]["slots_held_now"] == 0
