"""Jobs that a planner is told again: learned whole, learned once, and reported when they are stored."""

from __future__ import annotations

import io
import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spark_sched.planner import process
from spark_sched.planner.keeper import LearnedEnds
from spark_sched.planner.log import make_log
from spark_sched.planner.loop import PlannerLoop
from spark_sched.protocol.events import decode_event

Events = list[dict[str, Any]]


class Story:
    """A driver that plays batches, with the settings given."""

    def __init__(self, **settings: str) -> None:
        self.settings = settings
        self.version = 0
        self.batches: list[str] = []
        self.reports: list[tuple[int, int]] = []

    def say(self, events: Events, *, reset: bool = False, version: int | None = None) -> None:
        self.version = self.version + len(events) if version is None else version
        head = {"schema": 1, "version": self.version, "reset": reset, "dropped": 0, "now_ms": 1_000_000}
        self.batches.append(json.dumps({**head, "events": events}))

    def config(self) -> str:
        return json.dumps({f"spark.sched.{key}": value for key, value in self.settings.items()})

    def poll(self, max_events: int, timeout_ms: int) -> str:
        if not self.batches:
            self.say([])
        return self.batches.pop(0)

    def submit_plan(self, text: str) -> str:
        return "accepted"

    def stored_up_to(self, version: int, abandoned: int) -> None:
        self.reports.append((version, abandoned))

    def stored(self) -> None: ...
    def policies_known(self, names: Sequence[str]) -> None: ...

    def settings_taken(self) -> None: ...
    def alive(self) -> None: ...
    def questions(self) -> str:
        return "[]"

    def answer(self, question: int, text: str) -> None: ...


def planner(driver: Story) -> PlannerLoop:
    return process.make_loop(driver, make_log(io.StringIO()), "session-1")


def started(job: str, **more: Any) -> dict[str, Any]:
    marks = {"user": "ana", "priority": 0, "isolation": None, "deadline_ms": None, "class": None}
    name = job.rpartition("-")[0]
    return {
        "type": "job_started", "time_ms": 1_000, "job": job, "name": name, "copies": True, "marked": True,
        **marks, **more,
    }  # fmt: skip


def stage(job: str, index: int, tasks: int, start_ms: int, *, past: bool = True) -> Events:
    """A stage that starts, runs its tasks for 500 ms each, and ends."""
    where = {"job": job, "stage": f"{index}.0"}
    told = {"past": True} if past else {}
    return [
        {
            "type": "stage_started", "time_ms": start_ms, **where, "name": f"s{index}", "index": index,
            "tasks": tasks, "next_tasks": None, "last": False, "barrier": False, **told,
        },
        {
            "type": "short_tasks", "time_ms": start_ms + 500, **where, "executor": "e",
            "tasks": [*range(tasks)], "indices": [*range(tasks)], "durations_ms": [500] * tasks, **told,
        },
        {"type": "stage_ended", "time_ms": start_ms + 501, **where, "completed": True, **told},
    ]  # fmt: skip


def ended(job: str, number: int | None, time_ms: int, **more: Any) -> dict[str, Any]:
    return {
        "type": "job_ended", "time_ms": time_ms, "job": job, "outcome": "ended", "number": number, **more,
    }  # fmt: skip


def whole(job: str, number: int) -> Events:
    """A job of two stages that is over, as a new planner is told."""
    return [
        started(job, begun_ms=2_000, last_end_ms=4_500, past=True),
        *stage(job, 0, 4, 2_000),
        *stage(job, 1, 2, 4_000),
        ended(job, number, 5_000, past=True),
    ]


def rows(path: Path) -> tuple[list[tuple[str, list[int]]], list[float]]:
    """Name and widths of each run, and the runtimes."""
    with sqlite3.connect(path) as db:
        runs = [
            (name, [each[1] for each in json.loads(stages)])
            for name, stages in db.execute("SELECT name, phases FROM runs ORDER BY id")
        ]
        return runs, [value for (value,) in db.execute("SELECT runtime_s FROM sigma_jobs ORDER BY id")]


def test_a_job_that_was_over_before_the_planner_came_is_learned_whole_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    driver = Story(**{"history.path": str(path)})
    loop = planner(driver)
    driver.say(whole("etl-1", 15), reset=True, version=20)
    loop.cycle()
    assert rows(path) == ([("etl", [4, 2])], [2.5])
    assert driver.reports == [(20, 0)]


