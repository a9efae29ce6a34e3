"""Weighted sums by recurring job in which recent values count most."""

from __future__ import annotations

from typing import TypeAlias

from spark_sched.predict.recent import Recent
from spark_sched.predict.runtimes.features import JobAttributes

#: A sum of values, and of their weights.
Sums: TypeAlias = tuple[float, float]

#: Factors by which a job's sums, and those of all jobs, are multiplied when a value is added.
_KEEPS = 0.95
_ALL_KEEPS = 0.999
#: Recurring jobs remembered, the latest ones.
KINDS_KEPT = 10_000


class FadingSums:
    """Sums of weighted values and of their weights, of each recurring job and of all jobs together.

    Args:
        everyone: initial sums of all jobs together.
    """

    def __init__(self, everyone: Sums = (0.0, 0.0)) -> None:
        self._of: Recent[tuple[str | None, str | None], Sums] = Recent(KINDS_KEPT)
        #: Sums of all jobs together.
        self.everyone = everyone

    def add(self, job: JobAttributes, value: float, weight: float = 1.0) -> None:
        """Add ``value``, which is already multiplied by its weight, and the weight."""
        total, weights = self.of(job)
        self._of[job.recurs] = total * _KEEPS + value, weights * _KEEPS + weight
        total, weights = self.everyone
        self.everyone = total * _ALL_KEEPS + value, weights * _ALL_KEEPS + weight

    def of(self, job: JobAttributes) -> Sums:
        """The sums of the recurring job with this key; 0 for an unknown one."""
        return self._of.get(job.recurs, (0.0, 0.0))
