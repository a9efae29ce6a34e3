"""The planner judges the name of a policy that somebody wants to switch to."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import pytest

from spark_sched.planner import process as planner
from spark_sched.planner.log import make_log
from spark_sched.predict import ForecastCache


class Asking:
    """A driver of whom somebody asks for policies by these names, all at once."""

    def __init__(self, *names: str) -> None:
        self._questions = [
            {"id": i, "text": json.dumps({"ask": "policy", "name": name})} for i, name in enumerate(names)
        ]
        self.answers: list[Any] = []
        self.plans: list[Any] = []

    def config(self) -> str:
        return json.dumps({"spark.sched.planner.policy": "priority"})

    def policies_known(self, names: Sequence[str]) -> None: ...

    def settings_taken(self) -> None: ...

    def alive(self) -> None: ...

    def stored(self) -> None: ...

    def poll(self, max_events: int, timeout_ms: int) -> str:
        marks = {"user": None, "isolation": None, "deadline_ms": None, "class": None}
        job = {"name": "n", "copies": True, "marked": True, **marks}
        changed = {"isolation": None, "deadline_ms": None, "by": "ada"}
        events = [
            {"type": "job_started", "time_ms": 1, "job": "a", "priority": 1, **job},
            {"type": "job_started", "time_ms": 1, "job": "b", "priority": 1, **job},
            {"type": "job_changed", "time_ms": 2, "job": "a", "priority": 9, "on_hold": False, **changed},
            {"type": "job_changed", "time_ms": 2, "job": "b", "priority": 9, "on_hold": True, **changed},
        ]
        batch = {"schema": 1, "version": 4, "reset": True, "dropped": 0, "now_ms": 3, "events": events}
        return json.dumps({**batch, "asked": True})

    def submit_plan(self, text: str) -> str:
        self.plans.append(json.loads(text))
        return "accepted"

    def questions(self) -> str:
        return json.dumps(self._questions)

    def stored_up_to(self, version: int, abandoned: int) -> None:
        pass

    def answer(self, number: int, text: str) -> None:
        self.answers.append(json.loads(text))


def test_a_known_policy_is_taken_and_an_unknown_one_refused_with_the_names_that_there_are():
    driver = Asking("las", "fare")
    planner.make_loop(driver, make_log(io.StringIO())).cycle()
    known, unknown = driver.answers
    assert known == {"policy": "las"}
    assert "the policy 'fare' is unknown" in unknown["error"]
    assert "las" in unknown["error"]


def test_plans_know_changed_jobs_and_leave_out_those_on_hold():
    driver = Asking()
    planner.make_loop(driver, make_log(io.StringIO())).cycle()
    ((job,),) = (plan["jobs"] for plan in driver.plans)
    assert (job["job"], job["priority"]) == ("a", 9)


def test_a_forecast_that_fails_is_an_answer_and_no_end_of_the_planner(monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object) -> None:
        raise ZeroDivisionError("no forecast")

    monkeypatch.setattr(ForecastCache, "of", fail)
    driver = Asking("las")
    assert planner.make_loop(driver, make_log(io.StringIO())).cycle()
    assert driver.answers == [{"error": "no forecast"}]
