"""Jobs that share stages, end early, fail or hold slots against each other end under every policy."""

from __future__ import annotations

import pytest

from spark_sched.policies import available
from tests.integration.harness import run_scenario

pytestmark = [pytest.mark.integration, pytest.mark.slow]

#: Cancelled or failed actions raise; the others give what they give on Spark's own scheduler.
EXPECTED = {
    "shared_stage": ["Py4JJavaError", 3],
    "block_ends_first": [28, 28],
    "failed_subquery": True,
    "gangs_hold_against_each_other": [[1, 1, 1], [1, 1, 1]],
}
SETTINGS = ("spark.sched.planner.restartBackoff=100ms", "spark.sched.planner.restartBackoffMax=500ms")


@pytest.mark.parametrize("policies", [available()[0::2], available()[1::2]], ids=["half", "other half"])
def test_nobody_waits_for_ever_whatever_the_policy_and_whether_planners_live(
    policies: tuple[str, ...],
) -> None:
    names = ",".join(policies)
    found = run_scenario(names, "spark-sched:local[4]", *SETTINGS, module="hang_scenarios", timeout_s=1800.0)
    for policy in policies:
        result = found[policy]
        assert result["calm"] == EXPECTED, policy
        assert result["killed"] == EXPECTED, policy
        assert result["counters"]["slots_held_now"] == 0, policy
        assert result["counters"]["invariant_violations"] == 0, policy
        assert result["counters"]["failed_open"] == 0, policy
        # Neither a held slot's deadline nor a plan's end was waited for.
        assert result["counters"]["holds_expired"] == 0, policy
