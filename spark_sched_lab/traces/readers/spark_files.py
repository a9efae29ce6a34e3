"""The files of Spark event logs: single ones, rolled ones in their parts, and folders of them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from spark_sched.errors import BadInputError
from spark_sched.files import kind_of
from spark_sched_lab.traces.lines import Truncated, blocks
from spark_sched_lab.traces.readers.json_values import json_keys

EVENT = re.compile(rb'^\s*\{\s*"Event"\s*:\s*"([\w.$]+)"')
_SUFFIX = r"(\.(?:zstd|zst|lz4|lzf|snappy|gz))?"
#: Spark's own parts: number and application.
_PART = re.compile(rf"^events_(\d+)_(.+?){_SUFFIX}(\.compact)?$")
#: Databricks' parts: a part of an hour or so by its beginning; the one without a time is the latest.
_HOURLY = re.compile(rf"^eventlog(?:-(\d{{4}}-\d\d-\d\d--\d\d-\d\d))?{_SUFFIX}$")


@dataclass
class FoundLogs:
    """Event logs, each as its files in order; ``left_out``: sentences about what is there and not read."""

    logs: list[list[Path]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def find_logs(path: Path) -> FoundLogs:
    """The logs under ``path``: a file, a folder, or one log of a folder, named by `name_of`.

    Only regular files are read. A folder that links lead back to is read once.
    """
    found = FoundLogs()
    if kind_of(path) is None:
        found.logs.append([path])
    elif path.is_dir():
        _walk(path, found, set())
    elif "*" in path.name and path.parent.is_dir():
        for log in _logs_in(path.parent, found):
            if name_of(log) == path:
                found.logs.append(log)
    return found


def name_of(log: list[Path]) -> Path:
    """A path that stands for this log alone: its file, or a pattern of its parts."""
    first = log[0]
    if len(log) == 1:
        return first
    part = _PART.match(first.name)
    return first.with_name(f"events_*_{part[2]}" if part else "eventlog*")


def missing_parts(log: list[Path]) -> int:
    """How many parts of a rolled log are not there, by the numbers of the others."""
    parts = [part for path in log if (part := _PART.match(path.name))]
    if not parts:
        return 0
    before_first = 0 if parts[0][4] else int(parts[0][1]) - 1  # a compacted part stands for those before it
    return before_first + int(parts[-1][1]) - int(parts[0][1]) + 1 - len(parts)


def is_event_log(path: Path) -> bool:
    """Whether ``path`` begins with a Spark event. Raises BadInputError for what cannot be unpacked."""
    try:
        block = next(blocks(path, check=False), b"")
    except Truncated:
        return False
    return EVENT.match(block) is not None or "Event" in json_keys(block)


def _walk(folder: Path, found: FoundLogs, seen: set[tuple[int, int]]) -> None:
    here = folder.stat()
    if (here.st_dev, here.st_ino) in seen:
        found.left_out.append(f"{folder} is a link to a folder that is read already")
        return
    seen.add((here.st_dev, here.st_ino))
    found.logs += _logs_in(folder, found)
    for entry in _entries(folder, found):
        if entry.is_dir():
            _walk(entry, found, seen)


def _entries(folder: Path, found: FoundLogs) -> list[Path]:
    try:
        return sorted(Path(entry.path) for entry in os.scandir(folder))
    except OSError as error:
        found.left_out.append(f"{folder} cannot be read ({error.strerror})")
        return []


def _logs_in(folder: Path, found: FoundLogs) -> Iterator[list[Path]]:
    """The logs whose files are in this very folder."""
    whole = folder.name.startswith("eventlog_v2_")
    rolled: dict[str, list[tuple[int, bool, Path]]] = {}
    hourly: list[tuple[str, Path]] = []
    single: list[Path] = []
    for entry in _entries(folder, found):
        kind = kind_of(entry)
        if kind == "a folder":
            continue
        if kind is not None:
            found.left_out.append(f"{entry} is {kind}")
        elif part := _PART.match(entry.name):
            rolled.setdefault(part[2], []).append((int(part[1]), bool(part[4]), entry))
        elif hour := _HOURLY.match(entry.name):
            hourly.append((hour[1] or "9999", entry))
        else:
            single.append(entry)
    logs = [_in_order(parts) for _, parts in sorted(rolled.items())]
    if len(hourly) > 1:
        logs.append([entry for _, entry in sorted(hourly)])
    else:
        single += [entry for _, entry in hourly]
    for log in logs + [[entry] for entry in sorted(single)]:
        try:
            if (whole and len(log) > 1) or is_event_log(log[0]):
                yield log
        except BadInputError as why:
            found.left_out.append(str(why))


def _in_order(parts: list[tuple[int, bool, Path]]) -> list[Path]:
    # Compaction: a .compact file stands for all up to its number.
    first = max((number for number, compact, _ in parts if compact), default=0)
    used = [part for part in sorted(parts) if part[0] > first or (part[0] == first and part[1])]
    return [path for _, _, path in used]
