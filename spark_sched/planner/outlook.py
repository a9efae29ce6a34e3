"""When jobs are expected to start and to end: the part of a plan that is for people, beside its rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from spark_sched.arrays import Floats
from spark_sched.config.queues import QueueTree
from spark_sched.planner.queue import Entry, QueuePlayer
from spark_sched.planner.tenants import Tenants
from spark_sched.policies import EndQuantiles, JobForecast, Plan, QueuedBehind
from spark_sched.predict import UNKNOWN, Forecast, RuntimeDistribution
from spark_sched.predict.ends import SHOWN, Bend, Category, EndCorrection, Situation, sample_quantile
from spark_sched.predict.later import LaterArrivals
from spark_sched.state import JobSummary, JobView, Snapshot, Summary

#: Least time between two computations of ends, and most jobs in one.
_EVERY_MS = 1_000.0
_MOST_JOBS = 1_000
#: A computation that takes longer comes less often: computations take a fiftieth of a processor.
_PAUSES = 50.0
#: A job that is older than this when first seen, and than the computation before, is no newcomer: it may be
#: older than this planner. Younger ones always are: their events may have come late.
_NEW_MS = 5 * _EVERY_MS
#: Share of the samples in which a job must end for its end to be a number.
_ENOUGH = 0.95
#: Knots of a forecast that is kept until its job ends.
_KNOTS = np.linspace(0.0, 1.0, 17)
_LEAST_S = 1e-3


@dataclass(frozen=True, slots=True)
class _Rows:
    """Some of the jobs, and in ascending order the samples of their starts or ends: (jobs, samples), in s."""

    at: list[int]
    samples_s: Floats


class Outlook:
    """Starts and ends of jobs: the plan is played forward as a queue, with what remains of each job.

    The snapshot does not show when a job began that is between two stages, so this class remembers when it
    first saw each job with a task. Starts and ends are corrected by the quantiles of their own forecasts at
    which earlier jobs started and ended (`EndCorrection`).

    Args:
        clock_ms: a monotonic clock in milliseconds.
        work_ms: the processor time of this thread, by which computations are paced; None: as the clock.
        correct: false: ends follow from history and plan alone, for comparison.
        tree: the tenants' queues; None: there are none.
    """

    def __init__(
        self,
        clock_ms: Callable[[], float],
        *,
        work_ms: Callable[[], float] | None = None,
        correct: bool = True,
        tree: QueueTree | None = None,
    ) -> None:
        self._clock_ms = clock_ms
        self._work_ms = clock_ms if work_ms is None else work_ms
        self._ends = EndCorrection() if correct else None
        self._starts = EndCorrection() if correct else None
        self._player = QueuePlayer(Tenants(tree))
        self._later = LaterArrivals()
        self._begun_ms: dict[str, int] = {}
        # The jobs of the last computation, and whether they had begun.
        self._known: dict[str, bool] = {}
        self._before_ms: int | None = None
        self._again_at_ms = -float("inf")
        self._last: Mapping[str, JobForecast] = {}

    @property
    def begun(self) -> Collection[str]:
        """Active jobs that were seen with a task."""
        return self._begun_ms.keys()

    def clear(self) -> None:
        """Forget the active jobs: events will report them again."""
        self._begun_ms.clear()
        self._player.tenants.clear()
        self._known = {}
        self._before_ms = None
        self._again_at_ms = -float("inf")
        for correction in filter(None, (self._ends, self._starts)):
            correction.clear()

    def learn(self, summary: Summary) -> None:
        if not isinstance(summary, JobSummary):
            return
        self._player.tenants.forget(summary.job)
        if self._ends is None or self._starts is None:
            return
        self._starts.forget(summary.job)
        if summary.cut_short:
            self._ends.forget(summary.job)
        else:
            self._ends.ended(summary.job, summary.ended_ms)

    def see(self, snapshot: Snapshot) -> None:
        """Remember who has begun."""
        gone = self._begun_ms.keys() - snapshot.jobs.keys()
        for key in gone:
            del self._begun_ms[key]
        for key, view in snapshot.jobs.items():
            if key not in self._begun_ms and view.running_slots > 0:
                self._begun_ms[key] = view.begun_ms
                if self._starts is not None:
                    self._starts.ended(key, view.begun_ms)

    def ends(
        self, snapshot: Snapshot, known: Mapping[str, Forecast], plan: Plan, now_ms: int
    ) -> Mapping[str, JobForecast]:
        """Forecasts by job, of those first in rank; ``now_ms`` is the driver's clock."""
        began_ms = self._clock_ms()
        if began_ms >= self._again_at_ms:
            # Also after an error: it is no reason to compute them all the time.
            self._again_at_ms = began_ms + _EVERY_MS
            work_ms = self._work_ms()
            self._last = self._forecasts(snapshot, known, plan, now_ms)
            self._known, self._before_ms = {job: job in self._begun_ms for job in snapshot.jobs}, now_ms
            self._again_at_ms = began_ms + max(_EVERY_MS, _PAUSES * (self._work_ms() - work_ms))
        return self._last

    def due_ms(self, snapshot: Snapshot) -> float:
        """When forecasts are to be made anew, on the clock: as soon as possible if jobs have come, begun or
        ended since the last ones; infinite: they may stay."""
        if not self._known.keys() - snapshot.jobs.keys() and all(
            self._known.get(job) == (job in self._begun_ms) for job in snapshot.jobs
        ):
            return math.inf
        return self._again_at_ms

    def of_newcomer(
        self,
        job: str,
        snapshot: Snapshot,
        known: Mapping[str, Forecast],
        plan: Plan,
        now_ms: int,
        given: RuntimeDistribution | None = None,
    ) -> RuntimeDistribution | None:
        """Seconds from now to the end of a job that arrives now and is in the snapshot and the plan; None:
        unknown, or behind more jobs than are played. ``given``: uncorrected seconds, of a policy that plans
        starts."""
        if given is None:
            entries = self._player.entries(snapshot, known, plan, self._begun_ms, now_ms, _MOST_JOBS)
            # The next question is about another job of the same key.
            self._player.tenants.forget(job)
            at = next((at for at, each in enumerate(entries) if each.view.job == job), None)
            if at is None:
                return None
            samples_s = self._played(entries, snapshot, plan, now_ms)[1][:, at]
            if np.isfinite(samples_s).mean() < _ENOUGH:
                return None
            ascending = np.sort(_finite(samples_s[None, :]), axis=1)[0]
            levels = (np.arange(ascending.size) + 0.5) / ascending.size
            levels[-1] = 1.0
            given = RuntimeDistribution.trusted(ascending, levels)
        if self._ends is None:
            return given
        before = takewhile(lambda other: other != job, (each.job for each in plan.jobs))
        first = all(other in self._begun_ms for other in before if other in snapshot.jobs)
        view = snapshot.jobs[job]
        crowd = (_waiting(snapshot) - _open_tasks(view)) / max(1, snapshot.slots)
        situation = _arrival(view, first, crowd, _recurs(known, job))
        return self._ends.corrected(situation, given, now_ms)

    def _played(
        self, entries: Sequence[Entry], snapshot: Snapshot, plan: Plan, now_ms: int
    ) -> tuple[Floats, Floats]:
        """Seconds until starts and ends, shape (samples, jobs)."""
        played = self._player.play(entries, plan, snapshot.slots, now_ms, self._later)
        return played.start_ms / 1000.0, np.maximum(played.end_ms / 1000.0, _LEAST_S)

    def _forecasts(
        self, snapshot: Snapshot, known: Mapping[str, Forecast], plan: Plan, now_ms: int
    ) -> dict[str, JobForecast]:
        # 1. Play the plan.
        entries = self._player.entries(snapshot, known, plan, self._begun_ms, now_ms, _MOST_JOBS)
        if not entries:
            return {}
        start_s, end_s = self._played(entries, snapshot, plan, now_ms)
        for each in sorted(entries, key=lambda each: each.view.started_ms):
            if self._is_new(each.view, now_ms):
                rest = each.rest
                width = rest.slot_ms / rest.total_ms if 0.0 < rest.total_ms < math.inf else rest.width[0]
                self._later.arrive(each.view.started_ms, each.kind, rest.slot_ms, max(1.0, width))
        # 2. Who has a number: those that end in nearly all samples.
        numbers = np.flatnonzero(np.isfinite(end_s).mean(axis=0) >= _ENOUGH)
        found: dict[str, JobForecast] = {
            each.view.job: QueuedBehind(at)
            for at, each in enumerate(entries)
            # A job deferred without a start waits for the plan, whatever is known about those before it.
            if at > 0 and each.begun_ms is None and not (each.plan.deferred and each.plan.start_ms is None)
        }
        if not numbers.size:
            return found
        situations = self._situations(entries, snapshot, known, now_ms)
        # 3. Correct them by the errors of such forecasts.
        ends = _Rows(numbers.tolist(), np.sort(_finite(end_s[:, numbers].T), axis=1))
        quantiles, chances = self._corrected(self._ends, ends, entries, situations, now_ms)
        has_start = np.isfinite(start_s).mean(axis=0) >= _ENOUGH
        waiting = [at for at in ends.at if entries[at].begun_ms is None and has_start[at]]
        starts = _Rows(waiting, np.sort(np.maximum(_LEAST_S, _finite(start_s[:, waiting].T)), axis=1))
        start_quantiles, _ = self._corrected(self._starts, starts, entries, situations, now_ms)
        # 4. In words for people. A job does not end before it starts.
        start_of = dict(zip(waiting, start_quantiles, strict=True))
        for row, at in enumerate(ends.at):
            low, middle, high = (now_ms + round(1000.0 * float(t)) for t in quantiles[row])
            start = start_of.get(at)
            begins = None
            if start is not None:
                first, second, third = (now_ms + round(1000.0 * float(t)) for t in start)
                begins = (min(first, low), min(second, middle), min(third, high))
            found[entries[at].view.job] = EndQuantiles(low, middle, high, chances.get(at), begins)
        return found

    def _is_new(self, view: JobView, now_ms: int) -> bool:
        """Whether it arrived since the last computation."""
        since_ms = now_ms - _NEW_MS
        if self._before_ms is not None:
            since_ms = min(since_ms, self._before_ms)
        return view.job not in self._known and view.started_ms >= since_ms

    def _situations(
        self, entries: Sequence[Entry], snapshot: Snapshot, known: Mapping[str, Forecast], now_ms: int
    ) -> list[tuple[Situation, Situation | None]]:
        """What each job's forecast depends on; and that of its arrival, if it has just arrived."""
        waiting, slots, first = _waiting(snapshot), max(1, snapshot.slots), True
        found: list[tuple[Situation, Situation | None]] = []
        for each in entries:
            view, begun_ms = each.view, each.begun_ms
            passed_ms = now_ms - (view.started_ms if begun_ms is None else begun_ms)
            age = passed_ms / max(1.0, each.rest.total_ms)
            crowd = waiting / slots
            recurs = _recurs(known, view.job)
            situation = Situation(
                begun_ms is not None, first, crowd, age, priority=view.marks.priority, recurs=recurs
            )
            arrival = None
            if self._is_new(view, now_ms):
                # Older ones are older than this planner or its last reset: such jobs are mostly long ones.
                arrival = _arrival(view, first, (waiting - _open_tasks(view)) / slots, recurs)
            found.append((situation, arrival))
            first = first and begun_ms is not None
        return found

    def _corrected(
        self,
        correction: EndCorrection | None,
        rows: _Rows,
        entries: Sequence[Entry],
        situations: Sequence[tuple[Situation, Situation | None]],
        now_ms: int,
    ) -> tuple[Floats, dict[int, float]]:
        """Quantiles of each row, and the chances of the jobs with a deadline."""
        ends_s = rows.samples_s
        quantiles = np.stack([sample_quantile(ends_s, level) for level in SHOWN], axis=1)
        chances: dict[int, float] = {}
        rows_of: dict[Bend, list[int]] = {}
        bends: dict[Category, Bend | None] = {}
        knots_s = _knots(ends_s)
        for row, at in enumerate(rows.at):
            view, (situation, arrival) = entries[at].view, situations[at]
            bend, given = None, None
            if correction is not None:
                narrowest = situation.narrowest
                if correction.is_new(view.job, narrowest):
                    given = _kept(knots_s[row])
                    if arrival is not None:
                        # From the submission on: a busy planner may see a job first when it is about to end.
                        since_ms = max(0, now_ms - view.started_ms)
                        correction.note(view.job, arrival, now_ms - since_ms, given.later(since_ms / 1000.0))
                    correction.note(view.job, situation, now_ms, given)
                if narrowest not in bends:
                    bends[narrowest] = correction.bend(situation, now_ms)
                bend = bends[narrowest]
            if bend is not None:
                rows_of.setdefault(bend, []).append(row)
            if view.marks.deadline_ms is not None:
                given = _kept(knots_s[row]) if given is None else given
                corrected = given if bend is None else bend.of(given)
                chances[at] = float(corrected.cdf((view.marks.deadline_ms - now_ms) / 1000.0))
        for bend, chosen in rows_of.items():
            quantiles[chosen] = bend.quantiles(ends_s[chosen])
        return quantiles, chances


