"""Traces that this package wrote."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from spark_sched_lab.traces.lines import Progress
from spark_sched_lab.traces.parquet_io import read_chunks, read_meta
from spark_sched_lab.traces.readers.base import TraceReader
from spark_sched_lab.traces.tables import TraceChunk


class ParquetTraceReader(TraceReader):
    """A file of ``trace convert`` or ``trace generate``; its columns are `model.TABLES`."""

    format = "parquet"
    title = "traces of this project"

    def __init__(self, path: Path, progress: Progress | None = None) -> None:
        super().__init__(path, progress)
        self.meta = read_meta(path)

    def chunks(self) -> Iterator[TraceChunk]:
        for chunk in read_chunks(self.path, progress=self.progress):
            self.report.rows += chunk.jobs.num_rows
            yield chunk
