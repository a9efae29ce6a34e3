"""Jobs to simulate from a trace's tables, and a count of the jobs that cannot be simulated."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any

from spark_sched.state import Preferred
from spark_sched_lab.engine.workload import JobSpec, MarkChange, StageSpec
from spark_sched_lab.traces import TraceChunk

TableRow = dict[str, Any]
#: 30,000 years: later arrivals and longer tasks are damaged numbers, and the clock's whole numbers of ms end
#: at some thousands of such times.
_MOST_S = 1e12
#: Changes of marks by job, for the jobs' submissions in ms.
Changes = Callable[[Mapping[str, int]], Mapping[str, tuple[MarkChange, ...]]]


def jobs_of_trace(
    chunks: Iterable[TraceChunk], left_out: Counter[str], changes: Changes | None = None
) -> list[JobSpec]:
    """The jobs of a trace in the order of their submission, the first one at 0.

    A task takes the time of its finished attempt, or of its longest one if none finished. Tasks that were
    not measured separately take their stage's mean. A job without stages becomes one stage with its slots
    and runtime. Copies are skipped: the simulator makes its own. A job without an arrival time arrives when
    it started, or at the beginning if it has no start either.

    Args:
        chunks: of the trace (`Trace.chunks`, `TraceReader.chunks`).
        left_out: gets the number of jobs that cannot be simulated, by reason.
        changes: of jobs' marks, asked for once all chunks are read; times on the trace's clock.
    """
    found = [spec for chunk in chunks for spec in _chunk_jobs(chunk, left_out)]
    found.sort(key=lambda pair: (pair[0], pair[1].key))
    begin_s = found[0][0] if found else 0.0
    if changes is not None:
        changed = changes({spec.key: round(submit_s * 1000.0) for submit_s, spec in found})
        found = [(submit_s, replace(spec, changes=changed.get(spec.key, ()))) for submit_s, spec in found]
    earlier_ms = -round(begin_s * 1000.0)
    return [
        with_deadlines_moved(replace(spec, submit_ms=round((submit_s - begin_s) * 1000.0)), earlier_ms)
        for submit_s, spec in found
    ]


def _chunk_jobs(chunk: TraceChunk, left_out: Counter[str]) -> Iterator[tuple[float, JobSpec]]:
    stages = {job: list(rows) for job, rows in groupby(chunk.stages.to_pylist(), key=itemgetter("job"))}
    tasks = {
        key: list(rows)
        for key, rows in groupby(chunk.tasks.to_pylist(), key=lambda row: (row["job"], row["stage"]))
    }
    for job in chunk.jobs.to_pylist():
        specs: list[StageSpec] = []
        for row in stages.get(job["job"], ()):
            spec = _stage(row, tasks.get((job["job"], row["stage"]), []), specs)
            if spec is None:
                specs = []
                break
            specs.append(spec)
        if not specs:
            specs = _whole_job(job)
        if not specs:
            left_out["no task durations"] += 1
            continue
        submit_s = job["submit_s"] if job["submit_s"] is not None else (job["start_s"] or 0.0)
        if not abs(submit_s) <= _MOST_S:
            left_out["arrival is not a time"] += 1
            continue
        if max(spec.delay_ms + max(spec.durations_ms) for spec in specs) > 1000.0 * _MOST_S:
            left_out["longer than 30,000 years"] += 1
            continue
        yield submit_s, _job(job, tuple(specs))


def _stage(row: TableRow, tasks: list[TableRow], earlier: list[StageSpec]) -> StageSpec | None:
    durations = _durations_ms(tasks)
    if not durations and row["tasks"] and row["mean_task_s"] is not None:
        durations = [_ms(row["mean_task_s"])] * row["tasks"]
    if not durations:
        return None
    memory = row["memory"]
    return StageSpec(
        durations_ms=durations,
        parents=tuple(parent for parent in row["parents"] if 0 <= parent < len(earlier)),
        delay_ms=_ms(row["delay_s"]) if row["delay_s"] and row["delay_s"] > 0.0 else 0,
        name=row["name"] or "",
        gang=bool(row["barrier"]),
        restartable=not row["barrier"],
        memory=[memory] * len(durations) if memory else (),
    )


def _durations_ms(tasks: list[TableRow]) -> list[int]:
    best: dict[int, tuple[bool, int]] = {}
    for row in tasks:
        duration_s = row["duration_s"]
        if row["copy"] or duration_s is None or not math.isfinite(duration_s) or duration_s < 0.0:
            continue
        attempt = (row["outcome"] == "finished", _ms(duration_s))
        best[row["task"]] = max(best.get(row["task"], attempt), attempt)
    return [duration_ms for _, duration_ms in best.values()]


def _whole_job(job: TableRow) -> list[StageSpec]:
    runtime_s, slots = job["runtime_s"], job["slots"]
    if runtime_s is None or not math.isfinite(runtime_s) or runtime_s < 0.0 or not slots:
        return []
    return [StageSpec([_ms(runtime_s)] * slots, gang=job["demand"] == "gang")]


def _job(job: TableRow, stages: tuple[StageSpec, ...]) -> JobSpec:
    gang = job["demand"] == "gang"
    if gang and len(stages) == 1 and not stages[0].gang:
        stages = (StageSpec(stages[0].durations_ms, name=stages[0].name, gang=True, memory=stages[0].memory),)
    deadline_s = job["deadline_s"]
    return JobSpec(
        key=job["source_id"],
        submit_ms=0,
        stages=stages,
        name=job["name"] or "",
        user=job["user"],
        job_class=job["class"],
        priority=job["priority"] or 0,
        deadline_ms=None if deadline_s is None else round(deadline_s * 1000.0),
        isolation=job["isolation"],
        preferred=None
        if job["preferred"] is None
        else Preferred(frozenset(job["preferred"]), job["elsewhere_factor"] or 1.0),
    )


def with_deadlines_moved(spec: JobSpec, by_ms: int) -> JobSpec:
    """The job with its deadline, and those that operators gave it, later by ``by_ms``."""

    def moved(deadline_ms: int | None) -> int | None:
        return None if deadline_ms is None else deadline_ms + by_ms

    changes = tuple(replace(change, deadline_ms=moved(change.deadline_ms)) for change in spec.changes)
    return replace(spec, deadline_ms=moved(spec.deadline_ms), changes=changes)


def _ms(seconds: float) -> int:
    # Beyond the bound the job is left out; a thousand times the greatest float would be infinite.
    return max(1, round(min(seconds, 2.0 * _MOST_S) * 1000.0))
