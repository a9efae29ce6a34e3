"""Mean task times by feature, from history: 3Sigma's predictor as SLearn §4.2 and §6 use it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spark_sched.events import JobStarted, PhaseStarted
from spark_sched.predict.features import JobAttributes
from spark_sched.predict.forecast import Forecast
from spark_sched.predict.pilots import PhaseExpectation
from spark_sched.predict.sigma import Prediction, SigmaPredict, Submission

__all__ = ["PhaseTold", "Spreads", "TaskHistory", "log_spread"]

#: Phases of which one job's spread is learned count as so many: a stranger's spread is everyone's.
_SPREAD_DOUBT = 2.0
#: Spread to expect while no phase has ended: a factor of 1.3 either way.
_FIRST_SPREAD = math.log(1.3)
#: Share of a spread's record that a new phase replaces in the long run.
_SPREAD_KEEPS = 0.95
_ALL_KEEPS = 0.999
#: Spreads below are as good as none.
_LEAST_SPREAD = 0.001


@dataclass(frozen=True, slots=True)
class PhaseTold:
    """What is known of one phase of a job when the job is submitted.

    Attributes:
        tasks: its width.
        attributes: what its history is looked up by.
    """

    tasks: int
    attributes: JobAttributes


class Spreads:
    """The standard deviation of the logarithm of task times within a phase, by recurring name: its geometric
    mean over phases, as a few phases with a straggler say nothing of most."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str | None, str | None], tuple[float, float]] = {}
        self._all = (math.log(_FIRST_SPREAD), 1.0)

    def add(self, job: JobAttributes, spread: float) -> None:
        """Take in one phase's spread, >= 0."""
        value = math.log(max(spread, _LEAST_SPREAD))
        total, weight = self._sums.get(job.recurs, (0.0, 0.0))
        self._sums[job.recurs] = total * _SPREAD_KEEPS + value, weight * _SPREAD_KEEPS + 1.0
        total, weight = self._all
        self._all = total * _ALL_KEEPS + value, weight * _ALL_KEEPS + 1.0

    def expect(self, job: JobAttributes) -> float:
        """The spread to expect of a phase of this job: its own past's, everyone's where it has little."""
        total, weight = self._all
        mine, runs = self._sums.get(job.recurs, (0.0, 0.0))
        return math.exp((mine + _SPREAD_DOUBT * total / weight) / (runs + _SPREAD_DOUBT))


def log_spread(tasks_s: Sequence[float]) -> float | None:
    """The standard deviation of the logarithm of task times (each above 0); None for fewer than two."""
    if len(tasks_s) < 2:
        return None
    logs = [math.log(max(1e-3, value)) for value in tasks_s]
    mean = sum(logs) / len(logs)
    return math.sqrt(sum((value - mean) ** 2 for value in logs) / (len(logs) - 1))


@dataclass(slots=True)
class _Known:
    """One phase of an active job: what was submitted and told."""

    submission: Submission
    told: Prediction | None
    tasks: int


