"""Stage profiles: TPC-H on Spark (Decima's measurements) and the stage tables of Polimi's Spark runs."""

from __future__ import annotations

import csv
import io
import json
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

from spark_sched.errors import BadInputError
from spark_sched.files import read_bytes
from spark_sched_lab.traces.jobs import JobRecord, StageRecord, TaskRows, widest
from spark_sched_lab.traces.lines import FREE_BYTES, MAX_RATIO, Progress
from spark_sched_lab.traces.readers.base import (
    BadField,
    JobPerLineReader,
    TraceReader,
    not_negative,
    positive,
    whole,
)
from spark_sched_lab.traces.readers.spark_dag import SparkJob, StageAttempt, stages_of

#: A stage table of one run has some 100 KB.
MAX_TABLE_BYTES = 64 << 20


class TpchProfilesReader(JobPerLineReader):
    """JSON lines ``query, scale, parents, stages`` with measured task durations (ms) per number of executors.

    A job per query and scale, without arrival. Task durations are those measured with ``executors`` executors
    (of one slot), the first wave followed by the rest. For a stage without a measurement at this number, the
    largest smaller measured number is used, else the smallest.
    """

    format = "tpch_profiles"
    title = "TPC-H stage profiles"

    def __init__(self, path: Path, progress: Progress | None = None, *, executors: int = 20) -> None:
        super().__init__(path, progress)
        if executors < 1:
            raise BadInputError(f"executors is {executors}: give at least 1")
        self._executors = executors
        self.meta = replace(
            self.meta,
            notes=("no arrivals: a simulator submits all jobs at its start",),
            parameters={"executors": executors},
        )

    def parse(self, line: bytes, line_number: int) -> JobRecord:
        try:
            return self._job(line)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise BadField(f"no stage profile ({type(error).__name__}: {error})") from None

    def _job(self, line: bytes) -> JobRecord:
        row = json.loads(line)
        query, scale, parents, stages = row["query"], row["scale"], row["parents"], row["stages"]
        if len(parents) != len(stages) or not stages:
            raise BadField(f"{len(stages)} stages with parents for {len(parents)}")
        stages = [
            self._stage(stage, tuple(int(p) for p in above), index)
            for index, (stage, above) in enumerate(zip(stages, parents, strict=True))
        ]
        name = f"tpch-q{query}-{scale}"
        return JobRecord(
            name,
            "finished",
            "malleable",
            stages,
            name=name,
            slots=widest(stages),
            features={"query": str(query), "scale": str(scale)},
        )

    def _stage(
        self, stage: dict[str, dict[str, list[float]]], parents: tuple[int, ...], index: int
    ) -> StageRecord:
        first, rest = stage["first_wave"], stage["rest_wave"]
        measured = sorted(int(k) for k in first if first[k] or rest.get(k))
        if not measured:
            raise BadField(f"stage {index} has no measured task")
        fitting = [n for n in measured if n <= self._executors]
        chosen = str(fitting[-1] if fitting else measured[0])
        rows = TaskRows()
        for task, duration_ms in enumerate([*first[chosen], *rest.get(chosen, [])]):
            rows.add(task, not_negative(str(duration_ms), "duration") / 1000.0)
        return StageRecord(tasks=len(rows), parents=parents, source_id=str(index), rows=rows)


