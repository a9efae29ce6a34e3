"""Statistics of a trace that the papers print: runtimes, variation by user and by resources, variation
within jobs, bursts.

3Sigma fig. 2 (runtime distribution, CoV of runtimes by user and by resources requested), the slot-reservation
paper §IV-B and SLearn (variation of task durations within a stage), the thesis' table 9.2 (arrivals).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spark_sched.arrays import Bools, Floats
from spark_sched_lab.traces.tables import TraceChunk

QUANTILES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0)
_TAIL_SHARE = 0.1


def cov(values: Floats) -> float:
    """Coefficient of variation: standard deviation (of the population) over mean; NaN for a mean of 0."""
    mean = float(values.mean())
    return float(values.std()) / mean if mean > 0 else math.nan


def quantiles(values: Floats) -> dict[str, float] | None:
    """`QUANTILES` by name (``p50``; ``min``, ``max``) and the mean; None without values."""
    if not len(values):
        return None
    found = np.quantile(values, QUANTILES)
    names = ["min", *(f"p{100 * q:g}" for q in QUANTILES[1:-1]), "max"]
    return {"mean": float(values.mean()), **{n: float(v) for n, v in zip(names, found, strict=True)}}


def hill(values: Floats, share: float = _TAIL_SHARE) -> float | None:
    """Hill's estimate of the Pareto shape from the largest ``share`` of values; None for fewer than 100."""
    positive = np.sort(values[values > 0])
    count = int(len(positive) * share)
    if count < 10:
        return None
    threshold = positive[-count - 1]
    logs = np.log(positive[-count:] / threshold)
    return float(1.0 / logs.mean()) if logs.mean() > 0 else None


