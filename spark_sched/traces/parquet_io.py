"""A trace as one Parquet file: a row per job, its phases nested in it, their tasks nested in them.

One file, written atomically, read in chunks of whole jobs; a reader of jobs alone touches no task.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from spark_sched.errors import BadInputError
from spark_sched.traces.model import (
    JOB_SCHEMA,
    PHASE_SCHEMA,
    TASK_SCHEMA,
    Trace,
    TraceChunk,
    TraceMeta,
)

META_KEY = b"spark_sched.trace"

#: What reading a damaged file raises, here and in pyarrow.
_DAMAGE = (pa.ArrowException, OSError, ValueError, KeyError, TypeError, AttributeError, IndexError)

_TASK_FIELDS = [f for f in TASK_SCHEMA if f.name not in ("job", "phase")]
_TASK_LIST = pa.list_(pa.field("task", pa.struct(_TASK_FIELDS), nullable=False))
_PHASE_FIELDS = [f for f in PHASE_SCHEMA if f.name not in ("job", "phase")]
_PHASE_STRUCT = pa.struct([*_PHASE_FIELDS, pa.field("task_rows", _TASK_LIST, nullable=False)])
_PHASE_LIST = pa.list_(pa.field("phase", _PHASE_STRUCT, nullable=False))
FILE_SCHEMA = pa.schema([*JOB_SCHEMA, pa.field("phases", _PHASE_LIST, nullable=False)])


def write_trace(trace: Trace, path: Path | str) -> None:
    """Write a whole trace; nothing is left at ``path`` if that fails. The same trace gives the same bytes."""
    write_chunks(trace.chunks(), path, lambda: trace.meta)


def write_chunks(chunks: Iterable[TraceChunk], path: Path | str, meta: Callable[[], TraceMeta]) -> int:
    """Write chunks as they come, one row group each; ``meta`` is asked after the last one. Returns the jobs
    written.

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


def read_meta(path: Path) -> TraceMeta:
    """Raises `BadInputError` for a damaged file, or one that is no trace."""
    try:
        found = (pq.read_metadata(path).metadata or {}).get(META_KEY)
    except _DAMAGE as error:
        raise BadInputError(
            f"{path} is a damaged Parquet file ({_first_line(error)}): write it again"
        ) from None
    if found is None:
        raise BadInputError(
            f"{path} is Parquet but no trace of this project: make one with 'spark-sched trace convert'"
        )
    try:
        return TraceMeta.from_json(found.decode())
    except BadInputError:
        raise
    except _DAMAGE as error:
        raise BadInputError(f"{path} is a damaged trace ({_first_line(error)}): write it again") from None


def read_chunks(
    path: Path, *, jobs: int = 20_000, progress: Callable[[int], None] | None = None
) -> Iterator[TraceChunk]:
    """Chunks of at most ``jobs`` jobs; ``progress`` is told the file's bytes in proportion to the jobs read.

    Raises:
        BadInputError: the file is damaged.
    """
    read_meta(path)
    size = path.stat().st_size
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
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
    except BadInputError:
        raise
    except _DAMAGE as error:
        raise BadInputError(
            f"{path} is a damaged Parquet file ({_first_line(error)}): write it again"
        ) from None


def _first_line(error: BaseException) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _numbers(table: pa.Table | pa.RecordBatch, name: str) -> npt.NDArray[np.int64]:
    column = table.column(name)
    return np.asarray(column.to_numpy(), dtype=np.int64)


def _whole(table: pa.Table, name: str) -> pa.Array:
    column = table.column(name).combine_chunks()
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _offsets(counts: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(np.concatenate(([0], np.cumsum(counts))).astype(np.int32))


def _nest(chunk: TraceChunk) -> pa.Table:
    job = _numbers(chunk.jobs, "job")
    phase_row = np.searchsorted(job, _numbers(chunk.phases, "job"))
    per_job = np.bincount(phase_row, minlength=len(job))
    first_phase = np.concatenate(([0], np.cumsum(per_job)))
    task_job = np.searchsorted(job, _numbers(chunk.tasks, "job"))
    per_phase = np.bincount(
        first_phase[task_job] + _numbers(chunk.tasks, "phase"), minlength=chunk.phases.num_rows
    )
    tasks = pa.StructArray.from_arrays(
        [_whole(chunk.tasks, f.name) for f in _TASK_FIELDS], fields=_TASK_FIELDS
    )
    task_lists = pa.ListArray.from_arrays(_offsets(per_phase), tasks, type=_TASK_LIST)
    phases = pa.StructArray.from_arrays(
        [*(_whole(chunk.phases, f.name) for f in _PHASE_FIELDS), task_lists], fields=list(_PHASE_STRUCT)
    )
    phase_lists = pa.ListArray.from_arrays(_offsets(per_job), phases, type=_PHASE_LIST)
    return pa.table([*chunk.jobs.columns, phase_lists], schema=FILE_SCHEMA)


def _flatten(batch: pa.RecordBatch) -> TraceChunk:
    job = _numbers(batch, "job")
    phase_lists = batch.column("phases")
    per_job = np.diff(phase_lists.offsets.to_numpy())
    phases = phase_lists.flatten()
    fields = dict(zip((f.name for f in _PHASE_STRUCT), phases.flatten(), strict=True))
    task_lists = fields["task_rows"]
    per_phase = np.diff(task_lists.offsets.to_numpy())
    tasks = dict(zip((f.name for f in _TASK_FIELDS), task_lists.flatten().flatten(), strict=True))
    phase_job = np.repeat(job, per_job)
    first_phase = np.repeat(
        np.concatenate(([0], np.cumsum(per_job)[:-1])) if len(per_job) else per_job, per_job
    )
    phase_number = (np.arange(len(phase_job)) - first_phase).astype(np.int32)
    fields |= {"job": pa.array(phase_job), "phase": pa.array(phase_number)}
    tasks |= {
        "job": pa.array(np.repeat(phase_job, per_phase)),
        "phase": pa.array(np.repeat(phase_number, per_phase)),
    }
    return TraceChunk(
        pa.table([batch.column(f.name) for f in JOB_SCHEMA], schema=JOB_SCHEMA),
        pa.table([fields[f.name] for f in PHASE_SCHEMA], schema=PHASE_SCHEMA),
        pa.table([tasks[f.name] for f in TASK_SCHEMA], schema=TASK_SCHEMA),
    )
