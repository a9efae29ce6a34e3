"""The planner's loop against an in-memory driver with a clock that only the test moves."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from spark_sched.config import validate
from spark_sched.errors import BadInputError
from spark_sched.planner.keeper import NoKeeper
from spark_sched.planner.log import make_log
from spark_sched.planner.loop import PlannerLoop
from spark_sched.planner.outlook import Outlook
from spark_sched.planner.recorder import EventRecorder
from spark_sched.policies import Capabilities, ChangesWith, Plan, Policy, PolicySettings, create
from spark_sched.policies.budget import Budget
from spark_sched.predict import Forecast, StageHistory
from spark_sched.state import JobSummary, Snapshot, Summary

PROTOCOL = Path(__file__).parents[4] / "protocol"
PLAN_SCHEMA = Draft202012Validator(json.loads((PROTOCOL / "plan.schema.json").read_text()))


class FakeDriver:
    """Hands out batches; an empty poll lets its whole timeout pass."""

    def __init__(self) -> None:
        self.now_ms = 1_000.0
        self.version = 0
        self.waiting: list[str] = []
        self.plans: list[tuple[float, dict[str, Any]]] = []
        self.answers: list[str] = []
        self.timeouts_ms: list[int] = []
        self.story: list[str] = []
        self.reports: list[tuple[int, int]] = []

    def say(self, *events: dict[str, Any], reset: bool = False, **more: Any) -> None:
        self.version += len(events)
        batch = {
            "schema": 1, "version": self.version, "reset": reset, "dropped": 0, "now_ms": int(self.now_ms),
            "events": list(events), **more,
        }  # fmt: skip
        self.waiting.append(json.dumps(batch))

    def config(self) -> str:
        return "{}"

    def poll(self, max_events: int, timeout_ms: int) -> str:
        self.timeouts_ms.append(timeout_ms)
        if not self.waiting:
            self.now_ms += timeout_ms
            self.say()
        return self.waiting.pop(0)

    def stored_up_to(self, version: int, abandoned: int) -> None:
        self.reports.append((version, abandoned))

    def stored(self) -> None:
        self.story.append("stored")

    def submit_plan(self, text: str) -> str:
        plan = json.loads(text)
        PLAN_SCHEMA.validate(plan)
        self.plans.append((self.now_ms, plan))
        return self.answers.pop(0) if self.answers else "accepted"

    def sleep_ms(self, ms: float) -> None:
        self.now_ms += ms


class ClosingKeeper(NoKeeper):
    """Says when it is closed."""

    def __init__(self, story: list[str]) -> None:
        self._story = story

    def close(self) -> None:
        self._story.append("closed")


class Brittle:
    """A policy that fails when told to."""

    name = "brittle"
    capabilities = Capabilities()

    def __init__(self) -> None:
        self.broken = False
        self._inner = create("reservation", SETTINGS)

    def decide(
        self,
        snapshot: Snapshot,
        forecasts: Mapping[str, Forecast],
        now_ms: int,
        rng: np.random.Generator,
        memory: Any,
    ) -> tuple[Plan, Any]:
        if self.broken:
            raise ZeroDivisionError("no\nluck")
        return self._inner.decide(snapshot, forecasts, now_ms, rng, memory)


SETTINGS = PolicySettings.from_config(validate({}))


@pytest.fixture
def driver() -> FakeDriver:
    return FakeDriver()


@pytest.fixture
def logged() -> io.StringIO:
    return io.StringIO()


def make(driver: FakeDriver, logged: io.StringIO, policy: Policy | None = None, **more: Any) -> PlannerLoop:
    return PlannerLoop(
        driver, policy or create("reservation", SETTINGS), StageHistory(), np.random.default_rng(0),
        interval_ms=200, validity_ms=9_000, clock_ms=lambda: driver.now_ms, sleep_ms=driver.sleep_ms,
        log=make_log(logged), **more,
    )  # fmt: skip


def job(key: str, priority: int = 1, name: str = "nightly") -> dict[str, Any]:
    return {
        "type": "job_started", "time_ms": 1, "job": key, "name": name, "priority": priority, "copies": True,
        "marked": True,
    }  # fmt: skip


def stage(key: str, index: int, tasks: int) -> dict[str, Any]:
    return {
        "type": "stage_started", "time_ms": 1, "job": key, "stage": f"{index}.0", "name": "p", "index": index,
        "tasks": tasks, "last": False, "barrier": False,
    }  # fmt: skip


def cycles(loop: PlannerLoop, n: int) -> None:
    for _ in range(n):
        loop.cycle()


def test_the_first_batch_is_planned_at_once(driver: FakeDriver, logged: io.StringIO) -> None:
    driver.say(job("a"), reset=True)
    make(driver, logged).cycle()
    ((at_ms, plan),) = driver.plans
    assert at_ms == 1_000.0
    assert (plan["plan"], plan["snapshot"], plan["made_at_ms"]) == (1, 1, 1_000)
    assert [entry["job"] for entry in plan["jobs"]] == ["a"]


def test_plans_are_at_least_an_interval_apart_and_a_change_waits_no_longer(
    driver: FakeDriver, logged: io.StringIO
) -> None:
    loop = make(driver, logged)
    for n in range(40):
        driver.say(job(f"j{n}"))
    while driver.waiting:
        loop.cycle()
    gaps_ms = np.diff([at_ms for at_ms, _ in driver.plans])
    assert len(gaps_ms) > 10
    assert (gaps_ms == 200).all()
    loop.cycle()
    assert {entry["job"] for entry in driver.plans[-1][1]["jobs"]} == {f"j{n}" for n in range(40)}


def test_rules_that_stay_the_same_are_sent_again_only_before_they_expire(
    driver: FakeDriver, logged: io.StringIO
) -> None:
    loop = make(driver, logged)
    driver.say(job("a"))
    loop.cycle()
    start_ms = driver.now_ms
    while driver.now_ms < start_ms + 9_500:
        driver.say(
            {
                "type": "executor_added",
                "time_ms": 1,
                "executor": str(len(driver.timeouts_ms)),
                "host": "h",
                "slots": 1,
            }
        )
        loop.cycle()
    times = [at_ms for at_ms, _ in driver.plans]
    assert len(times) == 4
    assert np.diff(times).max() < 4_000
    assert loop.counters.plans_unchanged > 10
    assert [plan["plan"] for _, plan in driver.plans] == [1, 2, 3, 4]


def test_an_idle_driver_hears_from_the_planner_often_enough(driver: FakeDriver, logged: io.StringIO) -> None:
    loop = make(driver, logged)
    cycles(loop, 20)
    assert max(driver.timeouts_ms) <= 1_000
    assert np.diff([at_ms for at_ms, _ in driver.plans]).max() <= 4_000


def test_what_ran_before_a_reset_is_not_counted_as_attained(driver: FakeDriver, logged: io.StringIO) -> None:
    loop = make(driver, logged)
    driver.say(job("old"), reset=True)
    driver.say(job("new"))
    ends = [{"type": "job_ended", "time_ms": 9, "job": key, "outcome": "ended"} for key in ("old", "new")]
    driver.say(*ends)
    cycles(loop, 3)
    ended = loop.state.snapshot().ended
    assert (ended["old"].attained_ms, ended["new"].attained_ms) == (None, 0.0)


def test_a_reset_forgets_the_cluster_but_not_the_history(driver: FakeDriver, logged: io.StringIO) -> None:
    loop = make(driver, logged)
    ended = {"type": "stage_ended", "time_ms": 2, "job": "a", "stage": "0.0", "completed": True}
    driver.say(
        job("a"), stage("a", 0, 7), ended, {"type": "job_ended", "time_ms": 3, "job": "a", "outcome": "ended"}
    )
    driver.say(job("lost"))
    driver.say(job("b"), reset=True)
    cycles(loop, 5)
    (entry,) = driver.plans[-1][1]["jobs"]
    assert entry["job"] == "b"
    assert entry["reservation"]["stage_tasks"] == [7]
    assert loop.counters.resets == 1


def test_a_refused_plan_is_counted_by_its_reason_and_tried_again(
    driver: FakeDriver, logged: io.StringIO
) -> None:
    loop = make(driver, logged)
    driver.answers = ["rejected: expired: the plan was valid until 5"] * 3
    driver.say(job("a"))
    cycles(loop, 10)
    assert loop.counters.plans_rejected == {"expired": 3}
    assert loop.counters.plans_accepted >= 1
    assert [plan["plan"] for _, plan in driver.plans][:4] == [1, 2, 3, 4]
    lines = logged.getvalue().splitlines()
    assert len(lines) == 2  # the first and the second, not each
    assert "expired" in lines[0]


def test_a_failing_policy_costs_plans_but_not_the_planner(driver: FakeDriver, logged: io.StringIO) -> None:
    policy = Brittle()
    loop = make(driver, logged, policy)
    policy.broken = True
    driver.say(job("a"))
    cycles(loop, 3)
    assert loop.counters.plans_failed >= 1
    assert driver.plans == []
    (line, *_) = logged.getvalue().splitlines()
    assert "brittle failed" in line
    assert "ZeroDivisionError: no | luck" in line
    policy.broken = False
    driver.say(job("b"))
    cycles(loop, 3)
    assert [entry["job"] for entry in driver.plans[-1][1]["jobs"]] == ["a", "b"]


class Blind(Outlook):
    """Fails to look ahead."""

    def see(self, snapshot: Snapshot) -> None:
        raise OverflowError("too far")

    def ends(self, *_: Any) -> Any:
        raise OverflowError("too far")


def test_ends_that_cannot_be_forecast_cost_no_plan(driver: FakeDriver, logged: io.StringIO) -> None:
    loop = make(driver, logged, outlook=Blind(lambda: driver.now_ms))
    driver.say(job("a"))
    cycles(loop, 3)
    assert loop.counters.plans_failed == 0
    assert [entry["job"] for entry in driver.plans[-1][1]["jobs"]] == ["a"]
    assert "no ends could be forecast" in logged.getvalue()


def test_unknown_events_are_counted_and_do_not_stop_the_rest(driver: FakeDriver, logged: io.StringIO) -> None:
    loop = make(driver, logged)
    driver.say({"type": "moon_rose"}, job("a"), {"type": "moon_rose"})
    loop.cycle()
    assert loop.counters.skipped == {"moon_rose": 2}
    assert len(driver.plans[0][1]["jobs"]) == 1


@pytest.mark.parametrize("text", ["{", '{"schema": 2}', "null"])
def test_a_bad_batch_ends_the_loop_so_that_the_next_planner_starts_from_the_whole_state(
    driver: FakeDriver, logged: io.StringIO, text: str
) -> None:
    driver.waiting.append(text)
    with pytest.raises(BadInputError, match="event batch"):
        make(driver, logged).cycle()


def test_the_same_events_give_the_same_plans(driver: FakeDriver, logged: io.StringIO) -> None:
    def plans() -> list[tuple[float, dict[str, Any]]]:
        driver = FakeDriver()
        for path in ("event-batch.reset.json", "event-batch.more.json"):
            driver.waiting.append((PROTOCOL / "examples" / path).read_text())
        cycles(make(driver, logged), 8)
        return driver.plans

    assert plans() == plans()


def test_a_new_recording_is_its_owners_alone(tmp_path: Path, logged: io.StringIO) -> None:
    before = os.umask(0)
    try:
        EventRecorder(str(tmp_path / "events.jsonl"), make_log(logged))
    finally:
        os.umask(before)
    assert (tmp_path / "events.jsonl").stat().st_mode & 0o777 == 0o600


def test_every_event_is_recorded_unknown_ones_too(
    driver: FakeDriver, logged: io.StringIO, tmp_path: Path
) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text("earlier\n")
    loop = make(driver, logged, recorder=EventRecorder(str(path), make_log(logged)))
    driver.say(job("a"), {"type": "moon_rose"}, reset=True)
    driver.say(job("b"))
    cycles(loop, 4)
    first, *lines = path.read_text().splitlines()
    assert first == "earlier"
    told = [json.loads(line) for line in lines]
    assert told[0] == {"type": "reset", "time_ms": 1_000, "version": 2, "dropped": 0}
    assert [event.get("job", event["type"]) for event in told[1:]] == ["a", "moon_rose", "b"]


def test_a_recording_that_cannot_be_written_costs_one_warning(
    driver: FakeDriver, logged: io.StringIO, tmp_path: Path
) -> None:
    loop = make(
        driver, logged, recorder=EventRecorder(str(tmp_path / "none" / "events.jsonl"), make_log(logged))
    )
    driver.say(job("a"))
    cycles(loop, 5)
    (line,) = logged.getvalue().splitlines()
    assert "spark.sched.events.path" in line
    assert driver.plans


class Timed:
    """A policy that wants to plan again at times of the driver's clock."""

    name = "timed"
    capabilities = Capabilities()

    def __init__(self, wait_ms: int | None) -> None:
        self.wait_ms = wait_ms
        self.new_jobs_wait = False

    def decide(
        self,
        snapshot: Snapshot,
        forecasts: Mapping[str, Forecast],
        now_ms: int,
        rng: np.random.Generator,
        memory: Any,
    ) -> tuple[Plan, Any]:
        self.new_jobs_wait = not self.new_jobs_wait  # each plan is news
        again_ms = None if self.wait_ms is None else now_ms + self.wait_ms
        plan = Plan(
            snapshot=snapshot.version, made_at_ms=now_ms, valid_for_ms=9_000, policy="timed", ordered=True,
            jobs=(), new_jobs_wait=self.new_jobs_wait, again_ms=again_ms,
        )  # fmt: skip
        return plan, None


