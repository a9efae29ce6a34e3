"""A trace as one Parquet file: a row per job, its stages nested in it, their tasks nested in them.

One file, written atomically, read in chunks of whole jobs; a reader of jobs alone touches no task.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_sched.arrays import Ints
from spark_sched.errors import BadInputError
from spark_sched.files import open_regular
from spark_sched_lab.traces.lines import FREE_BYTES, MAX_RATIO
from spark_sched_lab.traces.tables import (
    JOB_SCHEMA,
    STAGE_SCHEMA,
    TASK_SCHEMA,
    Trace,
    TraceChunk,
    TraceMeta,
)

META_KEY = b"spark_sched.trace"

#: What reading a damaged file raises, here and in pyarrow.
_DAMAGE = (
    *(pa.ArrowException, OSError, ValueError, KeyError, TypeError, AttributeError, IndexError),
    *(OverflowError, RecursionError),
)

_TASK_FIELDS = [f for f in TASK_SCHEMA if f.name not in ("job", "stage")]
_TASK_LIST = pa.list_(pa.field("task", pa.struct(_TASK_FIELDS), nullable=False))
_STAGE_FIELDS = [f for f in STAGE_SCHEMA if f.name not in ("job", "stage")]
_STAGE_STRUCT = pa.struct([*_STAGE_FIELDS, pa.field("task_rows", _TASK_LIST, nullable=False)])
_STAGE_LIST = pa.list_(pa.field("stage", _STAGE_STRUCT, nullable=False))
FILE_SCHEMA = pa.schema([*JOB_SCHEMA, pa.field("stages", _STAGE_LIST, nullable=False)])


def write_trace(trace: Trace, path: Path | str) -> None:
    """Write a whole trace; nothing is left at ``path`` if that fails. The same trace gives the same bytes."""
    write_chunks(trace.chunks(), path, lambda: trace.meta)


def write_chunks(chunks: Iterable[TraceChunk], path: Path | str, meta: Callable[[], TraceMeta]) -> int:
    """Write chunks, one row group each; ``meta`` is called after the last one. Returns the jobs written.

    Raises:
        BadInputError: ``path`` cannot be written.
    """
    path = Path(path)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise BadInputError(f"{path} cannot be written ({error.strerror}): choose another place") from None
    os.close(handle)
    temporary = Path(name)
    jobs = 0
    try:
        with pq.ParquetWriter(temporary, FILE_SCHEMA, compression="zstd", write_page_checksum=True) as writer:
            for chunk in chunks:
                writer.write_table(_nest(chunk))
                jobs += chunk.jobs.num_rows
            writer.add_key_value_metadata({META_KEY: meta().to_json().encode()})
        # mkstemp makes the file private; a result has the rights any new file has.
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return jobs


@contextmanager
def _refusing_damage(path: Path, what: str = "Parquet file") -> Iterator[None]:
    """Turn what reading a damaged file raises into BadInputError."""
    try:
        yield
    except BadInputError:
        raise
    except _DAMAGE as error:
        why = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise BadInputError(f"{path} is a damaged {what} ({why}): write it again") from None


def read_meta(path: Path) -> TraceMeta:
    """Raises `BadInputError` if the file is damaged or is not a trace."""
    with _refusing_damage(path), open_regular(path) as file:
        head = pq.read_metadata(file)
        found = (head.metadata or {}).get(META_KEY)
    if found is None:
        raise BadInputError(
            f"{path} is Parquet but not a trace of this project: make one with 'spark-sched trace convert'"
        )
    _check_unpacked(path, head)
    with _refusing_damage(path, "trace"):
        return TraceMeta.from_json(found.decode())


def _check_unpacked(path: Path, head: pq.FileMetaData) -> None:
    """Raises `BadInputError` for more values than a file of this size may have: a run of equal ones takes no
    place in the file, but each takes its place in memory."""
    groups = [head.row_group(number) for number in range(head.num_row_groups)]
    values = sum(group.column(n).num_values for group in groups for n in range(group.num_columns))
    unpacked = max(8 * values, sum(group.total_byte_size for group in groups))
    most = max(FREE_BYTES, MAX_RATIO * path.stat().st_size)
    if unpacked > most:
        raise BadInputError(
            f"{path} unpacks to {unpacked >> 20:,} MB, and {most >> 20:,} MB is the most that is read of it: "
            "convert its source again, or split it"
        )


def read_chunks(
    path: Path, *, jobs: int = 20_000, progress: Callable[[int], None] | None = None
) -> Iterator[TraceChunk]:
    """Chunks of at most ``jobs`` jobs; ``progress`` gets the file's bytes in proportion to those read.

    Raises:
        BadInputError: the file is damaged.
    """
    read_meta(path)
    size = path.stat().st_size
    with _refusing_damage(path), pq.ParquetFile(path, page_checksum_verification=True) as file:
        if not file.schema_arrow.equals(FILE_SCHEMA):
            raise BadInputError(
                f"{path} has other columns than this version's traces: convert its source again"
            )
        total = max(1, file.metadata.num_rows)
        for batch in file.iter_batches(batch_size=jobs):
            chunk = _flatten(batch)
            if progress is not None:
                progress(size * batch.num_rows // total)
            yield chunk


def _numbers(table: pa.Table | pa.RecordBatch, name: str) -> Ints:
    column = table.column(name)
    return np.asarray(column.to_numpy(), dtype=np.int64)


def _whole(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name).combine_chunks()
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _offsets(counts: Ints) -> pa.Array:
    return pa.array(np.concatenate(([0], np.cumsum(counts))).astype(np.int32))


def _nest(chunk: TraceChunk) -> pa.Table:
    job = _numbers(chunk.jobs, "job")
    stage_row = np.searchsorted(job, _numbers(chunk.stages, "job"))
    per_job = np.bincount(stage_row, minlength=len(job))
    first_stage = np.concatenate(([0], np.cumsum(per_job)))
    task_job = np.searchsorted(job, _numbers(chunk.tasks, "job"))
    per_stage = np.bincount(
        first_stage[task_job] + _numbers(chunk.tasks, "stage"), minlength=chunk.stages.num_rows
    )
    tasks = pa.StructArray.from_arrays(
        [_whole(chunk.tasks, f.name) for f in _TASK_FIELDS], fields=_TASK_FIELDS
    )
    task_lists = pa.ListArray.from_arrays(_offsets(per_stage), tasks, type=_TASK_LIST)
    stages = pa.StructArray.from_arrays(
        [*(_whole(chunk.stages, f.name) for f in _STAGE_FIELDS), task_lists], fields=list(_STAGE_STRUCT)
    )
    stage_lists = pa.ListArray.from_arrays(_offsets(per_job), stages, type=_STAGE_LIST)
    return pa.table([*chunk.jobs.columns, stage_lists], schema=FILE_SCHEMA)


def _flatten(batch: pa.RecordBatch) -> TraceChunk:
    job = _numbers(batch, "job")
    stage_lists = batch.column("stages")
    per_job = np.diff(stage_lists.offsets.to_numpy())
    stages = stage_lists.flatten()
    fields = dict(zip((f.name for f in _STAGE_STRUCT), stages.flatten(), strict=True))
    task_lists = fields["task_rows"]
    per_stage = np.diff(task_lists.offsets.to_numpy())
    tasks = dict(zip((f.name for f in _TASK_FIELDS), task_lists.flatten().flatten(), strict=True))
    stage_job = np.repeat(job, per_job)
    first_stage = np.repeat(
        np.concatenate(([0], np.cumsum(per_job)[:-1])) if len(per_job) else per_job, per_job
    )
    stage_number = (np.arange(len(stage_job)) - first_stage).astype(np.int32)
    fields |= {"job": pa.array(stage_job), "stage": pa.array(stage_number)}
    tasks |= {
        "job": pa.array(np.repeat(stage_job, per_stage)),
        "stage": pa.array(np.repeat(stage_number, per_stage)),
    }
    return TraceChunk(
        pa.table([batch.column(f.name) for f in JOB_SCHEMA], schema=JOB_SCHEMA),
        pa.table([fields[f.name] for f in STAGE_SCHEMA], schema=STAGE_SCHEMA),
        pa.table([tasks[f.name] for f in TASK_SCHEMA], schema=TASK_SCHEMA),
    )
