"""The base of every reader: chunks of whole jobs, a report, metadata; and small parsers of fields."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar, TypeVar

from spark_sched.errors import BadInputError
from spark_sched_lab.traces.jobs import JobRecord, chunked
from spark_sched_lab.traces.lines import Progress, lines
from spark_sched_lab.traces.read_report import ReadReport
from spark_sched_lab.traces.tables import Trace, TraceChunk, TraceMeta

#: Rows after which a file without one good row is refused: it is of another format, or damaged through and
#: through.
_ALL_BAD = 200

_Item = TypeVar("_Item")


class BadField(Exception):
    """A row cannot be used; the message is the reason that the report shows."""


class LeftOut(Exception):
    """A valid row that is not a job, for the reason in the message: a note of the report, not bad."""


class TraceReader:
    """Reads one source. Use `chunks` (once) or `read`; `report` and `meta` are complete afterwards.

    A subclass implements `records`. ``size_bytes`` is the sum of the bytes passed to the ``progress``
    callback.
    """

    format: ClassVar[str]
    title: ClassVar[str]
    #: Whether `records` itself leaves out jobs with a `JobRecord.problem`, to report their line.
    checks_jobs: ClassVar[bool] = False

    def __init__(self, path: Path, progress: Progress | None = None) -> None:
        self.path = path
        self.progress = progress
        self.report = ReadReport()
        self.meta = TraceMeta(self.format, path.name)

    def files(self) -> list[Path]:
        """The files that are read, in order."""
        return [self.path]

    @property
    def size_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.files())

    def records(self) -> Iterator[JobRecord]:
        raise NotImplementedError

    def chunks(self) -> Iterator[TraceChunk]:
        """Chunks of whole jobs, in bounded memory.

        Raises:
            BadInputError: unreadable or damaged, or not one usable row.
        """
        yield from chunked(self.sound())
        if self.report.bad_rows and self.report.bad_rows >= self.report.rows > 0:
            raise self.unusable()

    def read(self) -> Trace:
        """The whole trace in memory; raises as `chunks`."""
        chunks = list(self.chunks())
        return Trace.from_chunks(chunks, self.meta)

    def unusable(self) -> BadInputError:
        first = self.report.examples[0] if self.report.examples else None
        return BadInputError(
            f"{self.path} has no usable row of {self.title}"
            f"{f' (first: {first})' if first else ''}: check the file, or name its format"
        )

    def sound(self) -> Iterator[JobRecord]:
        """The valid records; the others are counted in the report."""
        if self.checks_jobs:
            yield from self.records()
            return
        for record in self.records():
            problem = record.problem()
            if problem is None:
                yield record
            else:
                self.report.bad(str(self.path), 0, f"job {record.source_id} skipped: {problem}")

    def rows(self, path: Path) -> Iterator[tuple[int, bytes]]:
        """Lines of ``path``, counted in the report. Stops early at a file whose rows are all bad."""
        good_before = self.report.rows - self.report.bad_rows
        for count, (number, line) in enumerate(lines(path, self.report, self.progress), 1):
            self.report.rows += 1
            yield number, line
            if count == _ALL_BAD and self.report.rows - self.report.bad_rows <= good_before:
                raise self.unusable()

    def parsed(self, path: Path, parse: Callable[[bytes, int], _Item]) -> Iterator[_Item]:
        """What ``parse`` makes of each line and its number; lines that it refuses are in the report."""
        for line_number, line in self.rows(path):
            try:
                item = parse(line, line_number)
            except LeftOut as reason:
                self.report.notes[str(reason)] += 1
            except BadField as reason:
                self.report.bad(str(path), line_number, str(reason), line)
            else:
                yield item


class JobPerLineReader(TraceReader):
    """A source with one job a line; a subclass implements `parse`."""

    checks_jobs = True

    def records(self) -> Iterator[JobRecord]:
        seen: set[str] = set()

        def checked(line: bytes, line_number: int) -> JobRecord | None:
            job = self.parse(line, line_number)
            if job is not None:
                if job.source_id in seen:
                    raise BadField(f"job {job.source_id} is a duplicate")
                problem = job.problem()
                if problem:
                    raise BadField(problem)
                seen.add(job.source_id)
            return job

        for job in self.parsed(self.path, checked):
            if job is None:
                self.report.rows -= 1  # a comment, no row
            else:
                yield job

    def parse(self, line: bytes, line_number: int) -> JobRecord | None:
        """The job of a line, or None for a comment; may raise `BadField` and `LeftOut`."""
        raise NotImplementedError


def whole(text: bytes | str, what: str) -> int:
    """A whole number (``12`` or ``12.0``), or `BadField`."""
    try:
        return int(text)
    except ValueError:
        value = number(text, what)
        if value != int(value):
            raise BadField(f"{what} is {_shown(text)}, not a whole number") from None
        return int(value)


def number(text: bytes | str, what: str) -> float:
    """A finite number, or `BadField`."""
    try:
        value = float(text)
    except ValueError:
        raise BadField(f"{what} is {_shown(text)}, not a number") from None
    if not math.isfinite(value):
        raise BadField(f"{what} is {_shown(text)}, not a finite number")
    return value


def positive(text: bytes | str, what: str) -> int:
    """A whole number of at least 1, or `BadField`."""
    value = whole(text, what)
    if value < 1:
        raise BadField(f"{what} is {value}, not at least 1")
    return value


def not_negative(text: bytes | str, what: str) -> float:
    """A finite number of at least 0, or `BadField`."""
    value = number(text, what)
    if value < 0:
        raise BadField(f"{what} is {value:g}, below 0")
    return value


def text_of(raw: bytes, what: str) -> str:
    """UTF-8 text, or `BadField`."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise BadField(f"{what} is not UTF-8 text") from None


def fields_of(line: bytes, separator: bytes | None, wanted: int, at_most: int | None = None) -> list[bytes]:
    """Columns of a row, or `BadField` if their number is wrong."""
    found = line.split(separator)
    if not wanted <= len(found) <= (at_most or wanted):
        raise BadField(f"{len(found)} columns instead of {wanted}")
    return found


def _shown(text: bytes | str) -> str:
    plain = text.decode("utf-8", "backslashreplace") if isinstance(text, bytes) else text
    return repr(plain[:30])
