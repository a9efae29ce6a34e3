"""What earlier runs of a job name say about the present one."""

from __future__ import annotations

import gc
import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from spark_sched.predict import EarlierRun, EarlierStage, Forecast, StageHistory
from spark_sched.predict.stages.earlier_runs import NO_RUNS
from spark_sched.predict.stages.pareto import shape_from_sums
from spark_sched.protocol.events import (
    Event,
    JobEnded,
    JobStarted,
    StageEnded,
    StageStarted,
    TaskEnded,
    TaskLaunched,
)
from spark_sched.protocol.events import ExecutorAdded as Executor
from spark_sched.state import ClusterState, DurationSummary


class Driver:
    """Plays jobs on a state with the predictor listening, as the planner's loop does."""

    def __init__(self, predictor: StageHistory) -> None:
        self.predictor = predictor
        self.state = ClusterState()
        self.say(Executor(0, "e", "h", 100))
        self._tasks = 0
        self._runs = 0

    def say(self, event: Event) -> None:
        summary = self.state.apply(event)
        self.predictor.observe(event)
        if summary is not None:
            self.predictor.learn(summary)

    def start(self, name: str = "nightly", key: str | None = None) -> str:
        self._runs += 1
        key = key or f"mark-{self._runs}"
        self.say(JobStarted(0, key, name, None, 1, None, None, None, True, True))
        return key

    def begin(self, job: str, index: int, tasks: int, name: str | None = None, attempt: int = 0) -> None:
        stage = f"{index}.{attempt}"
        self.say(StageStarted(0, job, stage, name or f"p{index}", index, tasks, None, False, False))

    def finish(
        self, job: str, index: int, times_ms: Sequence[int] = (), ok: bool = True, attempt: int = 0
    ) -> None:
        stage = f"{index}.{attempt}"
        for i, ms in enumerate(times_ms):
            self._tasks += 1
            self.say(TaskLaunched(0, job, stage, self._tasks, i, "e", False))
            self.say(TaskEnded(ms, job, stage, self._tasks, i, "e", ms, "success", False))
        self.say(StageEnded(0, job, stage, ok))

    def run(self, *widths: int, name: str = "nightly", key: str | None = None) -> None:
        job = self.start(name, key)
        for index, tasks in enumerate(widths):
            self.begin(job, index, tasks)
            self.finish(job, index)
        self.end(job)

    def end(self, job: str) -> None:
        self.say(JobEnded(0, job, "ended"))

    def ask(self, job: str) -> Forecast:
        return self.predictor.forecast(self.state.snapshot().jobs[job])


@pytest.fixture
def driver() -> Driver:
    return Driver(StageHistory(prior_alpha=1.6, prior_weight=5))


def test_nothing_is_known_of_a_name_never_seen(driver: Driver) -> None:
    assert driver.ask(driver.start()) == Forecast()
    driver.run(4, 2, name="another")
    found = driver.ask(driver.start())
    assert [[stage.tasks for stage in run.stages] for run in found.other_runs] == [[4, 2]]
    assert replace(found, latest=NO_RUNS) == Forecast()


def test_a_name_is_forecast_by_its_own_runs_and_with_what_this_run_has_done(driver: Driver) -> None:
    driver.run(4, 2)
    found = driver.ask(driver.start())
    assert [[stage.tasks for stage in run.stages] for run in found.own_runs] == [[4, 2]]
    assert found.other_runs == ()
    assert found.stages_begun == 0


def test_a_second_run_is_expected_to_have_the_stages_of_the_first(driver: Driver) -> None:
    driver.run(4, 2, 8)
    job = driver.start()
    assert driver.ask(job).stage_tasks == (4, 2, 8)
    driver.begin(job, 0, 4)
    assert driver.ask(job).stage_tasks == (4, 2, 8)
    assert driver.ask(job).source == "history"
    assert driver.ask(job).runs == 1


def test_a_run_that_disagrees_says_nothing(driver: Driver) -> None:
    driver.run(4, 2, 8)
    job = driver.start()
    driver.begin(job, 0, 5)
    assert driver.ask(job).stage_tasks == ()


def test_a_run_longer_than_all_before_it_is_unknown_from_there_on(driver: Driver) -> None:
    driver.run(4)
    job = driver.start()
    driver.begin(job, 0, 4)
    driver.finish(job, 0)
    driver.begin(job, 1, 4)
    assert driver.ask(job).stage_tasks == ()


def test_of_several_runs_the_latest_that_agrees_counts(driver: Driver) -> None:
    driver.run(4, 2)
    driver.run(6, 3)
    driver.run(4, 7)
    job = driver.start()
    assert driver.ask(job).stage_tasks == (4, 7)
    driver.begin(job, 0, 6)
    assert (driver.ask(job).stage_tasks, driver.ask(job).runs) == ((6, 3), 1)


