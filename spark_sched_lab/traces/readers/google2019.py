"""Google's 2019 tables (``collection_events``, ``instance_events``) as exported from BigQuery."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from spark_sched.errors import BadInputError
from spark_sched_lab.traces.jobs import JobRecord
from spark_sched_lab.traces.lines import Progress
from spark_sched_lab.traces.readers.base import BadField, TraceReader, not_negative, text_of, whole
from spark_sched_lab.traces.readers.cluster_events import (
    END,
    OTHER,
    SCHEDULE,
    SUBMIT,
    ClusterEvent,
    JobAssembler,
    in_time_order,
    seconds,
)

#: Event types of the 2019 trace, by number and by name.
_NAMES = (
    "SUBMIT",
    "QUEUE",
    "ENABLE",
    "SCHEDULE",
    "EVICT",
    "FAIL",
    "FINISH",
    "KILL",
    "LOST",
    "UPDATE_PENDING",
    "UPDATE_RUNNING",
)
_MEANING = {
    "SUBMIT": (SUBMIT, "unknown"),
    "SCHEDULE": (SCHEDULE, "unknown"),
    "EVICT": (END, "evicted"),
    "FAIL": (END, "failed"),
    "FINISH": (END, "finished"),
    "KILL": (END, "killed"),
    "LOST": (END, "lost"),
}
#: Columns that become features of a job.
_KEPT = ("scheduling_class", "parent_collection_id", "vertical_scaling", "scheduler", "collection_name")
JsonObject = dict[str, Any]


class Google2019Reader(TraceReader):
    """A folder with ``collection_events*`` and ``instance_events*`` (in time order), or one such file.

    JSON lines or CSV with a header, plain, gzip or zstd. Collections of type 1 (alloc sets) are reservations,
    not jobs; they and their instances are skipped and counted. Requests are in normalised compute units.
    """

    format = "google2019"
    title = "Google 2019 event tables"

    def __init__(self, path: Path, progress: Progress | None = None) -> None:
        super().__init__(path, progress)
        self.meta = replace(self.meta, cpu_unit="normalised compute unit", memory_unit="largest machine = 1")
        found = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
        self.collections = [p for p in found if "collection_events" in _place(p, path)]
        self.instances = [p for p in found if "instance_events" in _place(p, path)]
        if path.is_file() and not self.collections and not self.instances:
            first = next(iter(self._raw(path)), None)
            is_instance = first is not None and "instance_index" in first[1]
            (self.instances if is_instance else self.collections).append(path)
            self.report = type(self.report)()
        if not self.collections and not self.instances:
            raise BadInputError(
                f"{path} has no collection_events* and no instance_events* file: check the folder"
            )
        self._alloc_sets: set[str] = set()

    def files(self) -> list[Path]:
        return [*self.collections, *self.instances]

    def records(self) -> Iterator[JobRecord]:
        assembler = JobAssembler(self.report, known_jobs=bool(self.collections))
        streams = [
            self._events(self.collections, self._collection),
            self._events(self.instances, self._instance),
        ]
        yield from assembler.assemble(in_time_order(streams))

    def _events(
        self, files: list[Path], parse: Callable[[JsonObject, str, int], ClusterEvent | None]
    ) -> Iterator[ClusterEvent]:
        for path in files:
            for number, row, line in self._raw(path):
                try:
                    event = parse(row, str(path), number)
                except BadField as reason:
                    self.report.bad(str(path), number, str(reason), line)
                    continue
                if event is not None:
                    yield event

    def _raw(self, path: Path) -> Iterator[tuple[int, JsonObject, bytes]]:
        header: list[str] | None = None
        for number, line in self.rows(path):
            try:
                if line.lstrip().startswith(b"{"):
                    yield number, _json(line), line
                    continue
                cells = next(csv.reader([text_of(line, "row")]))
                if header is None:
                    header = cells
                    self.report.rows -= 1
                    if "collection_id" not in header:
                        raise BadField("the first line is not a header with collection_id")
                    continue
                if len(cells) != len(header):
                    raise BadField(f"{len(cells)} columns instead of {len(header)}")
            except (BadField, csv.Error) as reason:
                self.report.bad(str(path), number, str(reason), line)
                continue
            yield number, dict(zip(header, cells, strict=True)), line

    def _collection(self, row: JsonObject, file: str, number: int) -> ClusterEvent | None:
        common = _common(row)
        job = common[1]
        if str(_get(row, "collection_type") or "0") in ("1", "ALLOC_SET"):
            if job not in self._alloc_sets:
                self.report.notes["alloc sets (reservations, no jobs)"] += 1
            self._alloc_sets.add(job)
            return None
        features = {name: text for name in _KEPT if (text := _text(row, name)) is not None}
        after = row.get("start_after_collection_ids")
        if after:
            features["start_after"] = " ".join(map(str, after)) if isinstance(after, list) else str(after)
        return ClusterEvent(
            file,
            number,
            *common,
            _get(row, "missing_type") not in (None, 0, "0"),
            user=_text(row, "user"),
            name=_text(row, "collection_logical_name"),
            priority=_whole(row, "priority"),
            features=features,
        )

    def _instance(self, row: JsonObject, file: str, number: int) -> ClusterEvent | None:
        common = _common(row)
        job = common[1]
        if job in self._alloc_sets or str(_get(row, "collection_type") or "0") in ("1", "ALLOC_SET"):
            return None
        index = _whole(row, "instance_index")
        if index is None or not 0 <= index < 2**31:
            raise BadField(f"instance_index is {index}")
        request = row.get("resource_request")
        cpus = request.get("cpus") if isinstance(request, dict) else row.get("resource_request.cpus")
        memory = request.get("memory") if isinstance(request, dict) else row.get("resource_request.memory")
        return ClusterEvent(
            file,
            number,
            *common,
            _get(row, "missing_type") not in (None, 0, "0"),
            task=index,
            priority=_whole(row, "priority"),
            machine=_text(row, "machine_id"),
            cpus=None if cpus in (None, "") else not_negative(str(cpus), "cpus"),
            memory=None if memory in (None, "") else not_negative(str(memory), "memory"),
        )


def _place(path: Path, root: Path) -> str:
    return str(path.relative_to(root)) if path != root else path.name


def _json(line: bytes) -> JsonObject:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise BadField("not a JSON object") from None
    if not isinstance(row, dict):
        raise BadField("not a JSON object")
    return row


def _get(row: JsonObject, name: str) -> Any:
    value = row.get(name)
    return None if value == "" else value


def _text(row: JsonObject, name: str) -> str | None:
    value = _get(row, name)
    return None if value is None else str(value)


def _whole(row: JsonObject, name: str) -> int | None:
    value = _get(row, name)
    return None if value is None else whole(str(value), name)


def _common(row: JsonObject) -> tuple[float | None, str, str, str]:
    time_us = _whole(row, "time")
    job = _whole(row, "collection_id")
    if time_us is None or time_us < 0 or job is None:
        raise BadField(f"time is {time_us}, collection_id is {job}")
    kind = str(_get(row, "type"))
    if kind.isdigit() and int(kind) < len(_NAMES):
        kind = _NAMES[int(kind)]
    if kind not in _NAMES:
        raise BadField(f"type {kind!r} is unknown")
    what, outcome = _MEANING.get(kind, (OTHER, "unknown"))
    return seconds(time_us), str(job), what, outcome
