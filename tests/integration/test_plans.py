"""Plans of start times and pilots on real Spark: the driver follows them, and nobody waits for ever."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.harness import Scenario, on
from tests.integration.scenarios import Result

pytestmark = pytest.mark.integration

EXECUTORS = "spark-sched:local-cluster[2,2,1024]"
NO_PLANNER = "spark.sched.planner.enabled=false"
#: Clocks of driver and tasks are one; times in a plan are whole milliseconds.
ROUNDING_MS = -2.0


def checked(scenario: Scenario, name: str, *settings: str) -> Result:
    result = scenario(name, *settings)
    assert result["counters"]["slots_held_now"] == 0
    assert result["counters"]["invariant_violations"] == 0
    return result


# New jobs may wait for two intervals: long enough here to say something of one meanwhile.
@on(EXECUTORS, NO_PLANNER, "spark.sched.planner.interval=2s")
def test_a_plan_of_start_times_is_followed_and_runs_out(scenario: Scenario) -> None:
    result = checked(scenario, "plan_followed")
    # Evicted tasks wait while slots idle, then run as second attempts; nothing has failed by that.
    assert result["evictions"] == 4
    assert result["victim_waited_ms"] >= ROUNDING_MS
    # The status says that the plan wants the slots idle.
    assert result["kept_free"] == 4
    assert result["idle_states"] == {"victim": "evicted"}
    assert result["victim"] == [[p, 1] for p in range(4)]
    assert result["victim_stage"] == {"attempt": 0, "failed_tasks": 0}
    # The planned job had their slots; a new one waited for its start, the last one for the plan's end.
    assert result["planned"] == 4
    assert (result["new"], result["shared"], result["last"], result["unknown"]) == (2, 4, 4, 2)
    assert result["new_late_ms"] >= ROUNDING_MS
    assert result["stuck_late_ms"] >= ROUNDING_MS
    assert result["counters"]["plan_fallbacks"] >= 1


@on("spark-sched:local[4,4]", NO_PLANNER)
def test_pilots_run_before_the_others_of_their_stage_and_one_that_fails_opens_the_gate(
    scenario: Scenario,
) -> None:
    result = checked(scenario, "pilots_first")
    assert set(result["by_first_start"][:2]) == {5, 9}
    assert result["partitions"] == list(range(12))
    assert result["other"] == 12
    assert result["alone"] == list(range(4))
    assert "did not answer within 0.2 s" in result["silent"]


@pytest.mark.slow
@on(
    "spark-sched:local[4]",
    "spark.sched.planner.policy=3sigma",
    "spark.sched.planner.restartBackoff=100ms",
    "spark.sched.planner.restartBackoffMax=1s",
)
def test_no_job_is_stuck_and_no_history_lost_when_the_planner_dies_between_its_plans(
    scenario: Scenario, tmp_path: Path
) -> None:
    result = checked(scenario, "sigma_killed", f"spark.sched.history.path={tmp_path / 'history.db'}")
    assert result["sums"] == [sum(range(40))] * 18
    assert result["killed"] >= 5
    assert result["counters"]["planner_restarts"] >= 5
    assert [path.name for path in tmp_path.glob("history.db*") if "corrupt" in path.name] == []
    assert (tmp_path / "history.db").exists()


# Executors of their own: they register before they have slots, and the planner must hear of these.
@on(EXECUTORS, "spark.sched.planner.policy=3sigma")
def test_a_recurring_job_is_learned_live_and_its_deadline_is_judged_by_that(scenario: Scenario) -> None:
    result = checked(scenario, "recurring_slo")
    likely, never = result["probabilities"]
    assert likely > 0.8
    assert never == 0.0
    assert result["start_s"] == 0.0
    # Each run slept for a second; how far the distribution reaches is calibration's matter.
    assert result["runtime_s"][0] >= 0.9
    assert result["earliest_deadline_s"] >= result["runtime_s"][1] - 0.01
