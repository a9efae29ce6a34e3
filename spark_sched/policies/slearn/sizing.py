"""Mean task time of a stage, from pilots, from history, or from both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import attrgetter
from typing import Protocol, TypeAlias

from spark_sched.policies.slearn.adaptive import pilot_count
from spark_sched.policies.slearn.queues import Queues
from spark_sched.predict.runtimes.distribution import RuntimeDistribution
from spark_sched.predict.tasks.bayes import Posterior, pilots_needed, posterior
from spark_sched.predict.tasks.expectation import StageExpectation

#: Pilots are enough when the logarithm of the mean has this standard deviation: a tenth more or less.
SURE = 0.1
#: History suffices when the job is in one queue with this probability: sizes decide only the queue.
SURE_QUEUE = 0.95
#: History is not used if it is wrong with a higher probability than this.
HALF = 0.5

PAPER_QUEUES = Queues()

Point: TypeAlias = Callable[[RuntimeDistribution], float]
#: What history says of a stage; None: nothing.
Expected: TypeAlias = StageExpectation | None


class Sizing(Protocol):
    """Decides how many tasks of a stage run as pilots, and estimates the stage's size from their times."""

    def pilots(
        self,
        tasks: int,
        expected: Expected,
        percent: float,
        slots_per_task: int = 1,
        queues: Queues = PAPER_QUEUES,
    ) -> int:
        """Number of pilots for a stage of ``tasks`` tasks at this sampling ratio; 0: history suffices.
        ``slots_per_task``: what each of its tasks takes; ``queues``: its size decides which one it joins."""
        ...

    def task_ms(self, pilots_ms: Sequence[float], expected: Expected) -> float | None:
        """Mean task time in ms, from the pilots' times and history; None: unknown."""
        ...

    def reach_ms(self, pilots_ms: Sequence[float], expected: Expected) -> tuple[float, float] | None:
        """The 90 % interval of the mean task time in ms; None: the sizing gives no interval."""
        ...

    def later_ms(self, expected: StageExpectation, factor: float) -> float | None:
        """Mean task time in ms of a stage without pilots, where the job's sampled stage took ``factor`` times
        history's estimate; None: unknown."""
        ...


class HistorySizing:
    """Sizes from history alone, as one number of its distribution: 3Sigma and Point-Est."""

    def __init__(self, point: Point) -> None:
        self._point = point

    def pilots(
        self,
        tasks: int,
        expected: Expected,
        percent: float,
        slots_per_task: int = 1,
        queues: Queues = PAPER_QUEUES,
    ) -> int:
        return 0

    def task_ms(self, pilots_ms: Sequence[float], expected: Expected) -> float | None:
        if expected is None or expected.task_s is None:
            return None
        return 1000.0 * self._point(expected.task_s)

    def reach_ms(self, pilots_ms: Sequence[float], expected: Expected) -> tuple[float, float] | None:
        if expected is None or expected.calibrated is None:
            return None
        low_s, high_s = expected.calibrated.quantile([0.05, 0.95]).tolist()
        return 1000.0 * low_s, 1000.0 * high_s

    def later_ms(self, expected: StageExpectation, factor: float) -> float | None:
        by_history = self.task_ms((), expected)
        return None if by_history is None else by_history * factor


class PilotSizing(HistorySizing):
    """Sizes from the mean of the pilots (§5.1.2). History is used only if every pilot was lost."""

    def pilots(
        self,
        tasks: int,
        expected: Expected,
        percent: float,
        slots_per_task: int = 1,
        queues: Queues = PAPER_QUEUES,
    ) -> int:
        return pilot_count(tasks, percent)

    def task_ms(self, pilots_ms: Sequence[float], expected: Expected) -> float | None:
        if pilots_ms:
            return sum(pilots_ms) / len(pilots_ms)
        return super().task_ms((), expected)

    def reach_ms(self, pilots_ms: Sequence[float], expected: Expected) -> tuple[float, float] | None:
        return None


class BayesSizing:
    """Sizes from history as the prior and pilots as the evidence (§7). A job whose queue is certain from
    history gets no pilots; otherwise the number of pilots grows with the uncertainty, up to SLearn's number.

    Args:
        point: point estimate of a stage's posterior, in seconds; by default the one to order jobs by.
    """

    def __init__(self, point: Callable[[Posterior], float] = attrgetter("harmonic_s")) -> None:
        self._point = point

    def pilots(
        self,
        tasks: int,
        expected: Expected,
        percent: float,
        slots_per_task: int = 1,
        queues: Queues = PAPER_QUEUES,
    ) -> int:
        most = pilot_count(tasks, percent)
        if expected is None or expected.calibrated is None or expected.spread is None:
            return most
        edges_s = [queues.threshold_ms(q) / 1000.0 for q in range(queues.count - 1)]
        upto = expected.calibrated.cdf([edge / (tasks * slots_per_task) for edge in edges_s]).tolist()
        in_one = max(high - low for low, high in pairwise((0.0, *upto, 1.0)))
        if (1.0 - expected.doubt) * in_one >= SURE_QUEUE:
            return 0
        if expected.doubt > HALF:
            return most
        return max(1, pilots_needed(expected.calibrated, expected.spread, SURE, most))

    def task_ms(self, pilots_ms: Sequence[float], expected: Expected) -> float | None:
        belief = _belief(pilots_ms, expected)
        if belief is None:
            return sum(pilots_ms) / len(pilots_ms) if pilots_ms else None
        return 1000.0 * self._point(belief)

    def reach_ms(self, pilots_ms: Sequence[float], expected: Expected) -> tuple[float, float] | None:
        belief = None if expected is None else _belief(pilots_ms, expected, expected.spread_log_sd)
        return None if belief is None else (1000.0 * belief.low_s, 1000.0 * belief.high_s)

    def later_ms(self, expected: StageExpectation, factor: float) -> float | None:
        belief = _belief((), expected)
        # The median: the harmonic mean of a sum of stages is greater than the sum of their harmonic means.
        return None if belief is None else 1000.0 * belief.task_s * factor**expected.alike


def _belief(pilots_ms: Sequence[float], expected: Expected, spread_log_sd: float = 0.0) -> Posterior | None:
    """The belief about a stage's mean task time; None: history has none, or none usable without pilots."""
    if expected is None or expected.calibrated is None or expected.spread is None:
        return None
    if not pilots_ms and expected.doubt > HALF:
        return None
    seconds = [ms / 1000.0 for ms in pilots_ms]
    return posterior(expected.calibrated, expected.spread, seconds, expected.doubt, spread_log_sd)


def others_ms(
    sizing: Sizing, expected: Sequence[StageExpectation], index: int, task_ms: float, *, sampled: bool
) -> float:
    """Work of all stages of a job but one, in slot-milliseconds (SLearn-DAG, §6).

    Args:
        expected: history's estimate for each stage.
        index: the stage that is known to take ``task_ms`` a task.
        sampled: pilots ran, so that history's estimates are scaled by d_s / d_h.
    """
    # Doubts do not matter here: history's ratio of one stage to another still holds.
    expected = [replace(each, doubt=0.0) for each in expected]
    by_history = sizing.later_ms(expected[index], 1.0) if sampled and index < len(expected) else None
    factor = task_ms / by_history if by_history else 1.0
    work_ms = 0.0
    for other, each in enumerate(expected):
        if other != index:
            later_ms = sizing.later_ms(each, factor)
            work_ms += each.tasks * (task_ms if later_ms is None else later_ms)
    return work_ms
