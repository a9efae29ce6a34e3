"""Mean task times by feature, from history: 3Sigma's predictor as SLearn §4.2 and §6 use it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from spark_sched.predict.forecast import Forecast
from spark_sched.predict.recent import Recent
from spark_sched.predict.runtimes.features import JobAttributes
from spark_sched.predict.runtimes.histogram import LEAST_S
from spark_sched.predict.runtimes.points import median_s
from spark_sched.predict.runtimes.predictor import Prediction, Submission, ThreeSigmaPredict, lesson
from spark_sched.predict.tasks.expectation import StageExpectation
from spark_sched.predict.tasks.times import StageLesson, TaskTimes, TaskTimeStore, log_spread
from spark_sched.protocol.events import JobStarted, StageStarted

#: At most this number of stages of a live job is learned, from its first one on: a stream has no last stage.
STAGES_LEARNED = 200

#: Active jobs whose learned stages are remembered.
_JOBS_KEPT = 10_000

#: A stage's submission and prediction at the submission of its job.
StagePrediction: TypeAlias = tuple[Submission, Prediction | None]


@dataclass(frozen=True, slots=True)
class SubmittedStage:
    """One stage of a job as known at the job's submission.

    Attributes:
        tasks: its width.
        attributes: what its history is looked up by.
    """

    tasks: int
    attributes: JobAttributes


def _log_error(mean_s: float, expected_s: float) -> float:
    return math.log(max(LEAST_S, mean_s) / max(LEAST_S, expected_s))


@dataclass(slots=True)
class _Known:
    """One stage of an active job: as submitted, predicted and expected, and what its tasks took."""

    submission: Submission
    prediction: Prediction | None
    expectation: StageExpectation
    mean_s: float | None = None
    spread: float | None = None


class TaskHistory:
    """Mean task times by `ThreeSigmaPredict`, each stage by its own attributes.

    Args:
        predictor: has learned so far, and continues if ``learns``.
        stages_of: by job key, where stages are known when the job is submitted (a trace's); None: stages
            are known when they start, by their job's user and name and by their index, and later ones
            by how many tasks the forecast expects of them.
        learns: whether stages that end are learned.
        store: keeps what is learned beyond this process, and has what was learned before. Then the stages of
            a job are learned together when it ends, so that a job is learned whole or not at all. None:
            nothing is kept, and a stage is learned when it ends.
        own_names: users choose names, so that a name counts for its user alone.
    """

    def __init__(
        self,
        predictor: ThreeSigmaPredict | None = None,
        stages_of: Mapping[str, Sequence[SubmittedStage]] | None = None,
        *,
        learns: bool = True,
        store: TaskTimeStore | None = None,
        own_names: bool = False,
    ) -> None:
        if store is None:
            self._times = TaskTimes(ThreeSigmaPredict() if predictor is None else predictor)
        else:
            self._times = store.load()
        self.predictor = self._times.predictor
        self.spreads = self._times.spreads
        self.likeness = self._times.likeness
        self._store = store
        self._own_names = own_names
        self._stages_of = stages_of
        self._learns = learns
        # Stages of active jobs that were learned: after a reset they are told again.
        self._learned: Recent[str, set[int]] = Recent(_JOBS_KEPT)
        self._jobs: dict[str, dict[int, _Known]] = {}
        self._started: dict[str, JobStarted] = {}
        # By job and index, stages that were expected before they started, each with its submission.
        self._foreseen: dict[str, dict[int, tuple[Submission, StageExpectation]]] = {}
        self._cache: dict[str, tuple[StageExpectation, ...]] = {}
        # Mean task times by stage that were expected of a job before its first stage ended.
        self._first_s: dict[str, dict[int, float]] = {}

    def learn(
        self,
        attributes: JobAttributes,
        tasks_s: Sequence[float],
        asked: StagePrediction | None = None,
    ) -> None:
        """Learn a stage that ended, from all its task times in seconds.

        Args:
            asked: what was submitted and predicted when its job came; None: now.
        """
        if not tasks_s:
            return
        submission, prediction = asked or (self.predictor.submit(attributes), None)
        self.predictor.learn(submission, sum(tasks_s) / len(tasks_s), prediction)
        spread = log_spread(tasks_s)
        if spread is not None:
            self.spreads.add(attributes, spread)

    def learn_job(self, asked: Sequence[StagePrediction], stages: Sequence[Sequence[float]]) -> None:
        """Take in a job that ended: what was submitted and predicted for each of its stages when it came, and
        their task times in seconds."""
        for each in stage_lessons(asked, stages):
            self._times.take(each)

    def compare(self, asked: Sequence[StagePrediction], stages: Sequence[Sequence[float]]) -> None:
        """Learn from history's error on a job's first stage and on its others, by the predictions that were
        made for all of them when the job was submitted."""
        self._alike(
            [
                (submission.job, _log_error(sum(tasks_s) / len(tasks_s), median_s(prediction.runtime)))
                for (submission, prediction), tasks_s in zip(asked, stages, strict=True)
                if prediction is not None and tasks_s
            ]
        )

    def _alike(self, errors: Sequence[tuple[JobAttributes, float]]) -> None:
        for attributes, error in errors[1:]:
            self.likeness.add(attributes, errors[0][1], error)

    def ask(self, stage: SubmittedStage, earlier: Submission | None = None) -> StagePrediction:
        """The submission and the prediction for a stage now; ``earlier``: its submission made before."""
        submission = self.predictor.submit(stage.attributes, earlier)
        return submission, self.predictor.predict(submission)

    def ask_job(self, stages: Sequence[SubmittedStage]) -> list[StagePrediction]:
        """`ask` for all stages of a job now. Stages of one user and name have one time since the last
        submission: that of the job's first such stage, since the others were submitted together with it."""
        first: dict[tuple[str | None, str | None], Submission] = {}
        asked = []
        for stage in stages:
            recurs = stage.attributes.recurs
            asked.append(self.ask(stage, first.get(recurs)))
            first.setdefault(recurs, asked[-1][0])
        return asked

    def expectation(self, stage: SubmittedStage, prediction: Prediction | None) -> StageExpectation:
        """A prediction as policies read it."""
        spread = self.spreads.expect(stage.attributes)
        if prediction is None:
            return StageExpectation(stage.tasks, None, spread)
        return StageExpectation(
            stage.tasks,
            prediction.history,
            spread,
            prediction.source,
            prediction.runtime,
            alike=self.likeness.expect(stage.attributes),
            spread_log_sd=self.spreads.log_sd(stage.attributes),
        )

    # ---- active jobs, by their events ----

    def job_started(self, event: JobStarted) -> None:
        if self._stages_of is None:
            self._started[event.job] = event
            self._jobs[event.job] = {}
            return
        stages = self._stages_of.get(event.job, ())
        if stages:
            self._jobs[event.job] = {
                index: _Known(*asked, self.expectation(stage, asked[1]))
                for index, (stage, asked) in enumerate(zip(stages, self.ask_job(stages), strict=True))
            }
            self._cache.pop(event.job, None)

    def stage_started(self, event: StageStarted) -> None:
        started, stages = self._started.get(event.job), self._jobs.get(event.job)
        if self._stages_of is not None or started is None or stages is None:
            return
        # A retry runs only the tasks whose results were lost: the first attempt counts.
        if event.index < STAGES_LEARNED and event.index not in stages:
            stage = self._live(started, event.index, event.tasks)
            foreseen = self._foreseen.get(event.job, {}).pop(event.index, None)
            asked = self.ask(stage, None if foreseen is None else foreseen[0])
            stages[event.index] = _Known(*asked, self.expectation(stage, asked[1]))
            self._cache.pop(event.job, None)

    def stage_ended(self, job: str, index: int, tasks_ms: list[int]) -> None:
        """``tasks_ms``: all times of the stage's tasks that are not spoiled (`StageTimes`)."""
        known = self._jobs.get(job, {}).get(index)
        if not self._learns or known is None or known.mean_s is not None or not tasks_ms:
            return
        seconds = [ms / 1000.0 for ms in tasks_ms]
        known.mean_s = sum(seconds) / len(seconds)
        known.spread = log_spread(seconds)
        learned: set[int] = self._learned.get(job, set())
        if self._store is None and index not in learned:
            self._learned[job] = learned | {index}
            self._times.take(_stage_lesson(known, None))

    def job_ended(self, job: str) -> None:
        stages, expected_s = self._jobs.pop(job, {}), self._first_s.pop(job, {})
        self._learned.pop(job, None)
        if self._learns:
            errors: dict[int, float | None] = {}
            for index, known in sorted(stages.items()):
                if known.mean_s is not None:
                    expected = expected_s.get(index)
                    errors[index] = None if expected is None else _log_error(known.mean_s, expected)
            pairs = dict(zip(errors, _with_first(list(errors.values())), strict=True))
            if self._store is None:
                for index, pair in pairs.items():
                    if pair is not None:
                        self.likeness.add(stages[index].submission.job, *pair)
            elif pairs:
                lessons = [_stage_lesson(stages[index], pair) for index, pair in pairs.items()]
                self._store.save(self._times, lessons)
        self._started.pop(job, None)
        self._foreseen.pop(job, None)
        self._cache.pop(job, None)

    def reset(self) -> None:
        # A job that is reported again was submitted when it was reported first.
        self._foreseen = {
            job: {
                **self._foreseen.get(job, {}),
                **{index: (known.submission, known.expectation) for index, known in stages.items()},
            }
            for job, stages in self._jobs.items()
        }
        self._jobs.clear()
        self._started.clear()
        self._cache.clear()
        self._first_s.clear()

    def expected(self, job: str, forecast: Forecast) -> tuple[StageExpectation, ...]:
        stages = self._jobs.get(job)
        if stages is None:
            return ()
        cached = self._cache.get(job)
        if cached is not None and len(cached) >= max(len(forecast.stage_tasks), max(stages, default=-1) + 1):
            return cached
        found = []
        for index in range(max(max(stages, default=-1) + 1, len(forecast.stage_tasks))):
            known = stages.get(index)
            if known is not None:
                found.append(known.expectation)
            else:
                # Not seen, or over before the first snapshot: use what earlier runs of the name had.
                tasks = forecast.stage_tasks[index] if index < len(forecast.stage_tasks) else 0
                found.append(self._foresee(job, index, tasks))
        if len(found) > 1 and all(known.mean_s is None for known in stages.values()):
            # Keep the predictions made for all stages at once: each ended stage changes those of the next.
            self._first_s[job] = {
                index: median_s(each.calibrated)
                for index, each in enumerate(found)
                if each.calibrated is not None
            }
        self._cache[job] = tuple(found)
        return self._cache[job]

    def _foresee(self, job: str, index: int, tasks: int) -> StageExpectation:
        """What is expected of a stage that has not been seen, as of the first time that this was asked."""
        foreseen = self._foreseen.setdefault(job, {})
        submission, expectation = foreseen.get(index, (None, None))
        if expectation is None or expectation.tasks != tasks:
            stage = self._live(self._started[job], index, tasks)
            submission, prediction = self.ask(stage, submission)
            expectation = self.expectation(stage, prediction)
            foreseen[index] = submission, expectation
        return expectation

    def _live(self, event: JobStarted, index: int, tasks: int) -> SubmittedStage:
        named = event.name and event.name != event.job
        job = JobAttributes(
            submit_s=event.time_ms / 1000.0,
            user=event.user,
            name=event.name if named else None,
            job_class=event.job_class,
            priority=event.priority,
            slots=tasks or None,
            own_name=self._own_names,
        )
        return SubmittedStage(tasks, live_stage(job, index))


def live_stage(job: JobAttributes, index: int) -> JobAttributes:
    """What the history of the stage at this place in a job is looked up by.

    Args:
        job: the job, with the stage's width as its slots.
    """
    return JobAttributes(
        submit_s=job.submit_s,
        user=job.user,
        name=None if job.name is None else f"{job.name} / stage {index}",
        job_class=job.job_class,
        priority=job.priority,
        slots=job.slots,
        own_name=job.own_name,
    )


def stage_lessons(asked: Sequence[StagePrediction], stages: Sequence[Sequence[float]]) -> list[StageLesson]:
    """The lessons of a job that ended: what was submitted and predicted for each of its stages when it came,
    and their task times in seconds."""
    found = [(*each, tasks_s) for each, tasks_s in zip(asked, stages, strict=True) if tasks_s]
    errors = [
        None if prediction is None else _log_error(sum(tasks_s) / len(tasks_s), median_s(prediction.runtime))
        for _, prediction, tasks_s in found
    ]
    return [
        StageLesson(
            lesson(submission, sum(tasks_s) / len(tasks_s), prediction),
            submission.job.recurs,
            log_spread(tasks_s),
            pair,
        )
        for (submission, prediction, tasks_s), pair in zip(found, _with_first(errors), strict=True)
    ]


def _with_first(errors: Sequence[float | None]) -> list[tuple[float, float] | None]:
    """Each stage's error with that of the first stage that has one; None: it is that stage, or has none."""
    first = next((n for n, error in enumerate(errors) if error is not None), None)
    return [
        None if first is None or error is None or n == first else (errors[first], error)  # type: ignore[misc]
        for n, error in enumerate(errors)
    ]


def _stage_lesson(known: _Known, errors: tuple[float, float] | None) -> StageLesson:
    assert known.mean_s is not None
    mean = lesson(known.submission, known.mean_s, known.prediction)
    return StageLesson(mean, known.submission.job.recurs, known.spread, errors)
