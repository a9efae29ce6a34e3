"""The accuracy of past forecasts of jobs' ends, and the correction of new ones.

A forecast of a runtime is calibrated when the job is submitted. The end derived from it may not be: a job
waits longer than planned, shares its slots, or has outlived half of its forecast. So the end of each job is
scored by its quantile in the forecasts that were made for it, separately for each situation that the job was
in at the time of the forecast. Later forecasts in the same situation are transformed until these quantiles
are uniform (conformal prediction by categories: Vovk, Gammerman and Shafer, "Algorithmic learning in a random
world", 2005, §4.5).
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

import numpy as np

from spark_sched.arrays import Floats
from spark_sched.predict.runtimes.calibration import GOLDEN
from spark_sched.predict.runtimes.distribution import RuntimeDistribution
from spark_sched.predict.runtimes.histogram import LEAST_S

#: The prior: forecasts are correct as given. Scores that represent it.
_PRIOR = np.linspace(0.0, 1.0, 6)
#: Ends that a category needs for its own correction; with fewer, the next wider category is used.
_ENOUGH = 20
#: Number of latest ends of a category that count; older ones may belong to another load.
_MEMORY_JOBS = 100
#: Largest number of categories. Users choose priorities, so there may be many; those learned last are kept.
_MOST_CATEGORIES = 1000
#: Active jobs of a category whose time so far counts: some of them say as much as all.
_MOST_REACHED = 100
#: The quantiles that people see.
SHOWN = (0.1, 0.5, 0.9)
#: Upper ends of categories.
_CROWDS = (0.0, 0.5, 2.0)
_AGES = (0.1, 0.6, 1.0, 2.0, 4.0)

Category: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Situation:
    """The properties of a job, other than its runtime, on which the accuracy of its forecast end depends.

    Attributes:
        begun: its first task was launched.
        first: no job before it in the plan's order waits for its first task.
        crowd: waiting tasks per slot; only those of the other jobs, if it arrives.
        age: time since its submission, or since its first task, divided by the forecast median runtime.
        arrives: whether it is just being submitted; it may then begin at once or wait.
        priority: decides the order, also among later jobs; ignored once the job has begun.
        recurs: whether earlier runs of its name are known. Forecasts by other names' runs may be wrong by any
            factor, which says nothing of forecasts by the name's own.
    """

    begun: bool
    first: bool
    crowd: float
    age: float
    arrives: bool = False
    priority: int = 0
    recurs: bool = True

    @property
    def narrowest(self) -> Category:
        return next(self.categories())

    def categories(self) -> Iterator[Category]:
        """Situations whose ends are counted together, from the narrowest on."""
        crowd, age = bisect_left(_CROWDS, self.crowd), bisect_left(_AGES, self.age)
        if self.arrives:
            yield from _widened(("arrives", self.recurs, self.priority, crowd, self.first))
        elif self.begun:
            # Never those of another age: an error in a whole job says little of what is left of another.
            yield from _widened(("runs", self.recurs, age, crowd, True), least=3)
        else:
            # Those of its priority first: the others may go before it, or it before them.
            yield from _widened(
                ("waits in class", self.recurs, self.priority, age, crowd, self.first), least=4
            )
            yield from _widened(("waits", self.recurs, age, crowd, self.first))


def _widened(narrowest: Category, least: int = 2) -> Iterator[Category]:
    """The category and those with less and less of its properties, down to ``least`` of them."""
    return (narrowest[:size] for size in range(len(narrowest), least - 1, -1))


class _Ends:
    """Scores of the ends of one category, and the correction (bend) that follows from them.

    The score of a time inside the forecast range is the forecast's CDF there, in [0, 1]. Outside the range
    the score continues with the logarithm of the ratio of the time to the nearer end of the range.
    """

    def __init__(self) -> None:
        self._scores: deque[float] = deque(maxlen=_MEMORY_JOBS)
        self.seen = 0

    def learn(self, given: RuntimeDistribution, after_s: float) -> None:
        self._scores.append(self.score(given, after_s))
        self.seen += 1

    def score(self, given: RuntimeDistribution, after_s: float) -> float:
        low_s, high_s = max(given.min_s, LEAST_S), max(given.max_s, LEAST_S)
        if after_s > high_s:
            return 1.0 + float(np.log(after_s / high_s))
        if after_s < low_s:
            return float(np.log(max(after_s, LEAST_S) / low_s))
        top, below = given.cdf(after_s), given.cdf(np.nextafter(after_s, 0.0))
        return float(below + (self.seen * GOLDEN) % 1.0 * (top - below))

    def bend(self, reached: list[float]) -> Bend:
        """``reached``: current scores of the jobs that have not ended yet.

        Kaplan and Meier's estimate ("Nonparametric estimation from incomplete observations", 1958), with one
        more at risk throughout: without ``reached``, the next score is equally likely between any two of
        those seen, and beyond the outermost ones.
        """
        scores = np.sort(np.concatenate((np.array(self._scores), _PRIOR)))
        censored = np.sort(np.array(reached))
        at_risk = np.arange(scores.size, 0, -1) + censored.size - np.searchsorted(censored, scores)
        levels = 1.0 - np.cumprod(at_risk / (at_risk + 1.0), dtype=np.float64)
        if censored.size and censored[-1] > scores[-1]:
            scores, levels = np.append(scores, censored[-1]), np.append(levels, 1.0)
        levels[-1] = 1.0
        return Bend(scores, levels)


class Bend:
    """The probability that a job has ended by each score: ``levels``, ascending to 1."""

    def __init__(self, scores: Floats, levels: Floats) -> None:
        self._scores, self._levels = scores, levels
        self._shown: Floats | None = None

    def quantiles(self, ends_s: Floats) -> Floats:
        """Corrected quantiles `SHOWN` of forecasts given as samples of their ends in ascending order, shape
        (jobs, samples); shape (jobs, 3)."""
        if self._shown is None:
            levels, first = np.unique(self._levels, return_index=True)
            self._shown = np.interp(SHOWN, levels, self._scores[first])
        found = np.empty((len(ends_s), len(SHOWN)))
        for at, score in enumerate(self._shown):
            if score < 0.0:
                found[:, at] = ends_s[:, 0] * np.exp(score)
            elif score > 1.0:
                found[:, at] = ends_s[:, -1] * np.exp(score - 1.0)
            else:
                found[:, at] = sample_quantile(ends_s, float(score))
        return found

    def of(self, given: RuntimeDistribution) -> RuntimeDistribution:
        scores = self._scores
        times = given.quantile(np.clip(scores, 0.0, 1.0))
        times = np.where(scores < 0.0, given.min_s * np.exp(np.minimum(scores, 0.0)), times)
        beyond = max(given.max_s, LEAST_S) * np.exp(np.maximum(scores - 1.0, 0.0))
        times = np.maximum.accumulate(np.where(scores > 1.0, beyond, times))
        return RuntimeDistribution.trusted(times, self._levels)


def sample_quantile(ends_s: Floats, level: float) -> Floats:
    """Of samples in ascending order, shape (jobs, samples), each in the middle of its part."""
    samples = ends_s.shape[1]
    place = min(max(level * samples - 0.5, 0.0), samples - 1.0)
    below = int(place)
    above = min(below + 1, samples - 1)
    return np.asarray(ends_s[:, below] + (place - below) * (ends_s[:, above] - ends_s[:, below]))


class EndCorrection:
    """Learns from ended jobs and corrects the forecast ends of active ones. Deterministic; reads no clock.

    For each job the first forecast per category is kept until the job ends. Jobs that have not ended count
    with the time reached so far (right-censored): jobs that end early are a biased sample.
    """

    def __init__(self) -> None:
        self._learned: dict[Category, _Ends] = {}
        self._given: dict[Category, dict[str, tuple[int, RuntimeDistribution]]] = {}
        self._narrowest: dict[str, Category] = {}
        self._bends: dict[Category, Bend] = {}
        self._bent_at_ms: int | None = None

    def note(self, job: str, situation: Situation, origin_ms: int, given: RuntimeDistribution) -> None:
        """Remember a job's forecast before correction: seconds from ``origin_ms`` to its end."""
        self._narrowest[job] = situation.narrowest
        for category in situation.categories():
            self._given.setdefault(category, {}).setdefault(job, (origin_ms, given))

    def is_new(self, job: str, narrowest: Category) -> bool:
        """Whether the job was in another category when `note` was last called for it."""
        return self._narrowest.get(job) != narrowest

    def corrected(self, situation: Situation, given: RuntimeDistribution, now_ms: int) -> RuntimeDistribution:
        """The forecast as corrected at ``now_ms``, on the clock of `note`."""
        bend = self.bend(situation, now_ms)
        return given if bend is None else bend.of(given)

    def bend(self, situation: Situation, now_ms: int) -> Bend | None:
        """The correction of forecasts in this situation; None: nothing was learned for it."""
        found, chosen = None, None
        for category in situation.categories():
            if (learned := self._learned.get(category)) is not None:
                found, chosen = learned, category
                if found.seen >= _ENOUGH:
                    break
        if found is None or chosen is None:
            return None
        if self._bent_at_ms != now_ms:
            self._bent_at_ms, self._bends = now_ms, {}
        if chosen not in self._bends:
            active = self._given.get(chosen, {})
            some = islice(active.values(), 0, None, 1 + len(active) // _MOST_REACHED)
            reached = [found.score(what, max(0, now_ms - origin_ms) / 1000.0) for origin_ms, what in some]
            self._bends[chosen] = found.bend(reached)
        return self._bends[chosen]

    def ended(self, job: str, ended_ms: int) -> None:
        """Learn from a job that completed."""
        self._bent_at_ms = None
        for category, (origin_ms, given) in self.forget(job):
            if ended_ms <= origin_ms:
                # Events come late: when its end was forecast, the job was over.
                continue
            # The category learned last is at the end.
            learned = self._learned[category] = self._learned.pop(category, _Ends())
            learned.learn(given, (ended_ms - origin_ms) / 1000.0)
        while len(self._learned) > _MOST_CATEGORIES:
            del self._learned[next(iter(self._learned))]

    def forget(self, job: str) -> list[tuple[Category, tuple[int, RuntimeDistribution]]]:
        """Remove and return the job's forecasts, without learning from them."""
        self._narrowest.pop(job, None)
        taken = [(category, jobs.pop(job)) for category, jobs in self._given.items() if job in jobs]
        for category, _ in taken:
            if not self._given[category]:
                del self._given[category]
        return taken

    def clear(self) -> None:
        """Forget the active jobs, which events will report again; keep what was learned."""
        self._given.clear()
        self._narrowest.clear()
