"""Google's clusterdata-2011-2: the event tables, and the per-job table derived from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from spark_sched.errors import BadInputError
from spark_sched_lab.traces.jobs import JobRecord
from spark_sched_lab.traces.lines import Progress
from spark_sched_lab.traces.readers.base import (
    BadField,
    JobPerLineReader,
    TraceReader,
    fields_of,
    not_negative,
    text_of,
    whole,
)
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
from spark_sched_lab.traces.tables import Machine

#: event type: what it does, and the outcome it stands for (the trace's format document, table "event types").
EVENTS = {
    0: (SUBMIT, "unknown"),
    1: (SCHEDULE, "unknown"),
    2: (END, "evicted"),
    3: (END, "failed"),
    4: (END, "finished"),
    5: (END, "killed"),
    6: (END, "lost"),
    7: (OTHER, "unknown"),
    8: (OTHER, "unknown"),
}
TABLES = ("job_events", "task_events", "machine_events")


class Google2011Reader(TraceReader):
    """``job_events``, ``task_events`` and ``machine_events``: a folder with some of them, one of them, or one
    part.

    A job is one stage of independent tasks; every attempt of a task is a row, with how it ended. Task and CPU
    requests are fractions of the largest machine. Without ``job_events`` jobs have no name and end with their
    last task. Times are the trace's own (it starts at 600 s); time 0 means "before", so those starts are
    null.
    """

    format = "google2011"
    title = "Google 2011 event tables"

    def __init__(self, path: Path, progress: Progress | None = None) -> None:
        super().__init__(path, progress)
        self.meta = replace(self.meta, cpu_unit="largest machine = 1", memory_unit="largest machine = 1")
        self.tables = {name: parts_of(path, name) for name in TABLES}
        if not any(self.tables.values()) and path.is_file():
            self.tables[_table_of(path)] = [path]
        if not self.tables["job_events"] and not self.tables["task_events"]:
            raise BadInputError(
                f"{path} has neither job_events nor task_events: give the folder that holds them"
            )

    def files(self) -> list[Path]:
        return [part for name in TABLES for part in self.tables[name]]

    def records(self) -> Iterator[JobRecord]:
        self.meta = replace(self.meta, machines=tuple(self._machines()))
        assembler = JobAssembler(self.report, known_jobs=bool(self.tables["job_events"]))
        streams = [self._events("job_events", _job_event), self._events("task_events", _task_event)]
        yield from assembler.assemble(in_time_order(streams))

    def _events(self, table: str, parse: Callable[[str, bytes, int], ClusterEvent]) -> Iterator[ClusterEvent]:
        for part in self.tables[table]:
            yield from self.parsed(part, partial(parse, str(part)))

    def _machines(self) -> Iterator[Machine]:
        open_spans: dict[str, Machine] = {}
        for part in self.tables["machine_events"]:
            for at_s, removed, machine in self.parsed(part, _machine_event):
                old = open_spans.pop(machine.machine, None)
                if old is not None:
                    yield replace(old, removed_s=at_s)
                if not removed:
                    open_spans[machine.machine] = machine
        yield from open_spans.values()


def parts_of(path: Path, table: str) -> list[Path]:
    """The files of a table in the folder of all tables, or in its own, in order."""
    folder = path if path.name == table else path / table
    return sorted(p for p in folder.glob("part-*") if p.is_file()) if folder.is_dir() else []


def _table_of(path: Path) -> str:
    for name in TABLES:
        if name in (path.parent.name, path.name.split(".")[0]) or path.name.startswith(name):
            return name
    from spark_sched_lab.traces.lines import lines
    from spark_sched_lab.traces.read_report import ReadReport

    for _, line in lines(path, ReadReport()):
        return {8: "job_events", 13: "task_events"}.get(line.count(b",") + 1, "machine_events")
    return "job_events"


def _machine_event(line: bytes, _: int) -> tuple[float, bool, Machine]:
    """When, whether the machine was removed, and the machine from then on."""
    cells = fields_of(line, b",", 6)
    at_us, kind = whole(cells[0], "time"), whole(cells[2], "event type")
    cpus = not_negative(cells[4], "CPUs") if cells[4] else None
    memory = not_negative(cells[5], "memory") if cells[5] else None
    name, at_s = str(whole(cells[1], "machine id")), at_us / 1e6
    return at_s, kind == 1, Machine(name, cpus=cpus, memory=memory, added_s=at_s if at_us else None)


def _common(cells: list[bytes], event_at: int) -> tuple[float | None, str, str, str]:
    time_us = whole(cells[0], "time")
    if time_us < 0:
        raise BadField(f"time is {time_us}")
    kind = whole(cells[event_at], "event type")
    if kind not in EVENTS:
        raise BadField(f"event type {kind} is unknown")
    what, outcome = EVENTS[kind]
    job = str(whole(cells[2], "job id"))
    return seconds(time_us), job, what, outcome


def _job_event(file: str, line: bytes, number: int) -> ClusterEvent:
    cells = fields_of(line, b",", 8)
    common = _common(cells, 3)
    features = {}
    if cells[5]:
        features["scheduling_class"] = str(whole(cells[5], "scheduling class"))
    if cells[6]:
        features["job_name"] = text_of(cells[6], "job name")
    return ClusterEvent(
        file,
        number,
        *common,
        bool(cells[1]),
        user=text_of(cells[4], "user") or None,
        name=text_of(cells[7], "logical name") or None,
        features=features,
    )


def _task_event(file: str, line: bytes, number: int) -> ClusterEvent:
    cells = fields_of(line, b",", 13)
    common = _common(cells, 5)
    index = whole(cells[3], "task index")
    if index < 0 or index >= 2**31:
        raise BadField(f"task index is {index}")
    return ClusterEvent(
        file,
        number,
        *common,
        bool(cells[1]),
        task=index,
        user=text_of(cells[6], "user") or None,
        priority=whole(cells[8], "priority"),
        machine=text_of(cells[4], "machine") or None,
        cpus=not_negative(cells[9], "CPU request") if cells[9] else None,
        memory=not_negative(cells[10], "memory request") if cells[10] else None,
    )


class Google2011JobsReader(JobPerLineReader):
    """One row per job, made from all job_events:
    ``job_id,user,logical_name,sched_class,submit_us,schedule_us,end_us, end_event,n_schedules``. No
    priorities, no tasks: jobs have no stages."""

    format = "google2011_jobs"
    title = "the per-job table of Google 2011"
    HEADER = b"job_id,user,logical_name,sched_class,submit_us,schedule_us,end_us,end_event,n_schedules"

    def __init__(self, path: Path, progress: Progress | None = None) -> None:
        super().__init__(path, progress)
        self.meta = replace(self.meta, notes=("no task counts, durations of tasks or priorities",))
        self._header_seen = False  # empty lines are not parsed, so it need not be the first line

    def parse(self, line: bytes, line_number: int) -> JobRecord | None:
        if not self._header_seen:
            self._header_seen = True
            return None
        cells = fields_of(line, b",", 9)
        job = str(whole(cells[0], "job id"))
        submit_s, start_s, end_s = (
            (not_negative(cell, "time") / 1e6 or None) if cell else None for cell in cells[4:7]
        )
        outcome = "unknown"
        if cells[7]:
            end_event = whole(cells[7], "end event")
            what, outcome = EVENTS.get(end_event, (OTHER, "unknown"))
            if what != END:
                raise BadField(f"end event {end_event} is unknown")
        if start_s is not None and end_s is not None and end_s < start_s:
            raise BadField("ends before it starts")
        user, name, sched_class, schedules = (text_of(c, "text") for c in (*cells[1:4], cells[8]))
        return JobRecord(
            job,
            outcome,
            "malleable",
            name=name or None,
            user=user or None,
            job_class=sched_class or None,
            submit_s=submit_s,
            start_s=start_s,
            end_s=end_s,
            runtime_s=end_s - start_s if start_s is not None and end_s is not None else None,
            features={"schedules": schedules},
        )
