"""Runs a file's suites on a cluster or in the simulator, and sums up their jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from spark_sched.errors import BadInputError
from spark_sched.policies.simple.fair import POOL_BY
from spark_sched_lab.cluster.cluster import ClusterSpec, uniform_nodes
from spark_sched_lab.engine.run import simulate
from spark_sched_lab.engine.workload import JobSpec, NextJob
from spark_sched_lab.runs.bench.matrix import simulated_stages
from spark_sched_lab.runs.bench.suite import (
    BenchFile,
    BenchSuite,
    PlannedJob,
    mark_of,
    plan_jobs,
    side_by_side,
)
from spark_sched_lab.runs.paired.arms import Arm
from spark_sched_lab.runs.workloads.submit import chains

#: Called with the number of ended jobs of the suite, the number of all its jobs, and the suite's description.
Progress = Callable[[str, int, int], None]
Rows = list[dict[str, Any]]

#: Policy and options that do what Spark's own modes do. Under FAIR each user has a pool, FIFO inside.
_STOCK: dict[str, dict[str, str]] = {
    "fair": {POOL_BY.key("fair").name: "user"},
    "fifo": {},
}


def run_live(found: BenchFile, note: Callable[[str], None], progress: Progress) -> list[Rows]:
    """The jobs of each suite, run on a cluster of this machine.

    Raises ArmError and ClusterError if Spark fails; a job that fails has its error in its row.
    """
    from spark_sched_lab.runs.paired.live import applications

    arm = found.scheduler
    with applications(found.cluster, [arm], "spark_sched bench", note) as running:
        application = running[arm.application]
        application.wait_ready()
        done: list[Rows] = [[] for _ in found.suites]
        for lanes in side_by_side(found.suites):
            jobs: list[dict[str, Any]] = []
            planned: list[tuple[int, PlannedJob]] = []
            for lane, numbers in enumerate(lanes):
                for turn, number in enumerate(numbers):
                    for place, job in enumerate(plan_jobs(found, number)):
                        in_sequence = found.suites[number].mode == "sequence" and place > 0
                        after = job.after or in_sequence
                        jobs.append({**_job(arm, job, after), "lane": lane, "turn": turn})
                        planned.append((number, job))
            what = " | ".join(found.suites[numbers[0]].description for numbers in lanes)

            def show(done: int, jobs: int, _: bool, what: str = what) -> None:
                progress(what, done, jobs)

            results = application.suite(jobs, in_sequence=False, progress=show)
            for (number, job), result in zip(planned, results, strict=True):
                done[number].append(_row(job, **result))
    return done


def _job(arm: Arm, planned: PlannedJob, after: bool) -> dict[str, Any]:
    """A job as `SuiteRun` takes it."""
    return {
        "workload": planned.job.program.name,
        "parameters": dict(planned.job.parameters),
        "seed": planned.seed,
        "arrival_s": planned.arrival_s,
        "after": after,
        "pool": f"user-{planned.job.marks['user']}" if arm.scheduler == "fair" else None,
        "mark": mark_of(arm, planned.job),
    }


def run_simulated(found: BenchFile, progress: Progress) -> list[Rows]:
    """The same on a virtual clock. Raises BadInputError for a workload whose durations are not known, and for
    a setting that would do nothing."""
    arm = found.scheduler
    nodes = uniform_nodes(found.cluster.workers, found.cluster.slots)
    settings = arm.simulated_settings | (_STOCK[arm.scheduler] if arm.stock else {})
    done: list[Rows] = [[] for _ in found.suites]
    for lanes in side_by_side(found.suites):
        planned: list[tuple[int, PlannedJob]] = []
        follows: list[bool] = []
        for numbers in lanes:
            _check_turns([found.suites[number] for number in numbers])
            begin = len(planned)
            for number in numbers:
                in_sequence = found.suites[number].mode == "sequence"
                jobs = plan_jobs(found, number)
                # A turn that follows another is in sequence, and so is the other.
                first = len(follows) == begin
                follows += [
                    job.after or (in_sequence and (place > 0 or not first)) for place, job in enumerate(jobs)
                ]
                planned += [(number, job) for job in jobs]
        specs = [_spec(str(n), job, arm) for n, (_, job) in enumerate(planned)]
        result = simulate(
            ClusterSpec(nodes),
            [_chain([specs[n] for n in chain]) for chain in chains(follows)],
            arm.scheduler if arm.stock else arm.policy,
            settings=settings,
            plan_every_ms=arm.simulated_plan_every_ms,
            seed=found.seed,
            keep_tasks=False,
        )
        ended = {row["job"]: row for row in result.rows()}
        for n, (number, job) in enumerate(planned):
            row = ended[str(n)]
            done[number].append(
                _row(job, began_s=row["submit_ms"] / 1000, jct_s=row["jct_ms"] / 1000, values=(), error="")
            )
        for number in (number for numbers in lanes for number in numbers):
            progress(found.suites[number].description, len(done[number]), len(done[number]))
    return done


def _check_turns(lane: list[BenchSuite]) -> None:
    """Raises BadInputError for suites of a lane of which one waits for all of several jobs."""
    wrong = next((suite for suite in lane if suite.mode != "sequence" and len(lane) > 1), None)
    if wrong is not None:
        raise BadInputError(
            f"the suite {wrong.description!r} has parallel workloads and takes turns with others, "
            "beside further suites, which cannot be simulated: run it without --simulate, or set repeat to 1"
        )


def _spec(key: str, planned: PlannedJob, arm: Any) -> JobSpec:
    job = planned.job
    mark = mark_of(arm, job)
    submit_ms = round(1000 * planned.arrival_s)
    span_ms = None if arm.deadline_s is None else round(1000 * arm.deadline_s)
    return JobSpec(
        key,
        submit_ms,
        simulated_stages(job, planned.seed),
        name=job.label,
        user=job.marks["user"] or None,
        priority=0 if mark is None else mark["priority"],
        deadline_ms=None if span_ms is None else submit_ms + span_ms,
        isolation=None if mark is None else mark["isolation"],
        copies=mark is not None and mark["copies"] == "auto",
        marked=mark is not None,
        dag_known="nothing",
    )


def _chain(specs: list[JobSpec]) -> JobSpec:
    """Each job submitted at the end of the one before."""
    last = specs[-1]
    for spec in reversed(specs[:-1]):
        span_ms = None if last.deadline_ms is None else last.deadline_ms - last.submit_ms
        last = replace(spec, then=(NextJob(0, last, deadline_after_ms=span_ms),))
    return last


def _row(
    planned: PlannedJob, *, began_s: float, jct_s: float, values: Iterable[float], error: str
) -> dict[str, Any]:
    return {
        "workload": planned.job.label,
        "user": planned.job.marks["user"],
        "repetition": planned.repetition,
        "seed": planned.seed,
        "began_s": round(began_s, 3),
        "jct_s": round(jct_s, 3),
        "values": list(values),
        "error": error,
    }


def bench_document(found: BenchFile, done: list[Rows], basis: Mapping[str, Any]) -> dict[str, Any]:
    """The results as a JSON object: each suite's jobs, and sums by workload and by user."""
    return {
        "schema": 1,
        "name": found.name,
        "seed": found.seed,
        "slots": found.cluster.all_slots,
        "scheduler": {k: v for k, v in found.scheduler.as_json().items() if k != "arm"},
        "failures": sum(bool(row["error"]) for rows in done for row in rows),
        "suites": [
            {
                "description": suite.description,
                "mode": suite.mode,
                "repeat": suite.repeat,
                "makespan_s": round(max((row["began_s"] + row["jct_s"] for row in rows), default=0.0), 3),
                "workloads": _summary(rows, "workload"),
                "users": _summary(rows, "user"),
                "jobs": rows,
            }
            for suite, rows in zip(found.suites, done, strict=True)
        ],
        **basis,
    }


def _summary(rows: Rows, key: str) -> list[dict[str, Any]]:
    found = []
    for name in dict.fromkeys(row[key] for row in rows):
        jct_s = [row["jct_s"] for row in rows if row[key] == name and not row["error"]]
        p50, p95 = np.quantile(jct_s, [0.5, 0.95]) if jct_s else (float("nan"),) * 2
        found.append(
            {
                key: name,
                "jobs": len(jct_s),
                "failed": sum(bool(row["error"]) for row in rows if row[key] == name),
                "jct_mean_s": round(float(np.mean(jct_s)), 3) if jct_s else None,
                "jct_p50_s": round(float(p50), 3) if jct_s else None,
                "jct_p95_s": round(float(p95), 3) if jct_s else None,
            }
        )
    return found
