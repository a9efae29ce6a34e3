"""Forecasts of starts and ends of jobs that wait for each other, in a live application of sleeping tasks.

Runs of six programs come to ``local[4]`` at a load of 1.2, so that some wait and some do not. The status is
read four times a second; a job ended half-way between the last look that shows it and the next one. What
counts is as in queue_ends.py; jobs count from `--skip` on.

    python benchmarks/queue_ends_live.py [--jobs N] [--skip N] [--policy NAME] [--seed N] [--json]
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from typing import Any

import click
import numpy as np
from _common import local_properties, publish, workspace
from queue_ends import MOMENTS, Case, Planner, Score, Seen, lines, reliability, scored, tables

import spark_sched
from spark_sched.policies import EndQuantiles
from spark_sched.view.status import EndForecast, JobStatus

SLOTS, LOAD, LOOK_S = 4, 1.2, 0.25


def given(forecast: EndForecast | None) -> EndQuantiles | None:
    if forecast is None:
        return None
    start = None
    if forecast.start_p10_ms is not None:
        start = (forecast.start_p10_ms, forecast.start_p50_ms, forecast.start_p90_ms)
    return EndQuantiles(
        forecast.end_p10_ms, forecast.end_p50_ms, forecast.end_p90_ms, forecast.deadline_probability, start
    )


def sleeping(times_s: list[float]) -> Any:
    """A task body: each partition sleeps for its time."""

    def body(at: int) -> int:
        import time

        time.sleep(times_s[at])
        return at

    return body


class Application:
    """Its jobs, and their forecasts as the status shows them."""

    def __init__(self, spark: Any, seed: int) -> None:
        self._spark, self._seed = spark, seed
        self._over = threading.Event()
        self.seen: dict[str, list[Seen]] = defaultdict(list)
        self.jobs: dict[str, JobStatus] = {}
        self.ended_ms: dict[str, float] = {}
        self.most_waiting = 0

    def look(self) -> None:
        before_ms = 0
        while not self._over.wait(LOOK_S):
            status = spark_sched.status(self._spark)
            jobs = [job for job in status.jobs if job.marks.marked]
            alive = [job for job in jobs if job.times.ended_ms is None]
            gone = self.jobs.keys() - self.ended_ms.keys() - {job.job for job in alive}
            self.ended_ms.update(dict.fromkeys(gone, (before_ms + status.now_ms) / 2.0))
            before_ms = status.now_ms
            self.jobs.update({job.job: job for job in alive})
            self.most_waiting = max(self.most_waiting, sum(job.times.begun_ms is None for job in alive))
            for job in alive:
                begun = job.times.begun_ms is not None
                if job.forecast is None and job.after_jobs is None and not self.seen[job.job]:
                    # The planner has not said anything about it yet: it speaks once a second.
                    continue
                self.seen[job.job].append(Seen(status.now_ms, begun, (given(job.forecast),)))

    def work(self, number: int, program: tuple[str, int, int, float], factor: float, within_s: float) -> None:
        name, stages, tasks, task_s = program
        times_s = np.random.default_rng([self._seed, number]).lognormal(0.0, 0.2, (stages, tasks))
        with spark_sched.job(self._spark, name, user="ada", deadline=f"{1000 * within_s:.0f}ms"):
            for each in (times_s * task_s * factor).tolist():
                self._spark.sparkContext.parallelize(range(tasks), tasks).map(sleeping(each)).count()

    def run(self, jobs: int) -> None:
        from pyspark import InheritableThread

        rng = np.random.default_rng(self._seed)
        programs = [
            (f"program-{n}", int(rng.integers(1, 4)), int(rng.integers(3, 9)), float(rng.uniform(0.3, 0.9)))
            for n in range(6)
        ]
        work_s = float(np.mean([stages * tasks * task_s for _, stages, tasks, task_s in programs]))
        watcher = threading.Thread(target=self.look)
        watcher.start()
        threads = []
        for number in range(jobs):
            program = programs[int(rng.integers(len(programs)))]
            factor, within_s = np.exp(0.25 * rng.normal()), np.exp(rng.normal(np.log(12.0), 0.8))
            threads.append(
                InheritableThread(target=self.work, args=(number, program, float(factor), float(within_s)))
            )
            threads[-1].start()
            time.sleep(work_s / SLOTS / LOAD * float(rng.exponential()))
        for thread in threads:
            thread.join()
        time.sleep(4 * LOOK_S)
        self._over.set()
        watcher.join()


@click.command()
@click.option("--jobs", default=100, help="Jobs of the run.")
@click.option("--skip", default=40, help="First jobs, which do not count.")
@click.option("--policy", default="fifo", help="Policy.")
@click.option("--seed", default=201, help="Seed of the workload.")
@click.option("--json", "json_output", is_flag=True, help="Print one JSON document.")
def main(jobs: int, skip: int, policy: str, seed: int, json_output: bool) -> None:
    """Measure forecasts of jobs that wait for each other on real Spark."""
    from pyspark.sql import SparkSession

    with workspace() as directory:
        properties = {
            **spark_sched.conf(f"local[{SLOTS}]", {"spark.sched.planner.policy": policy}),
            **local_properties(directory),
        }
        builder = SparkSession.builder
        for name, value in properties.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        application = Application(spark, seed)
        try:
            application.run(jobs)
        finally:
            spark.stop()
    case, planner = Case(policy, LOAD, False, seed), Planner()
    planner.seen = application.seen
    scores: list[Score] = []
    for at, job in enumerate(sorted(application.jobs.values(), key=lambda each: each.times.submitted_ms)):
        if at >= skip and job.job in application.ended_ms:
            row = {
                "job": job.job, "name": job.name, "submit_ms": job.times.submitted_ms,
                "first_launch_ms": job.times.begun_ms, "end_ms": application.ended_ms[job.job],
                "deadline_ms": job.marks.deadline_ms,
            }  # fmt: skip
            scores += scored(case, planner, row)
    document: dict[str, Any] = {
        "jobs": len({each.job for each in scores}),
        "runs": 1,
        "cases": [{"policy": policy, "load": LOAD, "most_waiting": application.most_waiting}],
        "no_number": {m: sum(each.end is None and each.moment == m for each in scores) for m in MOMENTS},
        "coverage": [row for row in tables(scores) if row["by"] == "all"],
        "reliability": [
            {"arm": "corrected", "moment": moment, "waits": False, "rows": reliability(
                each for each in scores if each.moment == moment
            )}
            for moment in MOMENTS
        ],
    }  # fmt: skip
    publish(document, lines(document), json_output)


if __name__ == "__main__":
    main()
