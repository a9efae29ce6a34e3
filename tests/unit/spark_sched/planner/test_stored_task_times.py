"""Task times in the history: there for the next planner and for other applications, bounded, learned from
traces."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from spark_sched.history import lessons
from spark_sched.history.store import History
from spark_sched.planner.log import make_log
from spark_sched.predict import Forecast
from spark_sched.predict.runtimes.points import median_s
from spark_sched.predict.tasks.expectation import StageExpectation
from spark_sched.predict.tasks.history import SubmittedStage, TaskHistory, live_stage
from spark_sched.predict.tasks.pilots import TaskTimePredictor
from spark_sched.predict.tasks.times import TaskTimes
from spark_sched.protocol.events import JobStarted, StageEnded, StageStarted, TaskEnded, TaskLaunched
from spark_sched.state import JobSummary
from spark_sched_lab.accuracy.lessons import task_lessons_of
from spark_sched_lab.accuracy.tasks import measured_jobs
from spark_sched_lab.traces.generators.recurring import recurring


class Planner:
    """Learns and predicts task times with a history."""

    def __init__(self, where: object) -> None:
        self.logged = io.StringIO()
        self.store = History(str(where), make_log(self.logged))
        self.history = TaskHistory(store=self.store.task_times)
        self.predictor = TaskTimePredictor(None, self.history)

    def run(self, key: str, name: str, stages_ms: list[list[int]], *, ends: bool = True) -> None:
        """A job of these stages, one after the other."""
        see = self.predictor.observe
        see(JobStarted(1, key, name, "ana", 0, None, None, None, True, True))
        for index, tasks_ms in enumerate(stages_ms):
            stage = f"{index}.0"
            see(StageStarted(2, key, stage, "s", index, len(tasks_ms), None, False, False))
            for task, ms in enumerate(tasks_ms):
                see(TaskLaunched(3, key, stage, 100 * index + task, task, "e", False))
                see(TaskEnded(4, key, stage, 100 * index + task, task, "e", ms, "success", False))
            see(StageEnded(5, key, stage, True))
        if ends:
            self.predictor.learn(JobSummary(key, name, True, "ended", 1, 9, False))
            self.store.seal()

    def expected(self, name: str) -> tuple[StageExpectation, ...]:
        """What is expected of the two stages of a job of this name that comes now."""
        self.predictor.observe(JobStarted(1, "asked", name, "ana", 0, None, None, None, True, True))
        found = self.history.expected("asked", Forecast(stage_tasks=(3, 2)))
        self.history.job_ended("asked")
        return found

    @property
    def state(self) -> dict[object, object]:
        times: TaskTimes = self.history._times
        found: dict[object, object] = {
            key: times.predictor.value_bytes(key) for key in times.predictor.features
        }
        return found | {"calibration": times.predictor.calibration.to_bytes(), "sums": times.sums()}


def jobs(planner: Planner, count: int, first: int = 0) -> None:
    for n in range(first, first + count):
        planner.run(f"j{n}", f"etl-{n % 3}", [[1_000 + 10 * n, 1_100, 1_200], [4_000, 5_000 + 20 * n]])


def test_a_new_planner_expects_what_the_one_before_has_learned(where: str) -> None:
    first = Planner(where)
    assert first.expected("etl-1")[0].task_s is None
    jobs(first, 6)
    second = Planner(where)
    assert second.state == first.state
    early, late = second.expected("etl-1")
    assert early.task_s is not None
    assert late.task_s is not None
    assert median_s(early.task_s) == pytest.approx(1.1, rel=0.1)
    assert median_s(late.task_s) == pytest.approx(4.5, rel=0.1)
    assert early.spread is not None
    assert early.spread < 0.2  # learned: until the first stage it is expected to be greater


def test_two_applications_learn_task_times_from_each_other(tmp_path: Path) -> None:
    one, two = (Planner(tmp_path / "history.db") for _ in range(2))
    for n in range(6):
        jobs((one, two)[n % 2], 1, n)
    one.run("x", "other", [[100, 100]])
    two.run("y", "other", [[100, 100]])
    assert Planner(tmp_path / "history.db").state == two.state


def test_a_job_that_does_not_end_teaches_nothing_to_the_next_planner(tmp_path: Path) -> None:
    planner = Planner(tmp_path / "history.db")
    planner.run("j", "etl", [[1_000, 1_100]], ends=False)
    assert Planner(tmp_path / "history.db").history.predictor.jobs == 0


def test_rows_are_replaced_by_a_state_and_few_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lessons, "ROWS_BETWEEN", 10)
    monkeypatch.setattr(lessons, "ROWS_KEPT", 6)
    planner = Planner(tmp_path / "history.db")
    jobs(planner, 40)
    with planner.store.database._engine.connect() as db:  # type: ignore[union-attr]
        rows = db.exec_driver_sql("SELECT count(*) FROM task_jobs").scalar()
    assert rows is not None
    assert rows <= 6 + 10
    assert Planner(tmp_path / "history.db").state == planner.state
    assert planner.logged.getvalue() == ""


def test_without_a_history_stages_teach_when_they_end_and_once_though_told_again() -> None:
    history = TaskHistory()
    predictor = TaskTimePredictor(None, history)
    for _ in range(2):
        predictor.observe(JobStarted(1, "j", "etl", "ana", 0, None, None, None, True, True))
        predictor.observe(StageStarted(2, "j", "0.0", "s", 0, 2, None, False, False))
        for task in (0, 1):
            predictor.observe(TaskLaunched(3, "j", "0.0", task, task, "e", False))
            predictor.observe(TaskEnded(4, "j", "0.0", task, task, "e", 500, "success", False))
        predictor.observe(StageEnded(5, "j", "0.0", True))
        assert history.predictor.jobs == 1
        predictor.reset()


def test_a_trace_teaches_planners_the_stages_of_its_jobs(tmp_path: Path) -> None:
    trace = recurring(np.random.default_rng(3), jobs=60, history=0, like="2sigma", dag=True)
    measured = measured_jobs(trace.chunks())
    history = History(str(tmp_path / "history.db"), None)
    times = history.task_times.load()
    found = task_lessons_of(measured, times, lambda done, jobs: None)
    assert len(found) == sum(len(job.stages) for job in measured)
    assert history.task_times.add_source("trace", found)
    assert not history.task_times.add_source("trace", found)
    history.close()
    planner = Planner(tmp_path / "history.db")
    assert planner.history.predictor.jobs == len(found)
    job = measured[-1]
    asked = [
        SubmittedStage(len(tasks), live_stage(attributes, index))
        for index, (tasks, attributes) in enumerate(zip(job.stages, job.attributes, strict=True))
    ]
    predictions = planner.history.ask_job(asked)
    assert all(prediction is not None for _, prediction in predictions)
    assert [submission.job.name for submission, _ in predictions] == [
        f"{job.attributes[0].name} / stage {n}" for n in range(len(job.stages))
    ]
