"""A live application is changed by its operators, and says in one sentence what cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.harness import Driver
from tests.integration.test_status import SETTINGS, job

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def steered(driver: Driver) -> dict[str, Any]:
    return driver.run("steered", "spark-sched:local[4]", *SETTINGS)


def test_marks_of_a_running_job_are_changed(steered):
    exit_status, said = steered["set"]
    assert exit_status == 0
    assert said.startswith("job batch: priority 1 -> 7, deadline none -> ")
    batch = job(steered["after_set"], "batch")
    assert (batch["priority"], batch["isolation"]) == (7, 0.5)
    assert 3_500_000 < batch["deadline_ms"] - steered["after_set"]["now_ms"] <= 3_600_000
    assert steered["set_again"] == "job batch has these marks already: nothing was changed"


def test_a_job_on_hold_starts_nothing_and_is_so_under_the_next_planner(steered):
    assert steered["hold"] == "job batch: on hold: it starts no further task"
    held = job(steered["held"], "batch")
    assert (held["state"], held["slots"]["running"], held["slots"]["held"]) == ("on_hold", 0, 0)
    assert held["slots"]["waiting"] > 0
    assert held["reason"].startswith("an operator put it on hold")
    assert list(steered["policy"]) == [0, "the policy is fair\n"]
    still = job(steered["still"], "batch")
    assert (still["state"], still["priority"], still["tasks_done"]) == ("on_hold", 7, held["tasks_done"])
    assert steered["still"]["policy"] == "fair"
    assert steered["resume"][0] == 200
    assert any(text.startswith("resumed, by somebody at ") for text in steered["story"])
    assert steered["back"][0] == 0


def test_a_cancelled_job_ends_with_an_exception(steered):
    assert steered["cancel"][0] == 0
    assert len(steered["raised"]) == 2
    assert all("cancelled by" in text for text in steered["raised"])


def test_the_buttons_of_the_tab_change_what_they_say(steered):
    seen = steered["browser"]
    if seen is None:
        pytest.skip("there is no chromium here (apt-get install chromium)")
    assert seen["columns"][-1] == "Change"
    # Without queues there is neither their column nor their table.
    assert "Queue" not in seen["columns"]
    assert "Queues (" not in seen["text"]
    assert seen["hold"] == "job batch: on hold: it starts no further task"
    assert seen["resume"] == "job batch: resumed"
    assert seen["pause"] == "reservations are paused: no job holds slots"
    assert seen["unpause"] == "reservations are in force again"
    assert (seen["shadow"], seen["on"], seen["mode"]) == ("the mode is shadow", "the mode is on", "on")
    assert "the policy 'fare' is unknown" in seen["policy"]
    assert {"3sigma", "fair", "las", "reservation"} <= set(seen["policies"])
    assert "gs-oracle" not in seen["policies"]
    assert seen["questions"] == {
        "hold": None,
        "resume": None,
        "pause": "Release all held slots, and let no job hold any?",
        "unpause": "Let jobs hold slots again?",
        "shadow": "Switch the mode to shadow? Plans and reservations are on paper only, and Spark decides "
        "every placement.",
        "on": "Switch the mode to on? Plans and reservations take effect.",
        "policy": "Switch the policy to fare? Another planner takes over.",
    }
    assert seen["set"] == "job batch: priority 7 -> 9, isolation 0.5 -> default"
    assert seen["asked_to_end"] == "End batch? It holds no slots from then on."
    assert seen["drawn"]
    assert seen["asked"] == "Cancel the running Spark jobs of batch?"
    assert seen["not_cancelled"]
    assert seen["cancel"] == "job batch: cancelled with its 1 Spark jobs"
    assert "must be a JSON object" in seen["refused"]


def test_while_reservations_are_paused_nothing_is_held(steered):
    assert steered["pause"][0] == 0
    assert steered["paused"]["reservations_paused"] is True
    assert steered["paused"]["application"]["held_slots"] == 0
    assert steered["unpause"] == "reservations are in force again"


def test_a_job_that_nobody_ends_is_ended(steered):
    assert list(steered["end"]) == [0, "job session: it ends with its last stage\n"]
    assert steered["ended"] == "ended"


def test_what_cannot_be_changed_is_refused_in_a_sentence(steered):
    assert steered["without_header"][0] == 403
    assert "X-Spark-Sched" in steered["without_header"][1]["error"]
    assert steered["form"][0] == 400
    assert "send the arguments as application/json" in steered["form"][1]["error"]
    assert steered["no_object"][0] == 400
    assert "action is 'delete' but must be one of" in steered["no_action"][1]["error"]
    assert steered["unknown_job"][0] == 404
    assert steered["unknown_job"][1]["error"].endswith("no such job is known: now there are batch")
    for name, sentence in (
        ("unknown_policy", "the policy 'fare' is unknown"),
        ("bad_deadline", "deadline is 'soon' but must be a time from now"),
        ("past_deadline", "which is past: it must be a moment in the future"),
        ("bad_priority", "priority is 'high' but must be a whole number"),
        ("nothing", "no change was given"),
        ("ambiguous", "2 jobs have this name: give one of the keys mark-"),
    ):
        exit_status, said = steered[name]
        assert exit_status == 2, name
        assert sentence in said
    assert "isolation is '2.0' but must be a number from 0 to 1" in steered["bad_isolation"]
    assert "no such job is known" in steered["python_unknown"]
