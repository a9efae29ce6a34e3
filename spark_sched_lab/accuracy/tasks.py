"""The accuracy of job sizes estimated from pilots, from history and from both, on any trace with task
durations (SLearn §4.2, §4.3, tables 4 and 7, figure 2)."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np

from spark_sched.policies.slearn.adaptive import pilot_count
from spark_sched.policies.slearn.doubts import Doubts
from spark_sched.policies.slearn.gs import THIN_LIMIT
from spark_sched.policies.slearn.queues import Queues
from spark_sched.policies.slearn.sizing import (
    PAPER_QUEUES,
    BayesSizing,
    HistorySizing,
    PilotSizing,
    Sizing,
    others_ms,
)
from spark_sched.predict.runtimes.features import JobAttributes
from spark_sched.predict.runtimes.points import inverse_square_s, median_s
from spark_sched.predict.tasks.expectation import StageExpectation
from spark_sched.predict.tasks.history import StagePrediction, SubmittedStage, TaskHistory
from spark_sched_lab.traces import TraceChunk

#: The sampling ratio of §4.2 and §4.3, in percent.
RATIO = 3.0
#: Of the errors of figure 2.
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
_DAY_S = 86_400.0
#: The least number of runs for a CoV.
_RUNS = 2
#: Called now and then with the number of jobs that were scored, and of all.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class MeasuredJob:
    """One job whose tasks were all measured.

    Attributes:
        stages: task times of each in seconds.
        parents: of each stage, numbers of stages before it.
        attributes: the attributes of each stage that are known when the job is submitted.
        end_s: when it ended in the source's own cluster; None: not known.
    """

    key: str
    submit_s: float
    stages: tuple[tuple[float, ...], ...]
    parents: tuple[tuple[int, ...], ...]
    attributes: tuple[JobAttributes, ...]
    end_s: float | None = None

    @property
    def width(self) -> int:
        return max(len(stage) for stage in self.stages)

    @property
    def work_s(self) -> float:
        return sum(sum(stage) for stage in self.stages)


def measured_jobs(chunks: Iterable[TraceChunk]) -> list[MeasuredJob]:
    """The jobs of a trace whose tasks have durations, by submission; a task counts by its finished attempt.

    Jobs without an arrival time arrive at 0, in the order of the trace. Jobs with a stage of which no task
    finished are skipped.
    """
    found: list[MeasuredJob] = []
    for chunk in chunks:
        tasks: dict[tuple[int, int], dict[int, float]] = {}
        names = ("job", "stage", "task", "duration_s", "outcome", "copy")
        columns = [chunk.tasks[name].to_pylist() for name in names]
        for job, stage, task, duration_s, outcome, copy in zip(*columns, strict=True):
            if duration_s is not None and duration_s > 0.0 and not copy and outcome == "finished":
                tasks.setdefault((job, stage), {})[task] = duration_s
        rows: dict[int, list[dict[str, Any]]] = {}
        for row in chunk.stages.select(["job", "stage", "parents", "name", "cpus", "memory"]).to_pylist():
            rows.setdefault(row["job"], []).append(row)
        for job_row in chunk.jobs.to_pylist():
            mine = rows.get(job_row["job"], [])
            times = [tuple(tasks.get((job_row["job"], row["stage"]), {}).values()) for row in mine]
            if not times or not all(times):
                continue
            found.append(
                MeasuredJob(
                    job_row["source_id"],
                    0.0 if job_row["submit_s"] is None else job_row["submit_s"],
                    tuple(times),
                    tuple(tuple(row["parents"]) for row in mine),
                    tuple(_attributes(job_row, row, len(t)) for row, t in zip(mine, times, strict=True)),
                    job_row["end_s"],
                )
            )
    found.sort(key=lambda job: job.submit_s)
    return found


def _attributes(job: Mapping[str, Any], stage: Mapping[str, Any], tasks: int) -> JobAttributes:
    features = dict(job["features"] or ())
    more = {name: features[name] for name in ("query", "scale") if name in features}
    if stage["cpus"] is not None or stage["memory"] is not None:
        more["resources"] = f"{stage['cpus']}/{stage['memory']}"
    name = job["name"]
    return JobAttributes(
        submit_s=job["submit_s"],
        user=job["user"],
        name=name,
        application=features.get("app_name"),
        job_class=job["class"],
        priority=job["priority"],
        slots=tasks,
        more=more,
    )


def paper_features(job: JobAttributes) -> JobAttributes:
    """The features that 3Sigma uses in SLearn's §4.2: application, name, user, hour and day, CPU and
    memory."""
    more = {key: value for key, value in job.more.items() if key == "resources"}
    return replace(job, slots=None, job_class=None, priority=None, more=more)


def covs(history: Sequence[MeasuredJob], jobs: Sequence[MeasuredJob], days: float) -> dict[str, list[float]]:
    """Table 4: how much first stages' mean task times vary over time and over space, job by job.

    Over time: the least CoV, over the six features, of the means of jobs of the last ``days`` days with the
    same value. Over space: CoV of the job's task times over sqrt(0.03 tasks); jobs of one task are excluded.
    """
    past: dict[tuple[str, str], _Means] = {}
    over_time, over_space = [], []
    events = [(job.submit_s, 0, n, job) for n, job in enumerate(history)]
    events += [(job.submit_s, 1, n, job) for n, job in enumerate(jobs)]
    for _, asked, _, job in sorted(events, key=lambda event: event[:3]):
        times = np.asarray(job.stages[0])
        keys = _single_features(job.attributes[0])
        if asked:
            seen = [past[key].cov(job.submit_s - days * _DAY_S) for key in keys if key in past]
            found = [cov for cov in seen if cov is not None]
            if found:
                over_time.append(min(found))
            if times.size > 1:
                over_space.append(float(times.std() / times.mean() / math.sqrt(0.01 * RATIO * times.size)))
        for key in keys:
            past.setdefault(key, _Means()).add(job.submit_s, float(times.mean()))
    return {"over_time": over_time, "over_space": over_space}


class _Means:
    """Mean task times in the order of submission, with running sums, so that a window's CoV is a look-up."""

    def __init__(self) -> None:
        self.at_s: list[float] = []
        self._sums = [0.0]
        self._squares = [0.0]

    def add(self, at_s: float, mean_s: float) -> None:
        self.at_s.append(at_s)
        self._sums.append(self._sums[-1] + mean_s)
        self._squares.append(self._squares[-1] + mean_s * mean_s)

    def cov(self, since_s: float) -> float | None:
        first = bisect_left(self.at_s, since_s)
        runs = len(self.at_s) - first
        if runs < _RUNS:
            return None
        mean = (self._sums[-1] - self._sums[first]) / runs
        variance = max(0.0, (self._squares[-1] - self._squares[first]) / runs - mean * mean)
        return math.sqrt(variance) / mean


