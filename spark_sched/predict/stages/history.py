"""Forecasts from earlier runs of the same job name.

Recurring jobs have the stages they had before ("Speculative Slot Reservation", section III-B, case 2: degrees
of parallelism are learned from previous runs), and a job that loops repeats its stages within one run.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Set
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

from spark_sched.predict.forecast import UNKNOWN, Forecast
from spark_sched.predict.recent import Recent
from spark_sched.predict.stages.earlier_runs import (
    MAX_STAGES,
    NO_RUNS,
    EarlierRun,
    EarlierRunStore,
    EarlierStage,
    LatestRuns,
)
from spark_sched.predict.stages.pareto import shape_from_sums
from spark_sched.protocol.events import Event, JobStarted, StageEnded, StageStarted
from spark_sched.state import DurationSummary, JobSummary, JobView, StageSummary, Summary

#: Runs remembered per job name, and stage instances whose task times are pooled per stage name.
RUNS_KEPT = 5
#: Pauses between two actions kept of one run: the latest.
GAPS_KEPT = 200
#: Latest runs of any name, which stand for a job whose name has none; and ended stages told of a run.
OTHERS_KEPT = 20
_SO_FAR = 8
#: Job names remembered at once; the least recently used one is dropped first.
NAMES_KEPT = 10_000


#: The user, where a name counts for its user alone, and the name.
_UsersName = tuple[str | None, str]


#: The stages of a run so far: index and tasks of each.
_Shape: TypeAlias = tuple[tuple[int, int], ...]
#: Shape and scale of the pooled task times, and their number.
_Times: TypeAlias = tuple[float | None, float | None, int]


@dataclass(slots=True)
class _Known:
    """What follows from a name's runs and task times until either changes.

    Attributes:
        agreeing: the runs that agree with a run of this shape so far.
        times: by stage name.
        forecasts: of jobs of which no stage has ended, by shape and stage name, each with whether it has the
            runs of other names.
        jobs: those whose forecasts were made of it.
    """

    agreeing: dict[_Shape, list[EarlierRun]] = field(default_factory=dict)
    times: dict[str | None, _Times] = field(default_factory=dict)
    forecasts: dict[tuple[_Shape, str | None], tuple[bool, Forecast]] = field(default_factory=dict)
    jobs: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class _Made:
    """The forecast of a job of which stages have ended, and what it was made of."""

    forecast: Forecast
    known: _Known
    stage_name: str | None
    others: bool

    def stands(self, known: _Known, stage_name: str | None, others: bool) -> bool:
        return self.known is known and self.stage_name == stage_name and self.others == others


@dataclass(slots=True)
class _Name:
    runs: deque[EarlierRun]
    times: dict[str, deque[DurationSummary]] = field(default_factory=dict)
    known: _Known = field(default_factory=_Known)

    def add(self, run: EarlierRun) -> None:
        self.runs.append(run)
        self.known = _Known()

    def agreeing(self, shape: _Shape) -> list[EarlierRun]:
        found = self.known.agreeing.get(shape)
        if found is None:
            found = self.known.agreeing[shape] = [run for run in self.runs if _agrees(shape, run)]
        return found

    def pool(self, stage_name: str, durations: DurationSummary, kept: int) -> None:
        if durations.count == 0:
            return
        self.known = _Known()
        if stage_name not in self.times and len(self.times) >= MAX_STAGES:
            del self.times[next(iter(self.times))]
        self.times.setdefault(stage_name, deque(maxlen=kept)).append(durations)


@dataclass(slots=True)
class _JobStages:
    """The stages of an active job so far, by index."""

    name: _UsersName
    started: dict[int, int] = field(default_factory=dict)  # tasks, from the first attempt
    # None: its last attempt did not complete.
    ended: dict[int, EarlierStage | None] = field(default_factory=dict)
    running: dict[str, bool] = field(
        default_factory=dict
    )  # by key: whether Spark itself starts the stage that follows
    paused_ms: int | None = None
    gaps_ms: deque[int] = field(default_factory=lambda: deque(maxlen=GAPS_KEPT))
    shape: _Shape = ()  # of ``started``
    made: _Made | None = None  # until a stage starts or ends

    def begin(self, event: StageStarted) -> None:
        self.made = None
        if not self.running and self.paused_ms is not None:
            # 0 means that there was no pause.
            self.gaps_ms.append(max(1, event.time_ms - self.paused_ms))
        self.paused_ms = None
        self.running[event.stage] = event.next_tasks is not None or event.next_at_most is not None
        if event.index < MAX_STAGES and event.index not in self.started:
            # A retry runs only the tasks whose results were lost: the first attempt has the width.
            self.started[event.index] = event.tasks
            self.shape = (*self.shape, (event.index, event.tasks))

    def end(self, event: StageEnded) -> None:
        self.made = None
        followed = self.running.pop(event.stage, True)
        if not self.running and not followed:
            self.paused_ms = event.time_ms

    def usual_gap_ms(self) -> int:
        """The 90 % quantile of the pauses; 0 without any."""
        ordered = sorted(self.gaps_ms)
        return ordered[math.ceil(0.9 * len(ordered)) - 1] if ordered else 0


class StageHistory:
    """Forecasts stages from the latest earlier run of the job's name that agrees with this one so far.

    Two runs agree while their stages have the same numbers of tasks. Task times are pooled by stage name
    over the latest instances, including those of the present run, so a loop's second round benefits from its
    first. A name that the driver generated for unmarked work (it equals the job's key) does not recur and is
    not stored.

    Args:
        store: keeps runs after this process has ended; None: nothing does.
        prior_alpha: Pareto shape expected before any task ended, > 1.
        prior_weight: how many finished tasks that is worth, >= 0.
        own_names: users choose names, so that a name counts for its user alone.
    """

    observes_attempts = False

    def __init__(
        self,
        store: EarlierRunStore | None = None,
        *,
        own_names: bool = False,
        prior_alpha: float = 1.6,
        prior_weight: float = 5.0,
        runs_kept: int = RUNS_KEPT,
    ) -> None:
        self._store = store
        self._own_names = own_names
        self._prior_alpha = prior_alpha
        self._prior_weight = prior_weight
        self._runs_kept = runs_kept
        self._names: Recent[_UsersName, _Name] = Recent(NAMES_KEPT)
        self._active: dict[str, _JobStages] = {}
        self._latest = LatestRuns()
        # Stages of active jobs whose times are pooled: after a reset they are told again.
        self._pooled_stages: Recent[str, set[str]] = Recent(NAMES_KEPT)
        # Jobs whose forecasts have changed, and those whose forecasts change when any first run ends.
        self._changed: set[str] = set()
        self._without_runs: set[str] = set()
        self._names_dropped = False

    def observe(self, event: Event) -> None:
        if isinstance(event, JobStarted):
            if event.job not in self._active and event.name != event.job:
                name = (event.user if self._own_names else None, event.name)
                self._active[event.job] = _JobStages(name)
                self._changed.add(event.job)
                self._name(name)
        elif isinstance(event, StageStarted):
            active = self._active.get(event.job)
            if active is not None:
                active.begin(event)
                self._changed.add(event.job)
        elif isinstance(event, StageEnded):
            active = self._active.get(event.job)
            if active is not None:
                active.end(event)
                self._changed.add(event.job)

    def learn(self, summary: Summary) -> None:
        """Remember the task times of a stage that ended, and the run of a job that completed."""
        if isinstance(summary, StageSummary):
            self._learn_stage(summary)
        else:
            self._learn_job(summary)

    def reset(self) -> None:
        """Forget the active jobs, which events report again with their past stages; keep history."""
        self._active.clear()

    def take_changed(self) -> Set[str]:
        """Jobs whose forecasts may have changed though their views are the same."""
        changed, self._changed = self._changed, set()
        return changed

    def forecast(self, job: JobView) -> Forecast:
        """The forecast of an active job. For a name that has not been seen before only other names' runs are
        known."""
        active = self._active.get(job.job)
        known = self._names.get(active.name) if active is not None else None
        if active is None or known is None:
            if not self._latest.runs:
                self._without_runs.add(job.job)
                return UNKNOWN
            begun = max((stage.index + 1 for stage in job.stages), default=0)
            return Forecast(latest=self._latest, stages_begun=begun)
        agreeing = known.agreeing(active.shape)
        latest = agreeing[-1] if agreeing else None
        stage_name = _stage_name(job, active, latest)
        others = not agreeing and bool(self._latest.runs)
        known.known.jobs.add(job.job)
        if not agreeing and not others:
            self._without_runs.add(job.job)
        if active.ended:
            if active.made is None or not active.made.stands(known.known, stage_name, others):
                made = self._forecast(active, known, agreeing, stage_name)
                active.made = _Made(made, known.known, stage_name, others)
            return active.made.forecast
        # Jobs of one name that have begun alike and of which no stage has ended have one forecast.
        key = (active.shape, stage_name)
        kept = known.known.forecasts.get(key)
        if kept is None or kept[0] != others:
            kept = known.known.forecasts[key] = others, self._forecast(active, known, agreeing, stage_name)
        return kept[1]

    def _forecast(
        self, active: _JobStages, known: _Name, agreeing: list[EarlierRun], stage_name: str | None
    ) -> Forecast:
        so_far = tuple(
            (index, stage) for index, stage in islice(reversed(active.ended.items()), _SO_FAR) if stage
        )
        begun = max(active.started, default=-1) + 1
        latest = agreeing[-1] if agreeing else None
        pooled = known.known.times.get(stage_name)
        if pooled is None:
            pooled = self._pooled(list(known.times.get(stage_name or "", ())))
            known.known.times[stage_name] = pooled
        alpha, t_m_ms, samples = pooled
        others = NO_RUNS if agreeing else self._latest
        if latest is None and samples == 0:
            return Forecast(latest=others, stages_begun=begun, so_far=so_far) if others.runs else UNKNOWN
        return Forecast(
            # A stage without tasks never starts, and a plan cannot express it.
            stage_tasks=tuple(max(1, stage.tasks) for stage in latest.stages) if latest is not None else (),
            alpha=alpha,
            t_m_ms=t_m_ms,
            source="history",
            runs=len(agreeing),
            samples=samples,
            gap_ms=_usual_gap_ms(agreeing),
            own_runs=tuple(agreeing),
            latest=others,
            stages_begun=begun,
            so_far=so_far,
        )

    def foresee(self, name: str | None, user: str | None) -> Forecast:
        """Of a job that has not been submitted: the runs of its name, else those of others."""
        if name is None:
            return Forecast(latest=self._latest)
        known = self._names.get((user if self._own_names else None, name))
        if known is None and self._store is not None:
            runs = tuple(self._store.load(name, self._runs_kept, user if self._own_names else None))
        else:
            runs = () if known is None else tuple(known.runs)
        return Forecast(own_runs=runs, latest=NO_RUNS if runs else self._latest)

    def _learn_stage(self, summary: StageSummary) -> None:
        active = self._active.get(summary.job)
        if active is None or summary.index >= MAX_STAGES:
            return
        active.made = None
        pooled = self._pooled_stages.setdefault(summary.job, set())
        if summary.stage not in pooled:
            pooled.add(summary.stage)
            name = self._name(active.name)
            self._changed |= name.known.jobs
            name.pool(summary.name, summary.durations, self._runs_kept)
        if not summary.completed:
            active.ended[summary.index] = None
            return
        tasks = active.started.get(summary.index, summary.tasks)
        active.ended[summary.index] = EarlierStage(summary.name, tasks, summary.durations)

    def _learn_job(self, summary: JobSummary) -> None:
        for stage in summary.stages:
            self._learn_stage(stage)
        active = self._active.pop(summary.job, None)
        if active is not None and (name := self._names.get(active.name)) is not None:
            name.known.jobs.discard(summary.job)
        self._without_runs.discard(summary.job)
        self._learn_run(summary, active)
        self._changed.discard(summary.job)

    def _learn_run(self, summary: JobSummary, active: _JobStages | None) -> None:
        self._pooled_stages.pop(summary.job, None)
        if active is None or summary.cut_short or not active.ended:
            return
        stages = [active.ended.get(index) for index in range(max(active.started, default=-1) + 1)]
        # A run with a failed stage, or one whose beginning is missing, would predict too few stages.
        whole = [stage for stage in stages if stage is not None]
        if len(whole) == len(stages):
            run = EarlierRun(summary.ended_ms, tuple(whole), active.usual_gap_ms())
            self._latest.add(run, OTHERS_KEPT)
            known = self._name(active.name)
            self._changed |= self._without_runs | known.known.jobs
            self._without_runs.clear()
            known.add(run)
            if self._store is not None:
                user, name = active.name
                self._store.save(name, run, self._runs_kept, user)

    def _name(self, name: _UsersName) -> _Name:
        known = self._names.get(name)
        if known is None:
            runs = () if self._store is None else self._store.load(name[1], self._runs_kept, name[0])
            known = _Name(deque(runs, maxlen=self._runs_kept))
            for run in runs:
                for stage in run.stages:
                    known.pool(stage.name, stage.durations, self._runs_kept)
            if self._names_dropped:
                # Jobs of a name that is remembered again.
                self._changed |= {job for job, active in self._active.items() if active.name == name}
            if len(self._names) == NAMES_KEPT:
                # The name that was used longest ago is about to be dropped.
                self._names_dropped = True
                self._changed |= next(iter(self._names.values())).known.jobs
        self._names[name] = known
        return known

    def _pooled(self, times: list[DurationSummary]) -> _Times:
        """Shape and scale over several instances of one stage, each relative to its own shortest task."""
        count, sum_log_ratios, shortest = 0, 0.0, []
        for durations in times:
            if durations.count and durations.min_ms is not None:
                count += durations.count
                ratios = durations.sum_log_ms - durations.count * math.log(durations.min_ms)
                sum_log_ratios += max(0.0, ratios)
                shortest.append(durations.min_ms)
        if not shortest:
            return None, None, 0
        alpha = shape_from_sums(count, sum_log_ratios, self._prior_alpha, self._prior_weight)
        # The median: one instance that read cached data should not set the scale for all.
        return alpha, float(statistics.median(shortest)), count


def _agrees(shape: _Shape, run: EarlierRun) -> bool:
    """Whether a run had the same stages as a job so far. Of a job of many tasks only later indexes may be
    known after a reset, so only these are compared."""
    return all(index < len(run.stages) and run.stages[index].tasks == tasks for index, tasks in shape)


def _usual_gap_ms(runs: list[EarlierRun]) -> int | None:
    """The median over runs with a known pause."""
    known = [run.gap_ms for run in runs if run.gap_ms is not None]
    return statistics.median_high(known) if known else None


def _stage_name(job: JobView, active: _JobStages, latest: EarlierRun | None) -> str | None:
    """The name of the stage whose task times matter now: the newest active one, else the next."""
    if len(job.stages) == 1:
        return job.stages[0].name
    if job.stages:
        return max(job.stages, key=lambda stage: stage.index).name
    following = max(active.started, default=-1) + 1
    if latest is not None and following < len(latest.stages):
        return latest.stages[following].name
    return None
