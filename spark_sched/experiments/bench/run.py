"""Runs a file's suites on a cluster or in the simulator, and sums up their jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from spark_sched.experiments.bench.matrix import simulated_stages
from spark_sched.experiments.bench.suite import BenchFile, PlannedJob, mark_of, plan_jobs
from spark_sched.policies.simple.fair import POOL_BY
from spark_sched.sim.cluster import ClusterSpec, uniform_nodes
from spark_sched.sim.run import simulate
from spark_sched.sim.workload import JobSpec, NextJob
from spark_sched.workloads.submit import chains

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
    from spark_sched.experiments.paired.live import applications

    arm = found.scheduler
    with applications(found.cluster, [arm], "spark_sched bench", note) as running:
        application = running[arm.application]
        application.wait_ready()
        done = []
        for number, suite in enumerate(found.suites):
            planned = plan_jobs(found, number)
            jobs = [
                {
                    "workload": job.job.program.name,
                    "parameters": dict(job.job.parameters),
                    "seed": job.seed,
                    "arrival_s": job.arrival_s,
                    "after": job.after,
                    "pool": f"user-{job.job.marks['user']}" if arm.scheduler == "fair" else None,
                    "mark": mark_of(arm, job.job),
                }
                for job in planned
            ]

            def show(done: int, jobs: int, _: bool, what: str = suite.description) -> None:
                progress(what, done, jobs)

            results = application.suite(jobs, in_sequence=suite.mode == "sequence", progress=show)
            done.append([_row(job, **result) for job, result in zip(planned, results, strict=True)])
    return done


def run_simulated(found: BenchFile, progress: Progress) -> list[Rows]:
    """The same on a virtual clock. Raises BadInputError for a workload whose durations are not known."""
    arm = found.scheduler
    nodes = uniform_nodes(found.cluster.workers, found.cluster.slots)
    settings = arm.simulated_settings | (_STOCK[arm.scheduler] if arm.stock else {})
    done = []
    for number, suite in enumerate(found.suites):
        planned = plan_jobs(found, number)
        specs = [_spec(str(n), job, arm) for n, job in enumerate(planned)]
        follows = [suite.mode == "sequence" or job.after for job in planned]
        result = simulate(
            ClusterSpec(nodes),
            [_chain([specs[n] for n in chain]) for chain in chains(follows)],
            arm.scheduler if arm.stock else arm.policy,
            settings=settings,
            seed=found.seed,
            keep_tasks=False,
        )
        ended = {row["job"]: row for row in result.rows()}
        rows = []
        for n, job in enumerate(planned):
            row = ended[str(n)]
            rows.append(
                _row(job, began_s=row["submit_ms"] / 1000, jct_s=row["jct_ms"] / 1000, values=(), error="")
            )
        done.append(rows)
        progress(suite.description, len(planned), len(planned))
    return done


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
