"""3SigmaPredict: a job's runtime as a distribution, from jobs that share a feature (3Sigma §4.1)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from spark_sched.predict.recent import Recent
from spark_sched.predict.runtimes.calibration import Calibration, RangePosition, place_of
from spark_sched.predict.runtimes.distribution import RuntimeDistribution
from spark_sched.predict.runtimes.experts import EXPERTS, FeatureHistory
from spark_sched.predict.runtimes.features import JobAttributes, feature_values
from spark_sched.predict.runtimes.histogram import LEAST_S

#: Candidates for the point estimate, equally spaced over the distribution's orders of magnitude.
_CANDIDATES = 48
_STEPS = np.linspace(0.0, 1.0, _CANDIDATES)
#: Point estimates with a probability this close to the best one's count as equally good.
_AS_GOOD = 0.005
#: Standard deviation of the normal kernel, in octaves, within which guesses support each other.
_NEAR_OCTAVES = 0.8
_OWN_WEIGHT = 3.0
#: Least NMAE of an expert, also of one without errors so far.
_LEAST_NMAE = 0.02
#: Feature values remembered; beyond this number the least recently used tenth is dropped.
VALUES_KEPT = 1_000_000
#: The same for a planner, which shares its machine with a driver: at most some 70 MB.
LIVE_VALUES_KEPT = 50_000
#: Approximate number of feature values that only one job has.
_VALUES_PER_JOB = 5


@dataclass(frozen=True, slots=True)
class Submission:
    """A job as it was submitted, with what was known about its features at that time.
    `ThreeSigmaPredict.predict` takes it, and `ThreeSigmaPredict.learn` stores the job's runtime under it.

    Attributes:
        features: (feature, value) pairs.
        guesses_s: what the experts of each feature expected at that time; empty without history.
        since_last_s: since the same user submitted the same name before.
    """

    job: JobAttributes
    features: tuple[tuple[str, str], ...]
    guesses_s: tuple[tuple[float, ...], ...]
    since_last_s: float | None = None


@dataclass(frozen=True)
class Prediction:
    """The predicted runtime of a job, and the history behind it.

    Attributes:
        runtime: the distribution to plan with: history, calibrated.
        history: the same before calibration.
        estimate_s: what the best expert itself expects.
        feature, value: whose history it is.
        expert: the one of `EXPERTS` with the least error on it so far.
        samples: runtimes in that history.
        nmae: the expert's normalised mean absolute error so far, plus the usual error of a first guess.
        guesses: of every history that could have answered: its NMAE, and what its experts expect in seconds.
    """

    runtime: RuntimeDistribution
    history: RuntimeDistribution = field(repr=False)
    estimate_s: float
    feature: str
    value: str
    expert: str
    samples: int
    nmae: float
    guesses: tuple[tuple[float, tuple[float, ...]], ...] = field(default=(), repr=False)

    @cached_property
    def point_s(self) -> float:
        """The runtime that the distribution's best point and all guesses support most."""
        return most_agreed(likeliest_within(self.runtime, 2.0, self.estimate_s), self.guesses)

    @property
    def source(self) -> str:
        """One clause for people."""
        runs = "1 run" if self.samples == 1 else f"{self.samples:,} runs"
        return f"{self.expert} of {runs} with the same {self.feature}"


@dataclass(frozen=True, slots=True)
class Lesson:
    """What the predictor learns from an ended job: all that a store must keep.

    Attributes:
        features, guesses_s: as in its `Submission`.
        place: where its runtime fell in the history that answered for it; None: there was no answer.
        samples, nmae: of that answer.
    """

    features: tuple[tuple[str, str], ...]
    guesses_s: tuple[tuple[float, ...], ...]
    runtime_s: float
    place: RangePosition | None = None
    samples: int = 0
    nmae: float = 0.0


def lesson(submission: Submission, runtime_s: float, prediction: Prediction | None = None) -> Lesson:
    """The lesson of a job that finished.

    Args:
        submission: as `ThreeSigmaPredict.submit` gave it.
        runtime_s: >= 0; from its first task to its end.
        prediction: what was predicted when it was submitted: calibration learns from that.
    """
    if prediction is None:
        return Lesson(submission.features, submission.guesses_s, runtime_s)
    place = place_of(prediction.history, runtime_s)
    return Lesson(
        submission.features, submission.guesses_s, runtime_s, place, prediction.samples, prediction.nmae
    )


