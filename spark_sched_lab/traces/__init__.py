"""Workloads: one columnar form, readers for public traces and Spark event logs, generators, statistics.

Start with `read_trace` (whole trace) or `open_trace` (chunks of whole jobs, bounded memory).
"""

from spark_sched_lab.traces.parquet_io import write_trace
from spark_sched_lab.traces.read_report import BadRow, ReadReport
from spark_sched_lab.traces.readers import FORMATS, TraceReader, open_trace, read_trace
from spark_sched_lab.traces.tables import Machine, Trace, TraceChunk, TraceMeta

__all__ = [
    "FORMATS",
    "BadRow",
    "Machine",
    "ReadReport",
    "Trace",
    "TraceChunk",
    "TraceMeta",
    "TraceReader",
    "open_trace",
    "read_trace",
    "write_trace",
]
