"""Tenants' queues in a live application: ceilings kept to the slot, admission, refusals."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from spark_sched.config.queues import Amount, PlacementRule, QueueSpec, QueueTree
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
FULL = QueueTree((QueueSpec("q", max_running_jobs=1, max_waiting_jobs=0),), (), "q")


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
    assert (found["violations"], found["failed_open"]) == (0, 0)
    # 3. People read why a job waits.
    assert "more: queue etl is at its ceiling of 1 slot" in found["load"]
    assert [each[:3] for each in found["second"]] == [
        ["bi", "waiting", "waits to be admitted: queue bi runs 1 job, its most; number 1 of those that wait"]
    ]
    assert "queue bi runs 1 job" not in found["second"][0][3], "the plan's reason is the plan's"


@on("spark-sched:local[4]", f"spark.sched.queues={FULL.to_json()}", "spark.sched.planner.enabled=false")
def test_a_job_for_which_there_is_no_place_is_cancelled_and_says_why(scenario: Scenario) -> None:
    found = scenario("refused_job")
    assert "job second: queue q runs 1 job, its most, and as many jobs wait as may" in found["said"]
    assert found["refused"] == [1]
