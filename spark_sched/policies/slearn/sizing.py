"""How long a phase's tasks take on average: by pilots, by history, or by both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Protocol

from spark_sched.policies.slearn.adaptive import pilot_count
from spark_sched.policies.slearn.queues import Queues
from spark_sched.predict.bayes import pilots_needed, posterior
from spark_sched.predict.distribution import RuntimeDistribution
from spark_sched.predict.pilots import PhaseExpectation

__all__ = ["BayesSizing", "HistorySizing", "PilotSizing", "Sizing"]

#: Pilots are enough when the logarithm of the mean has this standard deviation: a tenth more or less.
SURE = 0.1
#: History suffices when the job is in one queue with this probability: queues are all that sizes decide.
SURE_QUEUE = 0.95
#: History that is wrong more likely than not is not asked.
HALF = 0.5

Point = Callable[[RuntimeDistribution], float]


class Sizing(Protocol):
    """Decides how many tasks of a phase run first and what follows from their times."""

    def pilots(self, tasks: int, expected: PhaseExpectation | None, percent: float) -> int:
        """Pilots for a phase of so many tasks at that sampling ratio; 0: history says enough."""
        ...

    def task_ms(self, pilots_ms: Sequence[float], expected: PhaseExpectation | None) -> float | None:
        """Mean task time in ms, from what the pilots took and what history says; None: nobody knows."""
        ...


class HistorySizing:
    """History alone, by one number of its distribution: 3Sigma and Point-Est."""

    def __init__(self, point: Point) -> None:
        self._point = point

    def pilots(self, tasks: int, expected: PhaseExpectation | None, percent: float) -> int:
        return 0

    def task_ms(self, pilots_ms: Sequence[float], expected: PhaseExpectation | None) -> float | None:
        if expected is None or expected.task_s is None:
            return None
        return 1000.0 * self._point(expected.task_s)


class PilotSizing:
    """Pilots alone: their mean (§5.1.2). History answers only where every pilot was lost."""

    def __init__(self, point: Point) -> None:
        self._history = HistorySizing(point)

    def pilots(self, tasks: int, expected: PhaseExpectation | None, percent: float) -> int:
        return pilot_count(tasks, percent)

    def task_ms(self, pilots_ms: Sequence[float], expected: PhaseExpectation | None) -> float | None:
        if pilots_ms:
            return sum(pilots_ms) / len(pilots_ms)
        return self._history.task_ms((), expected)


class BayesSizing:
    """History as the prior, pilots as the evidence (§7): no pilots where history is sure of the job's queue,
    else the fewer the surer it is, as many as SLearn's at most and where history is hardly to be believed.

    Args:
        queues: that the job's size decides between.
    """

    def __init__(self, queues: Queues | None = None) -> None:
        queues = Queues() if queues is None else queues
        self._edges_s = [queues.threshold_ms(q) / 1000.0 for q in range(queues.count - 1)]

    def pilots(self, tasks: int, expected: PhaseExpectation | None, percent: float) -> int:
        most = pilot_count(tasks, percent)
        if expected is None or expected.calibrated is None or expected.spread is None:
            return most
        upto = expected.calibrated.cdf([edge / tasks for edge in self._edges_s]).tolist()
        in_one = max(high - low for low, high in pairwise((0.0, *upto, 1.0)))
        if (1.0 - expected.doubt) * in_one >= SURE_QUEUE:
            return 0
        if expected.doubt > HALF:
            return most
        return max(1, pilots_needed(expected.calibrated, expected.spread, SURE, most))

    def task_ms(self, pilots_ms: Sequence[float], expected: PhaseExpectation | None) -> float | None:
        if expected is None or expected.calibrated is None or expected.spread is None:
            return sum(pilots_ms) / len(pilots_ms) if pilots_ms else None
        if not pilots_ms and expected.doubt > HALF:
            return None
        seconds = [ms / 1000.0 for ms in pilots_ms]
        told = posterior(expected.calibrated, expected.spread, seconds, expected.doubt)
        return 1000.0 * told.task_s
