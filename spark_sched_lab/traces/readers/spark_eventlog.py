"""Spark event logs: one file, a rolled log in its parts, or a folder of logs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from spark_sched.errors import BadInputError
from spark_sched_lab.traces.jobs import JobRecord
from spark_sched_lab.traces.lines import Progress, Truncated, blocks, lines, parse_json
from spark_sched_lab.traces.read_report import ReadReport
from spark_sched_lab.traces.readers.base import TraceReader
from spark_sched_lab.traces.readers.json_values import is_spread, objects
from spark_sched_lab.traces.readers.spark_app import NOT_AN_EVENT, SparkApplication
from spark_sched_lab.traces.readers.spark_files import EVENT, find_logs, missing_parts
from spark_sched_lab.traces.readers.spark_measured import Measured

_ORIGIN = re.compile(rb'"Timestamp"\s*:\s*(\d{1,18})\b')
#: The start of an application stands within the first lines of its log.
_ORIGIN_LINES = 50


class SparkEventLogReader(TraceReader):
    """Jobs, stages and task attempts of Spark applications (written by Spark 3.5 to 4.x; older ones can
    also be read).

    A *job* is the same as for the live scheduler, with the same keys: ``mark-…``, ``group-…``, ``sql-…``,
    ``spark-…`` (with the application's id in front if there are several). Only a Spark job's start makes a
    job; a stage is a stage only if it was submitted. Time 0 is the first application's start. ``features``
    has ``app`` and ``app_name``. ``meta.parameters["measured"]`` is what this project's scheduler wrote of
    its jobs (`Measured`), where it did.

    A log without its end (``.inprogress``, a crashed driver) is read to its last line; what had not ended
    is ``unknown``, task attempts without a duration. ``meta.parameters["last_event_s"]`` is the time of the
    last event. Events for stages whose start is not in the log are counted in the report's notes.
    """

    format = "spark_eventlog"
    title = "Spark event logs"

    def __init__(self, path: Path, progress: Progress | None = None) -> None:
        super().__init__(path, progress)
        #: Spark's properties of the application that was read last.
        self.properties: dict[str, str] = {}
        #: What this project's scheduler wrote into the logs that were read.
        self.measured = Measured()
        found = find_logs(path)
        self._logs = found.logs
        self.report.left_out += found.left_out
        if missing := sum(map(missing_parts, found.logs)):
            self.report.missing["parts of rolled logs"] += missing
        if not self._logs:
            raise BadInputError(
                f"{path} contains no Spark event log: give an event log, an eventlog_v2_* directory or a "
                "folder of them"
            )

    def files(self) -> list[Path]:
        return [part for log in self._logs for part in log]

    def records(self) -> Iterator[JobRecord]:
        starts = [at_ms for log in self._logs if (at_ms := _starts_ms(log[0])) is not None]
        origin_ms = min(starts, default=None)
        self.meta = replace(self.meta, origin_epoch_ms=origin_ms)
        taken: set[str] | None = set() if len(self._logs) > 1 else None
        for log in self._logs:
            app = SparkApplication(self.report, origin_ms, taken=taken)
            for part in log:
                yield from self._part(app, part)
            yield from app.finish()
            self.properties = app.properties
            self.measured = self.measured.plus(app.measured)
            self.meta = replace(
                self.meta,
                origin_epoch_ms=app.origin_ms,
                machines=(*self.meta.machines, *app.executors.machines()),
                parameters={
                    **self.meta.parameters,
                    "spark_versions": _with(self.meta.parameters, app.about.version),
                    "last_event_s": max(self.meta.parameters.get("last_event_s", 0.0), app.last_s),
                    **({"measured": self.measured.to_parameters()} if self.measured.events else {}),
                },
            )

    def _part(self, app: SparkApplication, part: Path) -> Iterator[JobRecord]:
        file = str(part)
        for number, line in self._event_lines(part):
            match = EVENT.match(line)
            if match is None:
                self.report.bad(file, number, "no Spark event", line)
                continue
            kind = match[1].decode()
            parsed = app.reads(kind)
            # Most of a log's bytes are SQL plans that nothing here needs: not parsed, but they must be whole.
            if not parsed and not line.rstrip().endswith(b"}"):
                self.report.bad(file, number, "the event is cut off", line)
                continue
            try:
                if not parsed:
                    yield from app.other(kind, line)
                    continue
                event: dict[str, Any] = parse_json(line)
                yield from app.apply(kind, event)
            except NOT_AN_EVENT as error:
                what = f"{kind.rsplit('.', 1)[-1]} cannot be read ({type(error).__name__}: {error})"
                self.report.bad(file, number, what, line)

    def _event_lines(self, part: Path) -> Iterator[tuple[int, bytes]]:
        """The events of a file, a line each; in the file they may span lines, as ``jq .`` writes them."""
        try:
            spread = is_spread(next(blocks(part, check=False), b""))
        except Truncated:
            spread = False
        if not spread:
            yield from self.rows(part)
            return
        for number, text in objects(lines(part, self.report, self.progress), str(part)):
            self.report.rows += 1
            try:
                event = parse_json(text)
                ordered = {"Event": event["Event"], **event}
            except NOT_AN_EVENT:
                self.report.bad(str(part), number, "no Spark event", text)
                continue
            yield number, json.dumps(ordered, separators=(",", ":")).encode()


def _starts_ms(path: Path) -> int | None:
    for count, (_, line) in enumerate(lines(path, ReadReport(), check=False)):
        match = EVENT.match(line)
        if match is not None and match[1] == b"SparkListenerApplicationStart":
            stamp = _ORIGIN.search(line)
            return int(stamp[1]) if stamp else None
        if count >= _ORIGIN_LINES:
            break
    return None


def _with(parameters: dict[str, Any], version: str | None) -> list[str]:
    return sorted({*parameters.get("spark_versions", []), *([version] if version else [])})