class PolimiStagesReader(TraceReader):
    """Runs of Spark 1.x applications: ``StageDetails.csv``, ``JobDetails.csv`` and ``application.csv`` per
    run.

    A folder or a tar file of runs. A job is a run: its Spark jobs one after the other, as the driver
    submitted them. Stages that were not executed are left out; tasks were not measured one by one and a
    stage's time depends on its slots, so ``mean_task_s`` is null: ``submit_s`` and ``end_s`` of the stages
    are what is known. Times count from the earliest run.
    """

    format = "spark_polimi"
    title = "Polimi's Spark stage tables"

    def __init__(self, path: Path, progress: Progress | None = None) -> None:
        super().__init__(path, progress)
        self.meta = replace(self.meta, notes=("no task durations: stages have begin and end only",))

    def files(self) -> list[Path]:
        return [self.path] if self.path.is_file() else sorted(self.path.rglob("*.csv"))

    def records(self) -> Iterator[JobRecord]:
        runs: dict[str, dict[str, bytes]] = {}
        for name, data in self._members():
            folder = PurePosixPath(name).parent
            runs.setdefault(str(folder), {})[PurePosixPath(name).name] = data
        jobs: list[JobRecord] = []
        for run, tables in sorted(runs.items()):
            try:
                jobs.append(self._run(run, tables))
            except BadField as reason:
                self.report.bad(f"{self.path}/{run}", 0, f"run skipped: {reason}")
        # Times are epoch milliseconds; the earliest run is the trace's zero.
        zero_s = min((job.submit_s for job in jobs if job.submit_s is not None), default=0.0)
        self.meta = replace(self.meta, origin_epoch_ms=round(zero_s * 1000))
        for job in sorted(jobs, key=lambda j: (j.submit_s or 0.0, j.source_id)):
            yield _shifted(job, zero_s)

    def _members(self) -> Iterator[tuple[str, bytes]]:
        if self.path.is_dir():
            for path in self.files():
                data = read_bytes(path, MAX_TABLE_BYTES)
                if self.progress is not None:
                    self.progress(len(data))
                yield str(path.relative_to(self.path)), data
            return
        try:
            with tarfile.open(self.path) as tar:
                left = max(FREE_BYTES, MAX_RATIO * self.size_bytes)
                for member in tar:
                    left -= member.size
                    if left < 0 or member.size > MAX_TABLE_BYTES:
                        raise BadInputError(
                            f"{self.path} unpacks to more than is read of such an archive ({member.name} "
                            f"has {member.size:,} bytes): if you trust it, unpack it and give the folder"
                        )
                    file = (
                        tar.extractfile(member) if member.isfile() and member.name.endswith(".csv") else None
                    )
                    if file is not None:
                        yield member.name, file.read()
        except (EOFError, tarfile.ReadError) as error:
            self.report.cut(str(self.path), 0, f"the archive stops in the middle or is damaged ({error})")
        except Exception as error:  # zlib.error, BadGzipFile: damage that tarfile passes through
            if type(error).__module__ not in ("zlib", "gzip"):
                raise
            raise BadInputError(f"{self.path} is a damaged archive ({error}): copy it again") from None
        if self.progress is not None:
            self.progress(self.size_bytes)

    def _run(self, folder: str, tables: dict[str, bytes]) -> JobRecord:
        missing = {"StageDetails.csv", "JobDetails.csv"} - set(tables)
        if missing:
            raise BadField(f"{', '.join(sorted(missing))} is missing")
        executed: dict[int, tuple[tuple[int, ...], StageAttempt | None]] = {}
        for row in self._table(tables["StageDetails.csv"]):
            stage = whole(row.get("Stage ID", ""), "Stage ID")
            parents = tuple(whole(p, "parent") for p in row.get("Parent IDs", "").split())
            run = None
            if row.get("Executed") == "True":
                submit_s, end_s = (not_negative(row.get(c, ""), c) / 1000.0 for c in _SPAN)
                tasks = positive(row.get("Number of Tasks", ""), "Number of Tasks")
                run = StageAttempt(stage, 0, row.get("Stage Name", ""), tasks, submit_s, end_s)
                if end_s < submit_s:
                    raise BadField(f"stage {stage} ends before it starts")
            elif row.get("Executed") != "False":
                raise BadField(f"stage {stage} is neither executed nor skipped")
            executed[stage] = (parents, run)
        jobs = []
        for row in self._table(tables["JobDetails.csv"]):
            mine = [whole(s, "stage") for s in row.get("Stage IDs", "").split()]
            submit_s, end_s = (not_negative(row.get(c, ""), c) / 1000.0 for c in _SPAN)
            job = SparkJob(
                whole(row.get("Job ID", ""), "Job ID"),
                submit_s,
                {s: executed[s][0] for s in mine if s in executed},
            )
            job.end_s = end_s
            job.runs = [run for s in mine if s in executed and (run := executed[s][1]) is not None]
            jobs.append(job)
        stages = stages_of(jobs)
        if not stages:
            raise BadField("no stage was executed")
        begin_s = min(j.submit_s for j in jobs)
        end_s = max(j.end_s for j in jobs if j.end_s is not None)
        parts = PurePosixPath(folder).parts
        return JobRecord(
            folder,
            "finished",
            "malleable",
            stages,
            name=parts[0] if len(parts) > 1 else None,
            submit_s=begin_s,
            start_s=min(p.submit_s for p in stages if p.submit_s is not None),
            end_s=end_s,
            runtime_s=end_s - begin_s,
            slots=widest(stages),
            features={"app": parts[-1]} if parts else None,
        )

    def _table(self, data: bytes) -> Iterator[dict[str, str]]:
        try:
            for row in csv.DictReader(io.StringIO(data.decode("utf-8"))):
                self.report.rows += 1
                yield {k: v for k, v in row.items() if isinstance(k, str) and isinstance(v, str)}
        except (csv.Error, UnicodeDecodeError) as error:
            raise BadField(f"a table is damaged ({error})") from None


_SPAN = ("Submission Time", "Completion Time")


def _shifted(job: JobRecord, zero_s: float) -> JobRecord:
    def moved(at_s: float | None) -> float | None:
        return None if at_s is None else round(at_s - zero_s, 3)

    for stage in job.stages:
        stage.submit_s, stage.end_s = moved(stage.submit_s), moved(stage.end_s)
        stage.delay_s = None if stage.delay_s is None else round(stage.delay_s, 3)
    job.submit_s, job.start_s, job.end_s = moved(job.submit_s), moved(job.start_s), moved(job.end_s)
    job.runtime_s = None if job.runtime_s is None else round(job.runtime_s, 3)
    return job
