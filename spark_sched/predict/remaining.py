"""What remains of a job: its stages to come as segments of a queue (`queue_model`), with their uncertainty.

The tasks of an active stage are counted. Stages that are still to come, and times of tasks, are those of
earlier runs of the job's name. Runs of a name differ by a factor, which is lognormal here; stages of this run
that have ended say more about it (a normal prior and normal observations of its logarithm). Without an
earlier run of the name the latest runs of others stand for it, and without these the predicted runtime.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist, fmean

import numpy as np

from spark_sched.arrays import Floats
from spark_sched.predict.forecast import Forecast
from spark_sched.predict.recent import Recent
from spark_sched.predict.stages.earlier_runs import EarlierRun, EarlierStage
from spark_sched.state import DurationSummary, JobView, StageView

#: Segments of a job; later stages are put together.
SEGMENTS = 4
#: Spread of the logarithm of a job's factor before its runs say more, and the runs that this is worth.
_SPREAD, _SPREAD_RUNS = 0.25, 2.0
#: The same for a job that is known by the runs of other names alone.
_SPREAD_OTHERS = 0.7
#: How far a stage's own factor is from that of its run, as a spread of logarithms.
_STAGE_SPREAD = 0.15
#: Spread of the logarithm of task times of a stage of which a single time is known.
_TASK_SPREAD = 0.3
#: A task that has outlived its expectation runs for this part of its age more: the longer it has run, the
#: less the expectation says of it.
_OVERDUE = 0.2
_PROFILES = 2_000
_NORMAL_LAW = NormalDist()
#: Beyond this quantile a distribution of task times says nothing.
_LAST_LEVEL = 0.9999


@dataclass(frozen=True, slots=True)
class Remaining:
    """The rest of one job at its median.

    Attributes:
        work: slot-ms of at most `SEGMENTS` segments.
        width: most slots of each.
        spread: of the logarithm of the factor by which all of it may differ.
        factors: instead of ``spread``, quantiles of the factor at equally likely levels; None: lognormal.
        total_ms: how long the whole job takes alone, including what is over.
        busy_ms: how long the tasks that run now still run.
        task_ms: how long a task of it takes, on average over its work; 0: not known.
        known: false: nothing is known about the job, and it may run for ever.
    """

    work: tuple[float, ...]
    width: tuple[float, ...]
    spread: float = 0.0
    factors: Floats | None = None
    total_ms: float = math.inf
    busy_ms: float = math.inf
    task_ms: float = 0.0
    known: bool = True

    @property
    def slot_ms(self) -> float:
        return sum(self.work)


@dataclass(frozen=True, slots=True)
class _Stage:
    tasks: int
    log_ms: float
    spread: float

    @property
    def mean_ms(self) -> float:
        return math.exp(self.log_ms + 0.5 * self.spread**2)

    def alone_ms(self, tasks: float, slots: float) -> float:
        return alone_ms(tasks, slots, math.exp(self.log_ms), self.spread)


@dataclass(slots=True)
class _Profile:
    """Stages of a name's typical run on so many slots; work and time alone from each stage on."""

    runs: Sequence[EarlierRun]
    stages: list[_Stage]
    shift: float
    variance: float
    slots: float
    untouched: dict[tuple[int, int, int, int], Remaining] = field(default_factory=dict)
    _sums: tuple[Floats, Floats] | None = field(default=None)
    _task_ms: float | None = field(default=None)

    @property
    def task_ms(self) -> float:
        """The mean task time, each by its own work."""
        if self._task_ms is None:
            work = sum(each.tasks * each.mean_ms for each in self.stages)
            squares = sum(each.tasks * each.mean_ms**2 for each in self.stages)
            self._task_ms = squares / max(1e-6, work)
        return self._task_ms

    def sums(self) -> tuple[Floats, Floats]:
        """Slot-ms and ms alone of all stages before each one, and of all: one value more than stages."""
        if self._sums is None:
            work = [each.tasks * each.mean_ms for each in self.stages]
            time = [each.alone_ms(each.tasks, self.slots) for each in self.stages]
            self._sums = (
                np.concatenate(([0.0], np.cumsum(work))),
                np.concatenate(([0.0], np.cumsum(time))),
            )
        return self._sums