def _knots(samples_s: Floats) -> Floats:
    """Of samples in ascending order, shape (jobs, samples): the times of the knots, shape (jobs, knots)."""
    return np.stack([sample_quantile(samples_s, float(level)) for level in _KNOTS], axis=1)


def _kept(times_s: Floats) -> RuntimeDistribution:
    """What is kept of a forecast: the times of its knots."""
    return RuntimeDistribution.trusted(times_s.copy(), _KNOTS.copy())


def _finite(samples_s: Floats) -> Floats:
    """Samples without an end count as late ones; shape (jobs, samples)."""
    finite = np.isfinite(samples_s)
    if finite.all():
        return samples_s
    last = np.where(finite, samples_s, 0.0).max(axis=1, keepdims=True)
    return np.where(finite, samples_s, 2.0 * last)


def _arrival(view: JobView, first: bool, crowd: float, recurs: bool) -> Situation:
    return Situation(False, first, crowd, 0.0, arrives=True, priority=view.marks.priority, recurs=recurs)


def _recurs(known: Mapping[str, Forecast], job: str) -> bool:
    return bool(known.get(job, UNKNOWN).own_runs)


def _waiting(snapshot: Snapshot) -> int:
    """Tasks that wait, of all jobs."""
    return sum(map(_open_tasks, snapshot.jobs.values()))


def _open_tasks(view: JobView) -> int:
    return sum(max(0, stage.tasks - stage.finished - len(stage.running)) for stage in view.stages)
