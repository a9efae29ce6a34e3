"""What the chaos test draws, and what it finds in status documents, in the history and in the log."""

from __future__ import annotations

import copy
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.integration.chaos.faults import DEAL, SHORT_DEAL, drawn
from tests.integration.chaos.learned import missing
from tests.integration.chaos.tenants import JobRecord
from tests.integration.chaos.watch import REST_LOOKS, Looks, stalls_counted_twice

EXAMPLE = Path(__file__).parents[2] / "protocol" / "examples" / "status.json"


@pytest.fixture
def document() -> Any:
    """A valid one, of one moment."""
    return json.loads(EXAMPLE.read_text())


@pytest.fixture
def looks() -> Looks:
    return Looks(set(), set(), gap_s=5.0)


def test_a_good_document_has_nothing_wrong(document: Any, looks: Looks) -> None:
    looks.look(document, 0.0)
    assert looks.broken == []
    assert looks.idle == []


def test_a_document_against_its_schema_is_found(document: Any, looks: Looks) -> None:
    document["mode"] = "halt"
    looks.look(document, 0.0)
    assert "look 1: the status is not valid at $.mode" in looks.broken[0]


def test_slots_that_contradict_each_other_are_found(document: Any, looks: Looks) -> None:
    executor = document["executors"][0]
    executor["slots"] = executor["running"] + sum(each["slots"] for each in executor["held"]) - 1
    document["jobs"][0]["slots"]["held"] += 1
    looks.look(document, 0.0)
    assert [f"executor {executor['executor']} has" in looks.broken[0], len(looks.broken)] == [True, 2]


def test_counters_may_not_fall_and_what_is_held_now_may(document: Any, looks: Looks) -> None:
    document["counters"] |= {"holds_total": 9, "slots_held_now": 2, "would_have_slots_held_now": 1}
    looks.look(document, 0.0)
    later = copy.deepcopy(document)
    later["counters"] |= {"holds_total": 8, "slots_held_now": 0, "would_have_slots_held_now": 0}
    looks.look(later, 1.0)
    assert looks.broken == ["holds_total was 9 and is 8"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda document, _: document.update(reservations_paused=True), "although reservations are paused"),
        (lambda _, job: job.update(state="on_hold"), "in state on_hold"),
        (lambda _, job: job.update(isolation=0), "at isolation 0"),
    ],
)
def test_who_may_not_hold_is_found_at_the_second_look(
    document: Any, looks: Looks, change: Any, said: str
) -> None:
    change(document, next(job for job in document["jobs"] if job["slots"]["held"]))
    looks.look(document, 0.0)
    assert looks.broken == []
    looks.look(document, 1.0)
    assert len(looks.broken) == 1
    assert said in looks.broken[0]


def test_holds_between_two_actions_end_with_the_gap(document: Any, looks: Looks) -> None:
    next(job for job in document["jobs"] if job["slots"]["held"])["state"] = "idle"
    for now_s in range(11):
        looks.look(document, float(now_s))
    assert looks.broken == []
    looks.look(document, 11.0)
    looks.look(document, 12.0)
    assert "idle for longer than the gap of 5 s" in looks.broken[0]


def resting(document: Any, **slots: int) -> Any:
    """Two slots more than are used, and one job that waits and may use them."""
    document["executors"][0]["slots"] += 2
    for job in document["jobs"]:
        job["slots"] |= {"waiting": 0, "deferred": 0}
    document["jobs"][0]["slots"] |= {"waiting": 3, **slots}
    return document


def test_slots_that_idle_beside_a_job_that_waits_are_found_after_a_while(document: Any, looks: Looks) -> None:
    for _ in range(REST_LOOKS - 1):
        looks.look(resting(copy.deepcopy(document)), 0.0)
    assert looks.idle == []
    looks.look(resting(document), 0.0)
    assert len(looks.idle) == 1


def test_a_job_that_moves_or_that_the_plan_or_an_operator_keeps_back_may_wait(
    document: Any, looks: Looks
) -> None:
    free = sum(
        each["slots"] - each["running"] - sum(held["slots"] for held in each["held"])
        for each in resting(copy.deepcopy(document))["executors"]
    )
    gang = document["jobs"][0]["job"]
    for kept in (
        lambda each: resting(each, deferred=3),
        lambda each: resting(each)["jobs"][0].update(state="on_hold"),
        lambda each: resting(each).update(mode="off"),
        lambda each: resting(each)["executors"].clear(),
    ):
        for _ in range(2 * REST_LOOKS):
            each = copy.deepcopy(document)
            kept(each)
            looks.look(each, 0.0)
    for done in range(2 * REST_LOOKS):
        each = resting(copy.deepcopy(document))
        each["jobs"][0]["tasks_done"] = done
        looks.look(each, 0.0)
    assert looks.idle == []
    # A barrier stage that needs more slots than there are.
    gangs = Looks({gang}, set(), gap_s=5.0)
    for _ in range(2 * REST_LOOKS):
        gangs.look(resting(copy.deepcopy(document), waiting=free + 1), 0.0)
    assert gangs.idle == []


def test_each_planner_stalls_once() -> None:
    line = "WARN PlannerProcess: The planner (pid {}) has been silent for too long and is replaced\n"
    assert stalls_counted_twice(line.format(7) + line.format(8), 2) == []
    assert stalls_counted_twice("another line", 0) == []
    twice = stalls_counted_twice(line.format(7) + line.format(7), 2)
    assert twice == ["planner 7 was said to stall 2 times", "1 planners stalled and 2 stalls were counted"]


def test_each_end_is_learned_once() -> None:
    def ended(user: str, name: str, least: int, most: int) -> JobRecord:
        return JobRecord("etl", user, name, "", "right", (least, most))

    records = [ended("user-1", "etl", 1, 1), ended("user-1", "etl", 0, 1), ended("", "group", 1, 1)]
    unnamed = ended("", "", 1, 1)
    good = Counter({("user-1", "etl"): 2, ("root", "group"): 1, ("", ""): 1})
    assert missing([*records, unnamed], "root", good) == ([], [])
    lost, extra = missing(records, "root", Counter({("user-1", "etl"): 3}))
    assert lost == ["root group: 0 of 1 jobs were learned"]
    assert extra == ["user-1 etl: 3 jobs were learned and only 2 ended"]


def test_faults_are_drawn_from_the_seed_and_each_kind_comes() -> None:
    eight_minutes = drawn(7, 480.0, short=False)
    assert eight_minutes == drawn(7, 480.0, short=False)
    assert eight_minutes != drawn(8, 480.0, short=False)
    assert [len(eight_minutes), {each.kind for each in eight_minutes}] == [88, {*DEAL}]
    times = [each.at_s for each in eight_minutes]
    assert times == sorted(times)
    assert times[-1] < 480.0
    assert Counter(each.kind for each in drawn(7, 15.0, short=True)) == Counter(SHORT_DEAL)
