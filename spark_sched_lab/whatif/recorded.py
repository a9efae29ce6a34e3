"""One application as recorded in a Spark event log: its jobs, its executors and how it was scheduled."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import unquote, urlparse

from spark_sched.config import BY_NAME, POLICY_PREFIX, keys, validate
from spark_sched.errors import BadInputError
from spark_sched.files import kind_of, open_regular
from spark_sched.policies.checks import check_options
from spark_sched.units import parse_time_ms
from spark_sched_lab.simulator import LocalityWaits, MarkChange
from spark_sched_lab.traces.jobs import JobRecord, StageRecord
from spark_sched_lab.traces.lines import Progress
from spark_sched_lab.traces.readers import open_trace
from spark_sched_lab.traces.readers.spark_eventlog import SparkEventLogReader
from spark_sched_lab.traces.readers.spark_files import find_logs, name_of
from spark_sched_lab.traces.readers.spark_measured import Measured
from spark_sched_lab.traces.tables import Machine
from spark_sched_lab.usage.unlisted import most_at_once
from spark_sched_lab.whatif.changes import (
    QueuesPut,
    Switch,
    mode_switched_to,
    queues_of,
    read_changes,
    repeatable,
    switches_of,
)
from spark_sched_lab.whatif.policies import DEFAULT_POOL, Pool

#: Settings of an attached application that say where it ran, not how it scheduled.
_NOT_HOW = (
    "spark.sched.planner.python",
    "spark.sched.planner.package",
    "spark.sched.events.path",
    "spark.sched.history.path",
    "spark.sched.history.password",
)
#: How often Spark looks whether a task that runs Python was killed (as ``PythonTasks`` in the bridge).
_POLL_MS = 2_000
_ALLOCATION_FILE = "spark.scheduler.allocation.file"


@dataclass(frozen=True, slots=True)
class RecordedAttempt:
    """One attempt of a task as it ran; times in ms since the application's start, outcomes as in traces."""

    task: int
    start_ms: int
    end_ms: int
    executor: str
    outcome: str
    copy: bool
    locality: str

    @property
    def finished(self) -> bool:
        return self.outcome == "finished"


@dataclass(frozen=True)
class OperatorChanges:
    """What operators changed while an application ran.

    Attributes:
        modes: (`spark.sched.mode`) that they switched it to.
        of_jobs: changes of jobs' marks, by job; a replay repeats them.
        repeated: the same, each change in a sentence.
        for_all: switches of the policy and of the mode, and pauses of reservations; empty where nothing was
            enforced, or an earlier version's log does not say when.
        queues: other tenants' queues that they put in force; empty as ``for_all``.
        others: what else they changed, each in a sentence.
    """

    modes: tuple[str, ...] = ()
    of_jobs: Mapping[str, tuple[MarkChange, ...]] = field(default_factory=dict)
    repeated: tuple[str, ...] = ()
    for_all: tuple[Switch, ...] = ()
    queues: tuple[QueuesPut, ...] = ()
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Recorded:
    """One application.

    Attributes:
        log: what was given.
        app, version: its id and Spark's version, where the log has them.
        jobs: in the order of submission, including those without an end.
        executors: name, slots and span of time; taken from the tasks if the log does not list them.
        attached: whether it ran under this project's scheduler.
        mode: Spark's own order: ``FIFO`` or ``FAIR``.
        waits: how long tasks wait for slots near their input.
        python_kill_ms: how long a killed task that runs Python keeps its slot at most.
        settings: the ``spark.sched.*`` properties that say how it scheduled.
        allocation_file: where its FAIR pools were declared; empty: nowhere.
        notes: what the reader skipped, with counts.
        measured: the slot time of holds and copies that the scheduler logged; None: it logged none.
        changes: what operators changed while it ran.
    """

    log: Path
    app: str
    version: str
    jobs: tuple[JobRecord, ...]
    executors: tuple[Machine, ...]
    attached: bool
    mode: str
    waits: LocalityWaits
    python_kill_ms: int
    settings: Mapping[str, str]
    allocation_file: str
    notes: Mapping[str, int]
    measured: Measured | None = None
    changes: OperatorChanges = field(default_factory=OperatorChanges)

    @property
    def began_in(self) -> str:
        """The mode that an attached application began in: ``on``, ``shadow`` or ``off``."""
        return str(validate(self.settings)[keys.MODE])

    @property
    def enforced(self) -> bool:
        """Whether this project's scheduler decided what ran, when the application began."""
        return self.attached and self.began_in == "on"

    @property
    def tried_in_shadow(self) -> bool:
        """Whether it was in shadow mode for a time and the scheduler did not enforce plans when it began."""
        return self.attached and not self.enforced and "shadow" in (self.began_in, *self.changes.modes)


