"""Stages of a job out of the Spark jobs and stages that ran for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from spark_sched_lab.traces.jobs import StageRecord, TaskRows
from spark_sched_lab.traces.stage_input import StageInput


class Begun(NamedTuple):
    """A task attempt whose end has not been read from the log yet."""

    task: int
    start_s: float
    attempt: int
    copy: bool
    host: str
    locality: str


@dataclass(slots=True)
class StageAttempt:
    """One attempt of a stage, as it ran.

    Attributes:
        submitted: the log has its submission; otherwise its tasks alone show that it ran.
        running: what has begun and not ended, by task id.
        ended: what has ended, by task id, index and attempt.
    """

    stage: int
    attempt: int
    name: str
    tasks: int
    submit_s: float | None = None
    end_s: float | None = None
    failed: bool = False
    barrier: bool | None = None
    cpus: float | None = None
    outside: bool = False
    input: StageInput | None = None
    rows: TaskRows = field(default_factory=TaskRows)
    running: dict[int, Begun] = field(default_factory=dict)
    ended: set[tuple[int, int, int]] = field(default_factory=set)
    submitted: bool = True

    def first_s(self) -> float | None:
        """Its submission or, if that is not known, its first launch."""
        if self.submit_s is not None:
            return self.submit_s
        starts = [begun.start_s for begun in self.running.values()]
        starts += [start_s for start_s in self.rows.start_s if start_s is not None]
        return min(starts, default=None)

    def add_running(self) -> None:
        """Give attempts without an end rows without a duration."""
        for begun in self.running.values():
            self.rows.add(
                begun.task,
                None,
                attempt=begun.attempt,
                start_s=begun.start_s,
                outcome="unknown",
                copy=begun.copy,
                host=begun.host,
                locality=begun.locality,
            )
        self.running.clear()
        # Of a stage that was not submitted in this log, only the tasks that ran are known.
        self.tasks = max(self.tasks, 0 if self.submitted else max(self.rows.task, default=0) + 1)


@dataclass(slots=True)
class SparkJob:
    """One Spark job: its stages (also those it skipped) with their parents, and the attempts it ran.

    ``started``: the log has its start; otherwise ``spark_job`` is a number of the reader's own, below 0.
    ``tasks``: the number of tasks of its stages, as its start lists them.
    """

    spark_job: int
    submit_s: float
    parents: dict[int, tuple[int, ...]]
    end_s: float | None = None
    failed: bool = False
    runs: list[StageAttempt] = field(default_factory=list)
    started: bool = True
    tasks: dict[int, int] = field(default_factory=dict)


def stages_of(jobs: list[SparkJob]) -> list[StageRecord]:
    """Stages, parents first, of a job made of ``jobs``.

    Within a Spark job a stage depends on its stage's parents; through a skipped parent (its output was there
    already) on that one's own parents that ran. A later attempt of a stage depends on the one before. The
    first stages of a Spark job depend on the Spark jobs that had ended when it was submitted: the driver runs
    its actions in order. ``delay_s`` is the driver's own time before each stage.
    """
    stages: list[StageRecord] = []
    last_stages: dict[int, list[int]] = {}
    done: list[SparkJob] = []
    submitted_s = min((job.submit_s for job in jobs), default=0.0)
    for job in sorted(jobs, key=lambda j: (j.submit_s, j.spark_job)):
        if not job.runs:
            continue
        before = [i for earlier in _just_before(job, done) for i in last_stages[earlier.spark_job]]
        index_of: dict[int, int] = {}
        used: set[int] = set()
        mine: list[int] = []
        for run in _parents_first(job):
            parents = set()
            if run.stage in index_of:  # a retry
                parents.add(index_of[run.stage])
            parents |= {index_of[s] for s in _ran_ancestors(run.stage, job.parents, index_of)}
            used |= parents
            parents = parents or set(before)
            index = len(stages)
            ready_s = max((e for p in parents if (e := stages[p].end_s) is not None), default=None)
            if not parents:
                ready_s = submitted_s
            delay_s = None
            if ready_s is not None and run.submit_s is not None:
                delay_s = round(max(0.0, run.submit_s - ready_s), 3)
            stages.append(
                StageRecord(
                    tasks=run.tasks,
                    parents=tuple(sorted(parents)),
                    source_id=f"{run.stage}.{run.attempt}",
                    name=run.name or None,
                    submit_s=run.submit_s,
                    end_s=run.end_s,
                    delay_s=delay_s,
                    outcome="failed" if run.failed else "unknown" if run.end_s is None else "finished",
                    barrier=run.barrier,
                    cpus=run.cpus,
                    rows=run.rows,
                    part=job.spark_job,
                    outside=run.outside,
                    input=run.input,
                )
            )
            index_of[run.stage] = index
            mine.append(index)
        last_stages[job.spark_job] = [i for i in mine if i not in used]
        done.append(job)
    return stages


def _just_before(job: SparkJob, done: list[SparkJob]) -> list[SparkJob]:
    """Spark jobs that had ended when ``job`` was submitted, without those that others of them waited for."""
    ended = [(end_s, other) for other in done if (end_s := other.end_s) is not None and end_s <= job.submit_s]
    if not ended:
        return []
    latest_submit_s = max(other.submit_s for _, other in ended)
    found = [other for end_s, other in ended if end_s > latest_submit_s]
    return found or [max(ended, key=lambda pair: (pair[0], pair[1].spark_job))[1]]


def _parents_first(job: SparkJob) -> list[StageAttempt]:
    order: list[StageAttempt] = []
    left = sorted(
        job.runs, key=lambda r: (r.submit_s if r.submit_s is not None else float("inf"), r.stage, r.attempt)
    )
    while left:
        waiting = {run.stage for run in left}
        ready = [r for r in left if not (_ancestors(r.stage, job.parents) & waiting - {r.stage})]
        ready = ready or left[:1]  # attempts of parent and child that interleave: as they were submitted
        order += ready
        taken = {id(run) for run in ready}
        left = [run for run in left if id(run) not in taken]
    return order


def _ancestors(stage: int, parents: dict[int, tuple[int, ...]]) -> set[int]:
    found: set[int] = set()
    stack = list(parents.get(stage, ()))
    while stack:
        parent = stack.pop()
        if parent not in found:
            found.add(parent)
            stack.extend(parents.get(parent, ()))
    return found


def _ran_ancestors(stage: int, parents: dict[int, tuple[int, ...]], ran: dict[int, int]) -> set[int]:
    found: set[int] = set()
    seen: set[int] = set()
    stack = list(parents.get(stage, ()))
    while stack:
        parent = stack.pop()
        if parent in seen or parent == stage:
            continue
        seen.add(parent)
        if parent in ran:
            found.add(parent)
        else:
            stack.extend(parents.get(parent, ()))
    return found
