"""What the planner answers about a job that has not come: chances, the earliest deadline, whom it delays."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

import spark_sched
from spark_sched.config import validate
from spark_sched.errors import BadInputError
from spark_sched.planner import outlook
from spark_sched.planner.admission import Asked, answer
from spark_sched.planner.outlook import Outlook
from spark_sched.policies import PolicySettings, available, create
from spark_sched.policies.three_sigma.policy import ThreeSigmaPolicy
from spark_sched.predict import RuntimeHistory, forecasts
from spark_sched.protocol.events import (
    Event,
    ExecutorAdded,
    JobEnded,
    JobStarted,
    StageEnded,
    StageStarted,
    TaskEnded,
    TaskLaunched,
)
from spark_sched.state import ClusterState

SETTINGS = PolicySettings.from_config(validate({}))


class Planner:
    """State, history and policy of a planner; ``slots`` on one executor."""

    def __init__(self, slots: int, policy: str = "3sigma") -> None:
        self.state, self.history = ClusterState(), RuntimeHistory()
        self.outlook = Outlook(lambda: float(self.now_ms))
        self.policy = create(policy, SETTINGS)
        self.now_ms = 0
        self.memory: Any = None
        self._tasks = 0
        self.tell(ExecutorAdded(0, "e1", "h", slots))

    def tell(self, *events: Event) -> None:
        for event in events:
            ended = self.state.apply(event)
            self.history.observe(event)
            if ended is not None:
                self.history.learn(ended)
                self.outlook.learn(ended)
            self.now_ms = max(self.now_ms, event.time_ms)
            self.state.version += 1
        self.state.now_ms = self.now_ms

    def begin(
        self, job: str, tasks: int, *, name: str, deadline_ms: int | None = None, user: str = "ana"
    ) -> None:
        at = self.now_ms
        self.tell(
            JobStarted(at, job, name, user, 0, None, deadline_ms, None, True, True),
            StageStarted(at, job, f"{job}-p", "p", 0, tasks, None, True, False),
        )

    def launch(self, job: str, tasks: int) -> None:
        for index in range(tasks):
            self._tasks += 1
            self.tell(TaskLaunched(self.now_ms, job, f"{job}-p", self._tasks, index, "e1", False))

    def learned(self, name: str, tasks: int, *runtimes_s: float, user: str = "ana") -> None:
        for number, runtime_s in enumerate(runtimes_s):
            job = f"{name}-{number}"
            self.begin(job, tasks, name=name, user=user)
            self.launch(job, tasks)
            self.end(job, tasks, runtime_s)

    def end(self, job: str, tasks: int, runtime_s: float) -> None:
        """The tasks launched last, this long after."""
        first, end = self._tasks - tasks + 1, self.now_ms + int(runtime_s * 1000)
        for index in range(tasks):
            self.tell(TaskEnded(end, job, f"{job}-p", first + index, index, "e1", 1, "success", False))
        self.tell(StageEnded(end, job, f"{job}-p", True), JobEnded(end, job, "ended"))

    def plan(self, rng: np.random.Generator) -> str:
        snapshot = self.state.snapshot()
        known = forecasts(self.history, snapshot)
        plan, self.memory = self.policy.decide(snapshot, known, self.now_ms, rng, self.memory)
        self.outlook.see(snapshot)
        self.outlook.ends(snapshot, known, plan, self.now_ms)
        return plan.to_text()

    def ask(self, name: str, tasks: int, deadline_s: float | None = None) -> dict[str, object]:
        deadline = None if deadline_s is None else int(deadline_s * 1000)
        snapshot = self.state.snapshot()
        told = forecasts(self.history, snapshot)
        asked = Asked(name, tasks, deadline, "ana", None, 0)
        return answer(
            self.policy, self.history, self.outlook, snapshot, told, self.now_ms, self.memory, asked
        )


def test_a_job_on_an_idle_cluster_starts_now_and_its_chance_is_its_runtimes() -> None:
    planner = Planner(8)
    planner.learned("etl", 4, *range(40, 60))
    sure, even, never = (
        planner.ask("etl", 4, 2_000.0),
        planner.ask("etl", 4, 50.0),
        planner.ask("etl", 4, 1.0),
    )
    assert (sure["start_s"], even["start_s"]) == (0.0, 0.0)
    assert float(str(sure["probability"])) > 0.95
    assert 0.2 < float(str(even["probability"])) < 0.8
    assert never["probability"] == 0.0
    # At once, and after as long as 95 % of its runs take.
    assert sure["earliest_deadline_s"] == pytest.approx(sure["runtime_s"][1], abs=0.01)  # type: ignore[index]
    assert "20 runs" in str(sure["runtime_source"])
    assert sure["delays"] == []


def test_without_history_there_is_a_start_but_no_runtime_and_no_chance() -> None:
    found = Planner(8).ask("etl", 4, 2_000.0)
    assert found["start_s"] == 0.0
    assert found["runtime_source"] == "no history"
    assert found["runtime_s"] is found["probability"] is found["earliest_deadline_s"] is None


@pytest.mark.parametrize("policy", ["3sigma", "fifo"])
def test_a_users_own_runs_answer_however_regular_others_are(policy: str) -> None:
    planner = Planner(16, policy)
    planner.learned("nightly", 16, *[2_918.0] * 20, user="bob")
    planner.learned("report", 4, *[5.0, 20.0, 9.0, 14.0] * 2)
    # As many tasks as bob's: his runs have the least error of all with these tasks.
    found = planner.ask("report", 16)
    assert found["runtime_s"][0] < 30.0  # type: ignore[index]
    assert "with the same user × name" in str(found["runtime_source"])


def test_without_a_history_of_ones_own_the_nearest_one_answers() -> None:
    planner = Planner(16, "fifo")
    planner.learned("nightly", 16, *[2_918.0] * 20, user="bob")
    assert planner.ask("report", 16)["runtime_s"] == pytest.approx([2_918.0, 2_918.0], rel=0.01)


def test_who_asks_comes_after_all_that_are_there() -> None:
    planner = Planner(4, "fifo")
    planner.learned("done", 4, *[5.0] * 5)
    planner.begin("one", 4, name="done")
    planner.begin("two", 4, name="done")
    decide, orders = planner.policy.decide, []

    def recorded(snapshot: Any, *about: Any) -> Any:
        orders.append(sorted(snapshot.jobs, key=lambda job: snapshot.jobs[job].arrival))
        return decide(snapshot, *about)

    planner.policy.decide = recorded  # type: ignore[method-assign]
    planner.ask("done", 4)
    asked = [order for order in orders if len(order) == 3]
    assert asked
    assert all(order[:2] == ["one", "two"] for order in asked)


def test_an_earlier_deadline_is_promised_only_as_far_as_slots_are_free() -> None:
    planner = Planner(4)
    planner.learned("long", 4, *[100.0] * 20)
    planner.learned("etl", 4, *[10.0] * 20)
    idle_s = planner.ask("etl", 4)["earliest_deadline_s"]
    # All slots run an SLO job, which nobody may preempt, for another 100 s.
    planner.begin("busy", 4, name="long", deadline_ms=planner.now_ms + 600_000)
    planner.launch("busy", 4)
    busy = planner.ask("etl", 4, 20.0)
    assert busy["probability"] == 0.0
    assert float(str(busy["earliest_deadline_s"])) > 5 * float(str(idle_s))


def test_whoever_has_to_wait_for_it_is_named() -> None:
    planner = Planner(4)
    planner.learned("etl", 4, *[10.0] * 20)
    planner.learned("report", 4, *[10.0] * 20)
    planner.begin("waits", 4, name="report")
    (delay,) = planner.ask("etl", 4, 12.0)["delays"]  # type: ignore[attr-defined]
    assert (delay["job"], delay["name"]) == ("waits", "report")
    assert delay["how"] in ("later", "no start")


@pytest.mark.parametrize("policy", available())
def test_under_every_policy_there_is_an_answer(policy: str) -> None:
    planner = Planner(8, policy)
    planner.learned("etl", 4, *range(40, 60))
    found = planner.ask("etl", 4, 2_000.0)
    plans_starts = found["start_s"] is not None
    assert plans_starts == isinstance(planner.policy, ThreeSigmaPolicy)
    assert float(str(found["probability"])) > 0.95
    assert planner.ask("etl", 4, 1.0)["probability"] == 0.0
    # Without planned starts it is the end in the queue, by samples of stages and not of runtimes.
    about = 0.001 if plans_starts else 0.15
    assert found["earliest_deadline_s"] == pytest.approx(found["runtime_s"][1], rel=about)  # type: ignore[index]
    assert Planner(8, policy).ask("etl", 4, 2_000.0)["probability"] is None


def test_the_answer_learns_from_jobs_that_waited_longer_than_planned() -> None:
    planner, runtimes_s = Planner(4, "fifo"), [8.0, 9.0, 10.0, 11.0, 12.0]
    planner.learned("etl", 4, *runtimes_s * 10)
    assert float(str(planner.ask("etl", 4, 40.0)["probability"])) > 0.95
    for number in range(80):
        planner.begin(f"late-{number}", 4, name="etl")
        planner.plan(np.random.default_rng(0))
        planner.now_ms += 60_000
        planner.launch(f"late-{number}", 4)
        planner.end(f"late-{number}", 4, runtimes_s[number % 5])
    assert float(str(planner.ask("etl", 4, 40.0)["probability"])) < 0.2
    assert float(str(planner.ask("etl", 4, 140.0)["probability"])) > 0.8


def test_asking_changes_neither_plans_nor_history() -> None:
    planner, twin = Planner(4), Planner(4)
    for each in (planner, twin):
        each.learned("etl", 4, *[10.0, 12.0, 9.0])
        each.begin("a", 2, name="etl", deadline_ms=each.now_ms + 30_000)
        each.begin("b", 3, name="etl")
    plans = []
    for each in (planner, twin):
        rng = np.random.default_rng(1)
        each.plan(rng)
        if each is planner:
            each.ask("etl", 4, 15.0)
        each.launch("a", 2)
        plans.append(each.plan(rng))
    assert plans[0] == plans[1]


def test_what_is_wrong_with_a_question_is_said_in_a_sentence() -> None:
    good = {"name": "a", "tasks": 1, "deadline_ms": None, "user": None, "class": None, "priority": 0}
    assert Asked.from_text(json.dumps(good)).name == "a"
    for wrong, sentence in (
        ({"tasks": 0}, "tasks is 0 but must be a whole number from 1"),
        ({"tasks": 2**31}, "tasks is 2147483648 but must be a whole number from 1 to 2147483647"),
        ({"tasks": float("inf")}, "cannot be read"),
        ({"deadline_ms": -5}, "deadline is -5 ms from now but must lie in the future"),
        ({"tasks": "many"}, "cannot be read"),
    ):
        with pytest.raises(BadInputError, match=sentence):
            Asked.from_text(json.dumps({**good, **wrong}))


@pytest.mark.parametrize(("policy", "plays"), [("fifo", 2), ("3sigma", 0)])
def test_an_answer_plays_the_queue_once_for_each_deadline(
    policy: str, plays: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    planner = Planner(4, policy)
    planner.learned("etl", 4, *[10.0] * 20)
    seen: list[int] = []
    real = Outlook._played
    monkeypatch.setattr(Outlook, "_played", lambda self, *about: seen.append(1) or real(self, *about))
    planner.ask("etl", 4, 20.0)
    assert len(seen) == plays


def test_an_answer_is_about_as_many_jobs_as_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlook, "_MOST_JOBS", 3)
    planner = Planner(4, "fifo")
    planner.learned("etl", 4, *[10.0] * 20)
    for number in range(4):
        found = planner.ask("etl", 4, 200.0)
        assert (found["probability"] is None) is (number == 3)
        assert (found["earliest_deadline_s"] is None) is (number == 3)
        planner.begin(f"j{number}", 4, name="etl")


class Context:
    """As much of a SparkContext as is asked before Spark is."""

    master = "local[2]"

    def setLocalProperty(self) -> None: ...


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"deadline": -5}, "deadline is -5 but must be a time from now above 0"),
        ({"deadline": timedelta(hours=-1)}, "must be a time from now above 0"),
        ({"tasks": 0}, "tasks is 0 but must be a whole number from 1"),
        ({"tasks": 10**17}, f"tasks is {10**17} but must be a whole number from 1 to 2147483647"),
        ({"tasks": 2.5}, "tasks is 2.5 but must be a whole number from 1"),
        ({"name": " "}, "name is ' ' but must be text that is not empty"),
        ({"priority": "high"}, "priority is 'high' but must be a whole number"),
        ({"timeout_s": 0}, "timeout_s is 0 but must be a number of seconds above 0"),
        ({"spark": None}, "spark is None but must be a SparkSession or SparkContext"),
    ],
)
def test_wrong_arguments_are_refused_by_name(given: dict[str, object], sentence: str) -> None:
    arguments = {"spark": Context(), "name": "etl", "tasks": 4, **given}
    with pytest.raises(BadInputError, match=re.escape(sentence)):
        spark_sched.admission(**arguments)  # type: ignore[arg-type]
