"""Appends every event to a file, as lines of JSON."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from io import FileIO
from typing import Any

from spark_sched.files import PRIVATE


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, PRIVATE)


class EventRecorder:
    """Records raw events, including those of unknown types, and adds a line where a reset began.

    One unbuffered write per batch: nothing is lost when the planner is killed, and lines of two applications
    that share a file stay whole. Only the owner can read a new file. If the file cannot be written, the
    recorder logs one warning and records nothing; the planner continues.
    """

    def __init__(self, path: str, log: logging.Logger) -> None:
        self._log = log
        self._path = path
        self._file: FileIO | None = None
        try:
            self._file = FileIO(path, "a", opener=_private)
        except OSError as error:
            self._give_up(error)

    def record(self, batch: Mapping[str, Any]) -> None:
        """Append a decoded JSON batch that has been checked.

        Events told again of what is over are left out: the file may have them already.
        """
        if self._file is None:
            return
        lines = [
            {
                "type": "reset",
                "time_ms": batch["now_ms"],
                "version": batch["version"],
                "dropped": batch["dropped"],
            }
        ]
        lines = (lines if batch["reset"] else []) + [
            event for event in batch["events"] if event.get("past") is not True
        ]
        if lines:
            text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
            try:
                self._file.write(text.encode())
            except OSError as error:
                self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self._file = None
        self._log.warning(
            "spark.sched.events.path is %r but cannot be written (%s): events are not recorded",
            self._path,
            error.strerror or error,
        )