def test_a_plan_is_made_anew_when_the_one_before_wanted_that(driver: FakeDriver, logged: io.StringIO) -> None:
    loop = make(driver, logged, Timed(1_500))
    driver.say(job("a"), reset=True)
    loop.cycle()
    while len(driver.plans) < 2:
        loop.cycle()
    # Nothing happened in between, and the rules in force would have been sent again only after 3 s.
    assert driver.plans[1][0] - driver.plans[0][0] == 1_500
    assert driver.plans[0][1] != driver.plans[1][1]


def test_a_plan_that_wants_the_next_one_at_once_waits_for_the_interval(
    driver: FakeDriver, logged: io.StringIO
) -> None:
    loop = make(driver, logged, Timed(-500))
    driver.say(job("a"), reset=True)
    while driver.now_ms < 3_000:
        loop.cycle()
    gaps_ms = np.diff([at_ms for at_ms, _ in driver.plans])
    assert len(gaps_ms) > 3
    assert (gaps_ms >= 200).all()


@pytest.mark.parametrize(
    ("changes_with", "asked"), [(ChangesWith.STAGES, 1), (ChangesWith.GATES, 2), (ChangesWith.TASKS, 2)]
)
def test_what_single_tasks_do_makes_a_plan_only_where_plans_depend_on_it(
    driver: FakeDriver, logged: io.StringIO, changes_with: ChangesWith, asked: int
) -> None:
    class Counting(Brittle):
        times = 0

        def decide(self, *about: Any) -> tuple[Plan, Any]:
            self.times += 1
            return super().decide(*about)

    policy = Counting()
    policy.capabilities = Capabilities(changes_with)
    loop = make(driver, logged, policy)
    driver.say(job("a"), stage("a", 0, 9), reset=True)
    loop.cycle()
    driver.say(
        {
            "type": "task_launched", "time_ms": 1_100, "job": "a", "stage": "0.0", "task": 1, "index": 0,
            "executor": "e", "copy": False,
        }
    )  # fmt: skip
    cycles(loop, 2)
    assert policy.times == asked