def test_a_job_that_goes_on_is_learned_with_the_stages_before_the_planner(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    driver = Story(**{"history.path": str(path)})
    loop = planner(driver)
    # Its second stage is over for all that runs; the driver has yet to say so.
    active = stage("etl-1", 1, 2, 4_000, past=False)[:2]
    driver.say(
        [started("etl-1", begun_ms=2_000, last_end_ms=4_500), *stage("etl-1", 0, 4, 2_000), *active],
        reset=True,
    )
    driver.say([stage("etl-1", 1, 2, 4_000)[2], ended("etl-1", 12, 5_000)])
    loop.cycle()
    loop.cycle()
    assert rows(path) == ([("etl", [4, 2])], [2.5])


def test_an_end_that_a_planner_stored_and_could_not_report_is_not_learned_again(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    for round_ in range(3):
        driver = Story(**{"history.path": str(path), "planner.policy": "slearn-bayes"})
        loop = planner(driver)
        driver.say([*whole("etl-1", 15), *whole("etl-2", 30)], reset=True)
        loop.cycle()
        assert rows(path) == ([("etl", [4, 2])] * 2, [2.5] * 2), round_
        with sqlite3.connect(path) as db:
            assert db.execute("SELECT count(*) FROM task_jobs").fetchone() == (4,)
        # Nor is it in memory twice.
        forecast = loop._forecasts.predictor.forecast  # type: ignore[attr-defined]
        driver.say([started("etl-3")])
        loop.cycle()
        assert forecast(loop.state.snapshot().jobs["etl-3"]).runs == 2


def test_a_planner_that_lives_learns_an_end_once_though_its_queue_overflowed(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    driver = Story(**{"history.path": str(path)})
    loop = planner(driver)
    driver.say([], reset=True)
    driver.say(whole("etl-1", 9))
    # Two ended after that, one of them under the same key.
    driver.say([*whole("etl-1", 9), *whole("etl-1", 18), *whole("etl-2", 27)], reset=True)
    for _ in range(3):
        loop.cycle()
    assert rows(path)[0] == [("etl", [4, 2])] * 3


def test_nothing_is_reported_while_something_waits(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    driver = Story(**{"history.path": str(path)})
    loop = planner(driver)
    driver.say([], reset=True)
    loop.cycle()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    before = list(driver.reports)
    driver.say(whole("etl-1", 9))
    for _ in range(3):
        loop.cycle()
    assert driver.reports == before
    other.execute("ROLLBACK")
    while driver.reports == before:
        loop.cycle()
    assert driver.reports[-1] == (driver.version, 0)
    assert rows(path)[1] == [2.5]


def test_without_a_history_an_end_is_reported_when_it_is_learned() -> None:
    driver = Story()
    loop = planner(driver)
    driver.say(whole("etl-1", 9), reset=True)
    loop.cycle()
    assert driver.reports == [(driver.version, 0)]


def test_what_cannot_be_stored_until_the_end_is_reported_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    driver = Story(**{"history.path": str(path), "planner.drainTimeout": "100ms"})
    loop = planner(driver)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    driver.say([*whole("etl-1", 9), *whole("etl-2", 18)], reset=True)
    driver.batches[-1] = driver.batches[-1].replace('"reset": true', '"reset": true, "stopping": true')
    loop.run()
    assert driver.reports == [(driver.version, 2)]
    other.close()


def test_a_job_all_of_whose_tasks_ended_before_the_planner_came_has_its_runtime(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    driver = Story(**{"history.path": str(path)})
    loop = planner(driver)
    driver.say(
        [started("known-1", begun_ms=2_000, last_end_ms=4_500), started("unknown-1", begun_ms=2_000)],
        reset=True,
    )
    driver.say([ended("known-1", 5, 5_000), ended("unknown-1", 6, 5_000)])
    loop.cycle()
    loop.cycle()
    # Nobody said when the other one's last task ended: it teaches nothing rather than a runtime of 0.
    assert rows(path)[1] == [2.5]


def test_a_recorded_file_has_no_events_that_are_told_again(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    driver = Story(**{"events.path": str(path)})
    driver.say([*whole("etl-1", 9), started("etl-2")], reset=True)
    planner(driver).cycle()
    kinds = [json.loads(line)["type"] for line in path.read_text().splitlines()]
    assert kinds == ["reset", "job_started"]


def test_a_policys_memory_outlives_its_planner(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    for _ in range(2):
        driver = Story(**{"history.path": str(path), "planner.policy": "slearn", "planner.interval": "1ms"})
        loop = planner(driver)
        driver.say([], reset=True)
        for n in range(3):
            job = f"wide-{n}"
            driver.say([started(job), *stage(job, 0, 40, 2_000, past=False)[:1]])
            driver.say([*stage(job, 0, 40, 2_000, past=False)[1:], ended(job, n + 1, 5_000)])
        for _ in range(10):
            loop.cycle()
        loop._learning.keeper.close()
    memory = loop._plans.memory
    # The second planner counted on from the first one's three jobs.
    assert memory.ratio.started == 6


def test_of_a_key_with_several_ends_those_that_were_learned_are_left_out() -> None:
    told = [*whole("etl-1", 9), *whole("etl-1", 18), started("etl-1"), *whole("etl-2", 27)]
    events: Sequence[Any] = [decode_event(event) for event in told]
    left_out = list(LearnedEnds(9).of_learned_jobs(reversed(events)))[::-1]
    assert left_out == [True] * 8 + [False] * (8 + 1 + 8)
