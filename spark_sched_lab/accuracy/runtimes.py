"""The accuracy of runtime predictions on a trace. Jobs arrive and end in their recorded order; predictions
use only what was known at the time."""

from __future__ import annotations

import time
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from spark_sched.errors import BadInputError
from spark_sched.predict.runtimes.features import JobAttributes
from spark_sched.predict.runtimes.histogram import LEAST_S
from spark_sched.predict.runtimes.predictor import Prediction, Submission, ThreeSigmaPredict
from spark_sched_lab.traces import TraceChunk

#: The comparison: the median of the last 20 runs of the same user and name.
BASELINE_RUNS = 20
_LEVELS = (80, 95)
#: What sources say about a job when it is submitted, beside the columns. Their other features are known
#: later (attempts, Spark jobs run) or name the job alone.
_MORE = ("queue", "partition", "group", "query", "scale")
_APPLICATION = ("app_name", "executable")


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job of a trace: its attributes at submission, and its outcome."""

    attributes: JobAttributes
    submit_s: float
    end_s: float | None
    runtime_s: float | None
    finished: bool


def jobs_with_runtimes(chunks: Iterable[TraceChunk], left_out: Counter[str]) -> Iterator[TraceJob]:
    """The jobs of a trace that arrived while it was recorded; ``left_out`` counts the others by reason."""
    for chunk in chunks:
        for row in chunk.jobs.to_pylist():
            if row["submit_s"] is None:
                left_out["jobs without arrival"] += 1
                continue
            # Sources without outcomes give runtimes all the same; a job cut off by the end has none.
            finished = row["outcome"] in ("finished", "unknown") and row["runtime_s"] is not None
            end_s = row["end_s"]
            if end_s is None and row["runtime_s"] is not None:
                end_s = (row["submit_s"] if row["start_s"] is None else row["start_s"]) + row["runtime_s"]
            yield TraceJob(_attributes(row), row["submit_s"], end_s, row["runtime_s"], finished)


def _attributes(row: dict[str, Any]) -> JobAttributes:
    features = dict(row["features"] or ())
    application = next((features[name] for name in _APPLICATION if name in features), None)
    return JobAttributes(
        submit_s=row["submit_s"],
        user=row["user"],
        name=row["name"],
        application=None if application == row["name"] else application,
        job_class=row["class"],
        priority=row["priority"],
        slots=row["slots"],
        estimate_s=row["estimate_s"],
        more={name: features[name] for name in _MORE if name in features},
    )


@dataclass(slots=True)
class _Scores:
    """Sums over the jobs that count."""

    point_s: array[float] = field(default_factory=lambda: array("d"))
    estimate_s: array[float] = field(default_factory=lambda: array("d"))
    baseline_s: array[float] = field(default_factory=lambda: array("d"))
    runtime_s: array[float] = field(default_factory=lambda: array("d"))
    inside: Counter[tuple[str, int]] = field(default_factory=Counter)
    widths: dict[str, array[float]] = field(
        default_factory=lambda: {"history": array("d"), "calibrated": array("d")}
    )
    answers: Counter[tuple[str, str]] = field(default_factory=Counter)
    off: Counter[tuple[str, str]] = field(default_factory=Counter)


def evaluate(
    jobs: Iterable[TraceJob], *, progress: Callable[[int, int], None] = lambda done, events: None
) -> dict[str, Any]:
    """Predict every job when it is submitted, learn from it when it ends, and score the second half.

    At the same instant ends are processed first. The score covers the finished jobs of the second half (by
    submission); a job without a prediction counts as wrong.

    Args:
        progress: called occasionally as ``progress(events done, events)``.

    Returns:
        The values that docs/explanation/prediction.md explains, ready for JSON.

    Raises:
        BadInputError: no job, or none in the second half that finished with a runtime.
    """
    rows = sorted(jobs, key=lambda job: job.submit_s)
    events = in_order(rows)
    half = len(rows) // 2
    predictor = ThreeSigmaPredict()
    waiting: dict[int, tuple[Submission, Prediction | None, float | None]] = {}
    recent: dict[tuple[str | None, str | None], deque[float]] = {}
    scores = _Scores()
    began_s = time.perf_counter()
    for done, (number, came) in enumerate(events):
        job = rows[number]
        if came:
            submission = predictor.submit(job.attributes)
            if not job.finished:
                continue
            past = recent.get(job.attributes.recurs)
            waiting[number] = submission, predictor.predict(submission), median(past) if past else None
        elif job.finished and number in waiting:
            submission, prediction, baseline_s = waiting.pop(number)
            assert job.runtime_s is not None
            if number >= half:
                _score(scores, job.runtime_s, prediction, baseline_s)
            predictor.learn(submission, job.runtime_s, prediction)
            recent.setdefault(job.attributes.recurs, deque(maxlen=BASELINE_RUNS)).append(job.runtime_s)
        if done % 1000 == 0:
            progress(done, len(events))
    progress(len(events), len(events))
    if not scores.runtime_s:
        raise BadInputError(_why_nothing(rows))
    return {
        "jobs": len(rows),
        "learned": predictor.jobs,
        "scored": len(scores.runtime_s),
        "feature_values": len(predictor),
        "seconds": round(time.perf_counter() - began_s, 1),
        **_summary(scores),
    }


def _why_nothing(jobs: Sequence[TraceJob]) -> str:
    """Why no job could be scored."""
    if not jobs:
        return "the trace has no job with an arrival: give one that has"
    if all(job.runtime_s is None for job in jobs):
        return f"none of the {len(jobs):,} jobs with an arrival has a runtime: give a trace that has runtimes"
    if not any(job.finished for job in jobs):
        return f"none of the {len(jobs):,} jobs with an arrival finished: give a trace with finished jobs"
    return "the trace has no finished job with an arrival and a runtime in its second half: give one that has"


def in_order(jobs: Sequence[TraceJob]) -> list[tuple[int, bool]]:
    """Pairs (number of the job, whether it arrives) in the order of time, from jobs by submission.

    At the same instant ends come first, but no job ends before its arrival.
    """
    keyed: list[tuple[float, int, int]] = []
    for number, job in enumerate(jobs):
        keyed.append((job.submit_s, 1, number))
        if job.end_s is not None and job.runtime_s is not None:
            keyed.append((job.end_s, 0, number) if job.end_s > job.submit_s else (job.submit_s, 2, number))
    keyed.sort()
    return [(number, kind == 1) for _, kind, number in keyed]


def _score(
    scores: _Scores, runtime_s: float, prediction: Prediction | None, baseline_s: float | None
) -> None:
    nothing = float("nan")
    scores.runtime_s.append(runtime_s)
    scores.baseline_s.append(nothing if baseline_s is None else baseline_s)
    scores.point_s.append(nothing if prediction is None else prediction.point_s)
    scores.estimate_s.append(nothing if prediction is None else prediction.estimate_s)
    if prediction is None:
        return
    key = prediction.feature, prediction.expert
    scores.answers[key] += 1
    scores.off[key] += not 0.5 * runtime_s < prediction.point_s < 2.0 * runtime_s
    for kind, distribution in (("history", prediction.history), ("calibrated", prediction.runtime)):
        low95, low80, high80, high95 = distribution.quantile([0.025, 0.1, 0.9, 0.975]).tolist()
        scores.inside[kind, 80] += low80 <= runtime_s <= high80
        scores.inside[kind, 95] += low95 <= runtime_s <= high95
        scores.widths[kind].append(high80 / max(low80, LEAST_S))


def _summary(scores: _Scores) -> dict[str, Any]:
    actual = np.array(scores.runtime_s)

    def accuracy(estimates: array[float]) -> dict[str, float]:
        guess = np.array(estimates)
        answered = ~np.isnan(guess)
        near = (guess > 0.5 * actual) & (guess < 2.0 * actual)
        some = max(1, int(answered.sum()))
        return {
            "off_by_two_pct": round(100.0 * float(np.mean(~near)), 2),
            "answered_pct": round(100.0 * float(np.mean(answered)), 2),
            "off_by_two_of_answered_pct": round(100.0 * float((answered & ~near).sum()) / some, 2),
            "nmae": round(
                float(np.abs(guess - actual)[answered].sum() / max(1e-9, actual[answered].sum())), 3
            ),
        }

    answered = max(1, sum(scores.answers.values()))
    return {
        "point": accuracy(scores.point_s),
        "best_expert": accuracy(scores.estimate_s),
        "last_20_of_user_and_name": accuracy(scores.baseline_s),
        "coverage_pct": {
            kind: {str(level): round(100.0 * scores.inside[kind, level] / answered, 2) for level in _LEVELS}
            for kind in ("history", "calibrated")
        },
        "width_of_80_pct_interval": {
            kind: round(float(np.median(ratios)), 2) if ratios else None
            for kind, ratios in scores.widths.items()
        },
        "answers": [
            {
                "feature": feature,
                "expert": expert,
                "jobs": count,
                "off_by_two_pct": round(100.0 * scores.off[feature, expert] / count, 2),
            }
            for (feature, expert), count in scores.answers.most_common()
        ],
    }