class Rests:
    """Makes `Remaining` of jobs; keeps the profiles of names between two calls."""

    def __init__(self) -> None:
        self._profiles: Recent[tuple[object, ...], _Profile] = Recent(_PROFILES)

    def of(
        self, job: JobView, forecast: Forecast, slots: int, now_ms: int, begun_ms: int | None
    ) -> Remaining:
        """``begun_ms``: the job's first launch; None: it has not begun."""
        slots = max(1, slots)
        for runs, own in ((forecast.own_runs, True), (forecast.other_runs, False)):
            # A run without stages says nothing.
            if told := [run for run in runs if run.stages]:
                return self._of_runs(job, forecast, told, slots, now_ms, own=own)
        if forecast.runtime is not None and forecast.runtime_is_own:
            return _of_runtime(job, forecast, slots, now_ms, begun_ms)
        width = float(min(slots, max(1, _open_slots(job), job.running_slots)))
        return Remaining((math.inf,), (width,), known=False)

    def _of_runs(
        self,
        job: JobView,
        forecast: Forecast,
        runs: Sequence[EarlierRun],
        slots: int,
        now_ms: int,
        *,
        own: bool,
    ) -> Remaining:
        profile = self._profile(runs, slots, own=own)
        # Of jobs that wait for their first task there may be many, and those of a name are alike.
        key = _untouched(job, forecast)
        if key is None:
            return _rest(profile, job, forecast, slots, now_ms)
        if key not in profile.untouched:
            profile.untouched[key] = _rest(profile, job, forecast, slots, now_ms)
        return profile.untouched[key]

    def _profile(self, runs: Sequence[EarlierRun], slots: int, *, own: bool) -> _Profile:
        key = (slots, own, *map(id, runs))
        found = self._profiles.get(key)
        if found is None:
            found = self._profiles[key] = _profile(runs, slots, own=own)
        return found


def _untouched(job: JobView, forecast: Forecast) -> tuple[int, int, int, int] | None:
    """What the rest of a job depends on that has not begun and has one active stage; None: it is another."""
    if job.running_slots or forecast.so_far or len(job.stages) != 1 or job.stages[0].finished:
        return None
    (stage,) = job.stages
    return forecast.stages_begun, stage.index, stage.tasks, stage.slots_per_task


def _rest(profile: _Profile, job: JobView, forecast: Forecast, slots: int, now_ms: int) -> Remaining:
    log_factor, variance = _learned(profile, job, forecast)
    factor = math.exp(log_factor)
    # 1. The active stages.
    work, width, busy_ms = 0.0, 0.0, 0.0
    # A job of which no stage has begun is only asked about, and its runs know all stages.
    for stage in job.stages if forecast.stages_begun else ():
        at = profile.stages[min(stage.index, len(profile.stages) - 1)]
        segment, alone, busy = _active(stage, at, factor, slots, now_ms)
        work += segment
        width += segment / alone if alone else 0.0
        busy_ms = max(busy_ms, busy)
    rest = [(work, min(float(slots), width))] if work > 0.0 else []
    # 2. Those to come: the next ones each, and the last ones together.
    done_work, done_ms = profile.sums()
    count = len(profile.stages)
    next_one = min(forecast.stages_begun, count)
    cuts = _cuts(next_one, count, SEGMENTS - len(rest))
    for begin, end in pairwise(cuts):
        segment = float(done_work[end] - done_work[begin])
        alone = float(done_ms[end] - done_ms[begin])
        rest.append((segment * factor, min(float(slots), max(1e-3, segment / max(alone, 1e-6)))))
    if not rest:
        # More stages than any earlier run had, or the last one is about to be reported.
        rest.append((profile.stages[-1].mean_ms * factor * _OVERDUE, 1.0))
    works, widths = zip(*rest, strict=True)
    return Remaining(
        works, widths, math.sqrt(variance), total_ms=float(done_ms[-1]) * factor, busy_ms=busy_ms,
        task_ms=profile.task_ms * factor,
    )  # fmt: skip


