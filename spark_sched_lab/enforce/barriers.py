"""When a stage's barrier is likely to fall: the calibrated deadline of reservations.

The twin of ``schedcore.ledger.Barriers`` in the JVM bridge; ``protocol/golden`` compares the two. The paper's
deadline (equation 2) assumes that task times follow a Pareto distribution. This one uses the rank of a
stage's longest task among the tasks of earlier stages, whose probabilities are the same for every
distribution, and corrects itself by the errors of its predictions
(``docs/adr/0022-calibrated-deadlines.md``).

A stage's *centre* is its N/2-th shortest task time. The longer half's times are compared as logarithms of
their ratio to it, so that stages of different lengths can be compared. If a stage runs in waves, the barrier
also depends on when its long tasks were launched, so whole barriers are compared. The *surprisal* of a
barrier is -ln of the probability that it falls no later. There are fewer ranks than probabilities, so a
random draw per stage chooses between two neighbouring ranks. If predictions are correct, surprisals are
exponentially distributed, and a barrier falls before the deadline of isolation P if its surprisal is at least
-ln P.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

#: Number of ratios kept of earlier stages; those of the latest stage are always all kept.
_RATIOS_KEPT = 2048
#: Surprisals kept of a job, and of the application.
_SCORES_KEPT = 32
#: Largest weight of the application's surprisals beside the job's own.
_SHARED_WEIGHT = 8.0
#: What the probabilities of ranks count without surprisals, as a number of these. Each one takes its place
#: until 1 is left.
_RANKS_WEIGHT = 8.0
#: With fewer surprisals than this the coming barrier does not count among them.
_FEW = 4.0
# Bounds and steps of the search for a surprisal, as logarithms; also what is kept of one that is out of all
# proportion.
_LOWEST, _HIGHEST, _STEPS = -20.0, 5.0, 30
#: Above the errors of exponentials and logarithms.
_NOISE_MS = 1e-3
# 2^64 by the golden ratio and by the square root of 2, without whole parts.
_GOLDEN, _ROOT_OF_2, _MASK = 0x9E3779B97F4A7C15, 0x6A09E667F3BCC908, (1 << 64) - 1


class _End(NamedTuple):
    """When a deadline falls: at a ratio, so that a barrier at that ratio comes too late, or just after it."""

    log_ratio: float
    after: bool


_NEVER, _AT_CENTRE = _End(math.inf, False), _End(0.0, False)


@dataclass(frozen=True, slots=True)
class _Ranks:
    """Among which ratios of earlier stages the longest one of a stage falls.

    The k-th longest of M earlier ratios is longer than each of n new ones with the probability
    prod (M - i) / (M + n - i), i = 0 .. k - 1, whatever their distribution is: ranks of exchangeable draws.
    ``draw`` splits the probability of the rank between that. Equal ratios are common where tasks take a few
    milliseconds, or nearly the same time: ``tie`` is where a new one ranks among them.
    """

    longest: Sequence[float]  # longest first; empty without earlier stages, when the draw is all
    draw: float
    tie: float

    def surprisal(self, log_ratio: float, new: float) -> float:
        """-ln P(barrier <= ``log_ratio``) for a stage that waits for ``new`` ratios."""
        rank = self._not_longer(log_ratio)
        if rank < len(self.longest) and self.longest[rank] == log_ratio:
            rank += self._above(rank, new)
        total = 0.0
        for i in range(rank):
            total += self._step(i, new)
        return total + self._within(self._step(rank, new))

    def end(self, surprisal: float, new: float) -> _End:
        """The inverse: an end of the rank that has this surprisal."""
        left, rank = surprisal, 0
        while (step := self._step(rank, new)) <= left:
            left -= step
            rank += 1
        if self._within(step) >= left:
            return self._at(rank - 1, new) if rank else _NEVER
        return self._at(rank, new) if rank < len(self.longest) else _AT_CENTRE

    def _at(self, rank: int, new: float) -> _End:
        ratio = self.longest[rank]
        first = self._not_longer(ratio)
        return _End(ratio, rank - first < self._above(first, new))

    def _not_longer(self, log_ratio: float) -> int:
        """The rank of the first ratio that is not longer."""
        return bisect_left(self.longest, -log_ratio, key=lambda ratio: -ratio)

    def _above(self, first: int, new: float) -> int:
        """How many of the ratios that equal the one of rank ``first`` rank above a barrier at the same: as
        many of the new ones are expected there as are of the earlier ones, in proportion."""
        ratio, earlier = self.longest[first], 0
        while first + earlier < len(self.longest) and self.longest[first + earlier] == ratio:
            earlier += 1
        equal = earlier * new / len(self.longest)
        above, probability = 0, earlier / (earlier + equal)
        while above < earlier and probability > self.tie:
            above += 1
            probability *= (earlier - above) / (earlier - above + equal)
        return above

    def _step(self, rank: int, new: float) -> float:
        """Surprisal of the next rank less that of this one."""
        earlier = len(self.longest) - rank
        return math.log1p(new / earlier) if earlier else math.inf

    def _within(self, step: float) -> float:
        """Surprisal of a barrier within a rank, above the least there."""
        return -math.log1p((1.0 - self.draw) * math.expm1(-step))


class _Ratios:
    """Task times of the latest stages above their centres, as ratios to these."""

    __slots__ = ("_stages", "longest")

    def __init__(self) -> None:
        self._stages: deque[Sequence[float]] = deque()
        self.longest: list[float] = []

    def add(self, above_centre: Sequence[float]) -> None:
        self._stages.append(above_centre)
        count = len(self.longest) + len(above_centre)
        while count > _RATIOS_KEPT and len(self._stages) > 1:
            count -= len(self._stages.popleft())
        # A new list: predictions made before keep the old one.
        self.longest = sorted((ratio for stage in self._stages for ratio in stage), reverse=True)


class Barriers:
    """Predictions of an application's barriers from its earlier ones.

    Args:
        seed: of the draws; the same seed and the same stages give the same deadlines.
    """

    def __init__(self, seed: int = 0) -> None:
        self._next_job = _mixed(seed)  # neighbouring seeds begin anywhere
        self.ratios = _Ratios()
        # By whose stages the prediction is made from: each kind errs in its own way.
        self.from_own: deque[float] = deque(maxlen=_SCORES_KEPT)
        self.from_shared: deque[float] = deque(maxlen=_SCORES_KEPT)

    def start_of_draws(self) -> int:
        """Where on a circle of 2^64 steps the draws of the next job begin: the square root of 2 times round
        it from the job before. So the draws of the first stages of jobs are spread evenly, and those of the
        second ones, however many stages jobs have."""
        start, self._next_job = self._next_job, (self._next_job + _ROOT_OF_2) & _MASK
        return start


@dataclass(slots=True)
class _Expected:
    """The prediction for one stage, fixed when it is first needed."""

    ranks: _Ranks
    own: deque[float] | None  # surprisals; None: the ranks are of barriers, and need no correction
    shared: deque[float] | None = None


@dataclass(slots=True)
class StageBarrier:
    """Task times of one stage, and the prediction of its barrier."""

    tasks: int
    #: Among the job's stages of several tasks, from 1.
    number: int
    #: That ran when the last one was launched: those that the barrier waits for.
    open_tasks: int = 1
    times_ms: list[float] = field(default_factory=list)  # of those that ended, the shortest first
    expected: _Expected | None = None
    # The last answer, because the same is asked at every event.
    asked: tuple[float, int] | None = None
    end: _End = _NEVER

    def task_ended(self, time_ms: float) -> None:
        insort(self.times_ms, time_ms)

    @property
    def half(self) -> int:
        return (self.tasks + 1) // 2

    @property
    def centre_ms(self) -> float:
        return self.times_ms[self.half - 1]

    @property
    def open_ratios(self) -> float:
        """How many of the open tasks are expected above the centre."""
        return self.open_tasks * (self.tasks - self.half) / self.tasks

    @property
    def in_waves(self) -> bool:
        """Whether some of its tasks ended before the last one was launched."""
        return self.open_tasks < self.tasks


class JobBarriers:
    """Deadlines for the stages of one job, and the outcomes of their predictions."""

    __slots__ = ("_all", "_of_waves", "_ratios", "_scores", "_stages", "_start")

    def __init__(self, all_jobs: Barriers) -> None:
        self._all = all_jobs
        self._stages = 0
        self._start: int | None = None  # of the draws; None: no deadline has needed one
        self._ratios = _Ratios()
        #: Barriers of stages that ran in waves, from the last launch, as logarithms of ratios to the centres.
        self._of_waves: deque[float] = deque(maxlen=_SCORES_KEPT)
        #: Logarithms of surprisals under predictions from the job's own stages.
        self._scores: deque[float] = deque(maxlen=_SCORES_KEPT)

    def new_stage(self, tasks: int) -> StageBarrier:
        """The barrier of a stage that starts."""
        self._stages += tasks > 1
        return StageBarrier(tasks, self._stages)

    def deadline_ms(self, stage: StageBarrier, isolation: float) -> float:
        """D, from the stage's last launch, in whole ms; infinite until half of its tasks ended.

        Args:
            stage: its task times so far.
            isolation: P, between 0 and 1, both excluded.
        """
        if stage.tasks < 2 or len(stage.times_ms) < stage.half:
            return math.inf
        asked = (isolation, stage.open_tasks)
        if stage.asked != asked:
            expected = self._expect(stage)
            if expected.own is None:
                stage.end = expected.ranks.end(-math.log(isolation), 1.0)
            else:
                surprisal = _calibrated(isolation, expected.own, expected.shared)
                stage.end = expected.ranks.end(surprisal, stage.open_ratios)
            stage.asked = asked
        log_ratio, after = stage.end
        if math.isinf(log_ratio):
            return math.inf
        # Clocks tick in milliseconds: a barrier must fall before the deadline.
        end_ms = stage.centre_ms * math.exp(log_ratio)
        return float(math.floor(end_ms + _NOISE_MS) + 1 if after else math.ceil(end_ms - _NOISE_MS))

    def ended(self, stage: StageBarrier, barrier_ms: float) -> None:
        """The stage's barrier fell, ``barrier_ms`` after its last launch."""
        if stage.tasks < 2 or len(stage.times_ms) < stage.tasks:
            return
        # 1. The surprisal of the barrier. Without earlier stages it is the random draw alone and has no
        # information.
        expected = self._expect(stage)
        centre_ms = stage.centre_ms
        log_ratio = math.log(barrier_ms / centre_ms)
        if stage.in_waves:
            self._of_waves.append(log_ratio)
        if expected.ranks.longest and expected.own is not None:
            surprisal = expected.ranks.surprisal(log_ratio, stage.open_ratios)
            score = min(_HIGHEST, max(_LOWEST, math.log(surprisal))) if surprisal > 0.0 else _LOWEST
            expected.own.append(score)
            if expected.shared is not None:
                expected.shared.append(score)
        # 2. Learn from its tasks.
        above = [math.log(time_ms / centre_ms) for time_ms in stage.times_ms[stage.half :]]
        self._ratios.add(above)
        self._all.ratios.add(above)

    def _expect(self, stage: StageBarrier) -> _Expected:
        if stage.expected is None:
            draw, tie = self._draws(stage.number)
            if stage.in_waves and self._of_waves:
                ranks = _Ranks(sorted(self._of_waves, reverse=True), draw, tie)
                stage.expected = _Expected(ranks, None)
            elif self._ratios.longest:
                ranks = _Ranks(self._ratios.longest, draw, tie)
                stage.expected = _Expected(ranks, self._scores, self._all.from_own)
            else:
                ranks = _Ranks(self._all.ratios.longest, draw, tie)
                stage.expected = _Expected(ranks, self._all.from_shared)
        return stage.expected

    def _draws(self, number: int) -> tuple[float, float]:
        """Two numbers between 0 and 1, both excluded. The first advances by the golden ratio from each stage
        of the job to the next, modulo 1, so that the numbers of consecutive stages are spread evenly."""
        if self._start is None:
            self._start = self._all.start_of_draws()
        z = self._start + number * _GOLDEN & _MASK
        return _fraction(z), _fraction(_mixed(z))


