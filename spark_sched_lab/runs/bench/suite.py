"""Suites of workloads from TOML files: what `spark-sched bench` runs. ``conf/bench`` has examples.

A file has a cluster, how jobs are scheduled, and suites, which run one after the other, or side by side where
they say so. The workloads of a suite run in sequence or side by side, or arrive as a Poisson process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import numpy as np

from spark_sched.errors import BadInputError
from spark_sched.files import read_text
from spark_sched_lab.runs.bench.matrix import WorkloadJob, read_workload
from spark_sched_lab.runs.paired.arms import (
    LEAST_PRIORITY,
    MOST_PRIORITY,
    Arm,
    ClusterSize,
    read_arms,
    read_cluster,
    unread,
)
from spark_sched_lab.runs.simulate.fields import Fields, parse_toml
from spark_sched_lab.runs.workloads.programs import Parameter

#: Keys of a table about its jobs, other than their parameters.
_MARKS = (
    Parameter("user", str, "", "owner of the job"),
    Parameter("priority", int, None, "instead of the scheduler's", least=LEAST_PRIORITY, most=MOST_PRIORITY),
    Parameter("isolation", float, None, "instead of the scheduler's", least=0.0),
    Parameter(
        "start_s", float, 0.0, 'arrival after the suite\'s start, for mode = "parallel"', least=0.0, most=1e7
    ),
    Parameter(
        "iterations",
        int,
        1,
        'runs, each after the end of the one before, for mode = "parallel"',
        least=1,
        most=100_000,
    ),
)
#: Marks that only jobs side by side have, with their defaults.
_PARALLEL_ONLY = {mark.name: mark.default for mark in _MARKS if mark.name in ("start_s", "iterations")}


@dataclass(frozen=True)
class BenchSuite:
    """One suite: its jobs ``repeat`` times, in ``mode``; ``gap_ms`` is the mean gap of Poisson arrivals.

    Neighbours in a file with the same ``beside`` run side by side, those of the same ``lane`` one after the
    other. With an empty ``beside`` a suite runs alone.
    """

    description: str
    repeat: int
    mode: Literal["sequence", "parallel", "poisson"]
    gap_ms: int
    jobs: tuple[WorkloadJob, ...]
    beside: str = ""
    lane: str = ""


@dataclass(frozen=True)
class BenchFile:
    """A whole file; ``scheduler`` is read as an arm of an A/B test."""

    name: str
    seed: int
    cluster: ClusterSize
    scheduler: Arm
    suites: tuple[BenchSuite, ...]


@dataclass(frozen=True)
class PlannedJob:
    """One job of a suite: when it arrives after the suite's start, and the seed of its data.

    ``after``: it starts when the job before it in the suite's plan has ended.
    """

    job: WorkloadJob
    repetition: int
    arrival_s: float
    seed: int
    after: bool = False


def read_bench(path: Path) -> BenchFile:
    """The suites of a TOML file. Raises BadInputError naming file, key, value and remedy."""
    if path.is_dir():
        raise BadInputError(f"{path} is a folder but must be a suite's TOML file: conf/bench has examples")
    return parse_bench(read_text(path), str(path), path.stem)


def parse_bench(text: str, file: str, stem: str = "bench") -> BenchFile:
    """The suites of a TOML text; ``file`` is named in messages."""
    return bench_of(parse_toml(text, file), stem)


def translated(path: Path, suites: list[dict[str, Any]], left_out: list[str]) -> tuple[BenchFile, list[str]]:
    """The suites of another tool's file, and what of it is left out. Raises BadInputError for no suite."""
    if not suites:
        reasons = "; ".join(left_out) or "it names no workload"
        raise BadInputError(f"{path} has no workload that this command can run: {reasons}")
    return bench_of(Fields(str(path), "", {"suite": suites}), path.stem), left_out


def bench_of(top: Fields, stem: str) -> BenchFile:
    """The suites of a file's top table; ``stem`` names them if the file does not."""
    file = top.file
    scheduler = {"name": "scheduler", **top.table("scheduler").rest()}
    (arm,) = read_arms([Fields(file, "scheduler", scheduler)], {})
    found = BenchFile(
        name=top.text("name", stem),
        seed=top.whole("seed", 0),
        cluster=read_cluster(top.table("cluster")),
        scheduler=arm,
        suites=tuple(_suite(fields) for fields in top.tables("suite")),
    )
    top.done()
    if not found.suites:
        raise BadInputError(
            f"{file}: suite is missing but must be one or more tables: start each with [[suite]]"
        )
    for suite in found.suites:
        _check_marks(file, arm, suite)
    return found


