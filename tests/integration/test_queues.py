"""Tenants' queues in a live application: ceilings and floors kept to the slot, admission, refusals."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_sched.config.queues import Amount, PlacementRule, Preemption, PriorityLimit, QueueSpec, QueueTree
from tests.integration.harness import Scenario, on

pytestmark = pytest.mark.integration

TEAMS = QueueTree(
    (
        QueueSpec("etl", ceiling=Amount(1)),
        QueueSpec("bi", ceiling=Amount(percent=60.0), max_running_jobs=1),
        QueueSpec("rest"),
    ),
    (PlacementRule("etl", user="etl"), PlacementRule("bi", user="bi")),
    "rest",
)
PROMISED = QueueTree(
    (QueueSpec("bulk", weight=100.0), QueueSpec("team", floor=Amount(percent=50.0))),
    (PlacementRule("team", user="team"),),
    "bulk",
)
EQUAL = QueueTree((QueueSpec("bulk", weight=1.0), QueueSpec("team", weight=1.0)), PROMISED.rules, "bulk")
EVICTS = replace(PROMISED, preemption=Preemption("on", timeout_ms=1000, interval_ms=500))
OBSERVES = replace(PROMISED, preemption=Preemption("observe", timeout_ms=500, interval_ms=500))
FILE = Path(tempfile.gettempdir()) / f"spark-sched-queues-{os.getpid()}.toml"
LATER = FILE.with_stem(f"{FILE.stem}-later")
ONE_AT_A_TIME = QueueTree((QueueSpec("team", max_running_jobs=1),), (), "team")
(GROUP, *_) = subprocess.run(["id", "-Gn"], check=True, capture_output=True, text=True).stdout.split()
BY_GROUP = QueueTree(
    (
        QueueSpec("staff", groups=(GROUP,), max_priority=3, max_priorities=(PriorityLimit(5, group=GROUP),)),
        QueueSpec("rest", max_priority=0, max_priorities=(PriorityLimit(8, group=GROUP),)),
    ),
    (PlacementRule("staff", group=GROUP),),
    "rest",
)
A_FEW_SECONDS = QueueTree((QueueSpec("q", slot_hours_per_day=0.001),), (), "q")
ONE_TO_THREE = QueueTree(
    (QueueSpec("team", weight=1.0), QueueSpec("other", weight=3.0)),
    (PlacementRule("other", user="cat"),),
    "team",
)
FLOORS_FILL_A_CEILING = QueueTree(
    (
        QueueSpec("team", ceiling=Amount(4)),
        QueueSpec("team.a", floor=Amount(2)),
        QueueSpec("team.b", floor=Amount(2)),
    ),
    (PlacementRule("team.b", user="b"),),
    "team.a",
)
NARROW = QueueTree((QueueSpec("etl", ceiling=Amount(2)),), (), "etl")
FULL = QueueTree((QueueSpec("q", max_running_jobs=1, max_waiting_jobs=0),), (), "q")

#: Tasks that start one after the other in one process may note their begins in the other order.
BETWEEN_CLOCKS_S = 0.2


def most_at_once(ran: Iterable[tuple[int, float, float]]) -> int:
    """The most tasks that ran at one time; a task that ends when another begins does not overlap it."""
    moments = sorted((at, change) for _, begin, end in ran for at, change in ((begin, 1), (end, -1)))
    now = most = 0
    for _, change in moments:
        now += change
        most = max(most, now)
    return most


@on(
    "spark-sched:local[4]",
    f"spark.sched.queues={TEAMS.to_json()}",
    "spark.testing.schedInvariants=true",
)
def test_two_teams_keep_to_their_ceilings_also_without_a_planner(scenario: Scenario) -> None:
    found = scenario("two_teams")
    # 1. The tasks' own clocks: 1 slot, and 60 % of 4 slots, are reached and never exceeded.
    assert {team: most_at_once(ran) for team, ran in found["ran"].items()} == {"etl": 1, "bi": 2}
    # 2. The driver's books, in which held slots count, say the same.
    assert found["peaks"] == {"etl": [1, 1], "bi": [2, 2], "rest": [0, None]}
    assert found["left"] == {"etl": 0, "bi": 0, "rest": 0}
    # A slot is in use for longer than its task runs; clocks may differ.
    ran_s = {team: sum(end - begin for _, begin, end in ran) for team, ran in found["ran"].items()}
    assert all(found["slot_s"][team] > 0.5 * task_s for team, task_s in ran_s.items())
    assert found["slot_s"]["rest"] == 0.0
    assert (found["violations"], found["failed_open"]) == (0, 0)
    # 3. People read why a job waits.
    assert "more: queue etl is at its ceiling of 1 slot" in found["load"]
    assert [each[:3] for each in found["second"]] == [
        ["bi", "waiting", "waits to be admitted: queue bi runs 1 job, its most; number 1 of those that wait"]
    ]
    assert "queue bi runs 1 job" not in found["second"][0][3], "the plan's reason is the plan's"


@on(
    "spark-sched:local[4]",
    f"spark.sched.queues={PROMISED.to_json()}",
    "spark.sched.planner.enabled=false",
    "spark.testing.schedInvariants=true",
)
def test_a_team_gets_the_slots_of_its_floor_from_a_flood_of_higher_priority(scenario: Scenario) -> None:
    assert_floor_is_kept(scenario("floors"))


@on(
    "spark-sched:local[4]",
    f"spark.sched.queues={PROMISED.to_json()}",
    "spark.sched.planner.policy=reservation",
    "spark.testing.schedInvariants=true",
)
def test_plans_keep_no_team_from_its_floor(scenario: Scenario) -> None:
    assert_floor_is_kept(scenario("floors"))


@on(
    "spark-sched:local[4]",
    f"spark.sched.queues={EQUAL.to_json()}",
    "spark.testing.schedInvariants=true",
)
def test_a_team_whose_jobs_hold_their_slots_one_after_the_other_does_not_starve_another(
    scenario: Scenario,
) -> None:
    found = scenario("weights")
    assert (found["violations"], found["failed_open"]) == (0, 0)
    assert found["in_time"] == [True, True, True]
    # It may have more where no task of the crowd waits for a moment.
    assert found["peaks"]["team"] >= 2


def assert_floor_is_kept(found: dict[str, Any]) -> None:
    assert (found["violations"], found["failed_open"]) == (0, 0)
    assert found["floors"] == {"bulk": None, "team": 2}
    # By the tasks' own clocks: two of the four slots that come free are its own, and it keeps two while it
    # has work.
    team = sorted(begin for _, begin, _ in found["ran"]["late"])
    assert most_at_once(found["ran"]["late"]) == 2 == found["peaks"]["team"]
    # The first four tasks of the flood were there before it.
    flood = [each for each in found["ran"]["first"] if each[0] >= 4] + found["ran"]["second"]
    beside = [each for each in flood if each[1] < team[5]]
    assert len(beside) >= 4, "the flood goes on beside it"
    assert most_at_once(beside) == 2


@on(
    "spark-sched:local[4]",
    f"spark.sched.queues={EVICTS.to_json()}",
    "spark.sched.planner.enabled=false",
    "spark.testing.schedInvariants=true",
)
def test_a_team_that_stays_below_its_floor_gets_it_by_evictions(scenario: Scenario) -> None:
    found = scenario("floor_evictions")
    assert found["results"] == {"bulk": [0, 1, 2, 3], "late": [0, 1]}
    assert found["evictions"] == 2, "as many as the floor, and no task of the other job a second time"
    assert "lost 2 slots to queue team, which was below its floor" in found["story"]
    assert (found["violations"], found["failed_open"]) == (0, 0)


@on("spark-sched:local[4]", f"spark.sched.queues={OBSERVES.to_json()}", "spark.sched.planner.enabled=false")
def test_evictions_for_floors_are_only_counted_and_told_while_they_are_observed(scenario: Scenario) -> None:
    found = scenario("observed_floor_evictions")
    assert (found["observed"], found["evictions"]) == (2, 0)
    assert "would be evicted for queue team, which has stayed below its floor" in found["story"]


@on("spark-sched:local[4]", f"spark.sched.queues={FULL.to_json()}", "spark.sched.planner.enabled=false")
def test_a_job_for_which_there_is_no_place_is_cancelled_and_says_why(scenario: Scenario) -> None:
    found = scenario("refused_job")
    assert "job second: queue q runs 1 job, its most, and as many jobs wait as may" in found["said"]
    assert found["refused"] == [1]


@on(
    "spark-sched:local[4]",
    f"spark.sched.queues={ONE_AT_A_TIME.to_json()}",
    f"spark.sched.queues.file={FILE}",
    "spark.ui.enabled=true",
    "spark.ui.port=0",
    "spark.sched.planner.enabled=false",
    "spark.testing.schedInvariants=true",
)
def test_queues_change_while_jobs_run_and_a_faulty_file_changes_nothing(scenario: Scenario) -> None:
    try:
        found = scenario("changed_queues")
    finally:
        FILE.unlink(missing_ok=True)
    (fault,) = found["fault"]
    assert fault == (
        f"the file of queues is refused, the queues stay as they are: {FILE}: queue 'team' has "
        "max_running_jobs -1 but it must be a whole number from 1 to 2147483647"
    )
    assert "team: max_running_jobs 2; now 2 slots run, 0 are held, 2 jobs run, 1 wait" in found["shown"]
    assert f"changed by the file {FILE} at" in found["shown"]
    assert all("the file of queues is refused" in found[view] for view in ("shown", "tab", "top"))
    assert found["unknown"][0] == 2
    assert "queue is 'teem' (did you mean 'team'?)" in found["unknown"][1]
    assert found["done"] == [0, "queue team: max_running_jobs 2 -> 3, ceiling none -> 4\n"]
    # The queue is gone: the rules place its jobs, which go on.
    assert found["queues"] == {"a": "rest", "b": "other", "c": "rest"}
    assert "its queue team is gone, and it is in queue other" in found["story"]
    assert found["warnings"] == []
    assert "rule: name b -> other\ndefault: rest" in found["after"]
    assert found["stale"] == "the queues are so already: nothing was changed\n"
    assert (found["violations"], found["failed_open"]) == (0, 0)


@on(
    "spark-sched:local[4]",
    f"spark.sched.queues.file={LATER}",
    "spark.ui.enabled=true",
    "spark.ui.port=0",
    "spark.sched.planner.enabled=false",
    "spark.testing.schedInvariants=true",
)
def test_queues_come_to_an_application_without_and_go_again(scenario: Scenario) -> None:
    LATER.unlink(missing_ok=True)
    try:
        found = scenario("queues_come_and_go")
    finally:
        LATER.unlink(missing_ok=True)
    for shown in found["shown"]:
        assert "the application has no queues: `spark-sched queue load` puts some in force" in shown
    assert found["no_queue"][0] == 2
    assert "but the application has no queues" in found["no_queue"][1]
    assert found["before"] == [None, None]
    # Both run on in a queue that lets one run, and the next job waits.
    assert found["queue"] == [2, 2, 0]
    assert "the application has queues from now on, and it is in queue team" in found["story"]
    assert found["both"] == ["a", "b"]
    assert found["waits"] == (
        "waits to be admitted: queue team runs 2 jobs, its most; number 1 of those that wait"
    )
    (warning,) = found["warnings"]
    assert warning.endswith(f"{LATER} is empty: to remove all queues use `spark-sched queue clear`")
    assert found["cleared"][0] == 0
    assert found["cleared"][1].startswith("queue team is gone")
    assert "the application has no queues any more" in found["after"]
    assert found["loaded"][0] == 0
    assert found["rest"] == ["rest"]
    assert (found["violations"], found["failed_open"]) == (0, 0)


@on(
    "spark-sched:local[4]",
    f"spark.sched.queues={NARROW.to_json()}",
    "spark.sched.planner.enabled=false",
    "spark.ui.enabled=true",
    "spark.ui.port=0",
)
def test_a_stage_that_needs_more_slots_than_its_queue_ever_has_says_so(scenario: Scenario) -> None:
    found = scenario("stage_wider_than_its_queue")
    (why,) = found["why"]
    said = re.fullmatch(
        r"waits: (stage \d+\.0 needs 3 slots at once, and queue etl has at most 2: raise the ceiling, make "
        r"the stage smaller, or cancel the job)",
        why,
    )
    assert said is not None, why
    assert found["warnings"] == [f"job gang: {said[1]}"]
    assert all(said[1] in found[view] for view in ("top", "tab", "story"))
    assert (found["results"], found["after"]) == ([0, 1, 2], [])


@on(
    "spark-sched:local[8]",
    f"spark.sched.queues={FLOORS_FILL_A_CEILING.to_json()}",
    "spark.sched.planner.enabled=false",
    # So that on a crowded machine, too, no hold between two actions ends before the next one.
    "spark.sched.reservation.firstGap=1h",
    "spark.testing.schedInvariants=true",
)
def test_barrier_stages_of_two_queues_below_one_ceiling_do_not_wait_for_each_other(
    scenario: Scenario,
) -> None:
    found = scenario("gangs_of_two_queues")
    assert found["results"] == {"a": [0, 1, 2], "b": [0, 1, 2]}
    assert found["given_way"] == 2, "the later job gave up what it held"
    assert (found["violations"], found["failed_open"]) == (0, 0)


@on("spark-sched:local[2]", f"spark.sched.queues={BY_GROUP.to_json()}", "spark.sched.planner.enabled=false")
def test_the_groups_of_the_system_place_jobs_and_an_unknown_user_has_no_rights(scenario: Scenario) -> None:
    found = scenario("groups_of_users")
    assert found["own"][:2] == ["staff", 5]
    assert found["strange"][:2] == ["rest", 0]
    unknown = "queues, rules and priorities by group do not count for this job"
    assert unknown not in found["own"][2]
    assert f"the groups of user no-such-user are unknown: {unknown}" in found["strange"][2]


@on(
    "spark-sched:local[2]",
    f"spark.sched.queues={A_FEW_SECONDS.to_json()}",
    "spark.sched.planner.enabled=false",
    "spark.ui.enabled=true",
    "spark.ui.port=0",
)
def test_a_queue_that_has_had_its_slot_hours_lets_further_jobs_wait_and_says_until_when(
    scenario: Scenario,
) -> None:
    found = scenario("slot_hours")
    assert found["most_ms"] == 3600
    assert found["used_ms"] >= 3600
    assert found["running"] == ["runs"]
    assert re.fullmatch(
        r"waits to be admitted: queue q has used its 0\.001 slot-hours of 24 hours and admits jobs again at "
        r"\d{4}-\d\d-\d\d \d\d:\d\d at the earliest; number 1 of those that wait",
        found["why"],
    )
    # At the begin of the part of 15 minutes in a day in which it was used.
    assert 23.7 * 3_600_000 < found["frees_ms"] - found["now_ms"] <= 24 * 3_600_000
    assert "slot_hours_per_day 0.001; now 2 slots run" in found["shown"]
    assert found["ran"] == ["later", "runs"], "without the limit the job that waited runs"


@on(
    "spark-sched:local[4]",
    f"spark.sched.queues={ONE_TO_THREE.to_json()}",
    "spark.sched.planner.policy=uwfq",
    "spark.sched.policy.uwfq.weights=bob=1000,cat=0.001",
    "spark.testing.schedInvariants=true",
)
def test_uwfq_orders_the_users_of_a_queue_after_the_weights_of_queues(scenario: Scenario) -> None:
    found = scenario("users_in_a_queue")
    assert [queue for _, _, queue in found["ranks"]] == ["team", "team", "team", "other"]
    (ann_1, ann_2, bob, cat) = (rank for _, rank, _ in found["ranks"])
    ran = found["ran"]
    begins = {label: sorted(begin for _, begin, _ in tasks) for label, tasks in ran.items()}
    # 1. Within a queue: the plan has Bob's job before the second one of Ann, which was there before it, and
    # tasks start in the plan's order.
    assert ann_1 < ann_2
    assert bob < ann_2
    assert begins["bob"][-1] <= begins["ann-2"][0] + BETWEEN_CLOCKS_S
    # 2. Between queues: Cat is the last one of the plan. Yet three of four slots are Cat's while tasks of Cat
    # wait, by the weights of the queues.
    assert cat > max(ann_2, bob)
    beside = [each for label in ("ann-1", "bob", "ann-2") for each in ran[label]]
    assert most_at_once(ran["cat"]) == 3
    before = begins["cat"][-1] - BETWEEN_CLOCKS_S
    assert most_at_once(each for each in beside if each[1] < before) == 1
    assert (found["violations"], found["failed_open"]) == (0, 0)


def behind_bob(found: dict[str, Any]) -> list[str]:
    """Those of Ann's jobs whose first task began after the last one of Bob's."""
    begins = found["begins"]
    last = begins["bob"][-1]
    return sorted(label for label, each in begins.items() if label.startswith("ann") and each[0] > last)


@on(
    "spark-sched:local[4]",
    "spark.sched.planner.policy=uwfq",
    "spark.testing.schedInvariants=true",
)
def test_under_uwfq_one_job_does_not_wait_for_all_jobs_of_another_user(scenario: Scenario) -> None:
    found = scenario("one_job_beside_many")
    assert "ann-5" in behind_bob(found)
    assert (found["violations"], found["failed_open"]) == (0, 0)


@on(
    "spark-sched:local[4]",
    "spark.sched.planner.policy=fifo",
    "spark.testing.schedInvariants=true",
)
def test_under_fifo_it_does(scenario: Scenario) -> None:
    found = scenario("one_job_beside_many")
    assert behind_bob(found) == []
    assert (found["violations"], found["failed_open"]) == (0, 0)
