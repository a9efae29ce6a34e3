"""3SigmaPredict for active jobs: it follows events and adds runtimes to forecasts of stages."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import Protocol

from spark_sched.predict.forecast import UNKNOWN, Forecast, Predictor, changed_of
from spark_sched.predict.runtimes.distribution import RuntimeDistribution
from spark_sched.predict.runtimes.features import JobAttributes
from spark_sched.predict.runtimes.predictor import (
    LIVE_VALUES_KEPT,
    Lesson,
    Prediction,
    Submission,
    ThreeSigmaPredict,
    lesson,
)
from spark_sched.predict.stages.history import StageHistory
from spark_sched.protocol.events import Event, JobStarted, ShortTasks, StageStarted, TaskEnded, TaskLaunched
from spark_sched.state import JobSummary, JobView, Summary

_OF_ATTEMPTS = frozenset((TaskLaunched, TaskEnded, ShortTasks))
#: Prefix of the labels of features that combine a user with a job name.
_OWN = "user × name"


class RuntimeStore(Protocol):
    """Stores what `ThreeSigmaPredict` learns beyond the end of this process. Must not raise: a lost history
    reduces quality, but must not stop progress."""

    def load(self) -> ThreeSigmaPredict:
        """All that was kept."""
        ...

    def save(self, predictor: ThreeSigmaPredict, ended: Sequence[Lesson]) -> None:
        """Store lessons of jobs and let ``predictor`` learn them, with those that other processes stored.

        Both happen when the planner says that the job's end is complete.
        """
        ...


@dataclass(slots=True)
class _ActiveJob:
    job: JobAttributes
    submission: Submission
    prediction: Prediction | None
    slots_known: bool = False
    running: int = 0
    succeeded: bool = False
    first_launch_ms: int | None = None
    last_end_ms: int = 0
    # The forecast with the runtime, and the two that it was made of.
    made: tuple[Forecast, Prediction, Forecast] | None = None


class RuntimeHistory:
    """Forecasts runtimes from history, and leaves everything else to another predictor.

    A runtime lasts from the job's first task to the end of its last one. Tasks that were evicted before any
    had succeeded do not count: the job starts over. Jobs that did not complete teach nothing. A job's
    forecast is fixed when its first stage starts, because its slots are known then.

    Args:
        others: forecasts stages and task times.
        store: keeps runtimes beyond this process; None: nothing does.
        own_names: users choose names, so that a name counts for its user alone.
    """

    def __init__(
        self,
        others: Predictor | None = None,
        store: RuntimeStore | None = None,
        *,
        own_names: bool = False,
    ) -> None:
        self._own_names = own_names
        self._others = others
        # Most events are of attempts, of which many predictors need none.
        self._others_observe_attempts = bool(getattr(others, "observes_attempts", True))
        self._store = store
        self.predictor = ThreeSigmaPredict(LIVE_VALUES_KEPT) if store is None else store.load()
        self._active: dict[str, _ActiveJob] = {}
        # Submissions of the jobs that were active at the last reset.
        self._retold: dict[str, Submission] = {}
        # Jobs whose predictions have changed.
        self._changed: set[str] = set()

    def observe(self, event: Event) -> None:
        """Follow submissions, and first and last tasks."""
        if self._others is not None and (self._others_observe_attempts or type(event) not in _OF_ATTEMPTS):
            self._others.observe(event)
        if isinstance(event, TaskLaunched):
            active = self._active.get(event.job)
            if active is not None:
                active.running += 1
                if active.first_launch_ms is None:
                    active.first_launch_ms = event.time_ms
        elif isinstance(event, TaskEnded):
            active = self._active.get(event.job)
            if active is not None:
                if active.running:
                    active.running -= 1
                if event.time_ms > active.last_end_ms:
                    active.last_end_ms = event.time_ms
                active.succeeded = active.succeeded or event.outcome == "success"
                if not active.running and not active.succeeded:
                    # All its tasks were evicted before one succeeded: it starts over.
                    active.first_launch_ms = None
        elif isinstance(event, ShortTasks):
            active = self._active.get(event.job)
            if active is not None:
                # Only the duration of each is known: the longest one began at least this long ago.
                if active.first_launch_ms is None:
                    active.first_launch_ms = event.time_ms - max(event.durations_ms)
                active.last_end_ms = max(active.last_end_ms, event.time_ms)
                active.succeeded = True
        elif isinstance(event, JobStarted):
            if event.job not in self._active:
                self._active[event.job] = self._submitted(event)
                self._changed.add(event.job)
        elif isinstance(event, StageStarted):
            active = self._active.get(event.job)
            if active is not None and not active.slots_known and event.index == 0:
                active.slots_known = True
                active.job = replace(active.job, slots=event.tasks)
                active.submission = self.predictor.submit(active.job, active.submission)
                active.prediction = self.predictor.predict(active.submission)
                self._changed.add(event.job)

    def take_changed(self) -> Set[str] | None:
        """Jobs whose forecasts may have changed though their views are the same; None: those of any."""
        changed, self._changed = self._changed, set()
        others = changed_of(self._others)
        return None if others is None else changed | others

    def learn(self, summary: Summary) -> None:
        if self._others is not None:
            self._others.learn(summary)
        if not isinstance(summary, JobSummary):
            return
        self._changed.discard(summary.job)
        active = self._active.pop(summary.job, None)
        if active is None or summary.cut_short or not active.succeeded or active.first_launch_ms is None:
            return
        if not active.last_end_ms:
            return  # all its tasks had ended before this planner came, and nobody said when
        runtime_s = max(0, active.last_end_ms - active.first_launch_ms) / 1000.0
        learned = lesson(active.submission, runtime_s, active.prediction)
        if self._store is None:
            self.predictor.take(learned)
        else:
            self._store.save(self.predictor, [learned])

    def reset(self) -> None:
        """Forget the active jobs, which events will report again; keep history."""
        if self._others is not None:
            self._others.reset()
        self._retold = {key: active.submission for key, active in self._active.items()}
        self._active.clear()

    def forecast(self, job: JobView) -> Forecast:
        """The forecast of an active job, with the source of its runtime."""
        other = UNKNOWN if self._others is None else self._others.forecast(job)
        active = self._active.get(job.job)
        if active is None or active.prediction is None:
            return other
        prediction = active.prediction
        if active.made is None or active.made[0] is not other or active.made[1] is not prediction:
            active.made = other, prediction, _with_runtime(other, prediction)
        return active.made[2]

    def history_of(self, job: str) -> RuntimeDistribution | None:
        """The runtime of an active job by history alone, before calibration."""
        active = self._active.get(job)
        prediction = None if active is None else active.prediction
        return None if prediction is None else prediction.history

    def foresee(self, job: JobAttributes) -> Forecast:
        """The runtime forecast of a job that has not been submitted; changes nothing.

        If this user's jobs of this name have a history, only that history is used: other users' jobs, however
        regular, say less about a job than its own earlier runs.
        """
        # The time since the last submission of this name is not a feature here: a query is not a submission.
        job = replace(job, own_name=self._own_names)
        submission = self.predictor.submit(job, Submission(job, (), (), None))
        prediction = self.predictor.predict(_of_its_own(submission))
        stages = UNKNOWN
        if isinstance(self._others, StageHistory):
            stages = self._others.foresee(job.name, job.user)
        if prediction is None:
            return stages
        return replace(_with_runtime(stages, prediction), source="3sigma")

    def _submitted(self, event: JobStarted) -> _ActiveJob:
        job = JobAttributes(
            submit_s=event.time_ms / 1000.0,
            user=event.user,
            # A name that the driver generated for unmarked work does not recur.
            name=event.name if event.name and event.name != event.job else None,
            job_class=event.job_class,
            priority=event.priority,
            own_name=self._own_names,
        )
        # A job that is reported again was submitted when it was reported first.
        submission = self.predictor.submit(job, self._retold.pop(event.job, None))
        prediction = self.predictor.predict(submission)
        # A planner that started later did not see the first tasks: some may have succeeded.
        begun = event.begun_ms is not None
        return _ActiveJob(
            job,
            submission,
            prediction,
            succeeded=begun,
            first_launch_ms=event.begun_ms,
            last_end_ms=event.last_end_ms or 0,
        )


def _with_runtime(other: Forecast, prediction: Prediction) -> Forecast:
    # A call by position: `replace` takes several times as long.
    return Forecast(
        other.stage_tasks,
        other.alpha,
        other.t_m_ms,
        other.source if other.source != "none" else "3sigma",
        other.runs,
        other.samples,
        prediction.runtime,
        prediction.estimate_s,
        prediction.source,
        _is_own(prediction),
        other.gap_ms,
        other.own_runs,
        other.latest,
        other.stages_begun,
        other.so_far,
    )


def _is_own(prediction: Prediction) -> bool:
    """Whether its history is that of the program, whatever else the feature has."""
    return not {"name", "application"}.isdisjoint(prediction.feature.split(" × "))


def _of_its_own(submission: Submission) -> Submission:
    """Drops the features shared with other jobs if a job of this user and name has ended before."""
    own = [
        (feature, guesses_s)
        for feature, guesses_s in zip(submission.features, submission.guesses_s, strict=True)
        if feature[0].startswith(_OWN)
    ]
    if not any(guesses_s for _, guesses_s in own):
        return submission
    return replace(
        submission,
        features=tuple(feature for feature, _ in own),
        guesses_s=tuple(guesses_s for _, guesses_s in own),
    )
