"""What forecasts of jobs' ends have been worth so far, and the correction that follows.

A forecast of a runtime is calibrated when the job is submitted. The end that follows from it need not be: a
job waits longer than planned, shares its slots, or has outlived half of its forecast. So the end of each job
tells where it fell in the forecasts that were made for it, by the situation that the job was in when they
were made, and later forecasts in a situation are bent until these places come out evenly (conformal
prediction by categories: Vovk, Gammerman and Shafer, "Algorithmic learning in a random world", 2005, §4.5).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from spark_sched.predict.runtimes.distribution import RuntimeDistribution

__all__ = ["EndCorrection", "Situation"]

#: What is believed before any end was seen: all is as given. Scores that stand for that.
_PRIOR = np.linspace(0.0, 1.0, 6)
#: Ends that a category needs to speak for itself; before, the wider one around it does.
_ENOUGH = 20
#: Ends of a category that count: the load changes.
_MEMORY_JOBS = 100
#: Upper ends of categories.
_CROWDS = (0.0, 0.5, 2.0)
_AGES = (0.1, 0.6, 1.0, 2.0, 4.0)

#: A given time of 0 cannot be left by a factor.
_LEAST_S = 1e-3
#: Equidistributed in [0, 1): stands in for a random number where an end hit a jump of the CDF.
_GOLDEN = 0.6180339887498949

Category: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Situation:
    """What a job's forecast depends on that its runtime does not tell.

    Attributes:
        begun: its first task was launched.
        first: no job before it in the plan's order waits for its first task.
        crowd: tasks of all jobs that wait for a slot, per slot.
        age: time since its submission, or since its first task, over the median runtime that is forecast.
    """

    begun: bool
    first: bool
    crowd: float
    age: float

    def categories(self) -> Iterator[Category]:
        """Situations whose ends are counted together, from the narrowest on."""
        crowd, age = bisect_left(_CROWDS, self.crowd), bisect_left(_AGES, self.age)
        begun = int(self.begun)
        yield begun, age, crowd, int(self.begun or self.first)
        yield begun, age, crowd
        yield begun, age
        yield (begun,)


class _Ends:
    """Scores of the ends of one category, and the bend that follows.

    The score of an end is the CDF given for it, in [0, 1], inside the range that was given. Outside, it goes
    on with the logarithm of the ratio to the range's end.
    """

    def __init__(self) -> None:
        self._scores: deque[float] = deque(maxlen=_MEMORY_JOBS)
        self._sorted = _PRIOR
        self.seen = 0

    def learn(self, given: RuntimeDistribution, after_s: float) -> None:
        self.seen += 1
        low_s, high_s = max(given.min_s, _LEAST_S), max(given.max_s, _LEAST_S)
        if after_s > high_s:
            score = 1.0 + float(np.log(after_s / high_s))
        elif after_s < low_s:
            score = float(np.log(max(after_s, _LEAST_S) / low_s))
        else:
            top, below = given.cdf(after_s), given.cdf(np.nextafter(after_s, 0.0))
            score = float(below + (self.seen * _GOLDEN) % 1.0 * (top - below))
        self._scores.append(score)
        self._sorted = np.sort(np.concatenate((np.array(self._scores), _PRIOR)))

    def bent(self, given: RuntimeDistribution) -> RuntimeDistribution:
        """The next score is equally likely between any two of those seen, and beyond the outermost ones."""
        scores = self._sorted
        times = given.quantile(np.clip(scores, 0.0, 1.0))
        times = np.where(scores < 0.0, given.min_s * np.exp(np.minimum(scores, 0.0)), times)
        beyond = max(given.max_s, _LEAST_S) * np.exp(np.maximum(scores - 1.0, 0.0))
        times = np.maximum.accumulate(np.where(scores > 1.0, beyond, times))
        levels = np.arange(1.0, scores.size + 1.0) / (scores.size + 1.0)
        levels[-1] = 1.0
        return RuntimeDistribution.trusted(times, levels)


class EndCorrection:
    """Learns from ended jobs and corrects the ends forecast for active ones. Deterministic, sees no clock.

    Of each job one forecast per category is remembered until it ends, the first.
    """

    def __init__(self) -> None:
        self._learned: dict[Category, _Ends] = {}
        self._given: dict[str, dict[Category, tuple[int, RuntimeDistribution]]] = {}

    def note(self, job: str, situation: Situation, origin_ms: int, given: RuntimeDistribution) -> None:
        """Remember what is expected of a job, uncorrected: seconds from ``origin_ms`` to its end."""
        of_job = self._given.setdefault(job, {})
        for category in situation.categories():
            of_job.setdefault(category, (origin_ms, given))

    def corrected(self, situation: Situation, given: RuntimeDistribution) -> RuntimeDistribution:
        """What experience makes of it. Changes nothing."""
        found = None
        for category in situation.categories():
            found = self._learned.get(category)
            if found is not None and found.seen >= _ENOUGH:
                break
        return given if found is None else found.bent(given)

    def ended(self, job: str, ended_ms: int) -> None:
        """Learn from a job that ended whole."""
        for category, (origin_ms, given) in self._given.pop(job, {}).items():
            learned = self._learned.setdefault(category, _Ends())
            learned.learn(given, max(0, ended_ms - origin_ms) / 1000.0)

    def forget(self, job: str) -> None:
        """The job is gone and teaches nothing."""
        self._given.pop(job, None)

    def clear(self) -> None:
        """Active jobs will be told anew; what was learned stays."""
        self._given.clear()
