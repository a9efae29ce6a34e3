"""Results of an A/B test in a folder: the suite's text, and one JSON line per finished run.

A run counts when its line is on the disk with its newline. A process that is killed while it writes leaves a
line without one; the next process cuts it off and repeats that run.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import IO, Any

from filelock import FileLock, Timeout

from spark_sched.errors import BadInputError
from spark_sched.files import read_text, write_whole
from spark_sched_lab.runs.ab.schedule import RunKey
from spark_sched_lab.runs.ab.suite import Suite, parse_suite

SUITE_FILE = "suite.toml"
RUNS_FILE = "runs.jsonl"
BASIS_FILE = "basis.json"


@dataclass(frozen=True)
class Record:
    """The result of one run. Times are in seconds, slot time in slot-seconds.

    ``held_idle_slot_s`` is what reservations kept idle, out of ``slots × jct_s``; ``background_jct_s`` is the
    mean over the background's jobs, None without a background. ``values`` are the workload's results.
    """

    block: int
    workload: str
    setting: str
    seed: int
    jct_s: float
    held_idle_slot_s: float = 0.0
    holds_expired: int = 0
    copies_launched: int = 0
    copies_won: int = 0
    copies_wasted_s: float = 0.0
    background_jct_s: float | None = None
    background_makespan_s: float | None = None
    values: tuple[float, ...] = ()

    @property
    def key(self) -> RunKey:
        return RunKey(self.block, self.workload, self.setting)


class RunStore:
    """The runs of one folder, in the order in which they ended."""

    def __init__(self, file: IO[bytes], records: dict[RunKey, Record]) -> None:
        self._file = file
        self.records = records

    def append(self, record: Record) -> None:
        """Add a run; on return it is on the disk."""
        self._file.write(json.dumps(asdict(record)).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.records[record.key] = record

    def add_missing(self, path: Path) -> set[RunKey]:
        """Append the runs of another file of this suite that are missing here; returns all that are there.

        A run that both have stays as it is here. Raises BadInputError if the file is damaged.
        """
        found = _finished(path)
        for key, record in found.items():
            if key not in self.records:
                self.append(record)
        return set(found)


@contextmanager
def open_store(directory: Path, suite: Suite, basis: Mapping[str, Any]) -> Iterator[RunStore]:
    """The folder's store for this suite, new or begun earlier; ``basis`` says where the runs take place.

    Raises BadInputError if the folder belongs to another suite or basis, another process uses it, or its runs
    cannot be read.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInputError(
            f"--out is {str(directory)!r} but cannot be made ({error.strerror}): name another"
        ) from None
    lock = FileLock(directory / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise BadInputError(
            f"--out is {str(directory)!r}, which another run uses: wait or name another"
        ) from None
    except OSError as error:
        raise _unusable(directory, error) from None
    try:
        _claim(directory, suite, basis)
        try:
            file = (directory / RUNS_FILE).open("ab+")
        except OSError as error:
            raise _unusable(directory / RUNS_FILE, error) from None
        with file:
            yield RunStore(file, _whole_records(file, directory / RUNS_FILE))
    finally:
        lock.release()


def _unusable(path: Path, error: OSError) -> BadInputError:
    return BadInputError(
        f"{str(path)!r} cannot be written ({error.strerror}): name another --out, or remove this file"
    )


def read_results(directory: Path) -> tuple[Suite, dict[str, Any], dict[RunKey, Record]]:
    """Suite, basis and runs of a folder, also of a running test. Raises BadInputError if it has none."""
    if not (directory / SUITE_FILE).is_file():
        raise BadInputError(
            f"{str(directory)!r} has no {SUITE_FILE}: name the folder of a `spark-sched ab run --out`"
        )
    suite = parse_suite(read_text(directory / SUITE_FILE), str(directory / SUITE_FILE))
    return suite, _basis(directory / BASIS_FILE), _finished(directory / RUNS_FILE)


def _claim(directory: Path, suite: Suite, basis: Mapping[str, Any]) -> None:
    known, where = directory / SUITE_FILE, directory / BASIS_FILE
    if not known.exists():
        # The suite comes last: a folder that has one is complete.
        write_whole(where, json.dumps(dict(basis), indent=1) + "\n")
        write_whole(known, suite.text)
        return
    if read_text(known) != suite.text:
        raise BadInputError(
            f"--out is {str(directory)!r}, which has runs of another suite or another version of it: name "
            "another folder"
        )
    earlier = _basis(where)
    if earlier["on"] != basis["on"]:
        raise BadInputError(
            f"--out is {str(directory)!r}, whose runs took place on {earlier['on']}, not on {basis['on']}: "
            "name another folder"
        )


def _basis(path: Path) -> dict[str, Any]:
    """Where the runs of a folder took place. Raises BadInputError if the file does not say so."""
    try:
        found = json.loads(read_text(path))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("on"), str):
        raise BadInputError(
            f"{str(path)!r} does not say where the runs took place: remove its folder, or name another"
        )
    return found


def _whole_records(file: IO[bytes], path: Path) -> dict[RunKey, Record]:
    """Read the runs and cut off a line that was not finished."""
    file.seek(0)
    lines = file.read()
    end = lines.rfind(b"\n") + 1
    if end < len(lines):
        file.truncate(end)
    file.seek(0, os.SEEK_END)
    return _records(lines[:end], path)


def _finished(path: Path) -> dict[RunKey, Record]:
    """The runs of a file, without an unfinished last line; no runs if the file is missing."""
    lines = path.read_bytes() if path.is_file() else b""
    return _records(lines[: lines.rfind(b"\n") + 1], path)


def _records(lines: bytes, path: Path) -> dict[RunKey, Record]:
    names = {field.name for field in fields(Record)}
    found: dict[RunKey, Record] = {}
    for number, line in enumerate(lines.splitlines(), 1):
        try:
            row = json.loads(line)
            record = Record(**{**{k: row[k] for k in row if k in names}, "values": tuple(row["values"])})
            _check(record)
        except (ValueError, TypeError, KeyError, RecursionError):
            raise BadInputError(f"line {number} of {str(path)!r} is not a run: remove that line") from None
        found[record.key] = record
    return found


def _check(record: Record) -> None:
    """Raises ValueError for a run that no report could count, TypeError for one of wrong types."""
    if not (type(record.block) is int and record.block >= 0 and type(record.seed) is int):
        raise ValueError("the run has no number")
    if not all(isinstance(x, str) for x in (record.workload, record.setting)):
        raise ValueError("the run is not named")
    numbers = (
        record.held_idle_slot_s,
        record.holds_expired,
        record.copies_launched,
        record.copies_won,
        record.copies_wasted_s,
    )
    times_s = (record.jct_s, record.background_jct_s, record.background_makespan_s)
    if not all(time_s is None or 0.0 < time_s < math.inf for time_s in times_s) or record.jct_s is None:
        raise ValueError("a job took no time")
    if not all(0.0 <= number < math.inf for number in numbers):
        raise ValueError("a number is missing")
    if not all(type(value) in (int, float) for value in record.values):
        raise TypeError("a result is not a number")
