"""The forecast of an active job, and the interface of predictors."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol, runtime_checkable

from spark_sched.predict.runtimes.distribution import RuntimeDistribution
from spark_sched.predict.stages.earlier_runs import NO_RUNS, EarlierRun, EarlierStage, LatestRuns
from spark_sched.protocol.events import Event
from spark_sched.state import JobView, Snapshot, Summary


@dataclass(frozen=True, slots=True)
class Forecast:
    """What to expect of one active job; None or empty where nothing is known.

    Attributes:
        stage_tasks: number of tasks of each of the job's stages by index, including stages that have started.
        alpha: Pareto shape of the task times of the job's present stage, else of the stage that comes next.
        t_m_ms: their scale in milliseconds, the shortest task time to expect.
        source: the origin of the forecast, for people: ``"none"`` or the predictor's name.
        runs: number of earlier runs of the job's name that agree with this run so far.
        samples: task times behind ``alpha`` and ``t_m_ms``.
        runtime: how long the job runs from its first task on, in the places that it prefers; None: unknown.
        runtime_point_s: a point estimate of it, for policies that plan with one number.
        runtime_source: for people: which feature, expert and how many runs it comes from.
        runtime_is_own: it is of earlier runs of this name or application, not of a user or of any job.
        gap_ms: its usual pause between two actions; 0: earlier runs had none.
        own_runs: its name's latest runs that agree with this one so far, the oldest first.
        latest: without such runs, the latest runs of other names.
        stages_begun: number of this run's stages that have begun.
        so_far: the latest stages of this run that have ended, with their indexes.
    """

    stage_tasks: tuple[int, ...] = ()
    alpha: float | None = None
    t_m_ms: float | None = None
    source: str = "none"
    runs: int = 0
    samples: int = 0
    runtime: RuntimeDistribution | None = None
    runtime_point_s: float | None = None
    runtime_source: str = "none"
    runtime_is_own: bool = True
    gap_ms: int | None = None
    own_runs: tuple[EarlierRun, ...] = ()
    latest: LatestRuns = NO_RUNS
    stages_begun: int = 0
    so_far: tuple[tuple[int, EarlierStage], ...] = ()

    @property
    def other_runs(self) -> tuple[EarlierRun, ...]:
        """The latest runs of other names, those that are known now; empty if its own name has runs."""
        return self.latest.runs


UNKNOWN = Forecast()


class Predictor(Protocol):
    """Learns from events and forecasts active jobs. Deterministic; not thread-safe; reads no clock.

    ``observe`` gets every event after the state has applied it. ``learn`` gets every summary that the state
    made of an event. ``reset`` is called before events report the active jobs again. ``forecast`` answers
    from memory and changes nothing.
    """

    def observe(self, event: Event) -> None: ...

    def learn(self, summary: Summary) -> None: ...

    def reset(self) -> None: ...

    def forecast(self, job: JobView) -> Forecast: ...


@runtime_checkable
class NotesChanges(Protocol):
    """A predictor that says which forecasts it would make again."""

    def take_changed(self) -> Set[str] | None:
        """Jobs whose forecasts may have changed since the last call though their views are the same; None:
        those of any jobs."""
        ...


def changed_of(predictor: Predictor | None) -> Set[str] | None:
    """`NotesChanges.take_changed` of any predictor."""
    if predictor is None:
        return frozenset()
    return predictor.take_changed() if isinstance(predictor, NotesChanges) else None


class ForecastCache:
    """Forecasts of the jobs of snapshots that follow each other. A job's forecast is made again only if its
    view or what its predictor knows has changed.

    Attributes:
        predictor: makes them.
        made: number of forecasts that it was asked for.
    """

    def __init__(self, predictor: Predictor) -> None:
        self.made = 0
        self.predictor = predictor
        self._views: Mapping[str, JobView] = {}
        self._known: dict[str, Forecast] = {}

    def of(self, snapshot: Snapshot) -> Mapping[str, Forecast]:
        """What `forecasts` returns."""
        if not snapshot.jobs:
            return {}
        changed = changed_of(self.predictor)
        views, known = self._views, {}
        if changed is None:
            views, changed = {}, frozenset()
        forecast = self.predictor.forecast
        for key, view in snapshot.jobs.items():
            if views.get(key) is view and key not in changed:
                known[key] = self._known[key]
            else:
                known[key] = forecast(view)
                self.made += 1
        self._views, self._known = snapshot.jobs, known
        return MappingProxyType(known)


def forecasts(predictor: Predictor | None, snapshot: Snapshot) -> Mapping[str, Forecast]:
    """A forecast for every active job of the snapshot, by job key; without a predictor all are unknown."""
    if predictor is None:
        return dict.fromkeys(snapshot.jobs, UNKNOWN)
    return {key: predictor.forecast(job) for key, job in snapshot.jobs.items()}