def logs_under(path: Path, left_out: list[str] | None = None) -> list[Path]:
    """The event logs that ``path`` is or holds: files, rolling directories, patterns of a rolled log's parts.

    ``left_out`` gets a sentence for each file that is not read.

    Raises BadInputError where there is none.
    """
    kind = kind_of(path)
    if kind is None:
        return [path]
    found = find_logs(path)
    if not found.logs:
        if kind == "missing":
            raise BadInputError(f"{path} does not exist: give a Spark event log, or a folder of them")
        if kind != "a folder":
            raise BadInputError(f"{path} is {kind}, and only regular files and folders are read: give a log")
        why = f" (left out: {'; '.join(found.left_out[:3])})" if found.left_out else ""
        raise BadInputError(
            f"{path} contains no Spark event log{why}: give an event log, an eventlog_v2_* directory or "
            "a folder of them"
        )
    if left_out is not None:
        left_out += found.left_out
    if len(found.logs) == 1 and len(found.logs[0]) > 1:
        return [path]
    # The log of a folder that has no other is the folder.
    folders = Counter(log[0].parent for log in found.logs)
    return [
        log[0].parent if len(log) > 1 and folders[log[0].parent] == 1 else name_of(log) for log in found.logs
    ]


def read_log(path: Path, progress: Progress | None = None) -> Recorded:
    """The application of one event log (plain, compressed, or a rolling directory).

    Raises BadInputError if it is not an event log, is damaged, or has no job with a task.
    """
    reader = open_trace(path, progress=progress)
    if not isinstance(reader, SparkEventLogReader):
        raise BadInputError(f"{path} is not a Spark event log but {reader.title}: give whatif an event log")
    notes: Counter[str] = Counter()
    jobs = []
    for job in reader.sound():
        ended = any(d is not None for stage in job.stages for d in stage.rows.duration_s)
        if ended and job.submit_s is not None:
            jobs.append(job)
        elif ended:
            notes["jobs that began before the log and are left out"] += 1
        else:
            notes["jobs without a task that ended"] += 1
    if not jobs and notes["jobs that began before the log and are left out"]:
        raise BadInputError(f"{path} has no job whose start is in the log: give all parts of the log")
    if not jobs:
        raise BadInputError(f"{path} has no job with a task: record one with spark.eventLog.enabled=true")
    if reader.report.bad_rows:
        notes["lines of the log that cannot be read"] += reader.report.bad_rows
    notes.update(reader.report.notes)
    notes.update(reader.report.missing)
    jobs = [replace(job, end_s=_end_s(job, reader)) for job in jobs]
    jobs.sort(key=lambda job: (job.submit_s, job.source_id))
    properties = reader.properties
    features = jobs[0].features or {}
    attached = _attached(properties)
    changes = tuple(read_changes(reader.files())) if attached and reader.measured.events else ()
    submitted_ms = {job.source_id: round((job.submit_s or 0.0) * 1000) for job in jobs}
    origin_ms = reader.meta.origin_epoch_ms or 0
    marks, repeated, others = repeatable(changes, submitted_ms, origin_ms)
    settings = _settings(properties)
    checked = validate(settings)
    for_all: list[Switch] = []
    queues: list[QueuesPut] = []
    modes = tuple(mode for mode in map(mode_switched_to, changes) if mode is not None)
    if attached and (checked[keys.MODE] == "on" or "on" in modes):
        queues, others = queues_of(others, origin_ms)
        for_all, others = switches_of(others, checked[keys.PLANNER_POLICY], checked[keys.MODE], origin_ms)
    return Recorded(
        log=path,
        app=features.get("app", ""),
        version=", ".join(reader.meta.parameters.get("spark_versions", [])),
        jobs=tuple(jobs),
        executors=tuple(_executors(reader.meta.machines, jobs)),
        attached=attached,
        mode=properties.get("spark.scheduler.mode", "FIFO").upper(),
        waits=_waits(properties, ", ".join(reader.meta.parameters.get("spark_versions", []))),
        python_kill_ms=_POLL_MS + _time_ms(properties, 2_000, "spark.python.task.killTimeout"),
        settings=settings,
        allocation_file=properties.get(_ALLOCATION_FILE, ""),
        notes=dict(notes),
        measured=reader.measured if reader.measured.events else None,
        changes=OperatorChanges(
            modes=modes,
            of_jobs=marks,
            repeated=tuple(change.what for change in repeated),
            for_all=tuple(for_all),
            queues=tuple(queues),
            others=tuple(change.what for change in others if mode_switched_to(change) is None),
        ),
    )


