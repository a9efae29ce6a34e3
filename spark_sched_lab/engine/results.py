"""The results of a run: a row per job, finished or not, a row per attempt, and sums; in compact columns."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from spark_sched_lab.engine.records import Attempt, JobRun

_TEXT = ("job", "name", "user", "class")
#: Whole numbers per job; -1 stands for "not yet" and becomes null.
_JOB_NUMBERS = (
    "number", "priority", "submit_ms", "first_launch_ms", "end_ms", "deadline_ms", "stages", "tasks",
    "work_ms", "attempts", "copies", "copies_won", "evictions", "nonlocal_tasks", "wasted_ms",
    "held_idle_ms", "predicted_idle_ms",
)  # fmt: skip
_TASK_NUMBERS = ("job", "stage", "task", "attempt", "node", "start_ms", "end_ms", "outcome", "copy")
_OUTCOMES = ("success", "killed", "evicted", "lost")


@dataclass
class Result:
    """Rows and sums of one run.

    Attributes:
        jobs: columns by name, one entry per submitted job in the order of their ends; those that did not end
            come last and have null in ``end_ms`` and ``jct_ms``. ``held_idle_ms`` is slot time that the job
            held idle, ``predicted_idle_ms`` what equation 4 expected of that at most.
        tasks: columns by name, one entry per ended attempt; empty where they were not kept. ``job`` is the
            job's ``number``, ``node`` an entry of ``nodes``.
        totals: sums over the run: the clock at its end, plans, holds and copies, energy.
        queues: by tenants' queue its ceiling at the end (``ceiling_slots``), the most slots that its jobs
            had at a time (``peak_slots``), the jobs that it refused, and attempts that were evicted for its
            floor, or would have been (``floor_evictions``); empty where there are none.
    """

    jobs: dict[str, list[Any]]
    tasks: dict[str, list[Any]]
    totals: dict[str, float]
    nodes: list[str] = field(repr=False)
    queues: list[dict[str, Any]] = field(default_factory=list)

    @property
    def unfinished(self) -> int:
        """Submitted jobs that did not end."""
        return sum(end is None for end in self.jobs["end_ms"])

    def rows(self) -> Iterator[dict[str, Any]]:
        """The jobs, one dict each."""
        names = list(self.jobs)
        for values in zip(*self.jobs.values(), strict=True):
            yield dict(zip(names, values, strict=True))


class Recorder:
    def __init__(self, nodes: list[str]) -> None:
        self.ended = 0
        self._nodes = nodes
        self._queues: list[str | None] = []
        self._text: dict[str, list[str | None]] = {name: [] for name in _TEXT}
        self._numbers = {name: array("q") for name in _JOB_NUMBERS}
        self._tasks = {name: array("q") for name in _TASK_NUMBERS}
        self._appends = [self._tasks[name].append for name in _TASK_NUMBERS]

    def attempt(self, a: Attempt, now_ms: int, outcome: str) -> None:
        stage = a.stage
        job, index, task, attempt, node, start, end, code, copy = self._appends
        job(stage.job.arrival)
        index(stage.index)
        task(a.index)
        attempt(a.task)
        node(a.node)
        start(a.start_ms)
        end(now_ms)
        code(_OUTCOMES.index(outcome))
        copy(a.copy)

    def job(self, job: JobRun, end_ms: int) -> None:
        self.ended += 1
        self._add(job, end_ms)

    def unfinished(self, job: JobRun) -> None:
        self._add(job, -1)

    def _add(self, job: JobRun, end_ms: int) -> None:
        s, sums = job.spec, job.sums
        self._queues.append(job.terms.queue)
        for name, text in zip(_TEXT, (s.key, s.name or None, s.user, s.job_class), strict=True):
            self._text[name].append(text)
        values = (
            job.arrival,
            s.priority,
            s.submit_ms,
            sums.first_launch_ms,
            end_ms,
            -1 if s.deadline_ms is None else s.deadline_ms,
            len(s.stages),
            sum(stage.tasks for stage in s.stages),
            sums.work_ms,
            sums.starts,
            sums.copies,
            sums.copies_won,
            sums.evictions,
            sums.nonlocal_tasks,
            sums.wasted_ms,
            sums.held_idle_ms,
            sums.predicted_idle_ms,
        )
        for name, value in zip(_JOB_NUMBERS, values, strict=True):
            self._numbers[name].append(value)

    def result(self, totals: dict[str, float], queues: list[dict[str, Any]]) -> Result:
        jobs: dict[str, list[Any]] = {**self._text}
        if queues:
            jobs["queue"] = list(self._queues)
        for name, column in self._numbers.items():
            nullable = name in ("first_launch_ms", "end_ms", "deadline_ms")
            jobs[name] = [None if nullable and v < 0 else v for v in column]
        submit, end, first = jobs["submit_ms"], jobs["end_ms"], jobs["first_launch_ms"]
        jobs["jct_ms"] = [None if e is None else e - s for e, s in zip(end, submit, strict=True)]
        jobs["wait_ms"] = [None if f is None else f - s for f, s in zip(first, submit, strict=True)]
        tasks: dict[str, list[Any]] = {name: list(column) for name, column in self._tasks.items()}
        tasks["outcome"] = [_OUTCOMES[code] for code in tasks["outcome"]]
        tasks["copy"] = [bool(copy) for copy in tasks["copy"]]
        return Result(jobs, tasks, totals, self._nodes, queues)
