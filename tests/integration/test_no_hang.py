"""Jobs that share stages, end early, fail or hold slots against each other end under every policy."""

from __future__ import annotations

import pytest

from spark_sched.policies import available
from tests.integration.harness import Scenario, on

pytestmark = [pytest.mark.integration, pytest.mark.slow]

#: Cancelled or failed actions raise; the others give what they give on Spark's own scheduler.
EXPECTED = {
    "shared_stage": ["Py4JJavaError", 3],
    "block_ends_first": [28, 28],
    "failed_subquery": True,
    "gangs_hold_against_each_other": [[1, 1, 1], [1, 1, 1]],
}
SETTINGS = ("spark.sched.planner.restartBackoff=100ms", "spark.sched.planner.restartBackoffMax=500ms")


each_policy = pytest.mark.parametrize(
    "policy",
    [
        pytest.param(
            policy, marks=on("spark-sched:local[4]", f"spark.sched.planner.policy={policy}", *SETTINGS)
        )
        for policy in available()
    ],
)


@each_policy
def test_nobody_waits_for_ever_whatever_the_policy_and_whether_planners_live(
    scenario: Scenario, policy: str
) -> None:
    result = scenario("nobody_waits_for_ever", module="hang_scenarios")
    assert result["calm"] == EXPECTED
    assert result["killed"] == EXPECTED
    assert result["counters"]["slots_held_now"] == 0
    assert result["counters"]["invariant_violations"] == 0
    assert result["counters"]["failed_open"] == 0
    # Neither a held slot's deadline nor a plan's end was waited for.
    assert result["counters"]["holds_expired"] == 0