def test_the_last_batch_is_learned_and_closed_before_the_driver_hears_that_it_may_end(
    driver: FakeDriver, logged: io.StringIO
) -> None:
    class Learning(StageHistory):
        def learn(self, summary: Summary) -> None:
            if isinstance(summary, JobSummary):
                driver.story.append(f"learned {summary.job}")

    loop = PlannerLoop(
        driver, create("reservation", SETTINGS), Learning(), np.random.default_rng(0), interval_ms=200,
        validity_ms=9_000, clock_ms=lambda: driver.now_ms, sleep_ms=driver.sleep_ms, log=make_log(logged),
        keeper=ClosingKeeper(driver.story),
    )  # fmt: skip
    driver.say(job("a"), reset=True)
    driver.say({"type": "job_ended", "time_ms": 2, "job": "a", "outcome": "ended"}, stopping=True)
    loop.run()
    assert driver.story == ["learned a", "closed", "stored"]
    assert len(driver.plans) == 1  # none was made for nobody


def test_a_policy_gets_back_what_it_remembered_of_the_last_plan_that_was_made(
    driver: FakeDriver, logged: io.StringIO
) -> None:
    given: list[Any] = []

    class Remembering(Brittle):
        def decide(self, *about: Any) -> tuple[Plan, Any]:
            given.append(about[-1])
            plan, _ = super().decide(*about)
            return plan, len(given)

    policy = Remembering()
    loop = make(driver, logged, policy)
    for number in range(3):
        policy.broken = number == 1
        driver.say(job(f"j{number}"), reset=number == 0)
        cycles(loop, 2)
    assert given == [None, 1, 1]


