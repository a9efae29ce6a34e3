"""The planner process: killed, stopped, orphaned, looked at."""

from __future__ import annotations

import re

import pytest

from tests.integration.harness import Scenario, on
from tests.integration.processes import until

pytestmark = pytest.mark.integration

LOCAL = "spark-sched:local[4]"


@pytest.mark.slow
@on(LOCAL, "spark.sched.planner.restartBackoff=100ms", "spark.sched.planner.restartBackoffMax=1s")
def test_jobs_end_with_equal_results_however_often_the_planner_is_killed(scenario: Scenario) -> None:
    result = scenario("planner_killed")
    assert result["killed"] == 20
    assert result["sums"] == {f"tenant-{p}": sum(range(40)) for p in (1, 5, 9)}
    assert result["counters"]["planner_restarts"] >= 20
    assert result["counters"]["invariant_violations"] == 0
    assert result["counters"]["slots_held_now"] == 0


@on(LOCAL, "spark.sched.planner.planValidity=2s", "spark.sched.planner.stallTimeout=5s")
def test_a_planner_that_hangs_is_replaced_and_its_plan_runs_out(scenario: Scenario) -> None:
    result = scenario("planner_stopped")
    assert result["total"] == sum(range(100))
    assert result["counters"]["plan_fallbacks"] >= 1
    assert result["counters"]["planner_stalls"] >= 1


@on("spark-sched:local[2]", "spark.log.level=DEBUG")
def test_nobody_sees_the_secret_and_the_bridge_listens_on_loopback_only(scenario: Scenario) -> None:
    result = scenario("planner_visible")
    secret = re.compile(r"\b[0-9a-f]{64}\b")
    assert "spark_sched.planner.process" in result["seen"]
    assert not secret.search(result["seen"])
    assert not secret.search(result["log"])


@on("spark-sched:local[2]")
def test_the_planner_leaves_with_a_driver_that_was_killed(scenario: Scenario) -> None:
    pid = scenario("leave_running")["pid"]
    assert until(lambda: not _alive(pid)), f"planner {pid} outlived its driver"


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # it may end while being looked at
        return False


@on(LOCAL, "spark.sched.planner.python=/nowhere/python3")
def test_without_any_planner_slots_are_held_by_the_configured_rules_and_that_is_said_once(
    scenario: Scenario,
) -> None:
    result = scenario("across_barriers")
    assert result["intruders"] == 0
    assert result["background_tasks"] == 16
    assert result["counters"]["planner_starts"] == 0
    assert result["counters"]["holds_total"] > 0
    assert result["counters"]["slots_held_now"] == 0
    assert result["counters"]["invariant_violations"] == 0
    assert result["log"].count("No planner runs (/nowhere/python3: No such file or directory)") == 1
