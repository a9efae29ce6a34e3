"""The single task times of active jobs, from which SLearn estimates a job's size after a few of its tasks."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING

from spark_sched.predict.forecast import UNKNOWN, Forecast, Predictor, changed_of
from spark_sched.predict.recent import Recent
from spark_sched.predict.tasks.expectation import StageExpectation
from spark_sched.predict.tasks.speeds import ExecutorSpeeds
from spark_sched.protocol.events import (
    Event,
    ExecutorRemoved,
    JobStarted,
    ShortTasks,
    StageEnded,
    StageStarted,
    TaskEnded,
    TaskLaunched,
)
from spark_sched.state import JobSummary, JobView, Summary

if TYPE_CHECKING:
    from spark_sched.predict.tasks.history import TaskHistory


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Task times seen of one stage, by the task's index within it.

    Attributes:
        ended_ms: durations of tasks whose only attempt succeeded, as on an executor of average speed: those
            of an executor that is known to be slower or faster are scaled (§7).
        spoiled: tasks with an attempt that failed, was killed or lost, and tasks that got a copy. Their
            durations are not those of a task of this stage on its own: the least of two, or of a second try.
            Also tasks that ended before the stage was known, whose durations are not known.
    """

    ended_ms: Mapping[int, int]
    spoiled: frozenset[int]


#: Stages of one job whose task times are kept, since a job may be a stream without a last stage.
STAGES_KEPT = 200
_NO_TIMES: Mapping[int, StageTimes] = MappingProxyType({})
_NO_SLOWNESS: Mapping[str, float] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TaskForecast(Forecast):
    """A forecast with task times.

    Attributes:
        others: the forecast of the predictor that this one extends.
        times: of the stages seen so far, by index.
        attained_ms: slot-milliseconds of the job's attempts that are over.
        expected: what history says of each of the job's stages, by index; empty: nothing.
        slowness: of executors that differ from the average one, a task's time there over its time on that.
    """

    others: Forecast = UNKNOWN
    times: Mapping[int, StageTimes] = field(default_factory=lambda: _NO_TIMES)
    attained_ms: float = 0.0
    expected: tuple[StageExpectation, ...] = ()
    slowness: Mapping[str, float] = field(default_factory=lambda: _NO_SLOWNESS)

    def doubted(self, doubt: float) -> TaskForecast:
        """The same forecast with this probability that history does not hold for the run."""
        return replace(self, expected=tuple(replace(each, doubt=doubt) for each in self.expected))


class _SampledStage:
    __slots__ = ("ended_ms", "index", "ran_on", "slots_per_task", "slowness", "spoiled", "times")

    def __init__(self, started: StageStarted) -> None:
        self.index = started.index
        self.slots_per_task = started.slots_per_task
        self.ended_ms: dict[int, int] = {}
        self.ran_on: dict[int, str] = {}
        # How long tasks took that ended before the stage was known here is not known.
        self.spoiled = set(started.done)
        self.times: StageTimes | None = None  # as last shown
        self.slowness = _NO_SLOWNESS  # of executors, behind `times`


@dataclass(slots=True)
class _SampledJob:
    stages: Recent[str, _SampledStage] = field(default_factory=lambda: Recent(STAGES_KEPT))
    ended: Recent[str, None] = field(default_factory=lambda: Recent(STAGES_KEPT))  # of which speeds are known
    attained_ms: float = 0.0
    forecast: TaskForecast | None = None  # until something changes


