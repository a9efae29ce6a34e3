"""Runtimes and task times of a trace or an event log as lessons for a history, in the order in which jobs
arrived and ended."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable, Sequence

from spark_sched.predict import Lesson, Submission, ThreeSigmaPredict, lesson
from spark_sched.predict.runtimes.predictor import Prediction
from spark_sched.predict.tasks.history import (
    STAGES_LEARNED,
    StagePrediction,
    SubmittedStage,
    TaskHistory,
    live_stage,
    stage_lessons,
)
from spark_sched.predict.tasks.times import StageLesson, TaskTimes
from spark_sched_lab.accuracy.runtimes import TraceJob, in_order
from spark_sched_lab.accuracy.tasks import MeasuredJob


def lessons_of(
    jobs: Sequence[TraceJob], predictor: ThreeSigmaPredict, progress: Callable[[int, int], None]
) -> list[Lesson]:
    """The lessons of the jobs that finished; afterwards ``predictor`` has learned them.

    Args:
        jobs: by submission.
        predictor: the history so far. It predicts before it learns, so that its experts can be judged.
        progress: called occasionally as ``progress(events done, events)``.
    """
    events = in_order(jobs)
    waiting: dict[int, tuple[Submission, Prediction | None]] = {}
    found = []
    for done, (number, came) in enumerate(events):
        job = jobs[number]
        if came:
            submission = predictor.submit(job.attributes)
            if job.finished:
                waiting[number] = submission, predictor.predict(submission)
        elif number in waiting and job.runtime_s is not None:
            each = lesson(waiting[number][0], job.runtime_s, waiting.pop(number)[1])
            predictor.take(each)
            found.append(each)
        if done % 1000 == 0:
            progress(done, len(events))
    return found


def task_lessons_of(
    jobs: Sequence[MeasuredJob], times: TaskTimes, progress: Callable[[int, int], None]
) -> list[StageLesson]:
    """The lessons of the jobs' stages, in the order in which the jobs ended; afterwards ``times`` has learned
    them.

    The stages have the names that a planner looks them up by: the job's, and the stage's place in the job.

    Args:
        jobs: by submission. One whose end is unknown ends when it comes.
        times: what was learned so far.
        progress: called occasionally as ``progress(jobs done, jobs)``.
    """
    history = TaskHistory(store=_Memory(times))
    waiting: list[tuple[float, int, Sequence[StagePrediction]]] = []
    found: list[StageLesson] = []

    def learn_first() -> None:
        _, number, asked = heapq.heappop(waiting)
        lessons = stage_lessons(asked, jobs[number].stages[:STAGES_LEARNED])
        for each in lessons:
            times.take(each)
        found.extend(lessons)

    for number, job in enumerate(jobs):
        while waiting and waiting[0][0] <= job.submit_s:
            learn_first()
        stages = [
            SubmittedStage(len(tasks), live_stage(attributes, index))
            for index, (tasks, attributes) in enumerate(zip(job.stages, job.attributes, strict=True))
        ][:STAGES_LEARNED]
        end_s = job.submit_s if job.end_s is None else max(job.end_s, job.submit_s)
        heapq.heappush(waiting, (end_s, number, history.ask_job(stages)))
        if number % 500 == 0:
            progress(number, len(jobs))
    while waiting:
        learn_first()
    return found


class _Memory:
    """A store that has these times already, and keeps nothing."""

    def __init__(self, times: TaskTimes) -> None:
        self._times = times

    def load(self) -> TaskTimes:
        return self._times

    def save(self, state: TaskTimes, ended: Sequence[StageLesson]) -> None:
        pass


def fingerprint(jobs: Sequence[TraceJob]) -> str:
    """A fingerprint of the jobs; it does not depend on the file's name and compression."""
    digest = hashlib.sha256()
    for job in jobs:
        digest.update(repr((job.attributes, job.end_s, job.runtime_s)).encode())
    return digest.hexdigest()
