"""Runtimes of active jobs from events, beside the forecast of stages."""

from __future__ import annotations

import pytest

from spark_sched.predict import RuntimeHistory, StageHistory
from spark_sched.protocol.events import (
    Event,
    JobEnded,
    JobStarted,
    ShortTasks,
    StageEnded,
    StageStarted,
    TaskEnded,
    TaskLaunched,
)
from spark_sched.state import ClusterState
from spark_sched_lab.simulator import ClusterSpec, JobSpec, StageSpec, simulate, uniform_nodes


class Driver:
    """Feeds a predictor as the planner's loop does."""

    def __init__(self, own_names: bool = False) -> None:
        self.predictor = RuntimeHistory(StageHistory(own_names=own_names), own_names=own_names)
        self.state = ClusterState()

    def __call__(self, *events: Event) -> None:
        for event in events:
            ended = self.state.apply(event)
            self.predictor.observe(event)
            if ended is not None:
                self.predictor.learn(ended)

    def begin(self, job: str, at_ms: int, tasks: int = 2, name: str = "etl", user: str = "ana") -> None:
        self(
            JobStarted(at_ms, job, name, user, 0, None, None, None, True, True),
            StageStarted(at_ms, job, f"{job}-p", "map", 0, tasks, None, True, False),
        )

    def launch(self, job: str, at_ms: int, index: int) -> None:
        self(TaskLaunched(at_ms, job, f"{job}-p", index, index, "e1", False))

    def end(self, job: str, at_ms: int, index: int, outcome: str = "success") -> None:
        self(TaskEnded(at_ms, job, f"{job}-p", index, index, "e1", 1, outcome, False))

    def over(self, job: str, at_ms: int, outcome: str = "ended") -> None:
        self(StageEnded(at_ms, job, f"{job}-p", True), JobEnded(at_ms, job, outcome))

    def run(self, job: str, at_ms: int, wait_ms: int, runtime_ms: int, **more: object) -> None:
        self.begin(job, at_ms, 1, **more)  # type: ignore[arg-type]
        self.launch(job, at_ms + wait_ms, 0)
        self.end(job, at_ms + wait_ms + runtime_ms, 0)
        self.over(job, at_ms + wait_ms + runtime_ms + 5_000)


def forecast(driver: Driver, job: str):  # type: ignore[no-untyped-def]
    return driver.predictor.forecast(driver.state.snapshot().jobs[job])


def test_a_runtime_is_from_the_first_task_to_the_end_of_the_last() -> None:
    driver = Driver()
    for i in range(5):
        driver.run(f"j{i}", i * 100_000, wait_ms=i * 1_000, runtime_ms=20_000)
    driver.begin("next", 900_000, 1)
    found = forecast(driver, "next")
    assert found.runtime_point_s == 20.0
    assert "5 runs" in found.runtime_source
    assert float(found.runtime.quantile(0.5)) == pytest.approx(20.0, rel=0.05)
    # Stages are forecast as before.
    assert found.stage_tasks == (1,)


def test_nothing_is_known_of_the_first_job() -> None:
    driver = Driver()
    driver.begin("first", 0)
    assert forecast(driver, "first").runtime is None


def test_a_job_that_was_evicted_whole_is_timed_from_its_second_start() -> None:
    driver = Driver()
    driver.begin("j", 0, 1)
    driver.launch("j", 0, 0)
    driver.end("j", 50_000, 0, "killed")
    driver.launch("j", 80_000, 1)
    driver.end("j", 90_000, 1)
    driver.over("j", 90_000)
    driver.begin("next", 200_000, 1)
    assert forecast(driver, "next").runtime_point_s == 10.0


def test_tasks_too_short_to_be_told_one_by_one_are_part_of_the_runtime() -> None:
    driver = Driver()
    driver.begin("j", 1_000, 3)
    driver(ShortTasks(2_000, "j", "j-p", "e1", [1, 2], [0, 1], [40, 100]))
    driver.launch("j", 2_000, 2)
    driver.end("j", 3_900, 2)
    driver.over("j", 3_900)
    driver.begin("only-short", 10_000, 2, name="short")
    driver(ShortTasks(10_500, "only-short", "only-short-p", "e1", [4, 5], [0, 1], [500, 100]))
    driver.over("only-short", 10_500)
    driver.begin("next", 90_000, 3)
    assert forecast(driver, "next").runtime_point_s == 2.0
    driver.begin("next-short", 90_000, 2, name="short")
    assert forecast(driver, "next-short").runtime_point_s == 0.5


def test_a_planner_that_comes_later_hears_since_when_a_job_runs() -> None:
    driver = Driver()
    driver(
        JobStarted(1_000, "j", "etl", "ana", 0, None, None, None, True, True, begun_ms=5_000),
        StageStarted(1_000, "j", "j-p", "map", 0, 4, None, True, False),
    )
    driver.launch("j", 12_000, 3)
    driver.end("j", 25_000, 3)
    driver.over("j", 25_000)
    driver.begin("next", 90_000, 4)
    assert forecast(driver, "next").runtime_point_s == 20.0


def test_jobs_without_a_finished_task_teach_nothing_and_a_reset_keeps_history() -> None:
    driver = Driver()
    driver.begin("j", 0, 1)
    driver.launch("j", 0, 0)
    driver.end("j", 9_000, 0, "failed")
    driver.over("j", 9_000)
    assert driver.predictor.predictor.jobs == 0
    driver.run("k", 20_000, 0, 7_000)
    driver.predictor.reset()
    driver.state.clear()
    driver.begin("next", 200_000, 1)
    assert forecast(driver, "next").runtime_point_s == 7.0


def test_a_job_that_is_reported_again_after_a_reset_was_submitted_once() -> None:
    driver = Driver()
    driver.run("first", 0, 0, 7_000)
    for _ in range(2):
        driver.begin("second", 60_000, 1)
        assert driver.predictor._active["second"].submission.since_last_s == 60.0
        driver.predictor.reset()
        driver.state.clear()


def test_the_simulator_knows_it_by_name() -> None:
    jobs = [
        JobSpec(f"j{i}", i * 60_000, (StageSpec([5_000 if i % 2 else 50_000]),), f"n{i % 2}", "ana")
        for i in range(30)
    ]
    result = simulate(ClusterSpec(uniform_nodes(1, 1)), jobs, "fifo", predictor="3sigma")
    assert result is not None


def test_what_a_user_runs_under_a_name_teaches_nothing_about_anothers_job_of_that_name():
    # Where names are nobody's own, the forged runs are what is known of the name.
    forecasts = {}
    for own_names in (False, True):
        driver = Driver(own_names)
        for number in range(6):
            at_ms = 100_000 * number
            driver.run(f"f{number}", at_ms, 0, 40_000, name="report", user="eve")
        driver.begin("a", 1_000_000, 1, name="report", user="ana")
        forecasts[own_names] = forecast(driver, "a")
    assert forecasts[False].stage_tasks == (1,)
    assert "same name" in forecasts[False].runtime_source
    assert forecasts[True].stage_tasks == ()
    assert "name" not in forecasts[True].runtime_source


def test_a_runtime_of_whatever_ran_before_is_not_the_jobs_own() -> None:
    driver = Driver()
    driver.run("a", 0, 0, 5_000, name="etl")
    driver.begin("b", 10_000, name="etl")
    driver.begin("c", 11_000, name="report", user="bob")
    assert forecast(driver, "b").runtime_is_own
    assert forecast(driver, "c").runtime is not None
    assert not forecast(driver, "c").runtime_is_own