def _single_features(job: JobAttributes) -> list[tuple[str, str]]:
    known = [("user", job.user), ("name", job.name), ("application", job.application)]
    if job.submit_s is not None:
        known.append(("hour", str(int(job.submit_s % _DAY_S // 3600.0))))
        known.append(("day", str(int(job.submit_s // _DAY_S % 7))))
    known.append(("resources", job.more.get("resources")))
    return [(name, value) for name, value in known if value is not None]


class _AllPilots(BayesSizing):
    """The posterior after the same number of pilots as SLearn, to compare both on equal evidence."""

    def pilots(
        self,
        tasks: int,
        expected: StageExpectation | None,
        percent: float,
        slots_per_task: int = 1,
        queues: Queues = PAPER_QUEUES,
    ) -> int:
        return pilot_count(tasks, percent)


#: The predictors whose history is checked.
_DOUBTING = ("bayes", "bayes-full")
_SIZINGS: Mapping[str, Sizing] = {
    "slearn": PilotSizing(inverse_square_s),
    "3sigma": HistorySizing(inverse_square_s),
    "point-est": HistorySizing(median_s),
    # The median sizes; the policy prefers smaller ones, in favour of short jobs.
    "bayes": BayesSizing(point=attrgetter("task_s")),
    "bayes-full": _AllPilots(point=attrgetter("task_s")),
}


def score(
    history: Sequence[MeasuredJob],
    jobs: Sequence[MeasuredJob],
    rng: np.random.Generator,
    *,
    learns: bool,
    progress: Progress = lambda done, jobs: None,
) -> dict[str, dict[str, list[float]]]:
    """Sizes of the wide jobs (three tasks or more in some stage) by each predictor, in slot-seconds.

    Pilots are 3 % of the tasks of the job's first stage of three or more tasks. The times of the other stages
    follow from history as in SLearn-DAG. ``bayes`` takes as many pilots as it requests, at most these;
    ``bayes-full`` takes all.

    Args:
        history: learned before the first of ``jobs`` arrives.
        learns: whether jobs are also learned when they end (at once if their end is unknown).

    Returns:
        By predictor: ``estimate_s`` and ``pilots`` in the order of ``true_s``; ``held``, whether the first
            wide stage's mean task time lay in its 90 % interval, for jobs with an interval; ``jobs`` has
            ``true_s``, ``width``. A missing estimate is NaN.
    """
    known = TaskHistory()
    found: dict[str, dict[str, list[float]]] = {
        name: {"estimate_s": [], "pilots": [], "held": []} for name in _SIZINGS
    }
    found["jobs"] = {"true_s": [], "width": []}
    doubts = dict.fromkeys(_DOUBTING, Doubts())
    waiting: list[tuple[float, int, list[StagePrediction], tuple[tuple[float, ...], ...]]] = []
    everyone = [(job, False) for job in history] + [(job, True) for job in jobs]
    for number, (job, counts) in enumerate(everyone):
        while waiting and waiting[0][0] <= job.submit_s:
            known.learn_job(*heapq.heappop(waiting)[2:])
        stages = [
            SubmittedStage(len(times), paper_features(attributes))
            for times, attributes in zip(job.stages, job.attributes, strict=True)
        ]
        asked = known.ask_job(stages)
        if not counts or learns:
            end_s = job.submit_s if job.end_s is None else max(job.end_s, job.submit_s)
            heapq.heappush(waiting, (end_s, number, asked, job.stages))
        if counts and job.width >= THIN_LIMIT:
            _score_job(found, known, job, stages, asked, doubts, rng)
        elif not counts and number == len(history) - 1:
            while waiting and not learns:
                known.learn_job(*heapq.heappop(waiting)[2:])
        if number % 500 == 0:
            progress(number, len(everyone))
    return found


def _score_job(
    found: dict[str, dict[str, list[float]]],
    known: TaskHistory,
    job: MeasuredJob,
    stages: Sequence[SubmittedStage],
    asked: Sequence[StagePrediction],
    doubts: dict[str, Doubts],
    rng: np.random.Generator,
) -> None:
    expected = [
        known.expectation(stage, prediction) for stage, (_, prediction) in zip(stages, asked, strict=True)
    ]
    first = next(n for n, times in enumerate(job.stages) if len(times) >= THIN_LIMIT)
    times_ms = [1000.0 * value for value in job.stages[first]]
    order = rng.permutation(len(times_ms))[: pilot_count(len(times_ms), RATIO)].tolist()
    found["jobs"]["true_s"].append(job.work_s)
    found["jobs"]["width"].append(job.width)
    recurs = stages[first].attributes.recurs
    for name, sizing in _SIZINGS.items():
        prior = expected[first]
        if name in doubts:
            doubts[name] = doubts[name].came(recurs)
            prior = replace(prior, doubt=doubts[name].of(recurs))
        count = min(len(order), sizing.pilots(len(times_ms), prior, RATIO))
        pilots_ms = [times_ms[n] for n in order[:count]]
        if name in doubts:
            doubts[name] = doubts[name].checked(recurs, prior, pilots_ms)
        task_ms = sizing.task_ms(pilots_ms, prior)
        total_ms = math.nan
        if task_ms is not None:
            total_ms = task_ms * len(times_ms)
            total_ms += others_ms(sizing, expected, first, task_ms, sampled=count > 0)
        found[name]["estimate_s"].append(total_ms / 1000.0)
        found[name]["pilots"].append(float(count))
        reach_ms = sizing.reach_ms(pilots_ms, prior)
        if reach_ms is not None:
            mean_ms = sum(times_ms) / len(times_ms)
            found[name]["held"].append(float(reach_ms[0] <= mean_ms <= reach_ms[1]))


def summary(found: Mapping[str, Mapping[str, Sequence[float]]]) -> dict[str, dict[str, Any]]:
    """Figure 2's quantiles of the error in percent, and table 7's share of jobs in the right queue.

    A job without an estimate counts as infinitely off and in no queue.
    """
    true_s = np.asarray(found["jobs"]["true_s"], dtype=float)
    queues = Queues()
    right = [queues.of(1000.0 * value) for value in true_s.tolist()]
    scores: dict[str, dict[str, Any]] = {}
    for name in _SIZINGS:
        guess = np.asarray(found[name]["estimate_s"], dtype=float)
        answered = ~np.isnan(guess)
        error = np.where(answered, np.abs(np.nan_to_num(guess) - true_s) / true_s * 100.0, np.inf)
        good = [
            ok and queues.of(1000.0 * value) == queue
            for ok, value, queue in zip(answered.tolist(), guess.tolist(), right, strict=True)
        ]
        # The quantile itself, not a mean of two neighbours: one of them may be infinite.
        at = np.quantile(error, QUANTILES, method="inverted_cdf").tolist() if error.size else []
        scores[name] = {
            "error_pct": {
                f"p{round(100 * q)}": round(v, 2) if math.isfinite(v) else None
                for q, v in zip(QUANTILES, at, strict=False)
            },
            "right_queue_pct": round(100.0 * float(np.mean(good)), 2) if good else None,
            "answered_pct": round(100.0 * float(answered.mean()), 2) if error.size else None,
            "mean_pilots": round(float(np.mean(found[name]["pilots"])), 2) if error.size else None,
            "held_90_pct": round(100.0 * float(np.mean(found[name]["held"])), 2)
            if found[name]["held"]
            else None,
        }
    return scores


def evaluate_tasks(
    jobs: Sequence[MeasuredJob],
    *,
    seeds: Sequence[int] = (1, 2, 3),
    progress: Progress = lambda done, jobs: None,
) -> dict[str, Any] | None:
    """Tables 4 and 7 and figure 2's quantiles on a trace, in the order of time: jobs of its second half (by
    submission) are scored, each learned when it ends. Pilots are drawn once per seed; numbers are means over
    the draws. Where jobs have several stages, ``stages`` has the same with each stage as a job of its own.

    Returns:
        The values that ``predict eval`` prints; None if the second half has no job of three tasks or more
        whose tasks were all measured.
    """
    evaluated = _evaluate(jobs, seeds, progress)
    if evaluated is None:
        return None
    several = any(len(job.stages) > 1 for job in jobs)
    alone = [stage for job in jobs for stage in _stages_of(job)] if several else []
    return {**evaluated, "stages": _evaluate(alone, seeds, progress) if several else None}


def _evaluate(jobs: Sequence[MeasuredJob], seeds: Sequence[int], progress: Progress) -> dict[str, Any] | None:
    ordered = sorted(jobs, key=lambda job: job.submit_s)
    half = len(ordered) // 2
    history, scored = ordered[:half], ordered[half:]
    if not any(job.width >= THIN_LIMIT for job in scored):
        return None
    summaries = []
    for seed in seeds:
        found = score(history, scored, np.random.default_rng(seed), learns=True, progress=progress)
        summaries.append(summary(found))
    varied = covs(history, scored, math.inf)
    return {
        "jobs": len(scored),
        "scored": len(found["jobs"]["true_s"]),
        "runs": len(seeds),
        "cov": {
            kind: {
                "p50": round(float(np.quantile(values, 0.5)), 3) if values else None,
                "p90": round(float(np.quantile(values, 0.9)), 3) if values else None,
                "jobs": len(values),
            }
            for kind, values in varied.items()
        },
        "predictors": {name: _mean([each[name] for each in summaries]) for name in summaries[0]},
    }


def _stages_of(job: MeasuredJob) -> list[MeasuredJob]:
    """Each stage as a job of its own; its name is that of the job with the stage's position."""
    return [
        replace(
            job,
            key=f"{job.key} / {index}",
            stages=(times,),
            parents=((),),
            attributes=(
                replace(
                    attributes,
                    name=None if attributes.name is None else f"{attributes.name} / stage {index}",
                ),
            ),
        )
        for index, (times, attributes) in enumerate(zip(job.stages, job.attributes, strict=True))
    ]


def _mean(rows: Sequence[Any]) -> Any:
    """The mean of documents of the same shape, number by number; None where one of them has no number."""
    if isinstance(rows[0], dict):
        return {key: _mean([row[key] for row in rows]) for key in rows[0]}
    return None if any(row is None for row in rows) else round(sum(rows) / len(rows), 2)
