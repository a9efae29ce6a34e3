"""Running and waiting jobs, with the last cycle's results for jobs that have not changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import numpy as np

from spark_sched.arrays import Floats
from spark_sched.policies.scale import Scale
from spark_sched.policies.three_sigma.jobs import PendingJob, partitions_of, pending_jobs, runtime_of
from spark_sched.policies.three_sigma.malleable import rounds
from spark_sched.policies.three_sigma.settings import ThreeSigmaOptions
from spark_sched.policies.three_sigma.solvers import Prices
from spark_sched.predict import UNKNOWN, Forecast, RuntimeDistribution
from spark_sched.state import JobView, Snapshot

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class RunningJob:
    """A job that has slots.

    Attributes:
        slots: that it has, by partition, shape (Q,).
        used: all of them.
        runtime: on preferred partitions with all its slots.
        factor: its runtime where it runs over that.
    """

    view: JobView
    since_ms: int
    slots: Floats
    used: int
    runtime: RuntimeDistribution
    factor: float


@dataclass(frozen=True, slots=True, eq=False)
class Computed(Generic[T]):
    """A result, and all inputs from which it was computed."""

    basis: tuple[object, ...]
    result: T

    def is_of(self, basis: tuple[object, ...]) -> bool:
        return all(old is new or old == new for old, new in zip(self.basis, basis, strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class Present:
    """The jobs of a snapshot.

    Attributes:
        capacity: slots by partition, shape (Q,).
        running: by key, computed from what.
        pending: those that wait, by key; None: nothing of the job waits for slots that are there.
        idle: since when jobs run that are between two stages, in ms.
    """

    capacity: Floats
    running: Mapping[str, Computed[RunningJob]] = field(default_factory=dict)
    pending: Mapping[str, Computed[PendingJob | None]] = field(default_factory=dict)
    idle: Mapping[str, int] = field(default_factory=dict)

    @property
    def runs(self) -> list[RunningJob]:
        return [each.result for each in self.running.values()]

    @property
    def waits(self) -> list[PendingJob]:
        return [each.result for each in self.pending.values() if each.result is not None]


@dataclass(frozen=True, slots=True, eq=False)
class ThreeSigmaMemory:
    """State that one cycle passes to the next.

    Attributes:
        prices: of capacity; None: the solver had none.
        running_since_ms: since when jobs run, by key.
        present: results computed for each job, reused while their inputs are unchanged.
        runtime: of jobs seen or forecast, in ms, which the window follows; None: before the first one.
        jobs: keys of those whose forecasts it has.
        version: of the snapshot that was planned for.
        before: the memory that this cycle started from. Another cycle for the same snapshot starts from it
            too, so that it gives the same plan.
    """

    prices: Prices | None = None
    running_since_ms: Mapping[str, int] = field(default_factory=dict)
    present: Present = field(default_factory=lambda: Present(np.zeros(1)))
    runtime: Scale | None = None
    jobs: frozenset[str] = frozenset()
    version: int = -1
    before: ThreeSigmaMemory | None = None

    def as_of(self, version: int) -> ThreeSigmaMemory:
        """The memory from which a plan for this version starts."""
        return self if self.before is None or version != self.version else self.before

    def next(
        self,
        version: int,
        prices: Prices | None,
        since_ms: Mapping[str, int],
        present: Present,
        runtime: Scale | None,
    ) -> ThreeSigmaMemory:
        """After a plan for that version, which went on from this one."""
        before = replace(self, present=present, version=-1, before=None)
        jobs = frozenset([*present.running, *present.pending, *present.idle])
        return ThreeSigmaMemory(prices, since_ms, present, runtime, jobs, version, before)

    def runtimes_ms(self, snapshot: Snapshot, forecasts: Mapping[str, Forecast]) -> list[float]:
        """Runtimes of the jobs that ended since this plan, and medians of the forecasts of new jobs."""
        found = [
            float(ended.ended_ms - since_ms)
            for key, since_ms in self.running_since_ms.items()
            if key not in snapshot.jobs and (ended := snapshot.ended.get(key)) is not None
        ]
        for key in snapshot.jobs.keys() - self.jobs:
            runtime = forecasts.get(key, UNKNOWN).runtime
            if runtime is not None:
                found.append(1000.0 * float(runtime.quantile(0.5)))
        # In one order whatever the order of the set.
        return sorted(found)


def look(
    snapshot: Snapshot,
    forecasts: Mapping[str, Forecast],
    options: ThreeSigmaOptions,
    memory: ThreeSigmaMemory,
) -> Present:
    """Sort the snapshot's jobs into running, waiting and idle ones."""
    capacity, partition_of = partitions_of(snapshot)
    running: dict[str, Computed[RunningJob]] = {}
    pending: dict[str, Computed[PendingJob | None]] = {}
    idle: dict[str, int] = {}
    slots_key = capacity.tobytes(), options.grid.starts_ms.tobytes()
    fresh: list[tuple[str, tuple[JobView, RuntimeDistribution]]] = []
    for key, view in snapshot.jobs.items():
        forecast = forecasts.get(key, UNKNOWN)
        since_ms = memory.running_since_ms.get(key)
        basis: tuple[object, ...]
        if view.running_slots > 0 or view.held_slots > 0:
            begun_ms = view.begun_ms if since_ms is None else since_ms
            basis = (view, forecast.runtime, forecast.runtime_point_s, begun_ms)
            known = memory.present.running.get(key)
            if known is None or not known.is_of(basis):
                runtime = runtime_of(forecast, point=options.point)
                known = Computed(basis, _running_job(view, runtime, begun_ms, capacity, partition_of))
            running[key] = known
        elif since_ms is not None:
            idle[key] = since_ms
        else:
            basis = (view, forecast.runtime, forecast.runtime_point_s, slots_key)
            found = memory.present.pending.get(key)
            if found is None or not found.is_of(basis):
                fresh.append((key, (view, runtime_of(forecast, point=options.point))))
                found = Computed(basis, None)
            pending[key] = found
    # All that are new at once: their curves are computed as one table.
    made = pending_jobs([job for _, job in fresh], options.worth, options.grid, capacity)
    for (key, _), job in zip(fresh, made, strict=True):
        pending[key] = Computed(pending[key].basis, job)
    return Present(capacity, running, pending, idle)


def _running_job(
    view: JobView,
    runtime: RuntimeDistribution,
    since_ms: int,
    capacity: Floats,
    partition_of: Callable[[str], int],
) -> RunningJob:
    counts = [0] * len(capacity)
    for stage in view.stages:
        if len(counts) == 1:
            counts[0] += len(stage.running) * stage.slots_per_task
        else:
            for task in stage.running:
                counts[partition_of(task.executor)] += stage.slots_per_task
    for executor, count in view.held.items():
        counts[partition_of(executor)] += count
    slots = np.array(counts, dtype=float)
    factor = rounds(view, float(capacity.sum()))
    if view.preferred is not None:
        away = [q for q in np.flatnonzero(slots).tolist() if q not in view.preferred.partitions]
        factor *= view.preferred.elsewhere_factor if away else 1.0
    return RunningJob(view, since_ms, slots, sum(counts), runtime, factor)
