#!/usr/bin/env python3
"""Memory growth of driver and planner over many short jobs and micro-batches that have ended.

    python benchmarks/memory.py [--jobs N] [--batches N] [--policy NAME] [--stock] [--json]

One application on ``local[4]``. First threads run Spark jobs of one task each: unmarked ones, ones in a job
group of their own, and marked ones, of which half have a name that never comes again. Then streaming queries
run micro-batches. At equal intervals the driver's heap is measured after a garbage collection and the
planner's resident memory beside it. The first fifth of the measurements is left out: caches fill. A slope is
by least squares, per 100,000 jobs and per 20,000 batches, with its 95 % interval.

``--stock`` measures the same on Spark's own scheduler: what Spark itself keeps.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
from _common import heap_mb, local_properties, publish, stderr, workspace
from pyspark import InheritableThread, SparkContext
from pyspark.sql import SparkSession
from scipy import stats

import spark_sched
import spark_sched.api.attached
from spark_sched import attach
from spark_sched.errors import SparkSchedWarning

_MB = 1e6
_WARM_UP = 0.2
#: Spark's own lists of what is over, kept short: they are full after the first measurements.
_SHORT_LISTS = {
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "200",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.sql.streaming.numRecentProgressUpdates": "2",
    "spark.sql.streaming.minBatchesToRetain": "2",
    "spark.sql.streaming.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
}


@dataclass
class Series:
    """Measurements of one kind of load: how much was done by then, and what memory was in use."""

    per: int
    done: list[int] = field(default_factory=list)
    driver_mb: list[float] = field(default_factory=list)
    planner_mb: list[float] = field(default_factory=list)

    def measure(self, spark: SparkSession, done: int) -> None:
        self.done.append(done)
        self.driver_mb.append(heap_mb(spark.sparkContext))
        self.planner_mb.append(_planner_mb(spark.sparkContext))
        line = f"{done:>8,}: driver {self.driver_mb[-1]:.1f} MB, planner {self.planner_mb[-1]:.1f} MB"
        stderr.print(line, highlight=False)

    def slope(self, values: list[float]) -> dict[str, float]:
        """MB more after ``per`` of what is done, with its 95 % interval."""
        skip = int(len(values) * _WARM_UP)
        if len(set(values[skip:])) == 1:
            return {"mb": 0.0, "low": 0.0, "high": 0.0}
        found = stats.linregress(self.done[skip:], values[skip:])
        half = found.stderr * stats.t.ppf(0.975, max(1, len(values) - skip - 2))
        low, middle, high = (
            self.per * each for each in (found.slope - half, found.slope, found.slope + half)
        )
        return {"mb": round(middle, 2), "low": round(low, 2), "high": round(high, 2)}

    def as_json(self) -> dict[str, Any]:
        return {
            "per": self.per,
            "done": self.done,
            "driver_mb": [round(mb, 2) for mb in self.driver_mb],
            "planner_mb": [round(mb, 2) for mb in self.planner_mb],
            "driver_slope": self.slope(self.driver_mb),
            "planner_slope": self.slope(self.planner_mb),
        }


def _planner_mb(sc: SparkContext) -> float:
    """The planner's resident memory; 0 where there is none."""
    pid = _counters(sc).get("planner_pid", -1)
    if pid <= 0:
        return 0.0
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / _MB


def _counters(sc: SparkContext) -> dict[str, int]:
    """The scheduler's counters; empty on Spark's own."""
    if not spark_sched.api.attached.scheduler_of(sc):
        return {}
    found: dict[str, int] = json.loads(
        sc._jvm.org.apache.spark.scheduler.sparksched.SparkSched.counters(sc._jsc.sc())
    )
    return found


def _wait_for_plan(sc: SparkContext) -> None:
    """Wait until the planner runs, because its imports are not growth."""
    until_s = time.monotonic() + 600
    while not _counters(sc).get("plans_accepted", 1):
        if time.monotonic() > until_s:
            raise click.ClickException("the planner did not plan within ten minutes")
        time.sleep(0.1)


def short_jobs(spark: SparkSession, jobs: int, threads: int, intervals: int) -> Series:
    """Spark jobs of one task each. The tasks run no Python, which would be most of the time."""
    sc = spark.sparkContext
    rows: Any = sc._jsc.parallelize([1], 1)
    series = Series(100_000)

    def run(number: int) -> None:
        kind = number % 4
        if kind == 0:
            rows.count()
        elif kind == 1:
            sc.setJobGroup(f"group-{number}", "short")
            rows.count()
            sc._jsc.clearJobGroup()
        else:
            name = "nightly" if kind == 2 else f"once-{number}"
            with spark_sched.job(spark, name, priority=number % 3):
                rows.count()

    before = 0
    for done in _steps(jobs, intervals):
        _in_threads(threads, iter(range(before, done)), run)
        series.measure(spark, done)
        before = done
    return series


