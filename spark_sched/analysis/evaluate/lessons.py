"""Runtimes of a trace or an event log as lessons for a history, in the order in which jobs arrived and
ended."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from spark_sched.analysis.evaluate.runtimes import TraceJob, in_order
from spark_sched.predict import Lesson, Submission, ThreeSigmaPredict, lesson
from spark_sched.predict.runtimes.predictor import Prediction


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


def fingerprint(jobs: Sequence[TraceJob]) -> str:
    """A fingerprint of the jobs; it does not depend on the file's name and compression."""
    digest = hashlib.sha256()
    for job in jobs:
        digest.update(repr((job.attributes, job.end_s, job.runtime_s)).encode())
    return digest.hexdigest()
