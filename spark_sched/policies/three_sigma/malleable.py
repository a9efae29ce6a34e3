"""Jobs that start with fewer slots than they can use: the paper's gangs cannot, Spark's stages do."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

import numpy as np

from spark_sched.policies.three_sigma.curves import consumption, curves
from spark_sched.policies.three_sigma.jobs import EquivalenceSet, PendingJob
from spark_sched.policies.three_sigma.problem import Running
from spark_sched.policies.three_sigma.window import Grid
from spark_sched.state import JobView

#: Largest number of SLO jobs that get such places, those with the earliest deadlines, to keep problems small.
_MOST_JOBS = 32
#: Largest number of tasks that are simulated one by one; further tasks fill all slots in turn.
_MOST_TASKS = 256
#: A running job counts as ended when its probability to still run is below this.
_GONE = 0.5


def narrower(
    waiting: Sequence[PendingJob],
    free: int,
    slots: Sequence[int],
    held: Sequence[Running],
    grid: Grid,
    now_ms: int,
) -> list[tuple[int, EquivalenceSet]]:
    """Places of malleable SLO jobs on fewer slots than they can use, for starts now.

    A stage takes more slots as they become free, before any planned job. So the job's time is that of its
    tasks, each of average length, on the slots as they are expected to become free: once starting on the
    slots that are free now, and once on those and the slots of all jobs that may be preempted.

    Args:
        free: slots without a task.
        slots: of the running jobs.
        held: what the same jobs are expected to use.

    Returns:
        (number of the job, place).
    """
    urgent = sorted(
        (job.view.marks.deadline_ms, number)
        for number, job in enumerate(waiting)
        if job.view.marks.deadline_ms is not None and not job.gang and job.view.marks.deadline_ms >= now_ms
    )
    numbers = [number for _, number in urgent[:_MOST_JOBS]]
    widest = max((waiting[number].slots for number in numbers), default=0)
    ends_s = _ends_s(held, grid)
    gone_s = [0.0 if kept.cost is not None else end_s for kept, end_s in zip(held, ends_s, strict=True)]
    cases = [_slots_at_s(free, slots, at_s, widest) for at_s in (ends_s, gone_s)]
    chosen: dict[tuple[int, int], float] = {}
    for number in numbers:
        job = waiting[number]
        for at_s in cases:
            at_once = at_s.count(0.0)
            if 0 < at_once < job.slots:
                chosen[number, at_once] = job.places[-1].factor * _stretch(job, at_s)
    known = curves([waiting[number].runtime for number, _ in chosen])
    factors = np.array(list(chosen.values()), dtype=float)
    rows = consumption(known, np.arange(len(chosen)), factors, grid.elapsed_ms / 1000.0)
    return [
        (number, EquivalenceSet(waiting[number].places[-1].mask, at_once, factor, row))
        for ((number, at_once), factor), row in zip(chosen.items(), rows, strict=True)
    ]


def rounds(view: JobView, capacity: float) -> float:
    """How many times longer a running job with waiting tasks takes than with all tasks at once; 1 without
    waiting tasks.
    """
    left = sum(stage.open_slots for stage in view.stages)
    if not 0 < view.running_slots < left:
        return 1.0
    most = max(1.0, min(left, capacity))
    return max(1.0, math.ceil(left / view.running_slots) / math.ceil(left / most))


def _ends_s(held: Sequence[Running], grid: Grid) -> list[float]:
    """When each job has ended for all but certain, in s from now; infinity: not in the window."""
    if not held:
        return []
    gone = np.array([kept.remaining for kept in held]) < _GONE
    ends_s = np.where(gone.any(axis=1), grid.starts_ms[gone.argmax(axis=1)] / 1000.0, math.inf)
    return [float(end_s) for end_s in ends_s.tolist()]


def _slots_at_s(free: int, slots: Sequence[int], ends_s: Sequence[float], most: int) -> list[float]:
    """When the first ``most`` slots come free, in s from now, in order."""
    at_s = [0.0] * min(free, most)
    for end_s, count in sorted(zip(ends_s, slots, strict=True)):
        if len(at_s) >= most:
            break
        at_s += [end_s] * min(count, most - len(at_s))
    return at_s


def _stretch(job: PendingJob, at_s: Sequence[float]) -> float:
    """The job's time on slots that come free at these times over its time with all its slots at once."""
    waves = math.ceil(job.tasks / job.slots)
    task_s = max(1e-3, job.runtime.mean_s / waves)
    free_s = list(at_s[: job.slots])  # in order, so a heap
    end_s = 0.0
    for _ in range(min(job.tasks, _MOST_TASKS)):
        end_s = heapq.heappop(free_s) + task_s  # never before the last one's
        heapq.heappush(free_s, end_s)
    if job.tasks > _MOST_TASKS:
        there = sum(math.isfinite(at) for at in free_s)
        end_s += task_s * (job.tasks - _MOST_TASKS) / there
    return max(1.0, end_s / (task_s * waves))
