"""One job at a time, as readers and generators produce it, and its conversion to columnar chunks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

import pyarrow as pa

from spark_sched_lab.traces.stage_input import StageInput
from spark_sched_lab.traces.tables import (
    DEMANDS,
    JOB_SCHEMA,
    OUTCOMES,
    STAGE_SCHEMA,
    TASK_SCHEMA,
    TraceChunk,
)

#: Rows of tasks after which a chunk is closed: some tens of MB.
CHUNK_TASKS = 100_000
CHUNK_JOBS = 20_000


class Executed(NamedTuple):
    """How long an attempt executed its task, and the CPU time of the thread that did, in seconds."""

    run_s: float
    cpu_s: float


@dataclass(slots=True)
class TaskRows:
    """Task attempts of one stage, column by column (one list entry per attempt).

    ``locality`` is the locality of an attempt, in the source's own word; ``executed`` is its CPU time. Both
    are not in the tables.
    """

    task: list[int] = field(default_factory=list)
    attempt: list[int] = field(default_factory=list)
    start_s: list[float | None] = field(default_factory=list)
    duration_s: list[float | None] = field(default_factory=list)
    outcome: list[str] = field(default_factory=list)
    copy: list[bool] = field(default_factory=list)
    host: list[str | None] = field(default_factory=list)
    locality: list[str | None] = field(default_factory=list)
    executed: list[Executed | None] = field(default_factory=list)

    def add(
        self,
        task: int,
        duration_s: float | None,
        *,
        attempt: int = 0,
        start_s: float | None = None,
        outcome: str = "finished",
        copy: bool = False,
        host: str | None = None,
        locality: str | None = None,
        executed: Executed | None = None,
    ) -> None:
        self.task.append(task)
        self.attempt.append(attempt)
        self.start_s.append(start_s)
        self.duration_s.append(duration_s)
        self.outcome.append(outcome)
        self.copy.append(copy)
        self.host.append(host)
        self.locality.append(locality)
        self.executed.append(executed)

    def lose(self, task: int, attempt: int) -> bool:
        """Turn this attempt from finished into lost; False if there is no such finished attempt."""
        row = -1
        while True:
            try:
                row = self.task.index(task, row + 1)
            except ValueError:
                return False
            if self.attempt[row] == attempt and self.outcome[row] == "finished":
                self.outcome[row] = "lost"
                return True

    def __len__(self) -> int:
        return len(self.task)


@dataclass(slots=True)
class StageRecord:
    """A stage; the fields are the columns of `tables.STAGE_COLUMNS`, ``part``, ``outside`` and ``input``.

    It is flat, as a row of that table is. ``part`` is the source's own number of its submitter (Spark: the
    Spark job). ``outside``: its tasks use a processor outside the thread whose CPU time is recorded (a
    Python worker, a piped command, a GPU). ``input``: what it reads; None: not known. These are not in the
    tables.
    """

    tasks: int | None
    parents: tuple[int, ...] = ()
    source_id: str | None = None
    name: str | None = None
    mean_task_s: float | None = None
    submit_s: float | None = None
    end_s: float | None = None
    delay_s: float | None = None
    outcome: str = "finished"
    barrier: bool | None = None
    cpus: float | None = None
    memory: float | None = None
    input_bytes: int | None = None
    shuffle_bytes: int | None = None
    output_bytes: int | None = None
    rows: TaskRows = field(default_factory=TaskRows)
    part: int | None = None
    outside: bool = False
    input: StageInput | None = None


@dataclass(slots=True)
class JobRecord:
    """A job with its stages, parents before children; the fields are the columns of `tables.JOB_COLUMNS`.

    It is flat, as a row of that table is.
    """

    source_id: str
    outcome: str
    demand: str
    stages: list[StageRecord] = field(default_factory=list)
    name: str | None = None
    user: str | None = None
    job_class: str | None = None
    priority: int | None = None
    submit_s: float | None = None
    start_s: float | None = None
    end_s: float | None = None
    runtime_s: float | None = None
    deadline_s: float | None = None
    isolation: float | None = None
    slots: int | None = None
    estimate_s: float | None = None
    preferred: tuple[int, ...] | None = None
    elsewhere_factor: float | None = None
    features: dict[str, str] | None = None

    def problem(self) -> str | None:
        """Why this is not a valid job (one clause), or None. Readers count such a job as bad input."""
        if self.outcome not in OUTCOMES or self.demand not in DEMANDS:
            return f"outcome {self.outcome!r} or demand {self.demand!r} is unknown"
        for label, value in (("runtime", self.runtime_s), ("estimate", self.estimate_s)):
            if value is not None and not (math.isfinite(value) and value >= 0):
                return f"its {label} is {value} s"
        for label, value in (("submission", self.submit_s), ("start", self.start_s), ("end", self.end_s)):
            if value is not None and not math.isfinite(value):
                return f"its {label} is {value}"
        if (vast := _too_large(self, _JOB_LIMITS)) is not None:
            return f"its {vast} is too large"
        for index, stage in enumerate(self.stages):
            vast = _too_large(stage, _STAGE_LIMITS)
            if vast is None and stage.rows:
                vast = _too_large_row(stage.rows)
            if vast is not None:
                return f"{vast} of stage {index} is too large"
            if stage.tasks is not None and stage.tasks < 1:
                return f"stage {index} has {stage.tasks} tasks"
            if any(not 0 <= parent < index for parent in stage.parents):
                return f"stage {index} depends on {stage.parents}, which do not all come before it"
            if stage.mean_task_s is not None and not (
                math.isfinite(stage.mean_task_s) and stage.mean_task_s >= 0
            ):
                return f"tasks of stage {index} take {stage.mean_task_s} s"
        return None


def widest(stages: Iterable[StageRecord]) -> int | None:
    """Slots of a malleable job: tasks of its widest stage; None if no stage has a number of tasks."""
    return max((stage.tasks for stage in stages if stage.tasks is not None), default=None)


def chunked(
    records: Iterable[JobRecord], *, chunk_tasks: int = CHUNK_TASKS, chunk_jobs: int = CHUNK_JOBS
) -> Iterator[TraceChunk]:
    """Columnar chunks of whole jobs, numbered from 0 in the order given; memory is one chunk plus one job."""
    rows = _Rows()
    for number, record in enumerate(records):
        rows.add(number, record)
        if len(rows.tasks["job"]) >= chunk_tasks or len(rows.jobs) >= chunk_jobs:
            yield rows.chunk()
            rows = _Rows()
    if rows.jobs:
        yield rows.chunk()


@dataclass(slots=True)
class _Rows:
    """Jobs and stages as tuples, tasks by column."""

    jobs: list[tuple[Any, ...]] = field(default_factory=list)
    stages: list[tuple[Any, ...]] = field(default_factory=list)
    tasks: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in TASK_SCHEMA.names})

    def add(self, number: int, job: JobRecord) -> None:
        features = sorted(job.features.items()) if job.features else None
        self.jobs.append((number, *_JOB_FIELDS(job), features))
        for index, stage in enumerate(job.stages):
            self.stages.append((number, index, *_STAGE_FIELDS(stage)))
            rows = len(stage.rows)
            if rows:
                self.tasks["job"].extend([number] * rows)
                self.tasks["stage"].extend([index] * rows)
                for name in _TASK_PLAIN:
                    self.tasks[name].extend(getattr(stage.rows, name))

    def chunk(self) -> TraceChunk:
        tasks = pa.table(self.tasks, schema=TASK_SCHEMA)
        return TraceChunk(_table(self.jobs, JOB_SCHEMA), _table(self.stages, STAGE_SCHEMA), tasks)


def _table(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    if not rows:
        return schema.empty_table()
    return pa.table(
        [pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), schema, strict=True)], schema=schema
    )


# Rows are tuples in the order of the schema: a record's fields in one call each.
_JOB_FIELDS = attrgetter(*("job_class" if n == "class" else n for n in JOB_SCHEMA.names[1:-1]))
_STAGE_FIELDS = attrgetter(*STAGE_SCHEMA.names[2:])
_TASK_PLAIN = tuple(n for n in TASK_SCHEMA.names if n not in ("job", "stage"))

#: Whole numbers with the least power of two that is too large for their column.
_WHOLE = {pa.int32(): 1 << 31, pa.int64(): 1 << 63}
_JOB_LIMITS = tuple((f.name, _WHOLE[f.type]) for f in JOB_SCHEMA if f.type in _WHOLE and f.name != "job")
_STAGE_LIMITS = tuple(
    (f.name, _WHOLE[f.type]) for f in STAGE_SCHEMA if f.type in _WHOLE and f.name not in ("job", "stage")
)
_ROW_LIMITS = tuple((name, _WHOLE[TASK_SCHEMA.field(name).type]) for name in ("task", "attempt"))


def _too_large(record: JobRecord | StageRecord, limits: tuple[tuple[str, int], ...]) -> str | None:
    """The first whole number that does not fit into its column, by name."""
    for name, limit in limits:
        value = getattr(record, name)
        if value is not None and not -limit <= value < limit:
            return name
    return None


def _too_large_row(rows: TaskRows) -> str | None:
    for name, limit in _ROW_LIMITS:
        values = getattr(rows, name)
        if not (-limit <= min(values) and max(values) < limit):
            return name
    return None
