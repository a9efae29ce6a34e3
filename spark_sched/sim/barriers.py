"""When a stage's barrier is likely to fall: the calibrated deadline of reservations.

The twin of ``schedcore.Barriers`` in the JVM bridge; ``protocol/golden`` binds the two. The paper's deadline
(equation 2) takes task times to be Pareto. This one takes earlier stages as they were, and corrects itself by
how its predictions turned out (``docs/adr/0022-calibrated-deadlines.md``).

A stage's *centre* is its N/2-th shortest task time; times are compared as logarithms of their ratio to it, so
that stages of different lengths tell about each other. The *surprisal* of a barrier is -ln of the probability
that it falls no later: where a prediction is right, surprisals are exponentially distributed, and a barrier
falls before the deadline of isolation P if its surprisal is at least -ln P.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from spark_sched.predict.stages.pareto import shape_from_sums

__all__ = ["Barriers", "JobBarriers", "Prediction", "Prior", "StageBarrier"]

#: Task times kept of earlier stages; the latest stage is kept whatever its width.
_TASKS_KEPT = 4096
#: Surprisals kept of a job, and of the application.
_SCORES_KEPT = 32
#: What the application's surprisals count at most beside the job's own.
_SHARED_WEIGHT = 8.0
#: Fewer surprisals than this are too few to count the barrier to come among them.
_FEW = 4.0
# Bounds and steps of the search for a surprisal, as logarithms; also what is kept of one that is out of all
# proportion.
_LOWEST, _HIGHEST, _STEPS = -20.0, 5.0, 30


@dataclass(frozen=True, slots=True)
class Prior:
    """Shape of the tail expected before task times tell, and how many of them it is worth."""

    shape: float
    weight: float


class Prediction(Protocol):
    """A distribution of a stage's barrier, as the logarithm of its ratio to the centre."""

    def surprisal(self, log_ratio: float, tasks: int) -> float:
        """-ln P(barrier <= ``log_ratio``) for a stage that waits for ``tasks`` tasks."""
        ...

    def log_ratio(self, surprisal: float, tasks: int) -> float:
        """The inverse."""
        ...


@dataclass(frozen=True, slots=True)
class _Pareto:
    """Without earlier stages: the paper's form, fitted to the shorter half of the stage's own tasks."""

    shape: float
    centre: float  # ln(centre / t_m)

    def surprisal(self, log_ratio: float, tasks: int) -> float:
        over = self.centre + log_ratio
        within = -math.expm1(-self.shape * over) if over > 0.0 else 0.0
        return -tasks * math.log(within) if within > 0.0 else math.inf

    def log_ratio(self, surprisal: float, tasks: int) -> float:
        beyond = -math.expm1(-surprisal / tasks)
        return -math.log(beyond) / self.shape - self.centre


@dataclass(frozen=True, slots=True)
class _Empirical:
    """The ratios of earlier stages' tasks, beyond the longest a Pareto tail.

    The k-th longest of M earlier tasks is longer than each of n new ones with the probability
    prod (M - i) / (M + n - i), i = 0 .. k - 1, whatever their distribution is: ranks of exchangeable draws.
    """

    longest: Sequence[float]  # above the centre, longest first; at least one
    count: int  # M: these and those below the centre
    tail: float  # Lomax shape of the ratios beyond the longest: what a Pareto tail of unknown shape predicts
    tail_scale: float

    def surprisal(self, log_ratio: float, tasks: int) -> float:
        above = log_ratio - self.longest[0]
        if above >= 0.0:
            rank = math.exp(-self.tail * math.log1p(above / self.tail_scale))
        else:
            rank = self._rank(log_ratio)
        return self._surprisal_of(rank, tasks)

    def log_ratio(self, surprisal: float, tasks: int) -> float:
        rank = self._rank_of(surprisal, tasks)
        if rank <= 1.0:
            return self.longest[0] + self.tail_scale * math.expm1(-math.log(rank) / self.tail)
        known = len(self.longest)
        below = int(rank)
        if below < known:
            near = self.longest[below - 1]
            return near + (rank - below) * (self.longest[below] - near)
        # Below the centre's side of the tasks nothing is kept: evenly down to a ratio of 0.
        left = (self.count - rank) / (self.count - known)
        return self.longest[-1] + (math.log(left) if left > 0.0 else -math.inf)

    def _rank(self, log_ratio: float) -> float:
        known = len(self.longest)
        at = bisect_left(self.longest, -log_ratio, key=lambda ratio: -ratio)
        if at < known:
            near = self.longest[at - 1]
            return at + (near - log_ratio) / (near - self.longest[at])
        return known + (self.count - known) * -math.expm1(log_ratio - self.longest[-1])

    def _surprisal_of(self, rank: float, tasks: int) -> float:
        whole = min(int(rank), self.count - 1)
        total = 0.0
        for i in range(whole):
            total += math.log1p(tasks / (self.count - i))
        return total + (rank - whole) * math.log1p(tasks / (self.count - whole))

    def _rank_of(self, surprisal: float, tasks: int) -> float:
        left = surprisal
        for i in range(self.count):
            step = math.log1p(tasks / (self.count - i))
            if left <= step:
                return i + left / step
            left -= step
        return float(self.count)


