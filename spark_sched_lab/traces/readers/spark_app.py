"""One Spark application's listener events, turned into jobs as they end."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from spark_sched.units import parse_moment_ms
from spark_sched_lab.traces.jobs import Executed, JobRecord, widest
from spark_sched_lab.traces.read_report import ReadReport
from spark_sched_lab.traces.readers.spark_cache import SparkCache
from spark_sched_lab.traces.readers.spark_dag import Begun, SparkJob, StageAttempt, stages_of
from spark_sched_lab.traces.readers.spark_executors import SparkExecutors
from spark_sched_lab.traces.readers.spark_marks import (
    RANDOM_ID,
    THRIFT_START,
    Marked,
    databricks_user,
    user_of_group,
)
from spark_sched_lab.traces.readers.spark_measured import EVENT, Measured
from spark_sched_lab.traces.readers.spark_open import OpenJob, OpenJobs
from spark_sched_lab.traces.readers.spark_origins import SparkOrigins

#: The exceptions that decoding a damaged event raises.
NOT_AN_EVENT = (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError)

#: The name of a job of which the log has attempts alone.
NOT_LOGGED = "(not in the log)"

#: Events after a job's end until it is given out: ends of killed tasks come late.
_LATE_EVENTS = 2000

#: Properties with a text that may name a job.
_TEXTS = ("spark.job.description", "spark.jobGroup.id")
#: Texts that no later run has: of broadcasts up to Spark 3.4, and groups of a Thrift server's statements.
_ONE_TIME = re.compile(rf"broadcast exchange \(runId .*\)|{RANDOM_ID.pattern}")

#: RDDs and plan nodes whose work a Python worker, a piped command or a GPU does. A scope is JSON text.
_OUTSIDE = re.compile(r"Python|Pandas|InArrow|PipedRDD|\bGpu[A-Z]")

_REASONS = {
    "Success": "finished",
    "TaskKilled": "killed",
    "TaskCommitDenied": "killed",
    "ExecutorLostFailure": "lost",
    "Resubmitted": "lost",
}

LogEvent = dict[str, Any]


@dataclass(slots=True)
class _About:
    id: str | None = None
    name: str | None = None
    user: str | None = None
    version: str | None = None  # Spark's
    prefix: str = ""  # of its jobs' ids, where several applications make one trace
    origins: SparkOrigins = field(default_factory=SparkOrigins)


class SparkApplication:
    """Feed it events of one application in order (`apply`), then `finish`.

    ``taken`` is given where several applications make one trace: the names in use in front of jobs' ids.
    """

    def __init__(self, report: ReadReport, origin_ms: int | None, *, taken: set[str] | None) -> None:
        self.origin_ms = origin_ms
        #: When the last event was, as far as events that are read have a time.
        self.last_s = 0.0
        self._report = report
        self._taken = taken
        self.about = _About()
        if taken is not None:  # until the application's start says what it is
            label = f"unnamed-{len(taken) + 1}"
            taken.add(label)
            self.about.prefix = f"{label}/"
        #: Spark's properties as the log shows them; empty for a log without them.
        self.properties: dict[str, str] = {}
        #: This project's scheduler's own records of its jobs.
        self.measured = Measured()
        self.executors = SparkExecutors(self._s)
        self._cache = SparkCache()
        self._open = OpenJobs(report)
        self._leaving: deque[tuple[int, str]] = deque()
        self._count = 0
        self._handlers = {
            "SparkListenerLogStart": self._log_start,
            "SparkListenerApplicationStart": self._app_start,
            "SparkListenerApplicationEnd": self._app_end,
            "SparkListenerEnvironmentUpdate": self._environment,
            "SparkListenerResourceProfileAdded": self.executors.profile_added,
            "SparkListenerExecutorAdded": self._executor_added,
            "SparkListenerExecutorRemoved": self._executor_removed,
            "SparkListenerBlockUpdated": self._block_updated,
            "SparkListenerUnpersistRDD": self._cache.unpersisted,
            "SparkListenerJobStart": self._job_start,
            "SparkListenerJobEnd": self._job_end,
            "SparkListenerStageSubmitted": self._stage_submitted,
            "SparkListenerStageCompleted": self._stage_completed,
            "SparkListenerTaskStart": self._task_start,
            "SparkListenerTaskEnd": self._task_end,
            THRIFT_START: self._statement_start,
            EVENT: self._scheduling,
        }

    def reads(self, kind: str) -> bool:
        """Whether `apply` needs the parsed event of this kind."""
        return kind in self._handlers

    def apply(self, kind: str, event: LogEvent) -> Iterator[JobRecord]:
        """Takes one event in; raises one of `NOT_AN_EVENT` if it is damaged. Gives jobs that are over."""
        self._handlers[kind](event)
        yield from self._leave()

    def other(self, kind: str, line: bytes) -> Iterator[JobRecord]:
        """An event that is not parsed: of SQL executions, name and end are picked out of the line."""
        if kind.endswith("SparkListenerSQLExecutionStart"):
            self.about.origins.execution_started(line)
        elif kind.endswith("SparkListenerSQLExecutionEnd"):
            job = self._open.by_key.get(self.about.origins.execution_ended(line) or "")
            if job is not None:
                job.may_grow = False
                self._may_leave(job)
        yield from self._leave()

    def finish(self) -> Iterator[JobRecord]:
        """The jobs that are left when the log ends."""
        if self._open.ends_without_start:
            self._report.missing["ends of Spark jobs whose start is not in the log"] += (
                self._open.ends_without_start
            )
        unlisted = len(self.executors.unlisted())
        if unlisted:
            self._report.missing["executors whose addition is not in the log"] += unlisted
        if self.about.id is None and self._count:
            self._report.missing["applications whose start is not in the log"] += 1
        for key in list(self._open.by_key):
            yield self._close(key)

    def _leave(self) -> Iterator[JobRecord]:
        self._count += 1
        while self._leaving and self._leaving[0][0] <= self._count:
            job = self._open.by_key.get(self._leaving.popleft()[1])
            if job is not None and job.open_jobs == 0 and not job.may_grow:
                yield self._close(job.key)

    def _may_leave(self, job: OpenJob) -> None:
        if job.open_jobs == 0 and not job.may_grow:
            self._leaving.append((self._count + _LATE_EVENTS, job.key))

    def _deadline_s(self, text: str | None, submit_s: float) -> float | None:
        """As the scheduler reads it; a length of time counts from the job's beginning."""
        if not text:
            return None
        if text.isdigit():
            return self._since_origin_s(text)
        origin_ms = self.origin_ms or 0
        try:
            return (parse_moment_ms(text, origin_ms + round(submit_s * 1000)) - origin_ms) / 1000.0
        except ValueError:
            return None

    def _s(self, epoch_ms: Any) -> float:
        """The time of an event."""
        at_s = self._since_origin_s(epoch_ms)
        self.last_s = max(self.last_s, at_s)
        return at_s

    def _since_origin_s(self, epoch_ms: Any) -> float:
        at_ms = int(epoch_ms)
        if at_ms < 0:
            raise ValueError(f"time {at_ms}")
        if self.origin_ms is None:  # a log whose beginning is missing
            self.origin_ms = at_ms
        return (at_ms - self.origin_ms) / 1000.0

    def _scheduling(self, event: LogEvent) -> None:
        self.measured.apply(event, self.about.prefix, self.about.user)

    def _statement_start(self, event: LogEvent) -> None:
        found = user_of_group(event)
        if found is not None:
            self.about.origins.users_of_groups[found[0]] = found[1]

    def _log_start(self, event: LogEvent) -> None:
        self.about.version = str(event["Spark Version"])

    def _app_start(self, event: LogEvent) -> None:
        about = self.about
        about.id, about.name, about.user = event.get("App ID"), event.get("App Name"), event.get("User")
        self._s(event["Timestamp"])
        if self._taken is not None:
            attempt = event.get("App Attempt ID")
            label = f"{about.id}_{attempt}" if attempt else str(about.id)
            again = 1 + sum(1 for other in self._taken if other.split("#")[0] == label)
            label = label if again == 1 else f"{label}#{again}"
            self._taken.add(label)
            about.prefix = f"{label}/"

    def _app_end(self, event: LogEvent) -> None:
        self._s(event["Timestamp"])

    def _environment(self, event: LogEvent) -> None:
        self.properties = {str(k): str(v) for k, v in event.get("Spark Properties", {}).items()}
        cpus = self.properties.get("spark.task.cpus")
        if cpus is not None:
            self.executors.task_cpus = float(cpus)

    def _executor_added(self, event: LogEvent) -> None:
        self.executors.added(event, self.about.prefix)

    def _executor_removed(self, event: LogEvent) -> None:
        self.executors.removed(event)
        self._cache.executor_removed(f"{self.about.prefix}{event['Executor ID']}")

    def _block_updated(self, event: LogEvent) -> None:
        self._cache.updated(event, self.about.prefix)

    def _job_start(self, event: LogEvent) -> None:
        number = int(event["Job ID"])
        properties = event.get("Properties") or {}
        infos = event.get("Stage Infos") or []
        parents = {int(i["Stage ID"]): tuple(int(p) for p in i.get("Parent IDs") or ()) for i in infos}
        tasks = {int(i["Stage ID"]): int(i.get("Number of Tasks", 0)) for i in infos}
        spark_job = SparkJob(number, self._s(event["Submission Time"]), parents, tasks=tasks)
        if number in self._open:
            raise ValueError(f"Spark job {number} has already started")
        names = [str(i.get("Stage Name", "")) for i in infos]
        job = self._job_of(properties, number, names[-1] if names else None)
        self._open.started(job, spark_job)
        self._may_leave(job)

    def _mark(self, properties: dict[str, Any], number: int) -> Marked:
        allowed = self.properties.get("spark.sched.limits.marks")
        return self.about.origins.mark(properties, number, allowed)

    def _job_of(self, properties: dict[str, Any], number: int, stage_name: str | None) -> OpenJob:
        """The open job of a Spark job with these local properties."""
        mark = self._mark(properties, number)
        key, part = self.about.origins.joined(mark)
        if (closed := self._open.closed.get(key)) is not None:
            return self._open.reopened(closed)
        job = self._open.by_key.get(key)
        if job is None:
            texts = (properties.get(text) for text in _TEXTS)
            given = (str(text) for text in texts if text and not _ONE_TIME.fullmatch(str(text)))
            name = mark.name or next(given, None) or self.about.origins.names.pop(key, None) or stage_name
            user = mark.user or databricks_user(properties) or self.about.user
            job = self._open.by_key[key] = OpenJob(key, mark.fields, name, user)
            job.may_grow = not key.startswith("spark-")
            job.pool = properties.get("spark.scheduler.pool")
        if part is not None:
            self._open.join(part, job)
        return job

    def _job_end(self, event: LogEvent) -> None:
        failed = event["Job Result"]["Result"] != "JobSucceeded"
        job = self._open.ended(int(event["Job ID"]), self._s(event["Completion Time"]), failed)
        if job is not None:
            self._may_leave(job)

    def _stage_submitted(self, event: LogEvent) -> None:
        info = event["Stage Info"]
        stage, attempt = int(info["Stage ID"]), int(info.get("Stage Attempt ID", 0))
        run = self._open.runs.get((stage, attempt))
        if run is not None and run.submitted:
            raise ValueError(f"stage {stage}.{attempt} was submitted before")
        tasks = int(info["Number of Tasks"])
        if tasks < 1:
            return  # Spark ends a stage without partitions at once
        barrier = any(rdd.get("Barrier") for rdd in info.get("RDD Info") or ())
        submit = info.get("Submission Time")
        if run is None:
            run = StageAttempt(stage, attempt, "", tasks)
            owner = self._open.owner(stage)
            spark_job = self._stray(stage, info, event) if owner is None else owner[1]
            self._open.add_run(spark_job, run)
        run.submitted, run.tasks, run.barrier = True, tasks, barrier
        run.name = str(info.get("Stage Name") or "")
        run.submit_s = None if submit is None else self._s(submit)
        run.cpus = self.executors.task_cpus
        run.outside = any(
            _OUTSIDE.search(f"{r.get('Name')} {r.get('Scope')}") for r in info.get("RDD Info") or ()
        )
        run.input = self._cache.stage(info)

    def _stray(self, stage: int, info: LogEvent, event: LogEvent) -> SparkJob:
        """A Spark job for a stage whose own has no start in the log: local properties say whose it is."""
        properties = event.get("Properties") or {}
        job = None
        if not self._mark(properties, -1).key.startswith("spark-"):
            job = self._job_of(properties, -1, str(info.get("Stage Name") or ""))
        return self._open.stray(stage, job)

    def _stage_completed(self, event: LogEvent) -> None:
        info = event["Stage Info"]
        run = self._open.runs.get((int(info["Stage ID"]), int(info.get("Stage Attempt ID", 0))))
        if run is None:
            return
        if not run.name:
            run.name = str(info.get("Stage Name") or "")
        if not run.submitted:
            run.tasks = max(run.tasks, int(info.get("Number of Tasks", 0)))
        if info.get("Submission Time") is not None:
            run.submit_s = self._s(info["Submission Time"])
        if info.get("Completion Time") is not None:
            run.end_s = self._s(info["Completion Time"])
        run.failed = info.get("Failure Reason") is not None

    def _task_start(self, event: LogEvent) -> None:
        info = event["Task Info"]
        if info is None:
            return  # Its end is counted.
        start_s, index, placed = self._s(info["Launch Time"]), _index(info), self._placed(info)
        run = self._open.run_of(event)
        if (info["Task ID"], index, placed["attempt"]) not in run.ended:
            run.running[info["Task ID"]] = Begun(index, start_s, **placed)

    def _task_end(self, event: LogEvent) -> None:
        info = event["Task Info"]
        if info is None:
            self._report.notes["task ends without the task's data"] += 1
            return
        start_s, end_s = self._s(info["Launch Time"]), self._s(info["Finish Time"])
        index = _index(info)
        if end_s < start_s:
            raise ValueError(f"task {index} runs from {start_s} to {end_s}")
        placed, reason = self._placed(info), event["Task End Reason"]["Reason"]
        run = self._open.run_of(event)
        run.running.pop(info.get("Task ID"), None)
        # The second end of an attempt that had succeeded: its output is lost with its executor.
        if reason == "Resubmitted" and run.rows.lose(index, placed["attempt"]):
            return
        attempt = (info.get("Task ID", -1), index, placed["attempt"])
        if attempt in run.ended and reason != "Resubmitted":
            self._report.notes["ends of attempts that the log has twice"] += 1
            return
        run.ended.add(attempt)
        run.rows.add(
            index,
            round(end_s - start_s, 3),
            start_s=start_s,
            outcome=_REASONS.get(reason, "failed"),
            executed=_executed(event.get("Task Metrics")),
            **placed,
        )
        partition = info.get("Partition ID", -1)
        if (
            run.input is not None
            and isinstance(partition, int)
            and partition >= 0
            and (partition != index or not run.input.whole)
        ):
            run.input.partitions[index] = partition
        self._cache.task_ended(event.get("Task Metrics"), placed["host"])

    def _placed(self, info: LogEvent) -> dict[str, Any]:
        """The facts about an attempt that are known from its start."""
        return {
            "attempt": int(info["Attempt"]),
            "copy": bool(info.get("Speculative", False)),
            "host": self.executors.ran(info, self.about.prefix),
            "locality": str(info.get("Locality", "")),
        }

    def _close(self, key: str) -> JobRecord:
        job = self._open.close(key)
        stages = stages_of(job.spark_jobs)
        # Of a job that began before the log only a part is known: neither its submission nor its runtime.
        submit_s = min(s.submit_s for s in job.spark_jobs) if job.started else None
        ends = [s.end_s for s in job.spark_jobs if s.end_s is not None]
        over = len(ends) == len(job.spark_jobs) and submit_s is not None
        starts = [s for p in stages for s in p.rows.start_s if s is not None]
        start_s = min(starts, default=None)
        last = max(job.spark_jobs, key=lambda s: (s.submit_s, s.spark_job))
        end_s = max(ends) if over else None
        priority, isolation, deadline = (job.marks.get(m) for m in ("priority", "isolation", "deadline"))
        features = {
            "app": self.about.id,
            "app_name": self.about.name,
            "spark_jobs": str(len(job.spark_jobs)),
            "pool": job.pool,
            "copies": job.marks.get("copies"),
        }
        return JobRecord(
            f"{self.about.prefix}{key}",
            "unknown" if not over else "failed" if last.failed else "finished",
            "malleable",
            stages,
            name=job.name or next((stage.name for stage in reversed(stages) if stage.name), NOT_LOGGED),
            user=job.user,
            job_class=job.marks.get("class"),
            priority=int(priority) if priority and re.fullmatch(r"-?\d{1,9}", priority) else None,
            submit_s=submit_s,
            start_s=start_s,
            end_s=end_s,
            runtime_s=round(end_s - submit_s, 3) if end_s is not None and submit_s is not None else None,
            deadline_s=None if submit_s is None else self._deadline_s(deadline, submit_s),
            isolation=float(isolation)
            if isolation and re.fullmatch(r"0?\.\d+|[01](\.0+)?", isolation)
            else None,
            slots=widest(stages),
            features={k: str(v) for k, v in features.items() if v is not None},
        )


def _index(info: LogEvent) -> int:
    index = int(info["Index"])
    if not 0 <= index < 2**31:
        raise ValueError(f"task {index}")
    return index


def _executed(metrics: Any) -> Executed | None:
    """Run and CPU time out of a task's metrics; None where they are not recorded."""
    if not isinstance(metrics, dict):
        return None
    run_ms, cpu_ns = metrics.get("Executor Run Time"), metrics.get("Executor CPU Time")
    if not isinstance(run_ms, int) or not isinstance(cpu_ns, int) or run_ms < 0 or cpu_ns < 0:
        return None
    return Executed(run_ms / 1e3, cpu_ns / 1e9)
