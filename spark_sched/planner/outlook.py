"""When jobs are expected to end: the part of a plan that is for people, beside its rules."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping

from spark_sched.policies import EndQuantiles, JobPlan, Plan
from spark_sched.predict import UNKNOWN, Forecast, RuntimeDistribution
from spark_sched.predict.ends import EndCorrection, Situation
from spark_sched.state import JobSummary, JobView, Snapshot, Summary

#: Least time between two computations of ends, and most jobs in one: it takes 50 µs per job.
_EVERY_MS = 1_000.0
_MOST_JOBS = 200
#: A job that is older than this when first seen is no newcomer. Plans may be more than a second apart.
_NEW_MS = 5 * _EVERY_MS
_QUANTILES = (0.1, 0.5, 0.9)


class Outlook:
    """Ends of jobs from the forecasts of their runtimes.

    A runtime starts with the job's first task. The snapshot does not show that time for a job between two
    stages, so this class remembers when it first saw each job with a task. Ends are corrected by the
    quantiles of their own forecasts at which earlier jobs ended (`EndCorrection`).

    Args:
        clock_ms: a monotonic clock in milliseconds.
        correct: false: ends follow from history and plan alone, for comparison.
    """

    def __init__(self, clock_ms: Callable[[], float], *, correct: bool = True) -> None:
        self._clock_ms = clock_ms
        self._correction = EndCorrection() if correct else None
        self._begun_ms: dict[str, int] = {}
        self._arrived: Collection[str] = frozenset()
        self._made_at_ms = -float("inf")
        self._last: Mapping[str, EndQuantiles] = {}

    @property
    def begun(self) -> Collection[str]:
        """Active jobs that were seen with a task."""
        return self._begun_ms.keys()

    def clear(self) -> None:
        """Forget the active jobs: events will report them again."""
        self._begun_ms.clear()
        self._arrived = frozenset()
        self._made_at_ms = -float("inf")
        if self._correction is not None:
            self._correction.clear()

    def learn(self, summary: Summary) -> None:
        if self._correction is None or not isinstance(summary, JobSummary):
            return
        if summary.cut_short:
            self._correction.forget(summary.job)
        else:
            self._correction.ended(summary.job, summary.ended_ms)

    def see(self, snapshot: Snapshot) -> None:
        """Remember who has begun."""
        gone = self._begun_ms.keys() - snapshot.jobs.keys()
        for key in gone:
            del self._begun_ms[key]
        for key, view in snapshot.jobs.items():
            if key not in self._begun_ms and view.running_slots > 0:
                self._begun_ms[key] = view.begun_ms

    def ends(
        self, snapshot: Snapshot, known: Mapping[str, Forecast], plan: Plan, now_ms: int
    ) -> Mapping[str, EndQuantiles]:
        """Expected ends by job, of those first in rank; ``now_ms`` is the driver's clock."""
        if self._clock_ms() - self._made_at_ms >= _EVERY_MS:
            self._made_at_ms = self._clock_ms()
            found = {}
            crowd, first = _crowd(snapshot), True
            for entry in plan.jobs[:_MOST_JOBS]:
                view, forecast = snapshot.jobs.get(entry.job), known.get(entry.job, UNKNOWN)
                if view is not None:
                    self._note_arrival(view, forecast, entry, snapshot, first, now_ms)
                    end = self._end(view, forecast, entry, now_ms, (first, crowd))
                    if end is not None:
                        found[entry.job] = end
                first = first and entry.job in self._begun_ms
            self._arrived = frozenset(snapshot.jobs)
            self._last = found
        return self._last

    def of_newcomer(
        self, job: str, given: RuntimeDistribution, snapshot: Snapshot, plan: Plan, now_ms: int
    ) -> RuntimeDistribution:
        """Seconds from now to the end of a job that arrives now and is in the snapshot and the plan.
        ``given`` are the uncorrected seconds, from history and plan.
        """
        if self._correction is None:
            return given
        before = itertools.takewhile(lambda entry: entry.job != job, plan.jobs)
        first = all(entry.job in self._begun_ms for entry in before)
        situation = _arrival(job, snapshot, first)
        return self._correction.corrected(situation, given, now_ms)

    def _note_arrival(
        self,
        view: JobView,
        forecast: Forecast,
        entry: JobPlan,
        snapshot: Snapshot,
        first: bool,
        now_ms: int,
    ) -> None:
        """For a job new since the last computation, record the forecast that `of_newcomer` would make."""
        if self._correction is None or view.job in self._arrived or forecast.runtime is None:
            return
        if now_ms - view.started_ms > _NEW_MS:
            return  # it is older than this planner or its last reset: such jobs are mostly long ones
        if entry.start_ms is not None or not entry.deferred:
            wait_s = max(0, (entry.start_ms or 0) - view.started_ms) / 1000.0
            given = forecast.runtime.later(wait_s)
            self._correction.note(view.job, _arrival(view.job, snapshot, first), view.started_ms, given)

    def _end(
        self, view: JobView, forecast: Forecast, entry: JobPlan, now_ms: int, others: tuple[bool, float]
    ) -> EndQuantiles | None:
        runtime = forecast.runtime
        begun_ms = self._begun_ms.get(view.job)
        if runtime is None or (begun_ms is None and entry.deferred and entry.start_ms is None):
            return None  # its start is unknown
        # 1. Seconds from the job's submission, or from its first task, to its end, by history.
        if begun_ms is None:
            origin_ms = min(view.started_ms, now_ms)
            wait_s = (max(now_ms, entry.start_ms or now_ms) - origin_ms) / 1000.0
            given = runtime.later(wait_s)
        else:
            origin_ms = begun_ms
            given = runtime.conditional((now_ms - origin_ms) / 1000.0)
        # 2. Correct them by the errors of such forecasts. The job still runs, so its end is never in the
        # past.
        passed_s = (now_ms - origin_ms) / 1000.0
        if self._correction is not None:
            age = passed_s / max(1e-3, float(runtime.quantile(0.5)))
            situation = Situation(begun_ms is not None, *others, age, priority=view.marks.priority)
            self._correction.note(view.job, situation, origin_ms, given)
            given = self._correction.corrected(situation, given, now_ms).conditional(passed_s)
        # 3. In words for people.
        low, middle, high = (origin_ms + round(1000.0 * float(t)) for t in given.quantile(_QUANTILES))
        probability = None
        if view.marks.deadline_ms is not None:
            probability = float(given.cdf((view.marks.deadline_ms - origin_ms) / 1000.0))
        return EndQuantiles(low, middle, high, probability)


def _arrival(job: str, snapshot: Snapshot, first: bool) -> Situation:
    crowd, priority = _crowd(snapshot, without=job), snapshot.jobs[job].marks.priority
    return Situation(begun=False, first=first, crowd=crowd, age=0.0, arrives=True, priority=priority)


def _crowd(snapshot: Snapshot, without: str | None = None) -> float:
    """Waiting tasks per slot, without those of one job."""
    waiting = sum(
        max(0, stage.tasks - stage.finished - len(stage.running))
        for view in snapshot.jobs.values()
        if view.job != without
        for stage in view.stages
    )
    return waiting / max(1, snapshot.slots)
