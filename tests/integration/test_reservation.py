"""Speculative slot reservation on real Spark: Algorithm 1, deadlines, copies, and what goes wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.integration.harness import Scenario, on

pytestmark = pytest.mark.integration

LOCAL = "spark-sched:local[4]"
EXECUTORS = "spark-sched:local-cluster[2,2,1024]"
# So that on a crowded machine, too, no hold between two actions ends before the next one.
LONG_PAUSES = (
    "spark.sched.reservation.gap=5min",
    "spark.sched.reservation.firstGap=5min",
    "spark.sched.reservation.idleShare=1",
    "spark.sched.limits.idleShare=1",
)
# Decommissioning is off by default; it changes nothing before an executor is told to leave.
CLUSTER = (EXECUTORS, *LONG_PAUSES, "spark.decommission.enabled=true")
# As on local masters, a job whose task fails once is aborted.
NO_FAILURES = (*CLUSTER, "spark.task.maxFailures=1")
NO_COPIES = "spark.sched.copies.enabled=false"


each_master = pytest.mark.parametrize(
    "master",
    [pytest.param("local", marks=on(LOCAL, *LONG_PAUSES)), pytest.param("local-cluster", marks=on(*CLUSTER))],
)


def nothing_leaked(result: dict[str, Any]) -> None:
    assert result["counters"]["slots_held_now"] == 0
    assert result["counters"]["invariant_violations"] == 0


@each_master
def test_no_background_task_gets_between_the_stages_and_actions_of_a_high_priority_job(
    scenario: Scenario, master: str
) -> None:
    result = scenario("across_barriers")
    nothing_leaked(result)
    assert result["background_tasks"] == 16
    assert result["intruders"] == 0


@on("local[4]")
def test_the_same_job_on_the_stock_scheduler_does_lose_its_slots(scenario: Scenario) -> None:
    assert scenario("across_barriers")["intruders"] > 0


@on(LOCAL, NO_COPIES)
def test_with_fewer_tasks_next_the_first_to_finish_give_their_slots_back(scenario: Scenario) -> None:
    result = scenario("fewer_next")
    nothing_leaked(result)
    assert result["total"] == 4
    assert result["counters"]["holds_total"] == 2


@on(LOCAL, NO_COPIES, "spark.sched.reservation.preReserveThreshold=0.4")
def test_with_more_tasks_next_slots_of_others_are_taken_past_the_threshold(scenario: Scenario) -> None:
    result = scenario("more_next")
    nothing_leaked(result)
    assert result["total"] == 2
    assert result["background_tasks"] == 12
    assert 1 <= result["counters"]["prereserved_total"] <= 2


@on("spark-sched:local[6]", NO_COPIES, "spark.sched.reservation.preReserveThreshold=0.4")
def test_an_independent_branch_changes_nothing_of_what_a_stage_takes_for_the_next(scenario: Scenario) -> None:
    result = scenario("more_next_beside")
    nothing_leaked(result)
    assert result["total"] == 4
    assert result["background_tasks"] == 24
    assert 1 <= result["counters"]["prereserved_total"] <= 2


@on(LOCAL, *LONG_PAUSES)
def test_equal_and_lower_priorities_wait_and_a_higher_one_takes_held_slots(scenario: Scenario) -> None:
    result = scenario("priorities")
    nothing_leaked(result)
    assert result["before_straggler"] == ["higher"]
    assert result["counters"]["holds_overridden"] >= 1
    assert result["counters"]["offers_refused"] > 0


@on(LOCAL, *LONG_PAUSES)
def test_of_equal_jobs_an_earlier_one_takes_held_slots_and_a_later_one_waits(scenario: Scenario) -> None:
    result = scenario("equals")
    nothing_leaked(result)
    assert result["taken"] >= 2
    assert max(result["starts"]["early"]) < min(result["starts"]["late"])


@on(LOCAL, *LONG_PAUSES)
def test_a_job_that_waited_for_an_equal_lends_held_slots_to_equals_only(scenario: Scenario) -> None:
    result = scenario("waited")
    nothing_leaked(result)
    assert result["ended"][:2] == ["leader", "borrower"]
    assert result["lower_waits"]


@on(LOCAL)
def test_an_earlier_job_is_first_in_its_later_actions_too(scenario: Scenario) -> None:
    result = scenario("by_arrival")
    nothing_leaked(result)
    # By launches: four tasks of the later job came in between, at the barrier; the others follow.
    assert max(result["mine"]) < result["later"][4]


@on(LOCAL, "spark.sched.reservation.maxHold=1s")
def test_offers_are_revived_as_soon_as_a_reservation_expires(scenario: Scenario) -> None:
    result = scenario("expiry")
    nothing_leaked(result)
    assert result["counters"]["holds_expired"] == 3
    assert result["started_before_straggler"] == 3


@on(
    LOCAL,
    "spark.sched.reservation.gap=1h",
    "spark.sched.reservation.firstGap=1h",
    "spark.sched.reservation.idleShare=0",
    "spark.sched.limits.idleShare=1",
    # While nobody waits all slots may be held for longer than the harness waits, else for nine seconds.
    "spark.sched.limits.idleBurst=15min",
    "spark.sched.limits.idleWaitingCost=100",
)
def test_slots_are_held_between_actions_for_less_time_while_others_wait(scenario: Scenario) -> None:
    result = scenario("held_against_waiting")
    nothing_leaked(result)
    assert result["before"]["holds_over_budget"] == 0
    assert result["before"]["held_against_waiting_slot_ms"] == 0
    assert result["started"] == 4
    assert result["counters"]["holds_over_budget"] == 4
    assert result["counters"]["holds_expired"] == 0
    assert result["counters"]["held_against_waiting_slot_ms"] > 0


@on(LOCAL, *LONG_PAUSES)
def test_cancelled_and_failed_jobs_leave_nothing_held(scenario: Scenario) -> None:
    result = scenario("cancelled")
    nothing_leaked(result)
    assert result["failures"] == 2
    assert result["held_after_cancel"] == 0
    assert result["background_tasks"] == 8


@on(*CLUSTER)
def test_a_killed_executor_takes_its_holds_with_it_and_the_job_ends_well(scenario: Scenario) -> None:
    result = scenario("executor_killed")
    nothing_leaked(result)
    assert result["sums"] == [[p, p] for p in range(4)]
    assert result["again"] == sum(range(100))
    assert result["background_tasks"] == 12


@on(*CLUSTER)
def test_a_stage_attempted_again_keeps_the_ledger_true(scenario: Scenario) -> None:
    result = scenario("stage_retry")
    nothing_leaked(result)
    assert result["same"]
    assert result["background_tasks"] == 8


# By the second setting Spark aborts a job whose barrier stage gets fewer slots than its offer seems to have.
@on(
    LOCAL,
    "spark.sched.copies.minSlowdown=0",
    "spark.locality.wait.legacyResetOnTaskLaunch=true",
    *LONG_PAUSES,
)
def test_barrier_stages_run_whole_beside_reservations_and_get_no_copies(scenario: Scenario) -> None:
    result = scenario("barrier")
    nothing_leaked(result)
    assert result["high"] == [0, 1, 2, 3] * 2
    assert result["low"] == [0, 1, 2]
    assert result["started_in_block"] == 0
    assert result["background_tasks"] == 8


@each_master
def test_a_straggler_is_overtaken_by_its_copy_unless_copies_are_refused(
    scenario: Scenario, master: str
) -> None:
    result = scenario("copies")
    nothing_leaked(result)
    # On a crowded machine another task may be slow enough for a copy, too.
    assert dict(result["copied"])[3] == 1
    assert sorted(dict(result["copied"])) == [0, 1, 2, 3]
    assert result["first"]["copies_won"] == sum(attempt for _, attempt in result["copied"])
    assert result["first"]["copies_won"] <= result["first"]["copies_launched"]
    assert result["first"]["copies_wasted_ms"] > 0
    assert dict(result["uncopied"]) == {0: 0, 1: 0, 2: 0, 3: 0}
    assert result["counters"]["copies_launched"] == result["first"]["copies_launched"]


@pytest.mark.parametrize(
    "master",
    [pytest.param("local", marks=on(LOCAL, *LONG_PAUSES)), pytest.param("cluster", marks=on(*NO_FAILURES))],
)
def test_a_copy_that_fails_costs_its_job_nothing(scenario: Scenario, master: str) -> None:
    result = scenario("failing_copy")
    nothing_leaked(result)
    assert result["sums"] == [[0, 2], [1, 4]]
    # On a crowded machine another task may be slow enough for a copy, too.
    assert 1 <= result["counters"]["copies_failed"] <= result["counters"]["copies_launched"]
    said = [text for text in result["story"] if text.startswith("a copy of task ")]
    assert len(said) == 1
    assert "does not count as a failure of the task: FileExistsError" in said[0]


@on(LOCAL, "spark.scheduler.mode=FAIR", *LONG_PAUSES)
def test_inside_a_fair_pool_a_job_keeps_its_share_across_barriers(scenario: Scenario) -> None:
    result = scenario("fair_pools")
    nothing_leaked(result)
    assert result["most_at_once"] <= 2


@on(LOCAL, "spark.scheduler.mode=FAIR", *LONG_PAUSES)
def test_held_slots_beyond_a_pools_share_give_way_to_a_pool_below_its_own(scenario: Scenario) -> None:
    result = scenario("fair_straggler")
    nothing_leaked(result)
    # Two of four slots are the other pool's: all of its tasks ran, and never more than two at once.
    assert result["before_straggler"] == 4
    assert result["most_at_once"] <= 2
    assert result["held"] >= 1
    assert result["counters"]["holds_overridden"] >= 2


@on(LOCAL, NO_COPIES, "spark.sched.planner.interval=50ms")
def test_a_recurring_job_is_planned_by_what_its_earlier_run_had(scenario: Scenario) -> None:
    result = scenario("recurring")
    nothing_leaked(result)
    # First run: what follows is unknown, so all four slots are kept at the barrier. Second run: two are.
    assert result["first"] > result["second"]


@on(
    "spark-sched:local-cluster[2,4,1024]",
    *LONG_PAUSES,
    NO_COPIES,
    "spark.worker.resource.gpu.amount=1",
    f"spark.worker.resource.gpu.discoveryScript={Path(__file__).with_name('gpu_discovery.sh')}",
    "spark.executor.resource.gpu.amount=1",
    "spark.task.resource.gpu.amount=0.5",
)
def test_slots_are_counted_by_what_a_task_needs_and_not_by_cores(scenario: Scenario) -> None:
    result = scenario("gpus")
    nothing_leaked(result)
    assert result["background_tasks"] == 12
    assert result["intruders"] == 0
    # Both actions leave all four slots held: that of whole GPUs had as many tasks as Spark runs at once.
    assert result["held"] == [4, 4]
    assert result["counters"]["offers_refused"] > 0


@on(
    EXECUTORS,
    "spark.dynamicAllocation.enabled=true",
    "spark.dynamicAllocation.shuffleTracking.enabled=true",
    "spark.dynamicAllocation.executorIdleTimeout=1s",
    "spark.dynamicAllocation.minExecutors=0",
    "spark.executor.cores=2",
    "spark.sched.placement=pack",
)
def test_dynamic_allocation_keeps_executors_with_held_slots_and_packing_leaves_others_idle(
    scenario: Scenario,
) -> None:
    result = scenario("dynamic_allocation")
    assert result["has_part"] is True
    assert result["executors_of_pair"] == {"packed": 1, "with_deadline": 2}
    nothing_leaked(result)
    assert (result["tasks"], result["background_tasks"]) == (4, 8)
    assert result["executors"] == [2, 2]
    assert result["held"] > 0


@on(*CLUSTER)
def test_slots_of_one_executor_are_kept_for_a_task_that_needs_both_of_them(scenario: Scenario) -> None:
    result = scenario("larger_next")
    nothing_leaked(result)
    # The other job's tasks were still running: the large task did not wait for them.
    assert result["done"] == [1, 2, 3]


@on(*CLUSTER)
def test_holds_leave_with_a_decommissioned_executor(scenario: Scenario) -> None:
    result = scenario("decommissioned")
    nothing_leaked(result)
    assert result["tasks"] == [0, 1, 2, 3]


@on(
    LOCAL,
    "spark.sched.reservation.gap=10min",
    "spark.sched.reservation.firstGap=10min",
    "spark.sched.reservation.idleShare=1",
    "spark.sched.limits.idleShare=1",
)
def test_a_sql_session_that_drops_its_mark_frees_what_it_held(scenario: Scenario) -> None:
    result = scenario("sql_mark")
    nothing_leaked(result)
    assert all(slots > 0 for slots in result["held"])
    assert result["counters"]["holds_expired"] == 0


@on(LOCAL, *LONG_PAUSES)
def test_a_query_that_waits_for_half_of_sparks_time_limit_is_told_of(scenario: Scenario) -> None:
    result = scenario("time_limit")
    nothing_leaked(result)
    # Adaptive execution, which also waits for twice the limit, has none for broadcasts.
    ((job, text),) = result["told"].items()
    assert job.startswith("sql-")
    assert text.startswith("waits for slots, and half of spark.sql.broadcastTimeout (6 s) is over")
    assert result["ended"]["true"] == "2000"
    # Whether it failed depends on who was faster.
    other = result["ended"]["false"]
    assert other == "2000" or "Could not execute broadcast in 6 secs" in other


@on(LOCAL, "spark.sched.reservation.gap=10min")
def test_a_marked_query_that_nobody_ends_stalls_nobody(scenario: Scenario) -> None:
    result = scenario("sql_mark_without_end")
    nothing_leaked(result)
    assert result["rows"] == 4
    assert result["counters"]["holds_total"] > 0


ADAPTIVE = (
    "spark-sched:local[8]",
    NO_COPIES,
    "spark.sql.adaptive.enabled=true",
)


@on(*ADAPTIVE, "spark.sql.shuffle.partitions=6", "spark.sql.adaptive.coalescePartitions.minPartitionSize=1")
def test_under_adaptive_execution_a_wider_next_stage_is_pre_reserved(scenario: Scenario) -> None:
    result = scenario("adaptive_more_next")
    nothing_leaked(result)
    assert result["rows"] == [1000]
    assert result["during"]["prereserved_total"] == 2


BROADCAST_JOIN = (
    *ADAPTIVE,
    "spark.sql.shuffle.partitions=6",
    "spark.sql.adaptive.coalescePartitions.minPartitionSize=1",
)


@pytest.mark.parametrize(
    "join",
    [
        pytest.param("adaptive_broadcast_join", marks=on(*BROADCAST_JOIN)),
        # Not what the job's next query may need, which no plan tells.
        pytest.param(
            "adaptive_broadcast_join_of_a_marked_job",
            marks=on(*BROADCAST_JOIN, "spark.sched.reservation.lookahead=stage"),
        ),
    ],
)
def test_under_adaptive_execution_a_join_that_becomes_a_broadcast_join_holds_for_its_local_reads(
    scenario: Scenario, join: str
) -> None:
    result = scenario(join)
    nothing_leaked(result)
    assert result["rows"] == [400]
    assert result["during"]["slots_held_now"] == 3


@on(*ADAPTIVE, "spark.sql.shuffle.partitions=6")
def test_under_adaptive_execution_the_sizes_of_outputs_tell_that_fewer_tasks_follow(
    scenario: Scenario,
) -> None:
    result = scenario("adaptive_fewer_next")
    nothing_leaked(result)
    assert result["rows"] == [1000]


# A plan is asked for soon after a job came, since it tells what earlier runs had.
@on(*ADAPTIVE, "spark.sched.planner.interval=50ms")
@pytest.mark.parametrize("name", ["adaptive_last_stage", "adaptive_last_stage_of_earlier_run"])
def test_under_adaptive_execution_the_last_stage_of_a_query_frees_its_slots_while_it_runs(
    scenario: Scenario, name: str
) -> None:
    result = scenario(name)
    nothing_leaked(result)
    assert set(result["rows"]) == {0, 1, 2, 3}
    assert result["counters"]["holds_expired"] == 0
