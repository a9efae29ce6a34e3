"""One reader per format. `open_trace` finds the right one, or names the format of the input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from spark_sched.errors import BadInputError, did_you_mean
from spark_sched_lab.traces.lines import Progress
from spark_sched_lab.traces.readers.alibaba2018 import Alibaba2018Reader
from spark_sched_lab.traces.readers.base import TraceReader
from spark_sched_lab.traces.readers.google2011 import Google2011JobsReader, Google2011Reader
from spark_sched_lab.traces.readers.google2019 import Google2019Reader
from spark_sched_lab.traces.readers.lists import HawkReader, SwfReader, SwimReader
from spark_sched_lab.traces.readers.parquet import ParquetTraceReader
from spark_sched_lab.traces.readers.profiles import PolimiStagesReader, TpchProfilesReader
from spark_sched_lab.traces.readers.sniff import looks_like
from spark_sched_lab.traces.readers.spark_eventlog import SparkEventLogReader
from spark_sched_lab.traces.tables import Trace

__all__ = ["FORMATS", "TraceReader", "open_trace", "read_trace"]

#: Every format by the name that ``--format`` takes. A new one: a reader, a line here, a line in `sniff`.
FORMATS: dict[str, type[TraceReader]] = {
    reader.format: reader
    for reader in (
        Alibaba2018Reader,
        Google2011Reader,
        Google2011JobsReader,
        Google2019Reader,
        HawkReader,
        ParquetTraceReader,
        PolimiStagesReader,
        SparkEventLogReader,
        SwfReader,
        SwimReader,
        TpchProfilesReader,
    )
}


def open_trace(
    path: Path | str, format: str | None = None, *, progress: Progress | None = None, **options: Any
) -> TraceReader:
    """The reader for ``path``. Only the beginning of the file is read at this point.

    Args:
        format: one of `FORMATS`; found from the content if not given.
        progress: called with the number of input bytes read since the last call.
        options: the reader's own (``executors`` for ``tpch_profiles``).

    Raises:
        BadInputError: the input does not exist, cannot be read, or has an unknown format or a format other
            than ``format``.
    """
    path = Path(path)
    if format is not None and format not in FORMATS:
        raise BadInputError(
            f"trace format {format!r} is unknown{did_you_mean(format, FORMATS)}: use one of "
            f"{', '.join(sorted(FORMATS))}"
        )
    found, words = looks_like(path)
    if found is None and path.is_dir():
        raise BadInputError(f"{path} is {words}")
    if found is None:
        if format:
            raise BadInputError(f"{path} is not a {format} trace but looks like {words}: give another file")
        known = ", ".join(sorted(FORMATS))
        raise BadInputError(
            f"{path} has no known trace format but looks like {words}: give a trace of {known}"
        )
    if format is not None and found != format:
        raise BadInputError(f"{path} is not a {format} trace but looks like {words}: read it as {found}")
    reader = FORMATS[found]
    try:
        return reader(path, progress, **options)
    except TypeError:
        if not options:
            raise
        raise BadInputError(
            f"the reader of {found} has no option {', '.join(sorted(options))}: leave it out"
        ) from None


def read_trace(path: Path | str, format: str | None = None, **options: Any) -> Trace:
    """The whole trace in memory; arguments and errors as `open_trace` and `TraceReader.chunks`."""
    return open_trace(path, format, **options).read()