def micro_batches(spark: SparkSession, batches: int, queries: int, intervals: int) -> Series:
    """Micro-batches of a few queries; each query is one job of the scheduler's."""
    series = Series(20_000)
    with tempfile.TemporaryDirectory(dir=_memory_disk()) as directory:
        running = [
            spark.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", 1)
            .load()
            .writeStream.format("noop")
            .option("checkpointLocation", f"{directory}/{n}")
            .start()
            for n in range(queries)
        ]
        for done in _steps(batches, intervals):
            _wait_for(running, done)
            series.measure(spark, done)
        for query in running:
            query.stop()
    return series


def _wait_for(running: list[Any], batches: int) -> None:
    def done() -> int:
        latest = (query.lastProgress for query in running)
        return sum(progress["batchId"] + 1 for progress in latest if progress)

    while done() < batches:
        for query in running:
            if not query.isActive:
                raise click.ClickException(f"a query ended: {query.exception()}")
        time.sleep(0.2)


def _memory_disk() -> str | None:
    """A batch writes two small files: where the machine has one, a disk in memory."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _steps(total: int, intervals: int) -> list[int]:
    return [total * (n + 1) // intervals for n in range(intervals)]


def _in_threads(threads: int, numbers: Iterator[int], run: Callable[[int], None]) -> None:
    lock, failures = threading.Lock(), list[Exception]()

    def work() -> None:
        while not failures:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            try:
                run(number)
            except Exception as error:
                failures.append(error)

    workers = [InheritableThread(target=work) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failures:
        raise failures[0]


@click.command()
@click.option("--jobs", default=100_000, show_default=True, help="Short jobs.")
@click.option("--batches", default=20_000, show_default=True, help="Micro-batches, of all queries together.")
@click.option("--threads", default=4, show_default=True, help="That submit short jobs.")
@click.option("--queries", default=2, show_default=True, help="Streaming queries.")
@click.option("--intervals", default=25, show_default=True, help="Measurements of each kind of load.")
@click.option("--policy", default="reservation", show_default=True, help="Policy of the planner.")
@click.option("--stock", is_flag=True, help="On Spark's own scheduler.")
@click.option("--json", "json_output", is_flag=True)
def main(
    jobs: int,
    batches: int,
    threads: int,
    queries: int,
    intervals: int,
    policy: str,
    stock: bool,
    json_output: bool,
) -> None:
    """The memory of driver and planner over short jobs and micro-batches."""
    began_s = time.monotonic()
    with workspace() as directory:
        settings = {**local_properties(directory), **_SHORT_LISTS, "spark.eventLog.enabled": "false"}
        ours = {} if stock else {"spark.sched.planner.policy": policy}
        master = "local[4]"
        given = {**settings, "spark.master": master} if stock else attach.conf(master, {**settings, **ours})
        spark = SparkSession.builder.config(map=given).getOrCreate()
        spark.sparkContext.setLogLevel("ERROR")
        try:
            _wait_for_plan(spark.sparkContext)
            with warnings.catch_warnings(action="ignore", category=SparkSchedWarning):
                series = {
                    "short_jobs": short_jobs(spark, jobs, threads, intervals).as_json(),
                    "micro_batches": micro_batches(spark, batches, queries, intervals).as_json(),
                }
            counters = _counters(spark.sparkContext)
        finally:
            spark.stop()
    document = {
        "benchmark": "memory",
        "runs": 1,
        "scheduler": "stock" if stock else policy,
        "took_s": round(time.monotonic() - began_s, 1),
        **series,
        "counters": counters,
    }
    publish(document, [_line(name, series[name]) for name in series], json_output)


def _line(name: str, series: dict[str, Any]) -> str:
    parts = []
    for what in ("driver", "planner"):
        found, slope = series[f"{what}_mb"], series[f"{what}_slope"]
        parts.append(
            f"{what} {found[0]:.1f} to {found[-1]:.1f} MB, {slope['mb']:+.2f} MB per {series['per']:,} "
            f"(95 %: {slope['low']:+.2f} to {slope['high']:+.2f})"
        )
    return f"{series['done'][-1]:,} {name.replace('_', ' ')}: {'; '.join(parts)}"


if __name__ == "__main__":
    main()
