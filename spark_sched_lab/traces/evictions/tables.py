"""The events that an eviction analysis needs, merged in time order: task events, machine removals, usage."""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from spark_sched.errors import BadInputError
from spark_sched_lab.traces.lines import Progress, lines
from spark_sched_lab.traces.read_report import ReadReport
from spark_sched_lab.traces.readers.base import BadField, fields_of, not_negative, whole
from spark_sched_lab.traces.readers.cluster_events import AFTER_END_US
from spark_sched_lab.traces.readers.google2011 import parts_of

#: Event types of ``task_events`` (the trace's format document).
SUBMIT, SCHEDULE, EVICT, FAIL, FINISH, KILL, LOST = range(7)
#: Our own event types, for rows of the other two tables.
MACHINE_REMOVED, MACHINE_ADDED, USAGE = 20, 21, 22

_TABLES = ("machine_events", "task_events", "task_usage")


class TraceEvent(NamedTuple):
    """One event. ``time_us`` 0 means "before the trace"; requests and usage are fractions of the largest
    machine, None where the row has none. For usage: CPU rate, maximum memory, mean disk, mean memory."""

    time_us: int
    kind: int
    job: int = 0
    task: int = 0
    machine: int = -1
    priority: int = -1
    cpus: float | None = None
    memory: float | None = None
    disk: float | None = None
    mean_memory: float | None = None
    end_us: int = 0


class EvictionTables:
    """A folder with ``task_events`` and optionally ``machine_events`` and ``task_usage``.

    Raises:
        BadInputError: there is no ``task_events`` table in the folder.
    """

    def __init__(self, path: Path, progress: Progress | None = None) -> None:
        self.path = path
        self.report = ReadReport()
        self._progress = progress
        self.parts = {name: parts_of(path, name) for name in _TABLES}
        if not self.parts["task_events"]:
            raise BadInputError(f"{path} has no task_events: give the folder with task_events/part-*")
        for name, parts in self.parts.items():
            missing = _missing(parts)
            if missing:
                self.report.notes[f"parts of {name} are missing between the first and the last"] = missing

    @property
    def size_bytes(self) -> int:
        """Compressed bytes of all parts: the sum passed to the progress callback."""
        return sum(part.stat().st_size for parts in self.parts.values() for part in parts)

    def keep_contiguous(self) -> None:
        """Drop the usage table and everything after the first missing part of ``task_events``."""
        parts = self.parts["task_events"]
        while _missing(parts):
            parts = parts[:-1]
        self.parts["task_events"], self.parts["task_usage"] = parts, []

    def has(self, table: str) -> bool:
        return bool(self.parts[table])

    def rows(self) -> Iterator[TraceEvent]:
        """All rows in time order; of one instant machine events come first, then task events,
        then usage, since an attempt's first usage begins with it.

        Raises:
            BadInputError: a file cannot be read, or no row of ``task_events`` can be used.
        """
        streams = [
            self._table("machine_events", _machine_event),
            self._table("task_events", _task_event),
            self._table("task_usage", _usage),
        ]
        used = False
        for row in heapq.merge(*streams, key=lambda row: row.time_us):
            used = used or row.kind <= LOST
            yield row
        if not used:
            first = f" (first: {self.report.examples[0]})" if self.report.examples else ""
            raise BadInputError(f"{self.path} has no usable row of task_events{first}: check the files")

    def _table(self, name: str, parse: Callable[[bytes], TraceEvent | None]) -> Iterator[TraceEvent]:
        before_us = 0
        for part in self.parts[name]:
            for number, line in lines(part, self.report, self._progress):
                self.report.rows += 1
                try:
                    row = parse(line)
                    if row is None:
                        continue
                    if row.time_us < before_us:
                        raise BadField(f"time goes back {(before_us - row.time_us) / 1e6:g} s")
                except BadField as reason:
                    self.report.bad(str(part), number, str(reason), line)
                    continue
                before_us = row.time_us
                yield row


def _missing(parts: list[Path]) -> int:
    """Part numbers (``part-00014-of-00500``) that are missing between the smallest and the largest."""
    numbers = [int(found[1]) for part in parts if (found := re.match(r"part-(\d+)", part.name))]
    return max(numbers) - min(numbers) + 1 - len(set(numbers)) if numbers else 0


def _task_event(line: bytes) -> TraceEvent | None:
    cells = fields_of(line, b",", 13)
    kind = whole(cells[5], "event type")
    if kind in (7, 8):  # updates of a pending or running task's requests
        return None
    if not 0 <= kind <= LOST:
        raise BadField(f"event type {kind} is unknown")
    time_us = whole(cells[0], "time")
    if time_us < 0:
        raise BadField(f"time is {time_us}")
    if time_us == AFTER_END_US:
        return None
    return TraceEvent(
        time_us,
        kind,
        whole(cells[2], "job id"),
        whole(cells[3], "task index"),
        whole(cells[4], "machine id") if cells[4] else -1,
        whole(cells[8], "priority"),
        not_negative(cells[9], "CPU request") if cells[9] else None,
        not_negative(cells[10], "memory request") if cells[10] else None,
        not_negative(cells[11], "disk request") if cells[11] else None,
    )


def _machine_event(line: bytes) -> TraceEvent | None:
    cells = fields_of(line, b",", 6)
    kind = whole(cells[2], "event type")
    if kind not in (0, 1):
        return None
    machine = whole(cells[1], "machine id")
    return TraceEvent(
        whole(cells[0], "time"), MACHINE_REMOVED if kind == 1 else MACHINE_ADDED, machine=machine
    )


def _usage(line: bytes) -> TraceEvent | None:
    cells = fields_of(line, b",", 19, at_most=20)
    return TraceEvent(
        whole(cells[0], "start time"),
        USAGE,
        whole(cells[2], "job id"),
        whole(cells[3], "task index"),
        whole(cells[4], "machine id") if cells[4] else -1,
        cpus=not_negative(cells[5], "CPU rate") if cells[5] else None,
        memory=not_negative(cells[10], "maximum memory usage") if cells[10] else None,
        disk=not_negative(cells[12], "local disk usage") if cells[12] else None,
        mean_memory=not_negative(cells[6], "canonical memory usage") if cells[6] else None,
        end_us=whole(cells[1], "end time"),
    )