def _mixed(z: int) -> int:
    """SplitMix64: any 64 bits for each number."""
    z = (z + _GOLDEN) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def _fraction(z: int) -> float:
    return ((z >> 12) + 0.5) * 2.0**-52


def _calibrated(isolation: float, own: Sequence[float], shared: Sequence[float] | None) -> float:
    """The surprisal that a share P of earlier barriers reached or exceeded.

    The exponential distribution itself counts as some observations, and as fewer if there are more barriers:
    it is correct if the stages of a job are alike, and a few barriers contain little information. Each
    barrier is a logistic step, which is steeper if there are more barriers. The coming barrier also counts as
    one, equally likely above and below: without it a P near 1 would not be attained.
    """
    weighted = [(score, 1.0) for score in own]
    weight = float(len(weighted))
    if shared:
        each = min(len(shared), _SHARED_WEIGHT) / len(shared)
        weighted += [(score, each) for score in shared]
        weight += each * len(shared)
    if not weighted:
        return -math.log(isolation)
    ranks = max(1.0, _RANKS_WEIGHT - len(own if shared is None else shared))
    steepness = 2.0 * math.pow(weight, 1.0 / 3.0)
    needed = isolation * (ranks + weight) + (isolation - 0.5) * weight / (_FEW + weight)
    low, high = _LOWEST, _HIGHEST
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        at_least = ranks * math.exp(-math.exp(middle))
        for score, each in weighted:
            at_least += each / (1.0 + math.exp(steepness * (middle - score)))
        if at_least >= needed:
            low = middle
        else:
            high = middle
    return math.exp(low)