class TaskHistory:
    """Expects mean task times by `SigmaPredict`, each phase by its own attributes. A `TaskPrior`.

    Args:
        sigma: what it learned so far, and goes on to learn if ``learns``.
        told: phases of jobs by job key, where they are known when the job is submitted (a trace's); None:
            phases are known when they start, by their job's user and name and by their index, and later ones
            by how many tasks the forecast expects of them.
        learns: whether phases that end are learned.
    """

    def __init__(
        self,
        sigma: SigmaPredict | None = None,
        told: Mapping[str, Sequence[PhaseTold]] | None = None,
        *,
        learns: bool = True,
    ) -> None:
        self.sigma = SigmaPredict() if sigma is None else sigma
        self.spreads = Spreads()
        self._told = told
        self._learns = learns
        self._jobs: dict[str, dict[int, _Known]] = {}
        self._started: dict[str, JobStarted] = {}
        self._cache: dict[str, tuple[PhaseExpectation, ...]] = {}

    def learn(
        self,
        attributes: JobAttributes,
        tasks_s: Sequence[float],
        told: tuple[Submission, Prediction | None] | None = None,
    ) -> None:
        """Take in a phase that ended, by all its task times in seconds.

        Args:
            told: what was submitted and predicted when its job came; None: now.
        """
        if not tasks_s:
            return
        submission, prediction = told or (self.sigma.submit(attributes), None)
        self.sigma.learn(submission, sum(tasks_s) / len(tasks_s), prediction)
        spread = log_spread(tasks_s)
        if spread is not None:
            self.spreads.add(attributes, spread)

    def ask(self, phase: PhaseTold) -> tuple[Submission, Prediction | None]:
        """What is submitted and predicted for a phase now."""
        submission = self.sigma.submit(phase.attributes)
        return submission, self.sigma.predict(submission)

    def expectation(self, phase: PhaseTold, prediction: Prediction | None) -> PhaseExpectation:
        """A prediction as policies read it."""
        spread = self.spreads.expect(phase.attributes)
        if prediction is None:
            return PhaseExpectation(phase.tasks, None, spread)
        return PhaseExpectation(
            phase.tasks, prediction.history, spread, prediction.source, prediction.runtime
        )

    # ---- as a TaskPrior ----

    def job_started(self, event: JobStarted) -> None:
        if self._told is None:
            self._started[event.job] = event
            self._jobs[event.job] = {}
            return
        for index, phase in enumerate(self._told.get(event.job, ())):
            self._keep(event.job, index, phase)

    def phase_started(self, event: PhaseStarted) -> None:
        started = self._started.get(event.job)
        if self._told is None and started is not None:
            self._keep(event.job, event.index, self._live(started, event.index, event.tasks))

    def phase_ended(self, job: str, index: int, tasks_ms: list[int]) -> None:
        known = self._jobs.get(job, {}).get(index)
        if self._learns and known is not None:
            seconds = [ms / 1000.0 for ms in tasks_ms]
            self.learn(known.submission.job, seconds, (known.submission, known.told))

    def job_ended(self, job: str) -> None:
        self._jobs.pop(job, None)
        self._started.pop(job, None)
        self._cache.pop(job, None)

    def reset(self) -> None:
        self._jobs.clear()
        self._started.clear()
        self._cache.clear()

    def expected(self, job: str, forecast: Forecast) -> tuple[PhaseExpectation, ...]:
        phases = self._jobs.get(job)
        if phases is None:
            return ()
        cached = self._cache.get(job)
        if cached is not None and len(cached) >= max(len(forecast.phase_tasks), max(phases, default=-1) + 1):
            return cached
        found = []
        for index in range(max(max(phases, default=-1) + 1, len(forecast.phase_tasks))):
            known = phases.get(index)
            if known is not None:
                phase = PhaseTold(known.tasks, known.submission.job)
                found.append(self.expectation(phase, known.told))
            else:
                # Not seen, or over before anybody looked: what earlier runs of the name had.
                tasks = forecast.phase_tasks[index] if index < len(forecast.phase_tasks) else 0
                phase = self._live(self._started[job], index, tasks)
                features = self.sigma.submit(phase.attributes)
                found.append(self.expectation(phase, self.sigma.predict(features)))
        self._cache[job] = tuple(found)
        return self._cache[job]

    def _keep(self, job: str, index: int, phase: PhaseTold) -> None:
        submission, told = self.ask(phase)
        self._jobs.setdefault(job, {})[index] = _Known(submission, told, phase.tasks)
        self._cache.pop(job, None)

    def _live(self, event: JobStarted, index: int, tasks: int) -> PhaseTold:
        named = event.name and event.name != event.job
        return PhaseTold(
            tasks,
            JobAttributes(
                submit_s=event.time_ms / 1000.0,
                user=event.user,
                name=f"{event.name} / phase {index}" if named else None,
                job_class=event.job_class,
                priority=event.priority,
                slots=tasks or None,
            ),
        )
