"""Random lifecycles of jobs on a real cluster; those on a simulated one are in `tests.lifecycles`."""

from __future__ import annotations

import pytest

from tests.integration.harness import Scenario, on
from tests.integration.lifecycles import LIFECYCLES

pytestmark = [pytest.mark.integration, pytest.mark.slow]


@on(
    "spark-sched:local-cluster[2,2,1024]",
    "spark.executor.memory=512m",
    "spark.sched.planner.interval=50ms",
    "spark.sched.planner.restartBackoff=100ms",
    "spark.decommission.enabled=true",
    # A hang must not end by any of these.
    "spark.sched.planner.planValidity=1h",
    "spark.sched.reservation.maxHold=1h",
    "spark.scheduler.revive.interval=1h",
    "spark.sched.reservation.gap=200ms",
    # What tenants do to executors must end no application and no job.
    "spark.deploy.maxExecutorRetries=-1",
    "spark.stage.maxConsecutiveAttempts=100",
    "spark.task.maxFailures=8",
)
def test_random_lifecycles_end_with_what_they_must_end_with(scenario: Scenario) -> None:
    result = scenario("lifecycles", timeout_s=900.0 + 20 * LIFECYCLES)
    assert result["failures"] == [], f"seed {result['seed']}"
    assert result["left_idle"] == [], f"seed {result['seed']}"
    assert result["left_stopped"] == [], f"seed {result['seed']}"
    assert result["ended"] == LIFECYCLES
    assert result["planners_killed"] > 0
    assert result["counters"]["invariant_violations"] == 0
    assert result["counters"]["slots_held_now"] == 0