class TaskTimePredictor:
    """Adds task times to what another predictor forecasts. Deterministic; memory grows with the tasks of
    active jobs, of each for its latest `STAGES_KEPT` stages.

    Args:
        others: forecasts everything else; None: nothing else is known.
        prior: predicts task times from earlier runs; None: they are unknown.
    """

    def __init__(self, others: Predictor | None = None, prior: TaskHistory | None = None) -> None:
        self._others = others
        self._observes = bool(getattr(others, "observes", True))
        self._prior = prior
        self._jobs: dict[str, _SampledJob] = {}
        # Stages that had ended at the last reset, of the jobs that were active then.
        self._ended: dict[str, Recent[str, None]] = {}
        self.speeds = ExecutorSpeeds()
        # Jobs of which something changed since the last call of `take_changed`, and the slowness shown then.
        self._changed: set[str] = set()
        self._slowness: Mapping[str, float] | None = None

    def observe(self, event: Event) -> None:
        """Follow active jobs; an event about an unknown one changes nothing."""
        if self._others is not None and self._observes:
            self._others.observe(event)
        if isinstance(event, TaskLaunched):
            if event.copy and (stage := self._stage(event.job, event.stage)) is not None:
                self._spoil(event.job, stage, event.index)
        elif isinstance(event, TaskEnded):
            self._task_ended(event)
        elif isinstance(event, ShortTasks):
            job, stage = self._jobs.get(event.job), self._stage(event.job, event.stage)
            if job is not None and stage is not None:
                stage.ended_ms.update(
                    (i, ms) for i, ms in zip(event.indices, event.durations_ms, strict=True)
                    if i not in stage.spoiled
                )  # fmt: skip
                stage.ran_on.update(dict.fromkeys(event.indices, event.executor))
                job.attained_ms += stage.slots_per_task * sum(event.durations_ms)
                stage.times = job.forecast = None
                self._changed.add(event.job)
        elif isinstance(event, JobStarted):
            self._changed.add(event.job)
            known = self._ended.pop(event.job, None)
            self._jobs.setdefault(event.job, _SampledJob() if known is None else _SampledJob(ended=known))
            if self._prior is not None:
                self._prior.job_started(event)
        elif isinstance(event, StageStarted):
            job = self._jobs.get(event.job)
            if job is not None:
                job.stages[event.stage] = _SampledStage(event)
                job.forecast = None
                self._changed.add(event.job)
                if self._prior is not None:
                    self._prior.stage_started(event)
        elif isinstance(event, StageEnded) and event.completed:
            stage = self._stage(event.job, event.stage)
            if stage is not None:
                if event.stage not in self._jobs[event.job].ended:
                    self._jobs[event.job].ended[event.stage] = None
                    self.speeds.learn(stage.ended_ms, stage.ran_on)
                if self._prior is not None:
                    self._prior.stage_ended(event.job, stage.index, list(stage.ended_ms.values()))
        elif isinstance(event, ExecutorRemoved):
            self.speeds.forget(event.executor)

    def learn(self, summary: Summary) -> None:
        """Pass the summary on, and forget a job that ended."""
        if self._others is not None:
            self._others.learn(summary)
        if isinstance(summary, JobSummary):
            self._jobs.pop(summary.job, None)
            self._changed.discard(summary.job)
            if self._prior is not None:
                self._prior.job_ended(summary.job)

    def reset(self) -> None:
        """Active jobs will be reported again; what ended before is forgotten."""
        if self._others is not None:
            self._others.reset()
        self._ended = {key: job.ended for key, job in self._jobs.items()}
        self._jobs.clear()
        if self._prior is not None:
            self._prior.reset()

    def take_changed(self) -> Set[str] | None:
        """Jobs whose forecasts may have changed though their views are the same; None: those of any."""
        changed, self._changed = self._changed, set()
        others, before, self._slowness = changed_of(self._others), self._slowness, self.speeds.differing()
        return None if others is None or before is not self._slowness else changed | others

    def forecast(self, job: JobView) -> TaskForecast:
        """The other predictor's forecast, with the job's task times so far."""
        other = UNKNOWN if self._others is None else self._others.forecast(job)
        expected = () if self._prior is None else self._prior.expected(job.job, other)
        known = self._jobs.get(job.job)
        slowness = self.speeds.differing()
        forecast = None if known is None else known.forecast
        if (
            forecast is not None
            and forecast.others is other
            and forecast.expected is expected
            and forecast.slowness is slowness
        ):
            return forecast
        times, attained_ms = _NO_TIMES, 0.0
        if known is not None:
            for stage in known.stages.values():
                if stage.times is None or stage.slowness is not slowness:
                    stage.times = StageTimes(self._average_ms(stage), frozenset(stage.spoiled))
                    stage.slowness = slowness
            times = MappingProxyType(
                {stage.index: stage.times for stage in known.stages.values() if stage.times}
            )
            attained_ms = known.attained_ms
        forecast = TaskForecast(*(*_fields(other), other, times, attained_ms, expected, slowness))
        if known is not None:
            known.forecast = forecast
        return forecast

    def _average_ms(self, stage: _SampledStage) -> dict[int, int]:
        """Times of the stage's tasks as on an executor of average speed."""
        if not self.speeds.all_alike:
            return {
                i: max(1, round(ms / self.speeds.as_shown(stage.ran_on[i])))
                for i, ms in stage.ended_ms.items()
            }
        if min(stage.ended_ms.values(), default=1) >= 1:
            return stage.ended_ms.copy()
        return {i: max(1, ms) for i, ms in stage.ended_ms.items()}

    def _stage(self, job: str, stage: str) -> _SampledStage | None:
        known = self._jobs.get(job)
        return None if known is None else known.stages.get(stage)

    def _spoil(self, job: str, stage: _SampledStage, index: int) -> None:
        stage.spoiled.add(index)
        stage.ended_ms.pop(index, None)
        stage.times = self._jobs[job].forecast = None
        self._changed.add(job)

    def _task_ended(self, event: TaskEnded) -> None:
        job = self._jobs.get(event.job)
        if job is None:
            return
        stage = job.stages.get(event.stage)
        job.attained_ms += event.duration_ms * (1 if stage is None else stage.slots_per_task)
        job.forecast = None
        self._changed.add(event.job)
        if stage is None:
            return
        if event.outcome == "success" and not event.copy and event.index not in stage.spoiled:
            stage.ended_ms[event.index] = event.duration_ms
            stage.ran_on[event.index] = event.executor
            stage.times = None
        elif event.outcome != "success":
            self._spoil(event.job, stage, event.index)


_fields = attrgetter(*(f.name for f in fields(Forecast)))
