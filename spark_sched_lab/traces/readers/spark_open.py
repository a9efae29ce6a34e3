"""Jobs of a Spark application that have not left the reader, their Spark jobs, and attempts of their stages.

A log may lack any event: its first parts are gone, it was cut, or Spark's listener bus dropped events. Every
attempt in the log belongs to a job all the same: a stage that was not submitted in the log is one that its
tasks show, and a stage of no known Spark job gets a Spark job without a start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spark_sched_lab.traces.read_report import ReadReport
from spark_sched_lab.traces.readers.spark_dag import SparkJob, StageAttempt

NO_JOB_START = "stages of Spark jobs whose start is not in the log"
NO_SUBMISSION = "stages whose submission is not in the log"


@dataclass(slots=True)
class OpenJob:
    """A job that events may still add to; ``key`` is the live scheduler's, where the log shows which it is.

    ``late``: it has what the log has of another job after that one left.
    """

    key: str
    marks: Mapping[str, str]
    name: str | None
    user: str | None
    spark_jobs: list[SparkJob] = field(default_factory=list)
    open_jobs: int = 0
    may_grow: bool = True
    pool: str | None = None
    late: bool = False

    def again(self, count: int) -> OpenJob:
        """A job for what the log has of this one after it left."""
        key = f"{self.key}#{count}"
        return OpenJob(key, self.marks, self.name, self.user, may_grow=False, pool=self.pool, late=True)

    @property
    def started(self) -> bool:
        """Whether the log has the start of each of its Spark jobs."""
        return all(job.started for job in self.spark_jobs)


class OpenJobs:
    """All of one application.

    Attributes:
        by_key: jobs that have not left.
        closed: by key, jobs that have left, without their contents.
        runs: attempts of stages, by stage and number.
    """

    def __init__(self, report: ReadReport) -> None:
        self._report = report
        self.by_key: dict[str, OpenJob] = {}
        self.closed: dict[str, OpenJob] = {}
        self.runs: dict[tuple[int, int], StageAttempt] = {}
        self._spark_jobs: dict[int, tuple[OpenJob, SparkJob]] = {}
        self._owners: dict[int, list[int]] = {}  # by stage, the Spark jobs that need it
        self._closed_stages: dict[int, OpenJob] = {}
        self._early_ends: dict[int, tuple[float, bool]] = {}

    def __contains__(self, spark_job: int) -> bool:
        return spark_job in self._spark_jobs

    def started(self, job: OpenJob, spark_job: SparkJob) -> None:
        """A Spark job starts; it takes in those of its stages that the log had before its start."""
        self._add(job, spark_job)
        for stage in spark_job.parents:
            for number in list(self._owners.get(stage, ())):
                stray_job, stray = self._spark_jobs[number]
                firsts = [first_s for run in stray.runs if (first_s := run.first_s()) is not None]
                if stray.started or min(firsts, default=0.0) < spark_job.submit_s:
                    continue
                spark_job.runs += stray.runs
                self._drop(stray)
                stray_job.spark_jobs.remove(stray)
                stray_job.open_jobs -= 1
                if not stray_job.spark_jobs:
                    del self.by_key[stray_job.key]
        end = self._early_ends.pop(spark_job.spark_job, None)
        if end is not None and end[0] >= spark_job.submit_s:
            spark_job.end_s, spark_job.failed = end
            job.open_jobs -= 1

    def join(self, key: str, job: OpenJob) -> None:
        """An open job turns out to be part of another one."""
        part = self.by_key.pop(key, None)
        if part is not None:
            job.spark_jobs += part.spark_jobs
            job.open_jobs += part.open_jobs
            for spark_job in part.spark_jobs:
                self._spark_jobs[spark_job.spark_job] = (job, spark_job)

    def ended(self, number: int, end_s: float, failed: bool) -> OpenJob | None:
        """A Spark job ends; returns its job, or None where its start has not been read.

        Raises ValueError if it ends before it starts.
        """
        found = self._spark_jobs.get(number)
        if found is None:
            self._early_ends[number] = (end_s, failed)
            return None
        job, spark_job = found
        if end_s < spark_job.submit_s:
            raise ValueError("it ends before it starts")
        if spark_job.end_s is None:
            job.open_jobs -= 1
        spark_job.end_s, spark_job.failed = end_s, failed
        return job

    @property
    def ends_without_start(self) -> int:
        """Spark jobs of which only the end has been read."""
        return len(self._early_ends)

    def owner(self, stage: int) -> tuple[OpenJob, SparkJob] | None:
        """The Spark job that runs a stage, as ``DAGScheduler.activeJobForStage`` finds it: the lowest active
        one that needs it."""
        numbers = self._owners.get(stage, [])
        active = [n for n in numbers if self._spark_jobs[n][1].end_s is None]
        chosen = min(active, default=max(numbers, default=None))
        return None if chosen is None else self._spark_jobs[chosen]

    def run_of(self, event: Mapping[str, Any]) -> StageAttempt:
        """The attempt of a stage that an event of a task or a stage is about."""
        stage, attempt = int(event["Stage ID"]), int(event.get("Stage Attempt ID", 0))
        run = self.runs.get((stage, attempt))
        if run is None:
            owner = self.owner(stage)
            run = StageAttempt(stage, attempt, "", 0, submitted=False)
            spark_job = self.stray(stage) if owner is None else owner[1]
            run.tasks = spark_job.tasks.get(stage, 0)
            self.add_run(spark_job, run)
        return run

    def add_run(self, spark_job: SparkJob, run: StageAttempt) -> None:
        spark_job.runs.append(run)
        self.runs[run.stage, run.attempt] = run

    def stray(self, stage: int, job: OpenJob | None = None) -> SparkJob:
        """A Spark job for a stage that no known one needs: of ``job``, of the one that had the stage, or of
        one that has only this stage."""
        spark_job = SparkJob(-1 - stage, 0.0, {stage: ()}, started=False)
        if job is None and (closed := self._closed_stages.get(stage)) is not None:
            job = self.reopened(closed)
        if job is None:
            job = OpenJob(f"stage-{stage}", {}, None, None, may_grow=False)
        self._add(self.by_key.setdefault(job.key, job), spark_job)
        return spark_job

    def reopened(self, closed: OpenJob) -> OpenJob:
        """An open job for what comes after a job has left."""
        count = 2
        while f"{closed.key}#{count}" in self.closed:
            count += 1
        job = closed.again(count)
        return self.by_key.setdefault(job.key, job)

    def close(self, key: str) -> OpenJob:
        """A job leaves."""
        job = self.by_key.pop(key)
        self.closed[key] = empty = OpenJob(key, job.marks, job.name, job.user, pool=job.pool)
        for spark_job in job.spark_jobs:
            for run in spark_job.runs:
                run.add_running()
                if not spark_job.started and not job.late:
                    self._report.missing[NO_JOB_START] += 1
                elif not run.submitted and not job.late:
                    self._report.missing[NO_SUBMISSION] += 1
                self.runs.pop((run.stage, run.attempt), None)
                self._closed_stages[run.stage] = empty
            self._drop(spark_job)
        return job

    def _add(self, job: OpenJob, spark_job: SparkJob) -> None:
        job.spark_jobs.append(spark_job)
        job.open_jobs += 1
        self._spark_jobs[spark_job.spark_job] = (job, spark_job)
        for stage in spark_job.parents:
            self._owners.setdefault(stage, []).append(spark_job.spark_job)

    def _drop(self, spark_job: SparkJob) -> None:
        self._spark_jobs.pop(spark_job.spark_job, None)
        for stage in spark_job.parents:
            owners = self._owners.get(stage, [])
            if spark_job.spark_job in owners:
                owners.remove(spark_job.spark_job)
            if not owners:
                self._owners.pop(stage, None)
