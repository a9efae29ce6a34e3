"""One job a line: Hawk/Eagle task lists, the Standard Workload Format, SWIM's Facebook samples."""

from __future__ import annotations

import math
from dataclasses import replace

from spark_sched_lab.traces.jobs import JobRecord, StageRecord, TaskRows
from spark_sched_lab.traces.readers.base import (
    BadField,
    JobPerLineReader,
    LeftOut,
    fields_of,
    not_negative,
    number,
    positive,
    text_of,
    whole,
)

#: Relative difference between a Hawk row's mean and the mean of its durations that printing digits can
#: explain.
_MEAN_TOLERANCE = 1e-3


class HawkReader(JobPerLineReader):
    """``arrival_s n_tasks mean_task_s dur_1 … dur_n``, as the Hawk and Eagle simulators read it. Tasks are
    independent; jobs have no id (theirs is ``line-N``), name, user or priority."""

    format = "hawk"
    title = "a Hawk/Eagle task list"

    def parse(self, line: bytes, line_number: int) -> JobRecord | None:
        cells = line.split()
        if len(cells) < 4:
            raise BadField(f"{len(cells)} columns instead of 3 and one for each task")
        submit_s = not_negative(cells[0], "arrival")
        tasks = positive(cells[1], "number of tasks")
        mean_s = not_negative(cells[2], "mean duration")
        if len(cells) != 3 + tasks:
            raise BadField(f"{len(cells) - 3} durations for {tasks} tasks")
        rows = TaskRows()
        for index, cell in enumerate(cells[3:]):
            rows.add(index, not_negative(cell, "duration"))
        measured = math.fsum(d for d in rows.duration_s if d is not None) / tasks
        if abs(measured - mean_s) > _MEAN_TOLERANCE * max(measured, mean_s) + 1e-6:
            raise BadField(f"mean duration {mean_s:g} s is not the durations' mean {measured:g} s")
        stage = StageRecord(tasks=tasks, rows=rows)
        return JobRecord(
            f"line-{line_number}", "finished", "malleable", [stage], submit_s=submit_s, slots=tasks
        )


class SwfReader(JobPerLineReader):
    """The Standard Workload Format (Feitelson's Parallel Workloads Archive), version 2: 18 columns, ``-1``
    unknown.

    A job is a gang of ``allocated processors`` (else the requested ones) for ``run time``: one stage, whose
    tasks were not measured one by one. Jobs without processors or run time are skipped and counted.
    """

    format = "swf"
    title = "the Standard Workload Format"

    def parse(self, line: bytes, line_number: int) -> JobRecord | None:
        if line.lstrip().startswith(b";"):
            self._header(line)
            return None
        cells = [number(cell, f"column {i}") for i, cell in enumerate(fields_of(line, None, 18), 1)]
        known = [None if value < 0 else value for value in cells]
        submit_s, wait_s, runtime_s = known[1], known[2], known[3]
        processors = known[4] or known[7]
        if known[0] is None or submit_s is None:
            raise BadField("no job number or submit time")
        if runtime_s is None or not processors:
            raise LeftOut("jobs without run time or processors")
        if int(cells[10]) in (2, 3, 4):
            raise LeftOut("parts of checkpointed jobs (the whole has a row of its own)")
        outcome = {1: "finished", 0: "failed", 5: "killed"}.get(int(cells[10]), "unknown")
        names = {"group": 12, "executable": 13, "queue": 14, "partition": 15}
        features = {name: str(int(cells[i])) for name, i in names.items() if cells[i] >= 0}
        start_s = None if wait_s is None else submit_s + wait_s
        end_s = None if start_s is None else start_s + runtime_s
        slots = int(processors)
        stage = StageRecord(
            tasks=slots,
            mean_task_s=runtime_s,
            submit_s=submit_s,
            end_s=end_s,
            delay_s=0.0,
            outcome=outcome,
            memory=known[9] * 1024 if known[9] is not None else None,
        )
        return JobRecord(
            str(int(known[0])),
            outcome,
            "gang",
            [stage],
            name=features.get("executable"),
            user=None if known[11] is None else str(int(known[11])),
            submit_s=submit_s,
            start_s=start_s,
            end_s=end_s,
            runtime_s=runtime_s,
            slots=slots,
            estimate_s=known[8],
            features=features,
        )

    def _header(self, line: bytes) -> None:
        key, _, value = line.decode("utf-8", "replace").strip("; \t").partition(":")
        if key == "UnixStartTime" and value.strip().isdigit():
            self.meta = replace(self.meta, origin_epoch_ms=int(value) * 1000)


class SwimReader(JobPerLineReader):
    """SWIM's samples of Facebook's MapReduce traces: arrivals and bytes; the source has no durations and no
    users.

    A stage ``map`` and, where bytes are shuffled, a stage ``reduce``; SWIM says nothing about their tasks, so
    their number is null.
    """

    format = "swim"
    title = "SWIM's Facebook samples"

    def parse(self, line: bytes, line_number: int) -> JobRecord | None:
        cells = [cell for cell in line.rstrip(b"\t ").split(b"\t") if cell]
        if not 6 <= len(cells) <= 7:
            raise BadField(f"{len(cells)} columns instead of 6 or 7")
        submit_s = not_negative(cells[1], "submit time")
        not_negative(cells[2], "inter-arrival time")
        read, shuffled, written = (whole(c, "bytes") for c in cells[3:6])
        if min(read, shuffled, written) < 0:
            raise BadField("a negative number of bytes")
        if not self.meta.notes:
            self.meta = replace(
                self.meta, notes=("no durations and no task counts: arrivals and bytes only",)
            )
        stages = [StageRecord(tasks=None, name="map", input_bytes=read, shuffle_bytes=shuffled)]
        if shuffled:
            stages.append(StageRecord(tasks=None, name="reduce", parents=(0,), output_bytes=written))
        else:
            stages[0].output_bytes = written
        features = {"input_path": text_of(cells[6], "input path")} if len(cells) == 7 else None
        return JobRecord(
            text_of(cells[0], "job id"), "unknown", "malleable", stages, submit_s=submit_s, features=features
        )
