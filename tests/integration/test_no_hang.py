"""Jobs that share stages, end early, fail or hold slots against each other end under every policy."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_sched.policies import available
from tests.integration.harness import Scenario, on

pytestmark = [pytest.mark.integration, pytest.mark.slow]
POOLS = Path(__file__).parents[2] / "conf" / "fairscheduler.xml"

#: Cancelled or failed actions raise; the others give what they give on Spark's own scheduler.
EXPECTED = {
    "shared_stage": ["Py4JJavaError", 3],
    "block_ends_first": [28, 28],
    "failed_subquery": "Py4JJavaError",
    "gangs_hold_against_each_other": [[1, 1, 1], [1, 1, 1]],
}
SETTINGS = ("spark.sched.planner.restartBackoff=100ms", "spark.sched.planner.restartBackoffMax=500ms")
# So that on a crowded machine, too, no hold between two actions ends before the next one.
LONG_PAUSES = "spark.sched.reservation.firstGap=1min"


each_policy = pytest.mark.parametrize(
    "policy",
    [
        pytest.param(
            policy,
            marks=on("spark-sched:local[4]", f"spark.sched.planner.policy={policy}", LONG_PAUSES, *SETTINGS),
        )
        for policy in available()
    ],
)


@each_policy
def test_nobody_waits_for_ever_whatever_the_policy_and_whether_planners_live(
    scenario: Scenario, policy: str
) -> None:
    result = scenario("nobody_waits_for_ever")
    assert result["calm"] == EXPECTED
    assert result["killed"] == EXPECTED
    assert result["kills"] > 0
    assert result["counters"]["slots_held_now"] == 0
    assert result["counters"]["invariant_violations"] == 0
    assert result["counters"]["failed_open"] == 0
    # Neither a held slot's deadline nor a plan's end was waited for.
    assert result["counters"]["holds_expired"] == 0


SEAMS = (
    "start", "task set", "task set finished", "offers", "offers over", "order", "slot", "launch", "pilots",
    "copies", "end of task", "map output", "task undone", "executor", "jobs", "timer", "plan", "counters",
)  # fmt: skip


def throwing_at(seam: str) -> pytest.MarkDecorator:
    # A local master cannot lose an executor.
    master = "spark-sched:local-cluster[2,2,1024]" if seam == "executor" else "spark-sched:local[4,2]"
    return on(master, "spark.sched.planner.enabled=false", f"spark.testing.schedThrowAt={seam}")


@pytest.mark.parametrize("seam", [pytest.param(seam, marks=throwing_at(seam)) for seam in SEAMS])
def test_an_exception_of_ours_leaves_the_application_to_spark(scenario: Scenario, seam: str) -> None:
    result = scenario("survives")
    assert tuple(result["seams"]) == SEAMS
    assert result["sums"] == [[0, 12], [1, 16]]
    assert result["unmarked"] == 4950
    assert result["whole"] == [1, 1, 1, 1]
    assert result["failed_open"] == 1


def with_pools(policy: str) -> pytest.MarkDecorator:
    allocation = f"spark.scheduler.allocation.file={POOLS}"
    planned = f"spark.sched.planner.policy={policy}"
    return on("spark-sched:local[4]", "spark.scheduler.mode=FAIR", allocation, planned)


@pytest.mark.parametrize(
    "policy", [pytest.param(name, marks=with_pools(name)) for name in ("fair", "3sigma")]
)
def test_weights_and_minimum_shares_of_pools_count(scenario: Scenario, policy: str) -> None:
    # A minimum share of two and a weight of four against one: three of four slots, as on stock Spark.
    started = scenario("pool_weights")["started"]
    assert started["batch"] > 0
    assert started["interactive"] >= 2 * started["batch"]
