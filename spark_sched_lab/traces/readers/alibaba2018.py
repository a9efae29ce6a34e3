"""Alibaba's cluster-trace-v2018: the ``batch_task`` table, and the per-task CSVs with a header cut from
it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from spark_sched_lab.traces.grouping import grouped
from spark_sched_lab.traces.jobs import JobRecord, StageRecord, widest
from spark_sched_lab.traces.lines import Progress
from spark_sched_lab.traces.readers.base import (
    BadField,
    TraceReader,
    fields_of,
    not_negative,
    positive,
    text_of,
)

#: ``M3_1_2`` is task 3 and needs 1 and 2; ``Stg…`` and other suffixes name no task.
_DAG_NAME = re.compile(r"^[A-Z]+(\d+)((?:_(?:\d+|Stg\d+|[A-Za-z]\w*?))*)$")
_OUTCOMES = {
    "Terminated": "finished",
    "Failed": "failed",
    "Cancelled": "killed",
    "Interrupted": "killed",
    "Running": "unknown",
    "Waiting": "unknown",
    "Ready": "unknown",
}
#: ``batch_task.csv`` has no header.
BATCH_TASK = (
    "name",
    "instances",
    "job",
    "task_type",
    "status",
    "start_time",
    "end_time",
    "plan_cpu",
    "plan_mem",
)
_ALIASES = {"cpu_requested": "plan_cpu", "mem_requested": "plan_mem"}
_NEEDED = ("name", "instances", "job", "status", "start_time", "end_time")


class _TaskRow(NamedTuple):
    name: str
    instances: int | None
    outcome: str
    start_s: float | None
    end_s: float | None
    duration_s: float | None
    cpus: float | None
    memory: float | None
    task_type: str


class Alibaba2018Reader(TraceReader):
    """One stage per row (a *task* of Alibaba's is our stage, its *instances* are our tasks).

    Rows of a job may be anywhere in the file. If one of a job's rows is bad or names a missing parent, the
    whole job is skipped, because a part of a DAG is a different DAG. ``mean_task_s`` is the mean run time of
    the instances where the file has it (``actual_duration``), else ``duration``, else end minus start (an
    upper bound).
    """

    format = "alibaba2018"
    title = "Alibaba 2018 batch tasks"

    def __init__(self, path: Path, progress: Progress | None = None) -> None:
        super().__init__(path, progress)
        self.meta = replace(
            self.meta,
            cpu_unit="1/100 core",
            memory_unit="percent of the largest machine",
            notes=(
                "submissions are not recorded: submit_s is the first start of a task",
                "durations are good, start times are coarse: give arrivals of your own for timing studies",
            ),
        )
        self._names: Sequence[str] = BATCH_TASK
        self._broken: set[str] = set()

    def records(self) -> Iterator[JobRecord]:
        for job, lines in grouped(self._keyed_rows(), self.size_bytes):
            if job in self._broken:
                self.report.notes["jobs skipped because one of their rows is bad"] += 1
                continue
            try:
                yield _job(job, [_parse(self._cells(line)) for _, line in lines])
            except BadField as reason:
                self.report.bad(str(self.path), lines[0][0], str(reason), lines[0][1])

    def _keyed_rows(self) -> Iterator[tuple[str, int, bytes]]:
        """Checks each row before it is grouped, so that line numbers and reasons are the row's own."""
        # Empty lines are not rows, so the first row need not be the first line.
        for row, (number, line) in enumerate(self.rows(self.path)):
            if row == 0:
                header = [c.decode("utf-8", "replace").strip() for c in line.split(b",")]
                if set(_NEEDED) <= set(header):
                    self.report.rows -= 1
                    self._names = tuple(_ALIASES.get(name, name) for name in header)
                    continue
            job = ""
            try:
                cells = self._cells(line)
                job = text_of(cells["job"], "job")
                if not job or "\t" in job:
                    raise BadField(f"job name {job!r} is empty or missing")
                _parse(cells)
            except BadField as reason:
                self.report.bad(str(self.path), number, str(reason), line)
                if job:
                    self._broken.add(job)
                continue
            yield job, number, line

    def _cells(self, line: bytes) -> dict[str, bytes]:
        """A row by the names of its columns."""
        cells = fields_of(line, b",", len(self._names))
        # Files made with pandas write nan where the original is empty.
        return {n: b"" if cell == b"nan" else cell for n, cell in zip(self._names, cells, strict=True)}


def _parse(cells: Mapping[str, bytes]) -> _TaskRow:
    status = text_of(cells["status"], "status")
    if status not in _OUTCOMES:
        raise BadField(f"status {status!r} is unknown")
    outcome = _OUTCOMES[status]
    start_s, end_s = (_time(cells[name], name) for name in ("start_time", "end_time"))
    duration_s = None
    for name in ("actual_duration", "duration"):
        if duration_s is None and cells.get(name):
            duration_s = not_negative(cells[name], name)
    if start_s is not None and end_s is not None:
        if end_s < start_s:
            raise BadField(f"ends {start_s - end_s:g} s before it starts")
        if duration_s is None and outcome == "finished":
            duration_s = end_s - start_s
    instances = cells["instances"]  # empty for tasks that never started
    cpus, memory = cells.get("plan_cpu"), cells.get("plan_mem")
    return _TaskRow(
        text_of(cells["name"], "name"),
        positive(instances, "instances") if instances else None,
        outcome,
        start_s,
        end_s,
        duration_s,
        not_negative(cpus, "plan_cpu") if cpus else None,
        not_negative(memory, "plan_mem") if memory else None,
        text_of(cells.get("task_type", b""), "task type"),
    )


def _time(cell: bytes, what: str) -> float | None:
    # Alibaba writes 0 where a task has not started or not ended.
    return not_negative(cell, what) or None if cell else None


def _job(job: str, tasks: list[_TaskRow]) -> JobRecord:
    numbered: dict[int, _TaskRow] = {}
    parents: dict[int, tuple[int, ...]] = {}
    loose: list[_TaskRow] = []
    for task in tasks:
        match = _DAG_NAME.match(task.name)
        if match is None:
            loose.append(task)  # ``task_…`` and ``MergeTask``: independent work
            continue
        key = int(match[1])
        if key in numbered:
            raise BadField(f"job {job} has task {key} twice ({numbered[key].name} and {task.name})")
        numbered[key] = task
        parents[key] = tuple(int(p) for p in match[2].split("_") if p.isdigit())
    order = _topological(job, parents)
    place = {key: index for index, key in enumerate(order)}
    stages: list[StageRecord] = []
    for key in order:
        stages.append(_stage(numbered[key], tuple(sorted({place[p] for p in parents[key]}))))
    stages.extend(_stage(task, ()) for task in loose)
    starts = [t.start_s for t in tasks if t.start_s is not None]
    ends = [t.end_s for t in tasks if t.end_s is not None]
    outcomes = {t.outcome for t in tasks}
    outcome = next(o for o in ("failed", "killed", "unknown", "finished") if o in outcomes)
    start_s = min(starts, default=None)
    end_s = max(ends) if len(ends) == len(tasks) else None
    return JobRecord(
        job,
        outcome,
        "malleable",
        stages,
        submit_s=start_s,
        start_s=start_s,
        end_s=end_s,
        runtime_s=end_s - start_s if start_s is not None and end_s is not None else None,
        slots=widest(stages),
    )


def _stage(task: _TaskRow, parents: tuple[int, ...]) -> StageRecord:
    return StageRecord(
        tasks=task.instances,
        parents=parents,
        source_id=task.name,
        name=task.task_type or None,
        mean_task_s=task.duration_s,
        submit_s=task.start_s,
        end_s=task.end_s,
        outcome=task.outcome,
        cpus=task.cpus,
        memory=task.memory,
    )


def _topological(job: str, parents: dict[int, tuple[int, ...]]) -> list[int]:
    order: list[int] = []
    placed: set[int] = set()
    left = sorted(parents)
    while left:
        ready = [key for key in left if placed.issuperset(parents[key])]
        if not ready:
            key = left[0]
            missing = [p for p in parents[key] if p not in parents]
            why = f"needs task {missing[0]}, which does not exist" if missing else "is part of a cycle"
            raise BadField(f"task {key} of job {job} {why}")
        order += ready
        placed.update(ready)
        left = [key for key in left if key not in placed]
    return order
