"""Jobs of a snapshot as the planner sees them: demand, runtime, utility, and what they hold."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from spark_sched.arrays import Floats
from spark_sched.errors import BadInputError
from spark_sched.policies.three_sigma.curves import Curves, consumption, curves, survivals
from spark_sched.policies.three_sigma.utility import Utility, best_effort, piecewise, slo, slo_with_decay
from spark_sched.policies.three_sigma.window import Grid
from spark_sched.predict import Forecast, RuntimeDistribution
from spark_sched.state import JobView, Snapshot

#: An SLO job's utility past its deadline (§4.2.2 and §4.2.3): it decays for jobs that will probably miss
#: it by history, for no job, or for all jobs.
OverEstimates: TypeAlias = Literal["adaptive", "never", "always"]

#: Without any history: from a second to an hour, uniform over the orders of magnitude.
ANY_RUNTIME = RuntimeDistribution.from_knots([1.0, 10.0, 60.0, 600.0, 3600.0], [0.0, 0.28, 0.5, 0.78, 1.0])


@dataclass(frozen=True)
class Worth:
    """The utilities of jobs.

    A gang is worth nothing past its deadline or after its decay, as in the paper. Spark's jobs must still run
    to their end, so any other job is then worth as much as a best-effort job.

    Attributes:
        slo: utility of an SLO job that meets its deadline.
        best_effort: of a best-effort job that ends at once; significantly lower (§4.3.2).
        horizon_s: time after submission at which a best-effort job's utility has fallen to its floor.
        floor: the share of its utility that remains then.
        threshold: under ``adaptive``, jobs get the decay if the probability that they run no longer than from
            submission to deadline is below this.
        by_class: custom utilities by job class, as points (seconds after submission, value).
    """

    slo: float = 1.0
    best_effort: float = 0.001
    horizon_s: float = 4 * 3600.0
    floor: float = 0.1
    over_estimates: OverEstimates = "adaptive"
    threshold: float = 0.05
    by_class: Mapping[str, Sequence[tuple[float, float]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Wrong numbers are refused when the policy is created, not when the first job arrives.
        slo(0.0, self.slo)
        best_effort(0.0, self.horizon_s, self.best_effort, self.floor)
        if not 0.0 <= self.threshold <= 1.0:
            raise BadInputError(f"the over-estimate threshold is {self.threshold:g} but must lie from 0 to 1")
        for points in self.by_class.values():
            piecewise(points)

    def of(self, job: JobView, chance: float, longest_s: float) -> Utility:
        """The utility of a job by its time of completion on the driver's clock, in seconds.

        Args:
            chance: probability that it runs no longer than from submission to deadline; ignored without a
                deadline.
            longest_s: its longest runtime; ignored without a deadline.
        """
        submit_s = job.started_ms / 1000.0
        job_class = job.marks.job_class
        if job_class is not None and job_class in self.by_class:
            return piecewise([(submit_s + t_s, value) for t_s, value in self.by_class[job_class]])
        end_s = submit_s + self.horizon_s
        unhurried = Utility((submit_s, end_s), (self.best_effort, self.floor * self.best_effort))
        if job.marks.deadline_ms is None:
            return unhurried
        deadline_s = job.marks.deadline_ms / 1000.0
        if self.over_estimates == "never" or (self.over_estimates == "adaptive" and chance >= self.threshold):
            if is_gang(job):
                return Utility((deadline_s, deadline_s), (self.slo, 0.0))
            times_s = (deadline_s, deadline_s, max(deadline_s, end_s))
            left, floor = min(self.slo, unhurried.at(deadline_s)), min(self.slo, unhurried.values[-1])
            return Utility(times_s, (self.slo, left, floor))
        # Long enough that even the longest runtime, started at once, is worth something.
        decay_s = 2.0 * max(_window_s(job), longest_s, 1.0)
        if is_gang(job):
            return slo_with_decay(deadline_s, decay_s, self.slo)
        # Never down to 0: such a job would not start even on an empty cluster.
        gone_s = deadline_s + decay_s
        left, floor = min(self.slo, unhurried.at(gone_s)), min(self.slo, unhurried.values[-1])
        return Utility((deadline_s, gone_s, max(gone_s, end_s)), (self.slo, left, floor))


def chances(known: Curves, views: Sequence[JobView]) -> list[float]:
    """The probability of each job to run no longer than from submission to deadline; 0 without one."""
    return [float(chance) for chance in 1.0 - survivals(known, np.array([_window_s(view) for view in views]))]


def _window_s(job: JobView) -> float:
    """From submission to deadline; 0 without one."""
    deadline_ms = job.marks.deadline_ms
    return 0.0 if deadline_ms is None else max(0.0, (deadline_ms - job.started_ms) / 1000.0)


@dataclass(frozen=True, slots=True, eq=False)
class EquivalenceSet:
    """One equivalence set of a job, and how many slots it takes there.

    Attributes:
        mask: its partitions as bits.
        slots: the number of slots that it takes: all that it can use, or fewer.
        factor: the job's runtime there over its runtime on preferred partitions with all its slots.
        consumption: chance that it still runs by elapsed time there, shape (E,).
    """

    mask: int
    slots: int
    factor: float
    consumption: Floats


@dataclass(frozen=True, slots=True, eq=False)
class PendingJob:
    """A job that waits.

    Attributes:
        slots: k, the largest number of slots that it can use.
        gang: it starts with all of them or not at all.
        runtime: on preferred partitions.
        utility: by completion on the driver's clock in s.
    """

    view: JobView
    slots: int
    gang: bool
    runtime: RuntimeDistribution
    utility: Utility
    places: tuple[EquivalenceSet, ...]

    @property
    def tasks(self) -> int:
        """Of its widest stage, each counted for the slots that it takes."""
        return _tasks(self.view)


def partitions_of(snapshot: Snapshot) -> tuple[Floats, Callable[[str], int]]:
    """Slots by partition, shape (Q,), and what gives an executor's partition, 0 for one that is gone.

    The simulator's executors know both without being asked one by one: a cycle does not grow with them.
    """
    known = snapshot.executors
    if hasattr(known, "partition_slots") and hasattr(known, "partition_of"):
        by_partition: dict[int, int] = known.partition_slots()
        slots = np.zeros(max(by_partition, default=0) + 1)
        slots[list(by_partition)] = list(by_partition.values())
        return slots, known.partition_of
    of_executor = {name: executor.partition for name, executor in snapshot.executors.items()}
    slots = np.zeros(max(of_executor.values(), default=0) + 1)
    for executor in snapshot.executors.values():
        slots[executor.partition] += executor.slots
    return slots, lambda name: of_executor.get(name, 0)


def runtime_of(forecast: Forecast, *, point: bool) -> RuntimeDistribution:
    """The runtime to plan with: the distribution, or the point estimate as if it were certain (the mean where
    the forecast has none)."""
    runtime = ANY_RUNTIME if forecast.runtime is None else forecast.runtime
    if not point:
        return runtime
    point_s = forecast.runtime_point_s
    return RuntimeDistribution.point_s(runtime.mean_s if point_s is None else point_s)


def pending_jobs(
    jobs: Sequence[tuple[JobView, RuntimeDistribution]], worth: Worth, grid: Grid, capacity: Floats
) -> list[PendingJob | None]:
    """Places and utilities of waiting jobs; None for a job without waiting tasks, or without a place.

    A job's preferred partitions are one equivalence set, all partitions the other, where it takes longer. A
    stage wider than a set is planned with all of the set's slots, unless it must start whole.
    """
    known = curves([runtime for _, runtime in jobs])
    in_time = chances(known, [view for view, _ in jobs])
    inside = _Inside(capacity)
    sizes = [_size(view, inside) for view, _ in jobs]
    places = [inside.places(view, slots) for (view, _), slots in zip(jobs, sizes, strict=True)]
    which = np.repeat(np.arange(len(jobs)), [len(each) for each in places])
    factors = np.array([factor for each in places for _, _, factor in each], dtype=float)
    rows = iter(consumption(known, which, factors, grid.elapsed_ms / 1000.0))
    found: list[PendingJob | None] = []
    for (view, runtime), slots, of_job, chance in zip(jobs, sizes, places, in_time, strict=True):
        made = tuple(EquivalenceSet(mask, there, factor, next(rows)) for mask, there, factor in of_job)
        utility = worth.of(view, chance, float(runtime.t_s[-1]))
        found.append(PendingJob(view, slots, is_gang(view), runtime, utility, made) if made else None)
    return found


def _size(view: JobView, inside: _Inside) -> int:
    tasks = _tasks(view)
    return tasks if is_gang(view) else min(tasks, int(inside.slots(inside.everywhere)))


def _tasks(view: JobView) -> int:
    """The slots that its widest stage's unfinished tasks take."""
    return max((stage.open_slots for stage in view.stages), default=0)


