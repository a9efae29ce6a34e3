"""Which of the plan's queues gets a slot (SLearn §5.1.1). ``schedcore.plan.QueueTurns`` is the twin."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from spark_sched_lab.engine.records import JobRun

#: A queue gets this share of the time at least, however small its weight.
LEAST_SHARE = 0.01

#: Load, due time and number of a queue: the least one is next.
Turn: TypeAlias = tuple[float, int, int]

#: Jobs of no queue go before all others.
_NO_QUEUE: Turn = (-1.0, 0, -1)


class QueueTurns:
    """Running tasks over weight of the plan's queues; without queues none.

    The least loaded queue is next. Queues that run nothing are equally loaded, so where more queues have work
    than there are slots, loads alone would give every slot to the first one. Of equally loaded queues the one
    that was due first is next. When a task of a queue ends after r ms, the queue is due r · (1/s - 1) ms
    later, with s its weight over the greatest weight, `LEAST_SHARE` at least: it runs for about the share s
    of the time. Once a waiting queue is due, every other queue starts at most one task before it: the waiting
    one keeps its due time, and one whose task ends is due later than that.
    """

    def __init__(self) -> None:
        self.weights: tuple[float, ...] = ()
        self._running: list[int] = []
        self._due_ms: list[int] = []

    def put(self, weights: tuple[float, ...], jobs: Iterable[JobRun] = ()) -> None:
        """A plan with these queues, or with none, is in force; ``jobs`` are in the queues it says."""
        if len(weights) != len(self.weights):
            self._due_ms = [0] * len(weights)
        self.weights = weights
        self._running = [0] * len(weights)
        if weights:
            for job in jobs:
                if job.queue is not None:
                    self._running[job.queue] += job.running_slots

    def started(self, queue: int) -> None:
        """A task of a job of this queue runs."""
        if self.weights:
            self._running[queue] += 1

    def stopped(self, queue: int, ran_ms: int, now_ms: int) -> None:
        """A task of a job of this queue ran for ``ran_ms`` until now."""
        if self.weights:
            self._running[queue] -= 1
            share = max(LEAST_SHARE, self.weights[queue] / max(self.weights))
            self._due_ms[queue] = now_ms + int(ran_ms * (1.0 / share - 1.0))

    def of(self, queue: int) -> Turn:
        """When it is the queue's turn; -1: of jobs of no queue."""
        if queue < 0:
            return _NO_QUEUE
        return self._running[queue] / self.weights[queue], self._due_ms[queue], queue