def _end_s(job: JobRecord, reader: SparkEventLogReader) -> float | None:
    """The job's end, on the application's clock: that of its last Spark job, or a later one that the attached
    scheduler saw."""
    seen_ms = reader.measured.ended_ms.get(job.source_id)
    if job.end_s is None or seen_ms is None:
        return job.end_s
    return max(job.end_s, (seen_ms - (reader.meta.origin_epoch_ms or 0)) / 1000.0)


def attempts_of(stage: StageRecord) -> list[RecordedAttempt]:
    """Attempts of a stage's tasks whose times are known, in the order of their launch.

    One that still ran when the log ended is left out: how long it takes is not known.
    """
    rows = stage.rows
    found = [
        RecordedAttempt(
            task,
            round(start_s * 1000),
            round((start_s + duration_s) * 1000),
            host or "",
            end,
            copy,
            near or "",
        )
        for task, start_s, duration_s, host, end, copy, near in zip(
            rows.task,
            rows.start_s,
            rows.duration_s,
            rows.host,
            rows.outcome,
            rows.copy,
            rows.locality,
            strict=True,
        )
        if start_s is not None and duration_s is not None
    ]
    found.sort(key=lambda a: (a.start_ms, a.task, a.end_ms))
    return found


def read_pools(path: Path) -> dict[str, Pool]:
    """Pools by name from an allocation file of Spark's fair scheduler. Raises BadInputError if it is not
    such a file."""
    try:
        with open_regular(path) as file:
            root = ElementTree.parse(file).getroot()
        return {
            str(pool.get("name")): Pool(
                float((pool.findtext("weight") or "1").strip()),
                int((pool.findtext("minShare") or "0").strip()),
                fair=(pool.findtext("schedulingMode") or "FIFO").strip().upper() == "FAIR",
            )
            for pool in root.iter("pool")
        }
    except OSError as error:
        raise BadInputError(f"{path} cannot be read ({error.strerror}): check the path") from None
    except (ElementTree.ParseError, ValueError) as error:
        raise BadInputError(f"{path} is not an allocation file of Spark's fair scheduler ({error})") from None


def default_pools(recorded: Recorded) -> dict[str, Pool]:
    """The pools of an application in FAIR mode that declared none.

    Since Spark 3.4 the default pool shares fairly where there is no allocation file (SPARK-42157).
    """
    old = _older(recorded.version, (3, 4))
    return {DEFAULT_POOL: Pool(fair=not old and not recorded.allocation_file)}