def is_gang(view: JobView) -> bool:
    """Whether the job starts with all its slots or not at all."""
    return any(stage.barrier for stage in view.stages)


def is_best_effort(view: JobView, now_ms: int) -> bool:
    """Whether the job has no deadline, or counts as best-effort since it missed its deadline: see `Worth`."""
    return view.marks.deadline_ms is None or (view.marks.deadline_ms < now_ms and not is_gang(view))


class _Inside:
    """Slots of partition sets, each counted once."""

    def __init__(self, capacity: Floats) -> None:
        self._capacity = capacity.tolist()
        self.everywhere = (1 << len(capacity)) - 1
        self._known: dict[int, float] = {}

    def slots(self, mask: int) -> float:
        if mask not in self._known:
            self._known[mask] = sum(slots for q, slots in enumerate(self._capacity) if mask >> q & 1)
        return self._known[mask]

    def places(self, view: JobView, slots: int) -> list[tuple[int, int, float]]:
        """The sets (bits, slots, factor) on which a job of that many slots can run.

        A gang needs a set that has all its slots. Any other job takes what a set has, and more rounds.
        """
        if slots < 1:
            return []
        sets = [(self.everywhere, 1.0)]
        if view.preferred is not None:
            elsewhere = view.preferred.elsewhere_factor
            preferred = sum(1 << q for q in view.preferred.partitions if 0 <= q < len(self._capacity))
            if preferred != self.everywhere:
                sets = [(self.everywhere, elsewhere)]
                if preferred and elsewhere > 1.0:
                    sets.insert(0, (preferred, 1.0))
        found = []
        for mask, factor in sets:
            there = min(slots, int(self.slots(mask)))
            if there == slots:
                found.append((mask, slots, factor))
            elif there > 0 and not is_gang(view):
                tasks = _tasks(view)
                found.append((mask, there, factor * math.ceil(tasks / there) / math.ceil(tasks / slots)))
        return found