def alone_ms(tasks: float, slots: float, median_ms: float, spread: float) -> float:
    """How long so many tasks take on so many slots, with lognormal times of this median and spread.

    The longest of n tasks is at their quantile (n - 3/8) / (n + 1/4) (Blom, 1958). Tasks in several waves end
    between the ideal, all slots busy to the end, and whole waves.
    """
    longest = median_ms * math.exp(spread * _blom(max(1, math.ceil(tasks))))
    if tasks <= slots:
        return longest
    mean = median_ms * math.exp(0.5 * spread**2)
    waves = mean * math.ceil(tasks / slots)
    if spread < 1e-3:
        return waves
    return max(longest, min(waves * math.exp(0.5 * spread), mean * tasks / slots + 0.5 * longest))


def longest_rest_ms(ages_ms: Sequence[float], median_ms: float, spread: float, mean_ms: float) -> float:
    """How long the last of running tasks still runs, with lognormal times of this median and spread; 0: there
    are none.

    Tasks of one age are those of the distribution that is above it: the longest of n has their quantile of
    `alone_ms`. Of tasks of different ages the youngest may be the last, too.
    """
    if not ages_ms:
        return 0.0
    youngest_ms = max(0.0, mean_ms - min(ages_ms))
    age_ms = fmean(ages_ms)
    if spread < 1e-3 or age_ms <= 0.0:
        return max(youngest_ms, median_ms * math.exp(spread * _blom(len(ages_ms))) - age_ms)
    alive = 1.0 - _NORMAL_LAW.cdf(math.log(age_ms / median_ms) / spread)
    level = 1.0 - alive * (0.625 / (len(ages_ms) + 0.25))
    if level >= _LAST_LEVEL:
        # Its age says that the distribution is wrong.
        return youngest_ms
    return max(youngest_ms, median_ms * math.exp(spread * _NORMAL_LAW.inv_cdf(level)) - age_ms)


@lru_cache(maxsize=4096)
def _blom(tasks: int) -> float:
    return NormalDist().inv_cdf((tasks - 0.375) / (tasks + 0.25))


def _times(durations: DurationSummary) -> tuple[float, float] | None:
    """Mean and spread of the logarithms of task times; None: there are none."""
    if not durations.count or durations.min_ms is None:
        return None
    log_ms = durations.sum_log_ms / durations.count
    if durations.count < 2:
        return log_ms, _TASK_SPREAD
    # The shortest of n is as far below the middle as the longest is above it.
    below = max(0.0, log_ms - math.log(max(1, durations.min_ms)))
    return log_ms, min(2.0, below / max(0.3, _blom(durations.count)))


def _stage(stage: EarlierStage) -> _Stage:
    log_ms, spread = _times(stage.durations) or (0.0, 0.0)
    return _Stage(max(1, stage.tasks), log_ms, spread)


def _total(stages: Sequence[_Stage]) -> float:
    return math.log(max(1.0, sum(each.tasks * each.mean_ms for each in stages)))


