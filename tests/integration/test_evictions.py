"""Evictions of single tasks on real Spark: urgent jobs get their slots, and every task runs to its end."""

from __future__ import annotations

import pytest

from tests.integration.eviction_scenarios import MANY, MOST_EVICTIONS, SLOTS
from tests.integration.harness import Scenario, on

pytestmark = pytest.mark.integration

_OPTION = "spark.sched.policy.priority-evictions"
#: Local mode allows no task to fail: an eviction that counted as a failure would end its job.
NO_FAILURES = f"spark-sched:local[{SLOTS}]"
#: As many as a task may be evicted. On a crowded machine Spark may restart its daemon of Python workers,
#: which fails the tasks that run (docs/explanation/evictions.md).
SOME_FAILURES = f"spark-sched:local[{SLOTS},{MOST_EVICTIONS}]"
APPLICATION = (
    "spark.sched.planner.policy=priority-evictions",
    "spark.sched.planner.interval=20ms",
    f"{_OPTION}.victims=RND",
    f"{_OPTION}.most_evictions={MOST_EVICTIONS}",
    # Whatever it costs: the rule of the price has tests of its own.
    f"{_OPTION}.worth=1000000",
    "spark.sched.copies.enabled=false",  # a copy would be one attempt more
)
#: Ends a killed Python task at once. Now and then Spark then ends a worker that another task has just taken,
#: which fails that task: nothing for many short tasks.
QUICK_KILLS = "spark.python.task.killTimeout=0s"


@on(NO_FAILURES, *APPLICATION, QUICK_KILLS)
def test_urgent_jobs_take_slots_until_each_task_was_evicted_as_often_as_it_may_be(scenario: Scenario) -> None:
    result = scenario("preempted")
    # Each urgent job ended while the tasks of the low priority still could not.
    assert result["urgent"] == [SLOTS] * MOST_EVICTIONS
    assert result["evictions"] == SLOTS * MOST_EVICTIONS
    assert result["waits"]
    assert result["low_waits"]
    assert result["low"] == [[partition, MOST_EVICTIONS] for partition in range(SLOTS)]
    assert result["last"] == SLOTS
    assert result["low_stage"] == {"attempt": 0, "failed_tasks": 0}
    # Neither a barrier stage nor a job with copies=never.
    assert result["never"] == [[0, 0], [0, 0]]
    assert result["counters"]["evictions"] == result["evictions"]
    assert result["counters"]["invariant_violations"] == 0
    assert result["counters"]["slots_held_now"] == 0


@on("spark-sched:local-cluster[2,4,1024]", *APPLICATION)
def test_tasks_of_urgent_jobs_start_on_the_fast_executor_and_others_are_spread(scenario: Scenario) -> None:
    result = scenario("fast_executors_first")
    assert result["urgent"] == {"1": 4}
    assert result["more"] == {"1": 4, "0": 2}
    assert result["other"] == {"1": 2, "0": 2}, "Spark gives each executor one task in turn"
    assert result["counters"]["invariant_violations"] == 0
    assert result["counters"]["slots_held_now"] == 0


@pytest.mark.slow
@on(SOME_FAILURES, *APPLICATION)
def test_no_task_is_lost_and_no_result_wrong_under_many_random_evictions(scenario: Scenario) -> None:
    result = scenario("preempted_at_random", timeout_s=600 + 10 * MANY)
    assert result["alive"] == [False] * 3
    assert result["errors"] == [], result["log"][-6000:]
    assert result["wrong"] == 0
    assert result["right"] > 0
    assert result["counters"]["evictions"] >= MANY
    assert result["most_evicted"] <= MOST_EVICTIONS
    assert result["counters"]["invariant_violations"] == 0
    assert result["counters"]["slots_held_now"] == 0