class _Ratios:
    """Task times of the latest stages, as ratios to their centres."""

    __slots__ = ("_longest", "_stages", "count")

    def __init__(self) -> None:
        self._stages: deque[tuple[Sequence[float], int]] = deque()
        self._longest: list[float] = []
        self.count = 0

    def add(self, above_centre: Sequence[float], tasks: int) -> None:
        self._stages.append((above_centre, tasks))
        self.count += tasks
        while self.count > _TASKS_KEPT and len(self._stages) > 1:
            self.count -= self._stages.popleft()[1]
        # A new list: predictions made before keep the old one.
        self._longest = sorted((ratio for stage, _ in self._stages for ratio in stage), reverse=True)

    def prediction(self, prior: Prior) -> Prediction:
        longest = self._longest
        beyond = min(len(longest) - 1, max(2, math.ceil(math.sqrt(self.count))))
        excess = 0.0
        for ratio in longest[:beyond]:
            excess += ratio - longest[beyond]
        return _Empirical(
            longest,
            self.count,
            max(1.0, beyond + prior.weight),
            max(1e-9, excess + prior.weight / prior.shape),
        )


class Barriers:
    """What an application's barriers tell about those to come."""

    def __init__(self) -> None:
        self.ratios = _Ratios()
        # By what the prediction is made from: each kind errs in its own way.
        self.from_own: deque[float] = deque(maxlen=_SCORES_KEPT)
        self.from_shared: deque[float] = deque(maxlen=_SCORES_KEPT)
        self.from_nothing: deque[float] = deque(maxlen=_SCORES_KEPT)


@dataclass(slots=True)
class _Expected:
    """What is expected of one stage, fixed when first asked for."""

    prediction: Prediction
    own: deque[float]
    shared: deque[float] | None


@dataclass(slots=True)
class StageBarrier:
    """Task times of one stage, and what is expected of its barrier."""

    tasks: int
    #: That ran when the last one was launched: those that the barrier waits for.
    open_tasks: int = 1
    times_ms: list[float] = field(default_factory=list)  # of those that ended, the shortest first
    expected: _Expected | None = None
    # The last answer: the same is asked for at every event.
    asked: tuple[float, int] | None = None
    log_ratio: float = 0.0

    def task_ended(self, time_ms: float) -> None:
        insort(self.times_ms, time_ms)

    @property
    def half(self) -> int:
        return (self.tasks + 1) // 2

    @property
    def centre_ms(self) -> float:
        return self.times_ms[self.half - 1]