def burstiness(submit_s: Floats) -> dict[str, float] | None:
    """Of arrival times in any order: c² of the gaps, their mean and largest (s), most arrivals in a minute
    and in ten (counted from the first arrival); None for fewer than 3 arrivals."""
    if len(submit_s) < 3:
        return None
    at_s = np.sort(submit_s)
    gaps_s = np.diff(at_s)
    if gaps_s.mean() <= 0:
        return None
    minute = ((at_s - at_s[0]) // 60).astype(np.int64)
    return {
        "c2": float((gaps_s.std() / gaps_s.mean()) ** 2),
        "mean_gap_s": float(gaps_s.mean()),
        "max_gap_s": float(gaps_s.max()),
        "max_in_1_min": int(np.unique(minute, return_counts=True)[1].max()),
        "max_in_10_min": int(np.unique(minute // 10, return_counts=True)[1].max()),
    }


@dataclass
class _Groups:
    """Count, sum and sum of squares per group, so that memory is the number of groups."""

    sums: dict[Hashable, list[float]] = field(default_factory=dict)

    def add(self, key: Hashable, value: float) -> None:
        entry = self.sums.setdefault(key, [0.0, 0.0, 0.0])
        # Welford's update: squares of runtimes of 10⁶ s would lose the variance of equal ones.
        entry[0] += 1
        delta = value - entry[1]
        entry[1] += delta / entry[0]
        entry[2] += delta * (value - entry[1])

    def summary(self) -> dict[str, float] | None:
        """CoV over the groups of at least two jobs: how many, quantiles, share above 1 (3Sigma: "high
        variability")."""
        covs = np.array(
            [math.sqrt(m2 / n) / mean for n, mean, m2 in self.sums.values() if n >= 2 and mean > 0]
        )
        if not len(covs):
            return None
        return {
            "groups": len(covs),
            "p50": float(np.quantile(covs, 0.5)),
            "p75": float(np.quantile(covs, 0.75)),
            "p90": float(np.quantile(covs, 0.9)),
            "max": float(covs.max()),
            "share_above_1": float((covs > 1).mean()),
        }


class TraceStats:
    """Add chunks, then call `result`. Keeps a few numbers per job, none per task.

    Runtimes count jobs that finished, or whose runtime but not outcome the source knows; those of
    failed and killed jobs are truncated. Variation excludes runtimes of 0 s.
    """

    def __init__(self) -> None:
        self._jobs = self._stages = self._tasks = 0
        self._columns: dict[str, list[Floats]] = {
            n: [] for n in ("runtime", "submit", "stages", "tasks", "work", "task")
        }
        self._outcomes: Counter[str] = Counter()
        self._attempts: Counter[str] = Counter()
        self._priorities: Counter[Any] = Counter()
        self._classes: Counter[Any] = Counter()
        self._by_user, self._by_slots, self._by_program = _Groups(), _Groups(), _Groups()
        self._users: set[str] = set()
        self._within: list[Floats] = []
        self._copies = 0
        self._deadlines = 0

    def add(self, chunk: TraceChunk) -> None:
        jobs = chunk.jobs
        self._jobs += jobs.num_rows
        self._stages += chunk.stages.num_rows
        self._tasks += chunk.tasks.num_rows
        outcomes = jobs.column("outcome").to_pylist()
        self._outcomes.update(outcomes)
        self._priorities.update(jobs.column("priority").to_pylist())
        self._classes.update(jobs.column("class").to_pylist())
        self._deadlines += jobs.num_rows - jobs.column("deadline_s").null_count
        finished = np.array([o in ("finished", "unknown") for o in outcomes], dtype=bool)
        runtime_s = _floats(jobs, "runtime_s")
        known = finished & ~np.isnan(runtime_s)
        self._columns["runtime"].append(runtime_s[known])
        submit_s = _floats(jobs, "submit_s")
        self._columns["submit"].append(submit_s[~np.isnan(submit_s)])
        self._group(jobs, runtime_s, known & (runtime_s > 0))
        self._shape(chunk)

    def _group(self, jobs: Any, runtime_s: Floats, usable: Bools) -> None:
        users, slots = jobs.column("user").to_pylist(), jobs.column("slots").to_pylist()
        names = jobs.column("name").to_pylist()
        self._users.update(user for user in users if user is not None)
        for row in np.flatnonzero(usable):
            value = float(runtime_s[row])
            if users[row] is not None:
                self._by_user.add(users[row], value)
                if names[row] is not None:
                    self._by_program.add((users[row], names[row]), value)
            if slots[row] is not None:
                self._by_slots.add(slots[row], value)

    def _shape(self, chunk: TraceChunk) -> None:
        job = chunk.jobs.column("job").to_numpy()
        stage_job = np.searchsorted(job, chunk.stages.column("job").to_numpy())
        per_job = np.bincount(stage_job, minlength=len(job)).astype(float)
        self._columns["stages"].append(per_job)
        tasks = _floats(chunk.stages, "tasks")
        known = ~np.isnan(tasks)
        per_job_tasks = np.bincount(stage_job[known], tasks[known], len(job)).astype(float)
        self._columns["tasks"].append(per_job_tasks[per_job_tasks > 0])
        outcome = chunk.tasks.column("outcome").to_pylist()
        self._attempts.update(outcome)
        self._copies += (
            int(np.count_nonzero(chunk.tasks.column("copy").to_numpy(zero_copy_only=False))) if outcome else 0
        )
        duration_s = _floats(chunk.tasks, "duration_s")
        good = np.array([o == "finished" for o in outcome], dtype=bool) & ~np.isnan(duration_s)
        row_of = np.searchsorted(chunk.stages.column("job").to_numpy(), chunk.tasks.column("job").to_numpy())
        row_of = row_of + chunk.tasks.column("stage").to_numpy()
        rows, values = row_of[good], duration_s[good]
        self._columns["task"].append(values)
        count = np.bincount(rows, minlength=chunk.stages.num_rows)
        total = np.bincount(rows, values, chunk.stages.num_rows)
        mean = total / np.maximum(count, 1)
        spread = np.bincount(rows, (values - mean[rows]) ** 2, chunk.stages.num_rows)
        enough = (count >= 2) & (mean > 0)
        self._within.append(np.sqrt(spread[enough] / count[enough]) / mean[enough])
        stated = _floats(chunk.stages, "mean_task_s")
        mean = np.where(count > 0, mean, stated)
        work = np.nan_to_num(mean * tasks)
        self._columns["work"].append(np.bincount(stage_job, work, len(job)).astype(float))

    def result(self) -> dict[str, Any]:
        """One JSON-ready object; a value that the trace does not contain is null."""
        columns = {name: _joined(parts) for name, parts in self._columns.items()}
        span_s = float(columns["submit"].max() - columns["submit"].min()) if len(columns["submit"]) else None
        within = _joined(self._within)
        work = float(columns["work"].sum()) or None
        return {
            "jobs": self._jobs,
            "stages": self._stages,
            "task_attempts": self._tasks,
            "copies": self._copies,
            "users": len(self._users),
            "deadlines": self._deadlines,
            "outcomes": dict(sorted(self._outcomes.items())),
            "attempt_outcomes": dict(sorted(self._attempts.items())),
            "priorities": _counts(self._priorities),
            "classes": _counts(self._classes),
            "span_s": span_s,
            "runtime_s": quantiles(columns["runtime"]),
            # Undefined where every runtime is 0; JSON has no NaN.
            "runtime_cov": cov(columns["runtime"]) if columns["runtime"].any() else None,
            "runtime_tail_alpha": hill(columns["runtime"]),
            "runtime_cov_by_user": self._by_user.summary(),
            "runtime_cov_by_slots": self._by_slots.summary(),
            "runtime_cov_by_user_and_name": self._by_program.summary(),
            "stages_per_job": quantiles(columns["stages"]),
            "tasks_per_job": quantiles(columns["tasks"]),
            "task_s": quantiles(columns["task"]),
            "task_tail_alpha": hill(columns["task"]),
            "task_cov_within_stage": quantiles(within),
            "work_slot_s": work,
            "mean_slots_busy": work / span_s if work is not None and span_s else None,
            "arrivals": burstiness(columns["submit"]),
        }


def trace_stats(chunks: Iterable[TraceChunk]) -> dict[str, Any]:
    """`TraceStats` of chunks (``reader.chunks()`` or ``trace.chunks()``)."""
    stats = TraceStats()
    for chunk in chunks:
        stats.add(chunk)
    return stats.result()


def _floats(table: Any, name: str) -> Floats:
    return np.asarray(table.column(name).to_numpy(), dtype=np.float64)


def _joined(parts: list[Floats]) -> Floats:
    return np.concatenate(parts) if parts else np.empty(0)


def _counts(counter: Counter[Any]) -> dict[str, int]:
    known = {key: n for key, n in counter.items() if key is not None}
    return {str(key): known[key] for key in sorted(known, key=lambda k: (isinstance(k, str), k))}
