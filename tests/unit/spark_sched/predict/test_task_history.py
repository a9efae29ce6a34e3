"""What history says of the stages of a job before they start, and what it learns from them."""

from __future__ import annotations

import pytest

from spark_sched.predict import UNKNOWN, Forecast
from spark_sched.predict.runtimes.features import JobAttributes
from spark_sched.predict.tasks.history import SubmittedStage, TaskHistory
from spark_sched.protocol.events import JobStarted, StageStarted

TWO_STAGES = Forecast(stage_tasks=(4, 6))


def come(history: TaskHistory, key: str, at_ms: int, forecast: Forecast = UNKNOWN) -> None:
    """A job of name n starts with its first stage, and a plan asks what is expected of it."""
    history.job_started(JobStarted(at_ms, key, "n", "u", 0, None, None, None, True, True))
    history.stage_started(StageStarted(at_ms, key, f"{key}.0", "p", 0, 4, None, False, False))
    history.expected(key, forecast)


def second_stage(history: TaskHistory, key: str, tasks: int = 6, attempt: int = 0) -> None:
    history.stage_started(StageStarted(0, key, f"{key}-1.{attempt}", "p", 1, tasks, None, True, False))


def run(history: TaskHistory, key: str, at_ms: int, second_ms: int = 3_000) -> None:
    come(history, key, at_ms, TWO_STAGES)
    history.stage_ended(key, 0, [1_000] * 4)
    second_stage(history, key)
    history.stage_ended(key, 1, [second_ms] * 6)
    history.job_ended(key)


def since_last_s(history: TaskHistory, key: str, stage: int) -> float | None:
    return history._jobs[key][stage].submission.since_last_s


def test_every_stage_knows_the_time_since_the_last_run_however_often_it_was_expected_before():
    history = TaskHistory()
    run(history, "a", 0)
    come(history, "b", 7_000, TWO_STAGES)
    history.expected("b", Forecast(stage_tasks=(4, 6, 6)))
    second_stage(history, "b")
    assert [since_last_s(history, "b", stage) for stage in (0, 1)] == [7.0, 7.0]


def test_stages_of_one_name_that_are_submitted_together_have_one_time_since_the_last_submission():
    history = TaskHistory()
    for at_s, expected in ((100.0, None), (400.0, 300.0)):
        job = JobAttributes(submit_s=at_s, user="u", name="chain")
        asked = history.ask_job([SubmittedStage(3, job), SubmittedStage(5, job)])
        assert [submission.since_last_s for submission, _ in asked] == [expected, expected]


def test_what_is_expected_of_a_later_stage_stays_as_it_was_at_the_jobs_submission():
    history = TaskHistory()
    run(history, "a", 0)
    come(history, "b", 1_000, TWO_STAGES)
    before = history.expected("b", TWO_STAGES)
    run(history, "c", 2_000, second_ms=30_000)
    after = history.expected("b", Forecast(stage_tasks=(4, 6, 8)))
    assert after[:2] == before
    assert len(after) == 3
    # Another width is another stage.
    assert history.expected("b", Forecast(stage_tasks=(4, 7, 8, 9)))[1].tasks == 7


def test_a_retry_of_a_stage_that_ended_well_is_not_learned_again():
    history = TaskHistory()
    run(history, "a", 0)
    lessons = history.predictor.jobs
    come(history, "b", 1_000, TWO_STAGES)
    second_stage(history, "b")
    history.stage_ended("b", 1, [3_000] * 6)
    # An executor was lost with the output of one task.
    second_stage(history, "b", tasks=1, attempt=1)
    history.stage_ended("b", 1, [90_000])
    assert history.predictor.jobs == lessons + 1
    assert history.expected("b", TWO_STAGES)[1].tasks == 6


def test_of_a_stage_that_failed_the_retry_is_learned():
    history = TaskHistory()
    come(history, "a", 0)
    history.stage_started(StageStarted(0, "a", "a.1", "p", 0, 2, None, False, False))
    history.stage_ended("a", 0, [2_000] * 2)
    history.job_ended("a")
    come(history, "b", 1_000)
    expected = history.expected("b", UNKNOWN)[0].task_s
    assert expected is not None
    assert expected.mean_s == pytest.approx(2.0)


def test_a_job_that_is_reported_again_was_submitted_once():
    history = TaskHistory()
    run(history, "a", 0)
    come(history, "b", 7_000, TWO_STAGES)
    history.reset()
    come(history, "b", 7_000, TWO_STAGES)
    second_stage(history, "b")
    assert [since_last_s(history, "b", stage) for stage in (0, 1)] == [7.0, 7.0]
