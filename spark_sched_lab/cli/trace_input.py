"""A trace as a command's input: a progress bar while it is read, and a list of skipped rows at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from spark_sched.terminal import reading_bar, say

if TYPE_CHECKING:
    from spark_sched_lab.traces import TraceReader
    from spark_sched_lab.traces.read_report import ReadReport

_Read = TypeVar("_Read")


@contextmanager
def reading(path: Path, format_: str | None, executors: int | None) -> Iterator[TraceReader]:
    """An open reader with a progress bar on standard error if that is a terminal."""
    from spark_sched_lab.traces import open_trace

    with reading_bar() as bar:
        task = bar.add_task(f"reading {path.name}", total=None)
        options = {} if executors is None else {"executors": executors}
        reader = open_trace(path, format_, progress=partial(bar.advance, task), **options)
        bar.update(task, total=reader.size_bytes)
        yield reader


def say_report(report: ReadReport) -> None:
    """Print on standard error which rows could not be read or were not used."""
    if report.bad_rows:
        say(f"{report.bad_rows:,} of {report.rows:,} rows could not be read:")
        for row in report.examples:
            say(f"  {row}")
        if report.bad_rows > len(report.examples):
            say(f"  … and {report.bad_rows - len(report.examples):,} more")
    for note, count in sorted(report.notes.items()):
        say(f"not used: {count:,} {note}")
    for sentence in report.left_out:
        say(f"left out: {sentence}")
    for lack, count in sorted(report.missing.items()):
        say(f"missing: {count:,} {lack}")


def each_log(path: Path, read: Callable[[Path, Callable[[int], None]], _Read]) -> list[_Read]:
    """The results of ``read`` for every log under a path, with a progress bar; it reports the bytes read."""
    from spark_sched_lab.whatif import logs_under

    with reading_bar() as bar:
        found = []
        left_out: list[str] = []
        for log in logs_under(path, left_out):
            size = log.stat().st_size if log.is_file() else None
            task = bar.add_task(f"reading {log.name}", total=size)
            found.append(read(log, partial(bar.advance, task)))
        for sentence in left_out:
            say(f"left out: {sentence}")
        return found
