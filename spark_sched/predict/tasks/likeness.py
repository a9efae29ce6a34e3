"""Similarity of history's errors across the stages of one job: pilots of one stage correct the others."""

from __future__ import annotations

from spark_sched.predict.runtimes.features import JobAttributes
from spark_sched.predict.tasks.fading import FadingSums

#: Squared log-errors (factors of e) whose weight a stage needs before its own record counts as much as
#: everyone's, and everyone's as much as the paper's assumption.
_CAUTION = 1.0


class Likeness:
    """The slope of history's log-error on a later stage over that on the job's first one, by recurring name.

    SLearn-DAG scales every later stage by how far off history was on the sampled one (§6: d_s / d_h), which
    is a slope of 1; a slope of 0 means that one error does not predict the other. It is learned by least
    squares through the origin, with less weight for old jobs, and lies between 0 and 1.
    """

    def __init__(self) -> None:
        self.sums = FadingSums()

    def add(self, later: JobAttributes, first_error: float, later_error: float) -> None:
        """Take in what one job's later stage took over what history had said, and its first stage, both as
        logarithms."""
        self.sums.add(later, first_error * later_error, first_error * first_error)

    def expect(self, later: JobAttributes) -> float:
        """The expected slope for such a stage: that of all jobs where its own history is short."""
        return _slope(self.sums.of(later), _slope(self.sums.everyone, 1.0))


def _slope(sums: tuple[float, float], otherwise: float) -> float:
    return min(1.0, max(0.0, (sums[0] + _CAUTION * otherwise) / (sums[1] + _CAUTION)))