class JobBarriers:
    """Deadlines for the stages of one job, and what became of them."""

    __slots__ = ("_all", "_ratios", "_scores")

    def __init__(self, all_jobs: Barriers) -> None:
        self._all = all_jobs
        self._ratios = _Ratios()
        #: Logarithms of surprisals under predictions from the job's own stages.
        self._scores: deque[float] = deque(maxlen=_SCORES_KEPT)

    def deadline_ms(self, stage: StageBarrier, isolation: float, prior: Prior) -> float:
        """D, from the stage's last launch; infinite until half of its tasks ended.

        Args:
            stage: its task times so far.
            isolation: P, between 0 and 1, both excluded.
            prior: the tail's shape where little is known.
        """
        if stage.tasks < 2 or len(stage.times_ms) < stage.half:
            return math.inf
        asked = (isolation, stage.open_tasks)
        if stage.asked != asked:
            expected = self._expect(stage, prior)
            surprisal = _calibrated(isolation, expected.own, expected.shared)
            stage.log_ratio = expected.prediction.log_ratio(surprisal, stage.open_tasks)
            stage.asked = asked
        return stage.centre_ms * math.exp(min(stage.log_ratio, 700.0))

    def ended(self, stage: StageBarrier, barrier_ms: float, prior: Prior) -> None:
        """The stage's barrier fell, ``barrier_ms`` after its last launch."""
        if stage.tasks < 2 or len(stage.times_ms) < stage.tasks:
            return
        # 1. How surprising was it?
        expected = self._expect(stage, prior)
        centre_ms = stage.centre_ms
        surprisal = expected.prediction.surprisal(math.log(barrier_ms / centre_ms), stage.open_tasks)
        score = min(_HIGHEST, max(_LOWEST, math.log(surprisal))) if surprisal > 0.0 else _LOWEST
        expected.own.append(score)
        if expected.shared is not None:
            expected.shared.append(score)
        # 2. What do its tasks tell?
        above = [math.log(time_ms / centre_ms) for time_ms in stage.times_ms[stage.half :]]
        self._ratios.add(above, len(stage.times_ms))
        self._all.ratios.add(above, len(stage.times_ms))

    def _expect(self, stage: StageBarrier, prior: Prior) -> _Expected:
        if stage.expected is None:
            if self._ratios.count:
                stage.expected = _Expected(self._ratios.prediction(prior), self._scores, self._all.from_own)
            elif self._all.ratios.count:
                stage.expected = _Expected(self._all.ratios.prediction(prior), self._all.from_shared, None)
            else:
                stage.expected = _Expected(_fitted(stage, prior), self._all.from_nothing, None)
        return stage.expected


def _fitted(stage: StageBarrier, prior: Prior) -> Prediction:
    """Maximum likelihood as for the paper's deadline, the longer half of the tasks censored at the centre."""
    shortest = stage.times_ms[0]
    centre = math.log(stage.centre_ms / shortest)
    sum_log_ratios = (stage.tasks - stage.half) * centre
    for time_ms in stage.times_ms[: stage.half]:
        sum_log_ratios += math.log(time_ms / shortest)
    return _Pareto(shape_from_sums(stage.half, sum_log_ratios, prior.shape, prior.weight), centre)


def _calibrated(isolation: float, own: Iterable[float], shared: Sequence[float] | None) -> float:
    """The surprisal that a share P of earlier barriers had at least.

    One observation is the exponential distribution itself, so that few others change little. Each of these is
    a logistic step, the steeper the more there are. The barrier to come is one of them too, as likely above
    as below: without it a P near 1 is missed.
    """
    weighted = [(score, 1.0) for score in own]
    weight = float(len(weighted))
    if shared:
        each = min(len(shared), _SHARED_WEIGHT) / len(shared)
        weighted += [(score, each) for score in shared]
        weight += each * len(shared)
    if not weighted:
        return -math.log(isolation)
    steepness = 2.0 * math.pow(weight, 1.0 / 3.0)
    needed = isolation * (1.0 + weight) + (isolation - 0.5) * weight / (_FEW + weight)
    low, high = _LOWEST, _HIGHEST
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        at_least = math.exp(-math.exp(middle))
        for score, each in weighted:
            at_least += each / (1.0 + math.exp(steepness * (middle - score)))
        if at_least >= needed:
            low = middle
        else:
            high = middle
    return math.exp(low)
