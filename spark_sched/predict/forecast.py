"""The forecast of an active job, and the interface of predictors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from spark_sched.predict.runtimes.distribution import RuntimeDistribution
from spark_sched.predict.stages.earlier_runs import EarlierRun, EarlierStage
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
        other_runs: without such runs, the latest runs of other names.
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
    other_runs: tuple[EarlierRun, ...] = ()
    stages_begun: int = 0
    so_far: tuple[tuple[int, EarlierStage], ...] = ()


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


def forecasts(predictor: Predictor | None, snapshot: Snapshot) -> Mapping[str, Forecast]:
    """A forecast for every active job of the snapshot, by job key; without a predictor all are unknown."""
    if predictor is None:
        return dict.fromkeys(snapshot.jobs, UNKNOWN)
    return {key: predictor.forecast(job) for key, job in snapshot.jobs.items()}
