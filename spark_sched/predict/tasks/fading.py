"""Weighted sums by recurring job in which recent values count most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

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
        self._at_first = everyone
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

    def to_list(self) -> list[Any]:
        """The state as JSON has it: the sums of all jobs, then those of each recurring one."""
        return [list(self.everyone), [[*recurs, *sums] for recurs, sums in self._of.items()]]

    def restore(self, state: Sequence[Any] | None) -> None:
        """What `to_list` returned; None: the initial sums. Raises ValueError, changing nothing, for anything
        else."""
        if state is None:
            everyone, of = self._at_first, []
        else:
            total, weights = map(float, state[0])
            everyone = total, weights
            of = [((user, name), (float(value), float(weight))) for user, name, value, weight in state[1]]
        self.everyone = everyone
        self._of.clear()
        for recurs, sums in of:
            self._of[recurs] = sums