def test_only_the_latest_runs_are_remembered() -> None:
    driver = Driver(StageHistory(runs_kept=2))
    for width in (4, 5, 6):
        driver.run(width, 9)
    job = driver.start()
    driver.begin(job, 0, 4)
    assert driver.ask(job).stage_tasks == ()


def test_a_run_cut_short_or_with_a_failed_stage_is_no_example(driver: Driver) -> None:
    cut = driver.start()
    driver.begin(cut, 0, 4)
    driver.end(cut)
    failed = driver.start()
    driver.begin(failed, 0, 4)
    driver.finish(failed, 0, ok=False)
    driver.end(failed)
    assert driver.ask(driver.start()).stage_tasks == ()


def test_a_run_whose_last_stage_waits_for_a_killed_twin_is_an_example(driver: Driver) -> None:
    job = driver.start()
    driver.begin(job, 0, 1)
    driver.say(TaskLaunched(0, job, "0.0", 901, 0, "e", False))
    driver.say(TaskLaunched(0, job, "0.0", 902, 0, "e", True))
    driver.say(TaskEnded(30, job, "0.0", 902, 0, "e", 30, "success", True))
    driver.end(job)
    forecast = driver.ask(driver.start())
    assert (forecast.stage_tasks, forecast.t_m_ms) == ((1,), 30.0)


def test_a_retried_stage_counts_with_the_tasks_of_its_first_attempt(driver: Driver) -> None:
    job = driver.start()
    driver.begin(job, 0, 8)
    driver.finish(job, 0, ok=False)
    driver.begin(job, 0, 3, attempt=1)
    driver.finish(job, 0, attempt=1)
    driver.end(job)
    assert driver.ask(driver.start()).stage_tasks == (8,)


def test_a_name_made_up_by_the_driver_is_not_kept(driver: Driver) -> None:
    driver.run(4, 2, name="spark-7", key="spark-7")
    driver.start("spark-7", "spark-7")
    assert driver.ask("spark-7") == Forecast()


def test_task_times_are_pooled_over_runs_by_stage_name(driver: Driver) -> None:
    for times in ([10, 20, 40], [30, 30, 60]):
        job = driver.start()
        driver.begin(job, 0, 3)
        driver.finish(job, 0, times)
        driver.end(job)
    forecast = driver.ask(driver.start())
    ratios = math.log(2) + math.log(4) + math.log(2)
    assert forecast.alpha == pytest.approx(shape_from_sums(6, ratios, 1.6, 5))
    assert forecast.t_m_ms == 20.0  # the median of 10 and 30
    assert forecast.samples == 6


def test_a_loops_second_round_learns_from_its_first(driver: Driver) -> None:
    job = driver.start()
    driver.begin(job, 0, 2, "step")
    driver.finish(job, 0, [50, 80])
    driver.begin(job, 1, 2, "step")
    forecast = driver.ask(job)
    assert (forecast.stage_tasks, forecast.t_m_ms, forecast.samples) == ((), 50.0, 2)


def test_after_a_reset_only_what_is_told_anew_must_agree(driver: Driver) -> None:
    driver.run(4, 2, 8)
    job = driver.start()
    driver.begin(job, 0, 5)
    driver.predictor.reset()
    driver.state.clear()
    driver.start(key=job)
    driver.begin(job, 1, 2)
    assert driver.ask(job).stage_tasks == (4, 2, 8)
    driver.finish(job, 1)
    driver.end(job)
    assert driver.ask(driver.start()).runs == 1  # the half-seen run is no example


def test_runs_come_from_the_store_and_go_there() -> None:
    saved: list[tuple[str, EarlierRun, int]] = []
    kept = EarlierRun(
        1,
        (
            EarlierStage("p0", 4, DurationSummary(2, 10, math.log(10) + math.log(20))),
            EarlierStage("p1", 3, DurationSummary(0, None, 0.0)),
        ),
    )

    class Store:
        def load(self, name: str, limit: int, user: str | None = None) -> list[EarlierRun]:
            return [kept] if name == "nightly" else []

        def save(self, name: str, run: EarlierRun, limit: int, user: str | None = None) -> None:
            saved.append((name, run, limit))

    driver = Driver(StageHistory(Store()))
    job = driver.start()
    assert driver.ask(job).stage_tasks == (4, 3)
    assert driver.ask(job).t_m_ms == 10.0
    driver.begin(job, 0, 6)
    driver.finish(job, 0)
    driver.end(job)
    assert [(name, [stage.tasks for stage in run.stages]) for name, run, _ in saved] == [("nightly", [6])]