def local_file(uri: str) -> Path | None:
    """The file that a property names, if it is one of this machine and is there."""
    parsed = urlparse(uri)
    if not uri or parsed.scheme not in ("", "file"):
        return None
    path = Path(unquote(parsed.path))
    return path if path.is_file() else None


def _attached(properties: Mapping[str, str]) -> bool:
    # The log shows the inner master; the planner's Python is set by whatever attaches the scheduler.
    return "spark.sched.planner.python" in properties or properties.get("spark.master", "").startswith(
        "spark-sched:"
    )


def _older(version: str, line: tuple[int, int]) -> bool:
    """Whether this version of Spark is older than that line; an unknown one is not."""
    found = re.match(r"(\d+)\.(\d+)", version)
    return found is not None and (int(found[1]), int(found[2])) < line


def _waits(properties: Mapping[str, str], version: str) -> LocalityWaits:
    process_ms, node_ms, rack_ms = (
        _time_ms(properties, 3_000, f"spark.locality.wait.{level}", "spark.locality.wait")
        for level in ("process", "node", "rack")
    )
    legacy = properties.get("spark.locality.wait.legacyResetOnTaskLaunch", "false").lower() == "true"
    revive_ms = _time_ms(properties, 1_000, "spark.scheduler.revive.interval")
    return LocalityWaits(process_ms, node_ms, rack_ms, legacy or _older(version, (3, 1)), revive_ms)


def _time_ms(properties: Mapping[str, str], default_ms: int, *names: str) -> int:
    """The first of these settings that is set."""
    text = next((properties[name] for name in names if name in properties), f"{default_ms}ms")
    try:
        # Spark takes a bare number of these settings for milliseconds.
        return int(text) if text.isdecimal() else parse_time_ms(text)
    except ValueError:
        return default_ms


def _settings(properties: Mapping[str, str]) -> dict[str, str]:
    found = {}
    for name, value in properties.items():
        if name.startswith(POLICY_PREFIX) or (name in BY_NAME and name not in _NOT_HOW):
            try:
                check_options(validate({name: value}))
            except BadInputError:
                continue  # of another version of this project
            found[name] = value
    return found


def _executors(machines: Iterable[Machine], jobs: list[JobRecord]) -> Iterator[Machine]:
    """The log's executors; its times are corrected by the tasks, which cannot run on one that is not there.

    Executors that the log does not list have as many slots as ran tasks at once.
    """
    launches: dict[str, list[RecordedAttempt]] = {}
    for job in jobs:
        for stage in job.stages:
            for attempt in attempts_of(stage):
                launches.setdefault(attempt.executor, []).append(attempt)
    last_ms = max(a.end_ms for attempts in launches.values() for a in attempts)
    machines = list(machines)
    listed = {m.machine: m for m in machines if m.slots is not None}
    removed_only_s = {m.machine: m.removed_s for m in machines if m.slots is None}
    for name, machine in listed.items():
        ran = launches.get(name, [])
        added_s, removed_s = machine.added_s or 0.0, machine.removed_s
        if ran:
            added_s = min(added_s, min(a.start_ms for a in ran) / 1000.0)
            if removed_s is not None:
                removed_s = max(removed_s, max(a.start_ms for a in ran) / 1000.0)
        if added_s * 1000.0 <= last_ms:
            slots = machine.slots or 1
            yield Machine(
                name, machine.host, slots, machine.cpus, added_s=max(0.0, added_s), removed_s=removed_s
            )
    for name in sorted(launches.keys() - listed.keys()):
        slots = most_at_once((a.start_ms, a.end_ms, 1) for a in launches[name])
        added_s = max(0.0, min(a.start_ms for a in launches[name]) / 1000.0)
        yield Machine(name, None, slots, added_s=added_s, removed_s=removed_only_s.get(name))
