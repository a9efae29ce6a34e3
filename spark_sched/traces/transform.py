"""Transformations of traces: other arrivals, other columns, a selection of jobs, Pareto tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_sched.errors import BadInputError
from spark_sched.traces.generators.pareto import pareto_durations_s
from spark_sched.traces.tables import JOB_SCHEMA, STAGE_SCHEMA, TASK_SCHEMA, Trace

Ints = npt.NDArray[np.int64]


def with_columns(trace: Trace, **columns: Any) -> Trace:
    """The trace with columns of ``jobs`` replaced: each one value for all jobs, or one per job (``job_class``
    sets ``class``).

    Raises:
        BadInputError: a column that jobs do not have, or values of another number or type.
    """
    jobs = trace.jobs
    for name, value in columns.items():
        name = "class" if name == "job_class" else name
        if name not in JOB_SCHEMA.names or name == "job":
            raise BadInputError(
                f"jobs have no column {name!r} to set: use one of {', '.join(JOB_SCHEMA.names[1:])}"
            )
        field = JOB_SCHEMA.field(name)
        single = value is None or isinstance(value, str | int | float)
        values = [value] * jobs.num_rows if single else list(value)
        if len(values) != jobs.num_rows:
            raise BadInputError(
                f"{name} has {len(values)} values for {jobs.num_rows} jobs: give one for each"
            )
        try:
            column = pa.array(values, field.type)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise BadInputError(f"{name} cannot hold these values ({error}): give {field.type}") from None
        jobs = jobs.set_column(jobs.column_names.index(name), field, column)
    return replace(trace, jobs=jobs)


def with_arrivals(trace: Trace, submit_s: npt.NDArray[np.float64]) -> Trace:
    """Other submission times (seconds, one per job); deadlines move along. What the source's own run recorded
    (starts and ends of jobs, stages and tasks) is no longer valid and becomes null; durations and
    delays stay.
    """
    old_s = trace.jobs.column("submit_s").to_numpy()
    deadline_s = trace.jobs.column("deadline_s").to_numpy() + (submit_s - old_s)
    jobs = with_columns(
        trace,
        submit_s=submit_s.tolist(),
        start_s=None,
        end_s=None,
        deadline_s=[None if np.isnan(d) else float(d) for d in deadline_s],
    ).jobs
    return replace(
        trace,
        jobs=jobs,
        stages=_without(trace.stages, STAGE_SCHEMA, ("submit_s", "end_s")),
        tasks=_without(trace.tasks, TASK_SCHEMA, ("start_s",)),
    )


def take(trace: Trace, jobs: Sequence[int] | Ints) -> Trace:
    """The jobs at these rows, in this order, renumbered; a row may be taken several times (its later
    ``source_id`` then gets ``#2``, ``#3``, …)."""
    rows = np.asarray(jobs, dtype=np.int64)
    if len(rows) and not (rows.min() >= 0 and rows.max() < trace.jobs.num_rows):
        raise BadInputError(
            f"the trace has jobs 0 to {trace.jobs.num_rows - 1}, not {rows.min()} to {rows.max()}"
        )
    numbers = trace.jobs.column("job").to_numpy()[rows]
    stage_rows, stage_jobs = _rows_of(trace.stages, numbers)
    task_rows, task_jobs = _rows_of(trace.tasks, numbers)
    taken = trace.jobs.take(pa.array(rows))
    seen: dict[str, int] = {}
    ids = []
    for source_id in taken.column("source_id").to_pylist():
        seen[source_id] = seen.get(source_id, 0) + 1
        ids.append(source_id if seen[source_id] == 1 else f"{source_id}#{seen[source_id]}")
    taken = _set(taken, JOB_SCHEMA, "job", np.arange(len(rows)))
    taken = taken.set_column(1, JOB_SCHEMA.field("source_id"), pa.array(ids, pa.string()))
    return replace(
        trace,
        jobs=taken,
        stages=_set(trace.stages.take(pa.array(stage_rows)), STAGE_SCHEMA, "job", stage_jobs),
        tasks=_set(trace.tasks.take(pa.array(task_rows)), TASK_SCHEMA, "job", task_jobs),
    )


def by_submission(trace: Trace) -> Trace:
    """The jobs in the order of their submission (ties keep their order); jobs without one come last."""
    submit_s = trace.jobs.column("submit_s").to_numpy()
    return take(trace, np.argsort(submit_s, kind="stable"))


def complete(trace: Trace) -> Trace:
    """Only jobs that a simulator can run: submitted at a known time, with stages, all with tasks and
    durations.

    The notes of the metadata count the jobs that were dropped.
    """
    jobs = trace.jobs.column("job").to_numpy()
    known = ~np.isnan(trace.jobs.column("submit_s").to_numpy())
    has_stage = np.isin(jobs, trace.stages.column("job").to_numpy())
    mean_s = stage_means_s(trace)
    tasks = np.nan_to_num(trace.stages.column("tasks").to_numpy().astype(float))
    bad_stage = np.isnan(mean_s) | (tasks < 1)
    broken = np.isin(jobs, trace.stages.column("job").to_numpy()[bad_stage])
    keep = known & has_stage & ~broken
    left_out = int((~keep).sum())
    chosen = take(trace, np.flatnonzero(keep))
    return (
        chosen
        if not left_out
        else chosen.with_note(f"{left_out} jobs without arrival, stages or durations dropped")
    )


def stage_means_s(trace: Trace) -> npt.NDArray[np.float64]:
    """Mean task duration of each stage (row of ``stages``): of its finished, measured tasks, else
    ``mean_task_s``, else NaN."""
    rows = _stage_rows(trace)
    duration_s = trace.tasks.column("duration_s").to_numpy()
    finished = pc.equal(trace.tasks.column("outcome"), "finished").to_numpy() & ~np.isnan(duration_s)
    count = np.bincount(rows[finished], minlength=trace.stages.num_rows)
    total_s = np.bincount(rows[finished], duration_s[finished], trace.stages.num_rows)
    stated = trace.stages.column("mean_task_s").to_numpy()
    return np.where(count > 0, total_s / np.maximum(count, 1), stated)


def pareto_tasks(rng: np.random.Generator, trace: Trace, alpha: float) -> Trace:
    """Every task's duration drawn from a Pareto distribution of shape ``alpha`` with its stage's mean
    (slot-reservation paper, fig. 17). Stages without tasks or mean keep none; copies, failed attempts and
    recorded times go.
    """
    mean_s = stage_means_s(trace)
    tasks = np.nan_to_num(trace.stages.column("tasks").to_numpy().astype(float)).astype(np.int64)
    tasks = np.where(np.isnan(mean_s), 0, tasks)
    total = int(tasks.sum())
    first = np.cumsum(tasks) - tasks
    table = {
        "job": np.repeat(trace.stages.column("job").to_numpy(), tasks),
        "stage": np.repeat(trace.stages.column("stage").to_numpy(), tasks),
        "task": (np.arange(total) - np.repeat(first, tasks)).astype(np.int32),
        "attempt": np.zeros(total, np.int32),
        "start_s": pa.nulls(total, pa.float64()),
        "duration_s": pareto_durations_s(rng, np.repeat(mean_s, tasks), alpha),
        "outcome": ["finished"] * total,
        "copy": np.zeros(total, bool),
        "host": pa.nulls(total, pa.string()),
    }
    return replace(trace, tasks=pa.table(table, schema=TASK_SCHEMA)).with_note(
        f"task durations are Pareto({alpha:g})"
    )


def _stage_rows(trace: Trace) -> Ints:
    first = np.searchsorted(trace.stages.column("job").to_numpy(), trace.tasks.column("job").to_numpy())
    return np.asarray(first + trace.tasks.column("stage").to_numpy(), dtype=np.int64)


def _rows_of(table: pa.Table, jobs: Ints) -> tuple[Ints, Ints]:
    """Rows of ``table`` that belong to each of ``jobs`` (in that order), and the new number of the job of
    each."""
    owners = table.column("job").to_numpy()
    begin = np.searchsorted(owners, jobs, "left")
    count = np.searchsorted(owners, jobs, "right") - begin
    first = np.cumsum(count) - count
    rows = np.arange(int(count.sum())) - np.repeat(first, count) + np.repeat(begin, count)
    return rows, np.repeat(np.arange(len(jobs)), count)


def _set(table: pa.Table, schema: pa.Schema, name: str, values: Ints) -> pa.Table:
    field = schema.field(name)
    return table.set_column(schema.names.index(name), field, pa.array(values, field.type))


def _without(table: pa.Table, schema: pa.Schema, names: Sequence[str]) -> pa.Table:
    for name in names:
        field = schema.field(name)
        table = table.set_column(schema.names.index(name), field, pa.nulls(table.num_rows, field.type))
    return table
