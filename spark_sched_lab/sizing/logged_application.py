"""One application's jobs, tasks and executors, from its log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from spark_sched.errors import BadInputError
from spark_sched_lab.traces import Trace
from spark_sched_lab.traces.jobs import Executed, JobRecord, chunked
from spark_sched_lab.traces.read_report import ReadReport
from spark_sched_lab.traces.readers import open_trace
from spark_sched_lab.traces.readers.spark_eventlog import SparkEventLogReader
from spark_sched_lab.usage import Usage, is_recorded, usage_of_event_log, usage_of_recorded


@dataclass(frozen=True, slots=True)
class Ran:
    """One job, apart from its slot time.

    Attributes:
        wait_s: from its submission to its first task; None: not recorded.
        priority: its mark, if it had one.
        executed: run and CPU time of its attempts.
        unseen: attempts whose CPU time is not recorded, or is only that of a thread that waited for a Python
            worker, a piped command or a GPU.
    """

    wait_s: float | None = None
    priority: int | None = None
    executed: tuple[Executed, ...] = ()
    unseen: int = 0


@dataclass(frozen=True, slots=True)
class LoggedApplication:
    """One application.

    Attributes:
        properties: Spark's, as the log shows them; None: the log has none.
        usage: its executors, attempts and holds.
        ran: its jobs, by the name they have in ``usage``.
        shapes: number of executors by cores and slots; empty if cores are not recorded.
        report: the lines that could not be used, and what the log lacks.
    """

    log: Path
    usage: Usage
    name: str = ""
    properties: Mapping[str, str] | None = None
    ran: Mapping[str, Ran] = field(default_factory=dict)
    shapes: Mapping[tuple[int, int], int] = field(default_factory=dict)
    report: ReadReport = field(default_factory=ReadReport)


def read_application(path: Path, progress: Callable[[int], None] = lambda read: None) -> LoggedApplication:
    """The application of a Spark event log, or of the file that the planner recorded; ``progress`` gets the
    bytes that were read. Raises BadInputError if the file is neither, or damaged."""
    if path.is_file() and is_recorded(path):
        report = ReadReport()
        return LoggedApplication(path, usage_of_recorded(path, progress, report), report=report)
    reader = open_trace(path, progress=progress)
    if not isinstance(reader, SparkEventLogReader):
        raise BadInputError(f"{path} is not a Spark event log but {reader.title}: give an event log")
    jobs = list(reader.sound())
    if not jobs and reader.report.bad_rows:
        raise reader.unusable()
    trace = Trace.from_chunks(chunked(jobs), reader.meta)
    shapes = Counter(
        (int(machine.cpus), machine.slots)
        for machine in trace.meta.machines
        if machine.cpus is not None and machine.slots
    )
    return LoggedApplication(
        path,
        usage_of_event_log(trace),
        next((name for job in jobs if (name := (job.features or {}).get("app_name"))), ""),
        reader.properties or None,
        {str(number): _ran(job) for number, job in enumerate(jobs)},
        shapes,
        reader.report,
    )


def _ran(job: JobRecord) -> Ran:
    executed: list[Executed] = []
    unseen = 0
    for stage in job.stages:
        known = [one for one in stage.rows.executed if one is not None and not stage.outside]
        executed += known
        ended = sum(duration_s is not None for duration_s in stage.rows.duration_s)
        unseen += ended - len(known)
    waited = job.submit_s is not None and job.start_s is not None
    wait_s = max(0.0, job.start_s - job.submit_s) if waited else None  # type: ignore[operator]
    return Ran(wait_s, job.priority, tuple(executed), unseen)
