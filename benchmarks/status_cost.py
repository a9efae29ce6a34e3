#!/usr/bin/env python3
"""Cost of the operator's view of a large application: 1,000 jobs on 10,000 slots.

    python benchmarks/status_cost.py [--jobs N] [--slots N] [--seconds S] [--json]

One application on ``local[SLOTS]`` whose jobs have sleeping JVM tasks: each has its share of the slots and
two tasks that wait. Measured meanwhile:

- processor time of the scheduler's timer thread per second. It looks at all jobs, for their stories and
  for metrics, every ten seconds at least, and does what is due each second.
- wall time and size of the status document over REST, of the tab "Scheduling" and of a scrape of the metrics.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any
from urllib.request import urlopen

import click
import numpy as np
from _common import METRICS, local_properties, publish, stderr, workspace
from pyspark import SparkContext
from pyspark.sql import SparkSession

import spark_sched
from spark_sched import attach

_TIMER = "spark-sched-timer"
_WAITING = 2
_PATIENCE_S = 600.0
_PAGES = {
    "document": "/sched/api/v1/status",
    "tab": "/scheduling/",
    "scrape": "/metrics/prometheus/",
}


def submit(spark: SparkSession, jobs: int, tasks: int) -> None:
    """Marked jobs of that many sleeping tasks each, none of which ends by itself."""
    sc = spark.sparkContext
    sleep = "java_method('java.lang.Thread', 'sleep', 86400000L)"
    rows = spark.range(0, tasks, 1, tasks).selectExpr(sleep)._jdf.javaRDD()
    for number in range(jobs):
        marks = {"id": f"job-{number}", "name": f"report-{number}", "priority": str(number % 3)}
        for mark, value in marks.items():
            sc.setLocalProperty(f"spark.sched.job.{mark}", value)
        rows.countAsync()


def wait_for(spark: SparkSession, jobs: int, slots: int) -> None:
    """Until all jobs are known and all slots run."""
    until_s = time.monotonic() + _PATIENCE_S
    while True:
        status = spark_sched.status(spark)
        if len(status.jobs) >= jobs and status.application.running_slots >= slots:
            return
        if time.monotonic() > until_s:
            raise click.ClickException(
                f"{len(status.jobs)} of {jobs} jobs and {status.application.running_slots} of {slots} slots "
                f"run after {_PATIENCE_S:g} s"
            )
        time.sleep(1.0)


def timer_ms(sc: SparkContext) -> float:
    """Processor time of the scheduler's timer thread so far."""
    threads: Any = sc._jvm.java.lang.management.ManagementFactory.getThreadMXBean()
    for found in threads.getThreadInfo(threads.getAllThreadIds()):
        if found is not None and found.getThreadName() == _TIMER:
            return float(threads.getThreadCpuTime(found.getThreadId())) / 1e6
    raise click.ClickException(f"the driver has no thread {_TIMER}")


def read(url: str, times: int) -> dict[str, float]:
    """Median wall time of reading the page, and its size, after as many reads for the JVM to warm up."""
    taken_ms, size = [], 0
    for number in range(2 * times):
        begun = time.perf_counter()
        with urlopen(url, timeout=120) as answer:
            size = len(answer.read())
        if number >= times:
            taken_ms.append(1e3 * (time.perf_counter() - begun))
    return {"median_ms": round(float(np.median(taken_ms)), 1), "kilobytes": round(size / 1e3, 1)}


@click.command()
@click.option("--jobs", default=1_000, show_default=True)
@click.option("--slots", default=10_000, show_default=True)
@click.option("--seconds", default=60.0, show_default=True, help="Length of the quiet measurement.")
@click.option("--reads", default=30, show_default=True, help="Measured reads of each page.")
@click.option("--json", "json_output", is_flag=True)
def main(jobs: int, slots: int, seconds: float, reads: int, json_output: bool) -> None:
    """What the status document, the tab and the metrics cost."""
    with workspace() as directory:
        properties = local_properties(directory) | {
            "spark.eventLog.enabled": "false",
            "spark.ui.enabled": "true",
            "spark.ui.port": "0",
            "spark.driver.memory": "6g",
            **METRICS,
        }
        builder = SparkSession.builder
        for name, value in attach.conf(f"local[{slots}]", properties).items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        try:
            sc = spark.sparkContext
            stderr.print(f"submitting {jobs:,} jobs …", highlight=False)
            submit(spark, jobs, slots // jobs + _WAITING)
            wait_for(spark, jobs, slots)
            # Wait until compilers and the planner are idle.
            time.sleep(seconds / 2)
            before, begun = timer_ms(sc), time.monotonic()
            time.sleep(seconds)
            timer = (timer_ms(sc) - before) / (time.monotonic() - begun)
            pages = {name: read(f"{sc.uiWebUrl}{path}", reads) for name, path in _PAGES.items()}
        finally:
            with suppress(Exception):
                spark.sparkContext.cancelAllJobs()
            spark.stop()
    document = {
        "benchmark": "status_cost",
        "runs": 1,
        "sizes": {"jobs": jobs, "slots": slots, "waiting_tasks": _WAITING * jobs, "seconds": seconds},
        "timer_ms_per_s": round(timer, 3),
        "pages": pages,
    }
    lines = [
        f"{jobs:,} jobs on {slots:,} slots: {timer:.2f} ms of processor time per second in the timer thread",
        *(
            f"{name}: {page['median_ms']:g} ms (median of {reads} reads), {page['kilobytes']:g} kB"
            for name, page in pages.items()
        ),
    ]
    publish(document, lines, json_output)


if __name__ == "__main__":
    main()