def _profile(runs: Sequence[EarlierRun], slots: int, *, own: bool) -> _Profile:
    made = [list(map(_stage, run.stages)) for run in runs]
    totals = list(map(_total, made))
    mean = fmean(totals)
    prior = _SPREAD if own else _SPREAD_OTHERS
    squares = sum((each - mean) ** 2 for each in totals)
    variance = (squares + _SPREAD_RUNS * prior**2) / (len(totals) - 1 + _SPREAD_RUNS)
    variance *= 1.0 + 1.0 / len(totals)
    # Of its own runs the latest has the shape; of others, the one in the middle.
    base = len(made) - 1 if own else sorted(range(len(made)), key=totals.__getitem__)[len(made) // 2]
    return _Profile(runs, made[base], mean - totals[base], variance, float(slots))


def _learned(profile: _Profile, job: JobView, forecast: Forecast) -> tuple[float, float]:
    """Mean and variance of the logarithm of this run's factor to its profile."""
    precision = 1.0 / profile.variance
    weighted = profile.shift * precision
    seen = [(stage.index, stage.durations) for stage in job.stages]
    seen += [(index, stage.durations) for index, stage in forecast.so_far]
    for index, durations in seen:
        times = _times(durations)
        if times is None or index >= len(profile.stages):
            continue
        at = profile.stages[index]
        noise = max(at.spread, 0.05) ** 2 / durations.count + _STAGE_SPREAD**2
        precision += 1.0 / noise
        weighted += (times[0] - at.log_ms) / noise
    return weighted / precision, 1.0 / precision


def _active(
    stage: StageView, at: _Stage, factor: float, slots: int, now_ms: int
) -> tuple[float, float, float]:
    """Slot-ms and ms alone of the rest of an active stage, and how long its running tasks still run."""
    median_ms = math.exp(at.log_ms) * factor
    mean_ms = at.mean_ms * factor
    per_task = stage.slots_per_task
    waiting = max(0, stage.waiting)
    running = {task.index: task.launched_ms for task in stage.running}
    ages = [float(now_ms - launched) for launched in running.values()]
    rests = [max(mean_ms - age, _OVERDUE * max(mean_ms, age)) for age in ages]
    busy_ms = fmean(rests) if rests else 0.0
    last_ms = max(busy_ms, longest_rest_ms(ages, median_ms, at.spread, mean_ms))
    work = (waiting * mean_ms + sum(rests)) * per_task
    places = max(1.0, slots / per_task)
    if not waiting:
        return work, last_ms, busy_ms
    # Running tasks count for what is left of them.
    tasks = waiting + (sum(rests) / mean_ms if mean_ms else 0.0)
    return work, max(alone_ms(tasks, places, median_ms, at.spread), last_ms), busy_ms


def _cuts(begin: int, end: int, most: int) -> list[int]:
    """Where to cut the stages from ``begin`` to ``end`` into ``most`` segments: the last has the rest."""
    if end - begin <= most:
        return list(range(begin, end + 1))
    return [*range(begin, begin + most), end]


def _open_slots(job: JobView) -> int:
    return sum(stage.open_slots for stage in job.stages)


def _of_runtime(job: JobView, forecast: Forecast, slots: int, now_ms: int, begun_ms: int | None) -> Remaining:
    """The job occupies its slots for the whole of its runtime."""
    runtime = forecast.runtime
    assert runtime is not None
    passed_s = 0.0 if begun_ms is None else max(0.0, (now_ms - begun_ms) / 1000.0)
    rest_ms = 1000.0 * (runtime.conditional(passed_s).quantile(_LEVELS) - passed_s)
    middle = max(1.0, float(np.median(rest_ms)))
    width = float(min(slots, max(1, _open_slots(job), job.running_slots)))
    total_ms = 1000.0 * float(runtime.quantile(0.5))
    return Remaining((middle * width,), (width,), factors=rest_ms / middle, total_ms=total_ms, busy_ms=middle)


#: Samples of a job's factor: the middle of each of equally likely parts.
SAMPLES = 64
_LEVELS = (np.arange(SAMPLES) + 0.5) / SAMPLES
_NORMAL = np.array([NormalDist().inv_cdf(level) for level in _LEVELS])


class Draws:
    """Factors of jobs in the samples of a queue. Each job draws each quantile once, in an order of its own
    that is the same in every forecast, so that forecasts do not jitter."""

    def __init__(self, seed: int = 0, orders: int = 1024) -> None:
        rng = np.random.default_rng(seed)
        self._orders = rng.permuted(np.tile(np.arange(SAMPLES), (orders, 1)), axis=1)

    def factors(self, rests: Sequence[Remaining], numbers: Sequence[int], samples: int) -> Floats:
        """Shape (samples, jobs). ``numbers`` identify the jobs; ``samples`` divides `SAMPLES`."""
        order = self._orders[np.asarray(numbers, dtype=np.int64) % len(self._orders)]
        # Fewer samples: of each few neighbouring quantiles the middle one.
        each = SAMPLES // samples
        order = order[order % each == each // 2].reshape(len(numbers), samples) if each > 1 else order
        spread = np.array([rest.spread for rest in rests])
        made = np.exp(_NORMAL[order] * spread[:, None])
        for at, rest in enumerate(rests):
            if rest.factors is not None:
                made[at] = rest.factors[order[at]]
        return np.ascontiguousarray(made.T)