def _suite(fields: Fields) -> BenchSuite:
    mode = fields.choice("mode", ("sequence", "parallel", "poisson"), "sequence")
    if fields.has("gap") and mode != "poisson":
        raise BadInputError(
            f'{fields.file}: {fields.name("gap")} is read only with mode = "poisson": remove it'
        )
    suite = BenchSuite(
        description=fields.text("description", fields.where),
        repeat=fields.get("repeat", int, 1, "a whole number from 1", least=1),
        mode=mode,  # type: ignore[arg-type]
        gap_ms=fields.time_ms("gap", 1_000),
        beside=fields.text("beside", ""),
        lane=fields.text("lane", fields.where),
        jobs=tuple(job for table in fields.tables("workload") for job in read_workload(table, _MARKS)),
    )
    fields.done()
    if not suite.jobs:
        raise BadInputError(
            f"{fields.file}: {fields.where} has no workload: start each with [[suite.workload]]"
        )
    for name, default in _PARALLEL_ONLY.items():
        label = next((job.label for job in suite.jobs if job.marks[name] != default), None)
        if label is not None and mode != "parallel":
            raise BadInputError(
                f'{fields.file}: {label!r} sets {name}, which is read only with mode = "parallel": remove it'
            )
    return suite


def _check_marks(file: str, arm: Arm, suite: BenchSuite) -> None:
    for job in suite.jobs:
        isolation = job.marks["isolation"]
        if isolation is not None and isolation > 1.0:
            raise BadInputError(
                f"{file}: isolation of {job.label!r} is {isolation:g} but must be from 0 to 1"
            )
        given = [name for name in ("priority", "isolation") if job.marks[name] is not None]
        unread_mark = None if arm.stock else unread(arm, given)
        if arm.stock and given:
            unread_mark = f"{given[0]}, which Spark's own {arm.scheduler.upper()} scheduler does not read"
        if unread_mark is not None:
            raise BadInputError(f"{file}: {job.label!r} sets {unread_mark}: remove it")


def side_by_side(suites: Sequence[BenchSuite]) -> list[list[list[int]]]:
    """The numbers of the suites, in groups that run one after the other.

    The lanes of a group run side by side, and the suites of a lane one after the other.
    """
    groups: list[list[list[int]]] = []
    for _, group in groupby(enumerate(suites), key=lambda item: item[1].beside or item[0]):
        lanes: dict[str, list[int]] = {}
        for number, suite in group:
            lanes.setdefault(suite.lane, []).append(number)
        groups.append(list(lanes.values()))
    return groups


def plan_jobs(found: BenchFile, number: int) -> list[PlannedJob]:
    """The jobs of suite ``number`` in the order of their arrival (for a sequence, of their runs).

    Side by side, every repetition of a job arrives at its ``start_s``, and its further iterations follow it.
    """
    suite = found.suites[number]
    rng = np.random.default_rng([found.seed, number, 6])
    planned, arrival_s = [], 0.0
    for repetition in range(suite.repeat):
        for place, job in enumerate(suite.jobs):
            sequence = np.random.SeedSequence([found.seed, number, repetition, place])
            at_s = arrival_s + job.marks["start_s"]
            for iteration, seed in enumerate(sequence.generate_state(job.marks["iterations"]).tolist()):
                planned.append(PlannedJob(job, repetition, round(at_s, 3), seed, after=iteration > 0))
            if suite.mode == "poisson":
                arrival_s += float(rng.exponential(suite.gap_ms / 1000))
    # The sort keeps the order of equal times: iterations stay behind one another.
    return sorted(planned, key=lambda one: one.arrival_s)


def mark_of(arm: Arm, job: WorkloadJob) -> Mapping[str, Any] | None:
    """Arguments of `spark_sched.job`, None under Spark's own scheduler.

    Jobs with the same label share a name, so that history learned from one serves the next.
    """
    if arm.stock:
        return None
    priority, isolation = job.marks["priority"], job.marks["isolation"]
    return {
        "name": job.label,
        "priority": arm.priority if priority is None else priority,
        "isolation": arm.isolation if isolation is None else isolation,
        "copies": arm.copies,
        "deadline": arm.deadline_s,
        "user": job.marks["user"] or None,
    }