class Slow(Brittle):
    """Each decision takes this long by the driver's clock."""

    def __init__(self, driver: FakeDriver, ms: float) -> None:
        super().__init__()
        self._driver, self._ms = driver, ms

    def decide(self, *about: Any) -> tuple[Plan, Any]:
        self._driver.now_ms += self._ms
        return super().decide(*about)


@pytest.mark.parametrize(("takes_ms", "slow"), [(2_900.0, 0), (3_100.0, 1)])
def test_a_policy_that_may_be_taken_for_hung_is_counted_and_named(
    driver: FakeDriver, logged: io.StringIO, takes_ms: float, slow: int
) -> None:
    budget = Budget.before_stall(10_000.0, lambda: driver.now_ms)
    loop = make(driver, logged, Slow(driver, takes_ms), budget=budget)
    driver.say(job("a"), reset=True)
    cycles(loop, 1)
    assert loop.counters.plans_slow == slow
    assert ("took 3.1 s to plan 1 jobs" in logged.getvalue()) == bool(slow)
    assert ("spark.sched.planner.stallTimeout" in logged.getvalue()) == bool(slow)


def test_forecasts_follow_jobs_that_come_begin_and_end_though_the_rules_stay(
    driver: FakeDriver, logged: io.StringIO
) -> None:
    """Once a second at most; the same rules alone are sent again after three."""
    loop = make(driver, logged)
    executors = [
        {"type": "executor_added", "time_ms": 1, "executor": key, "host": "h", "slots": 1} for key in "ef"
    ]
    launched = {"type": "task_launched", "time_ms": 1, "job": "a", "stage": "0.0", "task": 1, "index": 0,
                "executor": "e", "copy": False}  # fmt: skip
    driver.say(executors[0], job("a"), job("b"), stage("a", 0, 2), reset=True)
    loop.cycle()
    # A task and another executor change no rule of this policy, but the job has begun.
    driver.say(launched, executors[1])
    while driver.now_ms < 3_900.0:
        loop.cycle()
    assert [at_ms for at_ms, _ in driver.plans] == [1_000.0, 2_000.0]


def test_forecasts_that_fail_are_tried_no_more_often(
    driver: FakeDriver, logged: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[float] = []

    def fail(*_: Any) -> None:
        tried.append(driver.now_ms)
        raise ZeroDivisionError

    monkeypatch.setattr(Outlook, "_forecasts", fail)
    loop = make(driver, logged)
    driver.say(job("a"), reset=True)
    while driver.now_ms < 9_000.0:
        loop.cycle()
    assert 5 < len(tried) < 10
    assert np.diff(tried).min() >= 1_000.0
