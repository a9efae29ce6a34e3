#!/usr/bin/env python3
"""Time of a tiny job on an idle cluster, marked under each policy and on stock Spark.

    python benchmarks/tiny_jobs.py [--rounds N] [--jobs N] [--null] [--json] [POLICY…]

One application on ``local[4]`` per policy and one on stock Spark, all warm. In each round each application in
turn runs the same number of jobs of two tasks, each in a block of its own, so that the machine's noise is the
same for all. ``--null`` adds a second application of stock Spark.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
from _common import local_properties, publish, stderr, workspace

from spark_sched.attach.properties import PLUGIN

POLICIES = ("reservation", "3sigma", "slearn", "slearn-bayes", "priority-evictions", "fair")
STOCK = "stock"
NULL = "stock again"
_SETTLE_S = 3.0


def is_attached(properties: dict[str, str]) -> bool:
    """Whether the application runs under spark_sched, so that its jobs are marked."""
    return PLUGIN in properties.get("spark.plugins", "")


def serve(properties: dict[str, str]) -> None:
    """The application: for each line it runs that number of jobs and prints their times (ms)."""
    from pyspark.sql import SparkSession

    import spark_sched

    builder = SparkSession.builder
    for name, value in properties.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    jrdd = spark.sparkContext.parallelize(range(2), 2).cache()._jrdd
    marked = is_attached(properties)
    for line in sys.stdin:
        times_ms = []
        for _ in range(int(line)):
            begun = time.perf_counter()
            if marked:
                with spark_sched.job(spark, "request", priority=1):
                    jrdd.count()
            else:
                jrdd.count()
            times_ms.append(1e3 * (time.perf_counter() - begun))
        print(json.dumps(times_ms), flush=True)
    spark.stop()


class Application:
    """One of the applications, in a process of its own."""

    def __init__(self, properties: dict[str, str], directory: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve", json.dumps(properties)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=directory,
        )

    def run(self, jobs: int) -> list[float]:
        """The times of so many jobs (ms)."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{jobs}\n")
        self._process.stdin.flush()
        while line := self._process.stdout.readline():
            with contextlib.suppress(json.JSONDecodeError):
                times_ms: list[float] = json.loads(line)
                return times_ms
        raise click.ClickException(f"an application ended with status {self._process.wait()}")

    def stop(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()


def properties_of(arm: str, directory: Path) -> dict[str, str]:
    """An arm's properties: of a policy, or of stock Spark."""
    from spark_sched import attach

    base = {
        **local_properties(directory),
        "spark.eventLog.enabled": "false",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
    }
    if arm in (STOCK, NULL):
        return {**base, "spark.master": "local[4]"}
    return dict(attach.conf("local[4]", {**base, "spark.sched.planner.policy": arm}))


@contextlib.contextmanager
def applications(arms: tuple[str, ...]) -> Iterator[dict[str, Application]]:
    """Warm applications by arm."""
    with workspace() as directory, contextlib.ExitStack() as stack:
        running = {}
        for arm in arms:
            running[arm] = Application(properties_of(arm, directory), str(directory))
            stack.callback(running[arm].stop)
        for arm, application in running.items():
            application.run(200)
            stderr.print(f"{arm} is warm", highlight=False)
        time.sleep(_SETTLE_S)
        yield running


@click.command()
@click.argument("policies", nargs=-1)
@click.option("--rounds", default=10, show_default=True)
@click.option("--jobs", default=20, show_default=True, help="Jobs of each application in a round.")
@click.option("--null", "null_arm", is_flag=True, help="Add a second application of stock Spark.")
@click.option("--serve", "properties", hidden=True)
@click.option("--json", "json_output", is_flag=True)
def main(
    policies: tuple[str, ...],
    rounds: int,
    jobs: int,
    null_arm: bool,
    properties: str | None,
    json_output: bool,
) -> None:
    """Compare the time of tiny marked jobs with stock Spark's."""
    if properties is not None:
        serve(json.loads(properties))
        return
    arms = (STOCK, *((NULL,) if null_arm else ()), *(policies or POLICIES))
    medians: dict[str, list[float]] = {arm: [] for arm in arms}
    with applications(arms) as running:
        for number in range(rounds):
            for arm in np.roll(arms, number).tolist():
                medians[arm].append(float(np.median(running[arm].run(jobs))))
    stock = np.array(medians[STOCK])
    rows = {
        arm: {
            "median_ms": round(float(np.median(found)), 2),
            "ratio": round(float(np.median(found) / np.median(stock)), 3),
            "paired_ratio": round(float(np.median(np.array(found) / stock)), 3),
        }
        for arm, found in medians.items()
    }
    document = {"benchmark": "tiny_jobs", "runs": rounds, "jobs": jobs, "arms": rows}
    lines = [
        f"{arm}: {row['median_ms']:.1f} ms, {row['ratio']:.2f} of stock ({row['paired_ratio']:.2f} in pairs)"
        for arm, row in rows.items()
    ]
    publish(document, lines, json_output)


if __name__ == "__main__":
    main()
