"""Workloads: one columnar form, readers for public traces and Spark event logs, generators, statistics.

Start with `read_trace` (whole trace) or `open_trace` (chunks of whole jobs, bounded memory).
"""

from spark_sched.traces.parquet_io import write_trace
from spark_sched.traces.read_report import BadRow, ReadReport
from spark_sched.traces.readers import FORMATS, TraceReader, open_trace, read_trace
from spark_sched.traces.tables import Machine, Trace, TraceChunk, TraceMeta

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
