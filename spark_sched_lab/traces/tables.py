"""The one columnar form of every workload: a table of jobs, one of stages, one of task attempts.

A value that the source did not record is null; nothing is filled in. A consumer that needs a value (an
arrival time, a duration) must state what it does with jobs that have none. Tables are joined by the numbers
``job`` and ``stage``.

Times are seconds since the trace's own zero (``TraceMeta.origin_epoch_ms`` says when that was, if known).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from spark_sched.errors import BadInputError

SCHEMA_VERSION = 1

#: How a job, a stage or a task attempt ended. ``unknown``: the source stops before its end.
OUTCOMES = ("finished", "failed", "killed", "evicted", "lost", "unknown")
#: ``gang``: a stage runs only with all its tasks at once. ``malleable``: with any number of slots.
DEMANDS = ("gang", "malleable")


class Column(NamedTuple):
    """One documented column: its name, type, unit (``""``: none) and meaning."""

    name: str
    type: pa.DataType
    unit: str
    doc: str
    nullable: bool = True


JOB_COLUMNS: tuple[Column, ...] = (
    Column("job", pa.int64(), "", "number of the job in this trace, from 0 in the order of the rows", False),
    Column("source_id", pa.string(), "", "what the source calls the job; unique in the trace", False),
    Column("name", pa.string(), "", "recurring name of the program, where the source has one"),
    Column("user", pa.string(), "", "who submitted it"),
    Column("class", pa.string(), "", "`slo`, `best_effort`, or the source's own scheduling class"),
    Column("priority", pa.int32(), "", "higher wins"),
    Column("submit_s", pa.float64(), "s", "when it was submitted; null: the source has no arrivals"),
    Column("start_s", pa.float64(), "s", "when its first task started in the source's own cluster"),
    Column("end_s", pa.float64(), "s", "when it ended in the source's own cluster"),
    Column("runtime_s", pa.float64(), "s", "from start to end as measured, or as drawn by a generator"),
    Column("outcome", pa.string(), "", "`finished`, `failed`, `killed`, `evicted`, `lost`, `unknown`", False),
    Column("deadline_s", pa.float64(), "s", "when it must have ended (a time, not a span)"),
    Column("isolation", pa.float64(), "0..1", "isolation probability the job asked for"),
    Column("demand", pa.string(), "", "`gang` or `malleable`", False),
    Column("slots", pa.int64(), "slots", "slots it asks for at once: its gang, or its widest stage"),
    Column("estimate_s", pa.float64(), "s", "runtime the user announced"),
    Column("preferred", pa.list_(pa.int32()), "", "partitions it prefers; null: any place is as good"),
    Column(
        "elsewhere_factor", pa.float64(), "×", "runtime on partitions it does not prefer, over runtime there"
    ),
    Column(
        "features", pa.map_(pa.string(), pa.string()), "", "everything else the source says about the job"
    ),
)

STAGE_COLUMNS: tuple[Column, ...] = (
    Column("job", pa.int64(), "", "the job", False),
    Column("stage", pa.int32(), "", "number within the job, from 0; parents come before children", False),
    Column("source_id", pa.string(), "", "what the source calls it (Spark: `stage.attempt`)"),
    Column("name", pa.string(), "", "its name"),
    Column("parents", pa.list_(pa.int32()), "", "stages that must end before it can start", False),
    Column("tasks", pa.int64(), "tasks", "number of tasks; null: the source does not say"),
    Column(
        "mean_task_s",
        pa.float64(),
        "s",
        "mean duration of its tasks, where tasks were not measured one by one",
    ),
    Column("submit_s", pa.float64(), "s", "when it could start in the source's own run"),
    Column("end_s", pa.float64(), "s", "when it ended in the source's own run"),
    Column(
        "delay_s", pa.float64(), "s", "from its last parent's end (or the job's submission) to its `submit_s`"
    ),
    Column("outcome", pa.string(), "", "as for jobs", False),
    Column("barrier", pa.bool_(), "", "its tasks must start together"),
    Column("cpus", pa.float64(), "see meta", "CPU request of a task, mean over the tasks"),
    Column("memory", pa.float64(), "see meta", "memory request of a task, mean over the tasks"),
    Column("input_bytes", pa.int64(), "B", "bytes read from storage by all tasks"),
    Column("shuffle_bytes", pa.int64(), "B", "bytes shuffled on to the next stage"),
    Column("output_bytes", pa.int64(), "B", "bytes written to storage"),
)

TASK_COLUMNS: tuple[Column, ...] = (
    Column("job", pa.int64(), "", "the job", False),
    Column("stage", pa.int32(), "", "the stage within the job", False),
    Column("task", pa.int32(), "", "number of the task within the stage", False),
    Column("attempt", pa.int32(), "", "0 for the first attempt of the task", False),
    Column("start_s", pa.float64(), "s", "when the attempt started in the source's own run"),
    Column(
        "duration_s",
        pa.float64(),
        "s",
        "how long the attempt ran; null: it never started, or part of it was not seen",
    ),
    Column("outcome", pa.string(), "", "as for jobs", False),
    Column("copy", pa.bool_(), "", "a copy of a running task", False),
    Column("host", pa.string(), "", "executor or machine it ran on"),
)

TABLES: dict[str, tuple[Column, ...]] = {"jobs": JOB_COLUMNS, "stages": STAGE_COLUMNS, "tasks": TASK_COLUMNS}


def _schema(columns: Iterable[Column]) -> pa.Schema:
    return pa.schema([pa.field(c.name, c.type, c.nullable, {"unit": c.unit, "doc": c.doc}) for c in columns])


JOB_SCHEMA = _schema(JOB_COLUMNS)
STAGE_SCHEMA = _schema(STAGE_COLUMNS)
TASK_SCHEMA = _schema(TASK_COLUMNS)


@dataclass(frozen=True)
class Machine:
    """A machine or executor of the source's own cluster, over one span of time.

    ``slots`` is null where the source has none; ``cpus`` and ``memory`` are in the trace's units. ``added_s``
    null: it existed before the source begins; ``removed_s`` null: it existed until the end.
    """

    machine: str
    host: str | None = None
    slots: int | None = None
    cpus: float | None = None
    memory: float | None = None
    added_s: float | None = None
    removed_s: float | None = None


@dataclass(frozen=True)
class TraceMeta:
    """Metadata of the whole trace: its source, its units, and its known defects."""

    format: str
    source: str = ""
    origin_epoch_ms: int | None = None
    cpu_unit: str = "core"
    memory_unit: str = "byte"
    notes: tuple[str, ...] = ()
    machines: tuple[Machine, ...] = ()
    parameters: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        return json.dumps({"schema": SCHEMA_VERSION, **asdict(self)}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> TraceMeta:
        """The metadata that `to_json` wrote; raises `BadInputError` for another schema version."""
        raw = json.loads(text)
        version = raw.pop("schema", None)
        if version != SCHEMA_VERSION:
            raise BadInputError(
                f"the trace has schema {version} but this version reads {SCHEMA_VERSION}: convert its source "
                "again"
            )
        raw["machines"] = tuple(Machine(**m) for m in raw["machines"])
        raw["notes"] = tuple(raw["notes"])
        return cls(**raw)


@dataclass(frozen=True)
class TraceChunk:
    """Some whole jobs: every stage and task of a job is in the chunk that has the job."""

    jobs: pa.Table
    stages: pa.Table
    tasks: pa.Table


@dataclass(frozen=True)
class Trace:
    """A whole trace in memory: three tables with the columns of `TABLES`, in this order of rows:
    jobs by ``job``, stages by (``job``, ``stage``), tasks by (``job``, ``stage``)."""

    jobs: pa.Table
    stages: pa.Table
    tasks: pa.Table
    meta: TraceMeta

    @classmethod
    def from_chunks(cls, chunks: Iterable[TraceChunk], meta: TraceMeta) -> Trace:
        parts = list(chunks)
        return cls(
            pa.concat_tables([p.jobs for p in parts] or [JOB_SCHEMA.empty_table()]).combine_chunks(),
            pa.concat_tables([p.stages for p in parts] or [STAGE_SCHEMA.empty_table()]).combine_chunks(),
            pa.concat_tables([p.tasks for p in parts] or [TASK_SCHEMA.empty_table()]).combine_chunks(),
            meta,
        )

    def chunks(self) -> Iterator[TraceChunk]:
        yield TraceChunk(self.jobs, self.stages, self.tasks)
