"""Checks a plan before it is used, against the jobs and slots instead of the problem's rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from spark_sched.arrays import Floats
from spark_sched.policies.three_sigma.jobs import EquivalenceSet, PendingJob
from spark_sched.policies.three_sigma.window import Grid

#: Expected slots that rounding may add up to.
_ROUNDING = 1e-4
#: All unions of that many partitions are checked; of more: the sets used, each partition and the whole.
_ALL_UNIONS = 6


@dataclass(frozen=True, slots=True, eq=False)
class PlannedStart:
    """One job's part of a plan: where, in which time step, and on how many slots of each partition if now."""

    job: PendingJob
    place: EquivalenceSet
    start: int
    share: Mapping[int, int]


def broken_promise(
    starts: Sequence[PlannedStart],
    grid: Grid,
    free_now: Floats,
    expected_free: Floats,
) -> str | None:
    """The first error of a plan as a sentence, or None.

    Args:
        starts: the jobs that it starts, now and later.
        free_now: slots without a task by partition, those of preempted jobs included, shape (Q,).
        expected_free: capacity less the expected use of jobs that go on, shape (Q, T).
    """
    seen: set[str] = set()
    taken = np.zeros(len(free_now))
    for each in starts:
        key, k = each.job.view.job, each.place.slots
        if key in seen:
            return f"job {key!r} starts twice"
        seen.add(key)
        if each.start == 0:
            if sum(each.share.values()) != k:
                return f"job {key!r} gets {sum(each.share.values())} slots of {k}"
            for q, slots in each.share.items():
                if not each.place.mask >> q & 1:
                    return f"job {key!r} gets slots of partition {q}, which it may not use"
                taken[q] += slots
    if (taken > free_now + _ROUNDING).any():
        q = int((taken - free_now).argmax())
        return f"jobs that start now take {taken[q]:g} of {free_now[q]:g} free slots of partition {q}"
    # Expected use over time, from each job's own survival function.
    used: dict[int, Floats] = {}
    for each in starts:
        runtime, start = each.job.runtime, each.start
        # Differences of whole ms: 0.3 s - 0.1 s would be below the 0.2 s of a job that is over then.
        since_s = (grid.starts_ms[start + 1 :] - grid.starts_ms[start]) / 1000.0 / each.place.factor
        row = used.setdefault(each.place.mask, np.zeros(grid.steps))
        row[start] += each.place.slots
        row[start + 1 :] += each.place.slots * (1.0 - np.interp(since_s, runtime.t_s, runtime.p, left=0.0))
    for union in _unions(len(free_now), used):
        room = sum((expected_free[q] for q in range(len(free_now)) if union >> q & 1), np.zeros(grid.steps))
        need = sum((row for mask, row in used.items() if mask & ~union == 0), np.zeros(grid.steps))
        over = need - np.maximum(room, 0.0)
        if (over > _ROUNDING).any():
            t = int(over.argmax())
            from_s = grid.starts_ms[t] / 1000.0
            return f"{need[t]:g} expected slots in {room[t]:g} of partitions {union:#b} from {from_s:g} s on"
    return None


def _unions(partitions: int, used: Mapping[int, Floats]) -> list[int]:
    if partitions <= _ALL_UNIONS:
        return list(range(1, 1 << partitions))
    return sorted({*used, (1 << partitions) - 1, *(1 << q for q in range(partitions))})
