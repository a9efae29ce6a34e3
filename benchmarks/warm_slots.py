#!/usr/bin/env python3
"""Slowdown of a task away from its input and in a cold JVM: the paper's figure 6 and its claim of 8 ×.

    python benchmarks/warm_slots.py [--rounds N] [--json]

Stock Spark on a standalone cluster of two workers on 127.0.0.2 and 127.0.0.3. MLlib's vectors are cached on
one executor, whose JVM has run the same stages before. A second executor then starts, cold and without any of
the data, and `spark.locality.wait` is 0, so that it takes what tasks it can. MLlib's summary of the columns
runs several times. Reported: the task times at level ANY in the new executor, in its first stage (cold) and
in the later ones (warm), over the median of the same stages' tasks at PROCESS_LOCAL. Each round begins with a
new second executor.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import click
import numpy as np
from _common import interval, local_properties, publish, stderr, workspace

from spark_sched_lab.runs.clusters import LocalCluster
from spark_sched_lab.runs.paired.statistics import spread

PARTITIONS, ROWS, FEATURES, STAGES, SLOTS = 12, 20_000, 10, 6, 2
LIMIT_S = 300.0


def ratios(events: Iterable[Mapping[str, Any]]) -> dict[str, list[float]]:
    """Task times at ANY over the stage's median at PROCESS_LOCAL, ``cold`` and ``warm``.

    Only stages count that read cached partitions on both executors. A task of an executor's first such stage
    at ANY is cold.
    """
    tasks: dict[int, list[tuple[str, str, int]]] = defaultdict(list)
    for event in events:
        if event["Event"] == "SparkListenerTaskEnd" and event["Task End Reason"]["Reason"] == "Success":
            info = event["Task Info"]
            taken_ms = info["Finish Time"] - info["Launch Time"]
            tasks[event["Stage ID"]].append((info["Locality"], info["Executor ID"], taken_ms))
    found: dict[str, list[float]] = {"cold": [], "warm": []}
    seen: set[str] = set()
    for _, rows in sorted(tasks.items()):
        near = [taken_ms for locality, _, taken_ms in rows if locality == "PROCESS_LOCAL"]
        away = [(executor, taken_ms) for locality, executor, taken_ms in rows if locality == "ANY"]
        if not near or not away:
            continue
        for executor, taken_ms in away:
            found["warm" if executor in seen else "cold"].append(taken_ms / max(1.0, float(np.median(near))))
        seen.update(executor for executor, _ in away)
    return found


def _wait(what: str, reached: Callable[[], bool]) -> None:
    end_s = time.monotonic() + LIMIT_S
    while not reached():
        if time.monotonic() > end_s:
            raise click.ClickException(f"{what} took more than {LIMIT_S:g} s")
        time.sleep(0.1)


def run_rounds(spark: Any, rounds: int) -> None:
    """All stages; the event log has their tasks."""
    from pyspark.ml.feature import VectorAssembler
    from pyspark.ml.stat import Summarizer

    context = spark.sparkContext._jsc.sc()

    def executors() -> list[str]:
        names = context.getExecutorIds()
        return sorted(str(names.apply(n)) for n in range(names.size()))

    def kill(name: str) -> None:
        context.killExecutor(name)
        _wait("ending an executor", lambda: name not in executors())

    _wait("starting two executors", lambda: len(executors()) == 2)
    kill(executors()[1])
    columns = [f"x{n}" for n in range(FEATURES)]
    made = spark.range(0, PARTITIONS * ROWS, 1, PARTITIONS).selectExpr(
        *(f"hash(id, {n}) / 2147483648D as {name}" for n, name in enumerate(columns))
    )
    points = (
        VectorAssembler(inputCols=columns, outputCol="features").transform(made).select("features").cache()
    )
    first = executors()
    for number in range(rounds + 1):
        for _ in range(STAGES):
            points.select(Summarizer.metrics("mean", "variance").summary(points.features)).collect()
        if number == rounds:
            return
        for name in executors():
            if name not in first:
                kill(name)
        # Spark's target falls to 0 with the first kill, whatever still runs, and by one with each later one.
        context.requestExecutors(1 if number else 2)
        _wait("starting an executor", lambda: len(executors()) == 2)
        stderr.print(f"round {number + 1}: executors {executors()}", highlight=False)


@click.command()
@click.option("--rounds", default=3, show_default=True, help="New executors.")
@click.option("--json", "json_output", is_flag=True)
def main(rounds: int, json_output: bool) -> None:
    """Task slowdown away from the input, in a cold and in a warm JVM."""
    from pyspark.sql import SparkSession

    with workspace() as directory, LocalCluster(2, SLOTS, "1g") as cluster:
        properties = {
            **cluster.spark_conf(),
            **local_properties(directory),
            "spark.executor.cores": str(SLOTS),
            "spark.executor.memory": "768m",
            "spark.locality.wait": "0s",
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.shuffle.partitions": "1",
        }
        builder = SparkSession.builder.appName("warm-slots")
        for name, value in properties.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        application = spark.sparkContext.applicationId
        run_rounds(spark, rounds)
        spark.stop()
        with (directory / "event-logs" / application).open() as log:
            found = ratios(map(json.loads, log))
    rng = np.random.default_rng(0)
    rows = [
        {
            "executor": kind,
            "tasks": len(values),
            "slowdown": spread(values, rng).as_json(),
            "median": float(np.median(values)),
            "largest": max(values),
        }
        for kind, values in found.items()
        if values
    ]
    lines = [
        f"at ANY in a {row['executor']} executor: {row['slowdown']['mean']:.1f} times"
        f"{interval(row['slowdown'])} as long as at PROCESS_LOCAL, median {row['median']:.1f}, at most "
        f"{row['largest']:.1f}; {row['tasks']} tasks"
        for row in rows
    ]
    publish({"benchmark": "warm_slots", "runs": rounds, "rows": rows}, lines, json_output)


if __name__ == "__main__":
    main()