def test_asking_changes_nothing(driver: Driver) -> None:
    driver.run(4, 2)
    job = driver.start()
    assert driver.ask(job) == driver.ask(job)


def paused(
    driver: Driver, *gaps_ms: int, next_tasks: int | None = None, next_at_most: int | None = None
) -> str:
    """A run of one-stage actions with these pauses between them."""
    job, now_ms = driver.start(), 0
    for index, gap_ms in enumerate((0, *gaps_ms)):
        now_ms += gap_ms
        driver.say(
            StageStarted(
                now_ms,
                job,
                f"{index}.0",
                f"p{index}",
                index,
                4,
                next_tasks,
                False,
                False,
                next_at_most=next_at_most,
            )
        )
        now_ms += 1_000
        driver.say(StageEnded(now_ms, job, f"{index}.0", True))
    return job


def test_the_usual_pause_is_what_nine_of_ten_pauses_keep_within(driver: Driver) -> None:
    driver.end(paused(driver, *[100, 30] * 9, 40_000, 90))
    assert driver.ask(driver.start()).gap_ms == 100


def test_runs_without_a_pause_say_so_and_the_middle_run_decides(driver: Driver) -> None:
    for gaps_ms in ((), (300,), ()):
        driver.end(paused(driver, *gaps_ms))
    assert driver.ask(driver.start()).gap_ms == 0


def test_what_the_dag_knows_to_follow_is_no_pause(driver: Driver) -> None:
    driver.end(paused(driver, 200, 200, next_tasks=4))
    assert driver.ask(driver.start()).gap_ms == 0


def test_what_adaptive_execution_plans_after_a_shuffle_is_no_pause(driver: Driver) -> None:
    driver.end(paused(driver, 20, 20, next_at_most=200))
    assert driver.ask(driver.start()).gap_ms == 0


def test_stages_that_overlap_have_no_pause_between_them(driver: Driver) -> None:
    job = driver.start()
    driver.begin(job, 0, 4)
    driver.begin(job, 1, 4)
    driver.finish(job, 0)
    driver.say(StageEnded(700, job, "1.0", True))
    driver.end(job)
    assert driver.ask(driver.start()).gap_ms == 0


def test_the_forecast_of_a_job_is_made_again_only_after_something_that_it_depends_on(driver: Driver) -> None:
    driver.run(4, 8)
    driver.run(2, name="other")
    job, waiting = driver.start(), driver.start("unknown")
    driver.begin(job, 0, 4, name="p0")
    first, of_unknown = driver.ask(job), driver.ask(waiting)
    others = len(of_unknown.other_runs)
    # Neither its own tasks nor the run of another name say anything new about a job with earlier runs.
    driver.say(TaskLaunched(0, job, "0.0", 900, 0, "e", False))
    driver.run(2, name="other")
    assert driver.ask(job) is first
    # For a job without any the latest runs of all names stand, which its forecast shares.
    assert driver.ask(waiting) is of_unknown
    assert len(of_unknown.other_runs) == others + 1
    # A run of its own name that agrees with it, an ended stage and one that begins are news.
    driver.run(4, 8, 16)
    after_run = driver.ask(job)
    assert (first.stage_tasks, after_run.stage_tasks) == ((4, 8), (4, 8, 16))
    driver.finish(job, 0, (100, 200, 300, 400))
    after_stage = driver.ask(job)
    assert [index for index, _ in after_stage.so_far] == [0]
    assert driver.ask(job) is after_stage
    driver.begin(job, 1, 9)
    assert driver.ask(job).own_runs == ()


def test_a_job_that_waits_while_others_end_keeps_one_forecast(driver: Driver) -> None:
    def forecasts() -> int:
        gc.collect()
        return sum(isinstance(each, Forecast) for each in gc.get_objects())

    waiting = driver.start("unknown")
    driver.run(2, name="other")
    driver.ask(waiting)
    before = forecasts()
    for _ in range(50):
        driver.run(2, name="other")
        driver.ask(waiting)
    assert forecasts() == before


def test_times_of_a_stage_count_for_the_next_job_of_the_name_while_both_run(driver: Driver) -> None:
    driver.run(2)
    first, second = driver.start(), driver.start()
    driver.begin(second, 0, 2)
    assert driver.ask(second).samples == 0
    driver.begin(first, 0, 2)
    driver.finish(first, 0, (100, 200))
    assert driver.ask(second).samples == 2


def test_a_job_that_began_before_any_other_had_ended_gets_their_runs(
    driver: Driver,
) -> None:
    job = driver.start("unknown")
    driver.begin(job, 0, 2)
    assert driver.ask(job) == Forecast()
    driver.run(4, name="other")
    found = driver.ask(job)
    assert (len(found.other_runs), found.stages_begun, found.source) == (1, 1, "none")
