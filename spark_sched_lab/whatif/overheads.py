"""Spark's own time between tasks and before stages, learned from the log that is replayed.

Three times are learned, none of them fitted to a job's completion time:

* *turnaround*: from a task's recorded end to the next launch on its slot while tasks wait. Spark notes a
  task's end only after its result was fetched, when the slot may already run the next task, so this time is
  often below zero.
* *launch*: from a stage's submission to its first launch, while a slot was free for it. The time that a
  stage waited for slots is not an overhead: the simulation computes it.
* *driver*: from the end of a stage's parents to its submission, and from a job's last task to its end: the
  driver's own code, which runs between stages and Spark jobs.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from spark_sched_lab.traces.tables import Machine
from spark_sched_lab.whatif.recorded import RecordedAttempt

#: A slot that stays free for longer had no task to run.
_AT_ONCE_MS = 1_000
#: Fewer values are too few for a measurement.
_LEAST = 5


@dataclass(frozen=True, slots=True)
class Launch:
    """An attempt, the number of its stage in the application and when that had been submitted."""

    attempt: RecordedAttempt
    stage: int
    submit_ms: int


def turnaround_ms(launches: Iterable[Launch], slots: Mapping[str, int]) -> float:
    """Mean time from a task's recorded end to the next launch on its slot, in ms; 0 if there are too few.

    With s slots, the i-th launch on an executor needs i - s ends before it, so it is matched with the (i -
    s)-th end there. Only pairs within one stage that had been submitted before that end count: between two
    stages a slot may be held or wait for something else. Of these, the middle nine tenths.
    """
    by_executor: dict[str, list[Launch]] = defaultdict(list)
    for launch in launches:
        by_executor[launch.attempt.executor].append(launch)
    gaps = []
    for executor, own in by_executor.items():
        count = slots[executor]
        own.sort(key=lambda launch: launch.attempt.start_ms)
        ends = sorted((launch.attempt.end_ms, launch.stage) for launch in own)
        for launch, (end_ms, stage) in zip(own[count:], ends, strict=False):
            gap = launch.attempt.start_ms - end_ms
            if launch.stage == stage and launch.submit_ms < end_ms and abs(gap) <= _AT_ONCE_MS:
                gaps.append(gap)
    if len(gaps) < _LEAST:
        return 0.0
    gaps.sort()
    cut = len(gaps) // 20
    return float(statistics.fmean(gaps[cut : len(gaps) - cut]))


class Occupancy:
    """How many slots of the application were free at each moment, as recorded."""

    def __init__(
        self, attempts: Iterable[RecordedAttempt], executors: Sequence[Machine], turnaround: float
    ) -> None:
        changes: dict[int, int] = defaultdict(int)
        self._spans_ms = [
            (round((m.added_s or 0.0) * 1000), None if m.removed_s is None else round(m.removed_s * 1000))
            for m in executors
        ]
        for machine in executors:
            changes[round((machine.added_s or 0.0) * 1000)] += machine.slots or 0
            if machine.removed_s is not None:
                changes[round(machine.removed_s * 1000)] -= machine.slots or 0
        for a in attempts:
            changes[a.start_ms] -= 1
            changes[max(a.start_ms, a.end_ms + round(turnaround))] += 1
        self._times_ms = np.array(sorted(changes), dtype=np.int64)
        self._free = np.cumsum([changes[t] for t in self._times_ms.tolist()])

    def any_slot(self, at_ms: int) -> bool:
        return any(begin <= at_ms and (end is None or at_ms < end) for begin, end in self._spans_ms)

    def full_before(self, at_ms: int) -> bool:
        """Whether no slot was free just before."""
        index = int(np.searchsorted(self._times_ms, at_ms, side="left")) - 1
        return index < 0 or bool(self._free[index] <= 0)

    def free_since_ms(self, at_ms: int) -> int:
        """Since when, without a break, a slot had been free just before ``at_ms``; ``at_ms`` if none was."""
        index = int(np.searchsorted(self._times_ms, at_ms, side="left")) - 1
        since = at_ms
        while index >= 0 and self._free[index] > 0:
            since = int(self._times_ms[index])
            index -= 1
        return since


def usual_ms(measured: Sequence[int]) -> int:
    """The median of measured launch times; 0 if there is none."""
    return round(statistics.median(measured)) if measured else 0