class ThreeSigmaPredict:
    """Learns runtimes by feature value and answers with the best expert's history. Deterministic, never sees
    a clock; not thread-safe. Memory is constant per feature value.

    Call `submit` and `predict` when a job arrives and `learn` when it ends, in the order of time.
    Jobs that failed or were killed are not learned: their full runtime is unknown.

    Args:
        values_kept: feature values remembered at most; last submissions, of a fifth as many jobs.
    """

    def __init__(self, values_kept: int = VALUES_KEPT) -> None:
        # Most values never recur, so a single run is kept as its seconds: a history takes 1.3 kB.
        self._values: dict[tuple[str, str], FeatureHistory | float] = {}
        self._used: dict[tuple[str, str], int] = {}
        self._submitted_s: Recent[tuple[str | None, str | None], float] = Recent(
            max(1, values_kept // _VALUES_PER_JOB)
        )
        self._values_kept = values_kept
        self.calibration = Calibration()
        self.jobs = 0

    def __len__(self) -> int:
        return len(self._values)

    def submit(self, job: JobAttributes, earlier: Submission | None = None) -> Submission:
        """Note that a job was submitted, and gather its features.

        Args:
            earlier: the `Submission` that an earlier call returned for the same job.
        """
        since_last_s = self._since_last_s(job) if earlier is None else earlier.since_last_s
        last_runs: tuple[float, ...] = ()
        if job.name is not None:
            known = self._history(("user × name", f"{job.user}\x1f{job.name}"))
            if known is not None:
                last_runs = known.last_runs_s(2)
        features = feature_values(job, since_last_s, last_runs)
        guesses = []
        for feature in features:
            known = self._history(feature)
            guesses.append(() if known is None else known.guesses_s)
        return Submission(job, features, tuple(guesses), since_last_s)

    def _since_last_s(self, job: JobAttributes) -> float | None:
        if job.name is None or job.submit_s is None:
            return None
        last_s = self._submitted_s.get(job.recurs)
        self._submitted_s[job.recurs] = job.submit_s
        return job.submit_s - last_s if last_s is not None and job.submit_s >= last_s else None

    def predict(self, submission: Submission) -> Prediction | None:
        """The prediction for a job; None until a first job has ended. Changes nothing.

        The candidates are the histories of the job's feature values, the answer is that of the expert with
        the least error so far. A history without a checked guess is taken to be as good as first guesses on
        its feature have been.
        """
        best: FeatureHistory | None = None
        at, least = ("", ""), math.inf
        guesses = []
        for feature in submission.features:
            known = self._history(feature)
            if known is None:
                continue
            nmae = known.nmae if known.nmae < math.inf else self.calibration.doubt(feature[0])
            guesses.append((nmae, known.guesses_s))
            if nmae < least:
                best, at, least = known, feature, nmae
        if best is None:
            return None
        history = best.histogram.distribution()
        runtime = self.calibration.calibrated(history, best.runs, least)
        estimate_s = best.guesses_s[best.best]
        return Prediction(
            runtime=runtime,
            history=history,
            estimate_s=estimate_s,
            feature=at[0],
            value=at[1].replace("\x1f", ", "),
            expert=EXPERTS[best.best],
            samples=best.runs,
            nmae=least,
            guesses=tuple(guesses),
        )

    def learn(self, submission: Submission, runtime_s: float, prediction: Prediction | None = None) -> None:
        """Take in the runtime of a job that finished; see `lesson` for the arguments."""
        self.take(lesson(submission, runtime_s, prediction))

    def take(self, lesson: Lesson) -> Sequence[tuple[str, str]]:
        """Learn the lesson of an ended job. The same lessons in the same order give the same state.

        Returns the feature values that were dropped to make room.
        """
        if not (math.isfinite(lesson.runtime_s) and lesson.runtime_s >= 0.0):
            return ()
        if lesson.place is not None:
            self.calibration.learn(lesson.place, lesson.samples, lesson.nmae)
        self.jobs += 1
        for feature, guesses_s in zip(lesson.features, lesson.guesses_s, strict=True):
            self._take(feature, guesses_s, lesson.runtime_s)
            self._used[feature] = self.jobs
        return self._forget()

    def _take(self, feature: tuple[str, str], guesses_s: tuple[float, ...], runtime_s: float) -> None:
        known = self._history(feature)
        if known is None and not guesses_s:
            self._values[feature] = float(runtime_s)
            return
        known = self._values[feature] = known or FeatureHistory()
        if known.runs == 1 and guesses_s:
            self.calibration.learn_first(feature[0], guesses_s[0], runtime_s)
        known.add(runtime_s, guesses_s, self.calibration.doubt(feature[0]))

    def _history(self, feature: tuple[str, str]) -> FeatureHistory | None:
        known = self._values.get(feature)
        return FeatureHistory.of_one(known) if isinstance(known, float) else known

    def value_bytes(self, feature: tuple[str, str]) -> bytes | None:
        """The state of one (feature, value); None where it is not, or no more, remembered."""
        known = self._history(feature)
        return None if known is None else known.to_bytes()

    @property
    def features(self) -> Iterable[tuple[str, str]]:
        """Every (feature, value) remembered."""
        return self._values.keys()

    def restore(
        self, jobs: int, calibration: Calibration, values: Iterable[tuple[tuple[str, str], bytes]]
    ) -> None:
        """Restore another predictor's state. Raises ValueError, changing nothing, for damaged bytes."""
        histories = {feature: FeatureHistory.from_bytes(state) for feature, state in values}
        self.jobs = jobs
        self.calibration = calibration
        self._values = {
            feature: history.last_runs_s(1)[0] if history.is_one else history
            for feature, history in histories.items()
        }
        self._used = dict.fromkeys(histories, 0)
        self._forget()

    def _forget(self) -> Sequence[tuple[str, str]]:
        excess = len(self._values) - self._values_kept
        if excess <= 0:
            return ()
        goes = sorted(self._used, key=self._used.__getitem__)[: max(excess, self._values_kept // 10)]
        for feature in goes:
            del self._values[feature], self._used[feature]
        return goes


def likeliest_within(d: RuntimeDistribution, factor: float, prefer_s: float) -> float:
    """The point c with the greatest P(c / factor <= T <= c * factor): an estimate that is wrong by more than
    the factor least often. Of points that do as well, the one nearest to ``prefer_s`` by ratio."""
    first, last = np.searchsorted(d.p, (0.01, 0.99))
    low, high = max(LEAST_S, float(d.t_s[max(first - 1, 0)])), float(d.t_s[min(last, d.t_s.size - 1)])
    if high <= low:
        return high
    points = low * (high / low) ** _STEPS
    points[-1] = min(max(prefer_s, low), high)
    edges = d.cdf(np.concatenate((points * factor, points / factor)))
    chance = edges[: points.size] - edges[points.size :]
    good = points[chance >= chance.max() - _AS_GOOD]
    if good.size == 1:
        return float(good[0])
    return float(good[np.argmin(np.abs(np.log(good / max(prefer_s, LEAST_S))))])


def most_agreed(own_s: float, guesses: Sequence[tuple[float, tuple[float, ...]]]) -> float:
    """The guess with the most weight around it: the mode of a kernel density over octaves.

    Each history is one estimate of the job, and their errors have different causes: the value that most
    estimates support is right more often than the best single estimate.

    Args:
        own_s: the distribution's own best point; weighs as much as `_OWN_WEIGHT` best guesses.
        guesses: NMAE and guesses in seconds, as in `Prediction`. A guess weighs 1 / NMAE².
    """
    if not guesses:
        return own_s
    weights = [weight for nmae, of in guesses for weight in [1.0 / max(nmae, _LEAST_NMAE) ** 2] * len(of)]
    weights.append(_OWN_WEIGHT * max(weights))
    points_s = np.array([*(guess for _, of in guesses for guess in of), own_s])
    octaves = np.log2(np.maximum(points_s, LEAST_S))
    apart = (octaves[:, np.newaxis] - octaves) / _NEAR_OCTAVES
    support = np.exp(-0.5 * apart * apart) @ np.array(weights)
    return float(points_s[np.argmax(support)])
