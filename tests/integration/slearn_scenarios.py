"""Applications under the planner's ``slearn`` policy: pilots, their failures, SQL with adaptive execution.

Run like those of `scenarios`.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

from pyspark import InheritableThread, TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import spark_sched
from tests.integration.plan_scenarios import Row, Running, attempts, this_attempt
from tests.integration.scenarios import (
    Result,
    counters,
    executor_pid,
    planner_pid,
    settled,
    wait_until,
    waits,
    warm_up,
)

TASK_S = 0.3
WIDTH = 8


def pilots_live(spark: SparkSession) -> Result:
    """Six wide jobs behind a full cluster: each runs one task, drawn at random, before its others."""
    sc = spark.sparkContext
    _planned(spark)
    with tempfile.TemporaryDirectory(prefix="spark-sched-tests-") as name:
        here, all_here = Path(name), Path(name) / "all here"
        busy = Running(spark, "busy", 4, attempts(lambda p, _a: _until(all_here, here / f"{p}")))
        # As the tasks say themselves: the status tracker may still count those before them.
        wait_until(lambda: all((here / f"{n}").exists() for n in range(4)), "the cluster was to be full")
        jobs = [Running(spark, f"wide-{n}", WIDTH, attempts(lambda _p, _a: TASK_S)) for n in range(6)]
        # All must be there: slots that no other job can use would go to tasks that are no pilots.
        # As the scheduler itself knows: Spark tells of a stage before that.
        wait_until(lambda: all(waits(spark, f"wide-{n}", WIDTH) for n in range(6)), "six jobs were to wait")
        # The first plan from now on may have been made before the last of them came, the second one not.
        known = counters(sc)["plans_accepted"] + 2
        wait_until(lambda: counters(sc)["plans_accepted"] >= known, "no plan with all jobs came")
        all_here.touch()
        by_start = [sorted(job.join(), key=lambda row: row[3]) for job in jobs]
        busy.join()
    return {
        "first_tasks": [rows[0][0] for rows in by_start],
        "alone_at_first": sum(rows[1][3] - rows[0][3] >= TASK_S for rows in by_start),
        "partitions": [sorted(row[0] for row in rows) for rows in by_start],
        "counters": settled(sc),
    }


def pilots_lost(spark: SparkSession) -> Result:
    """Pilots fail, die with their executor, and lose their planner, beside adaptive SQL; every job ends."""
    sc = spark.sparkContext
    _planned(spark)
    with tempfile.TemporaryDirectory(prefix="spark-sched-tests-") as name:
        died = Path(name) / "died"
        queries: list[dict[str, Any]] = []
        threads = [InheritableThread(target=lambda n=n: queries.append(_query(spark, n))) for n in range(3)]
        for thread in threads:
            thread.daemon = True  # one that is stuck must not keep this process
            thread.start()
        failing = Running(spark, "failing", WIDTH, _first_fails)
        dying = Running(spark, "dying", WIDTH, lambda partition: _first_kills(partition, died))
        orphans = [Running(spark, f"orphan-{n}", WIDTH, attempts(lambda _p, _a: 0.2)) for n in range(3)]
        os.kill(planner_pid(sc), signal.SIGKILL)
        rows = {job: job.join() for job in (failing, dying, *orphans)}
        for thread in threads:
            thread.join(600)
        executor_died = died.exists()
    wait_until(lambda: counters(sc)["planner_restarts"] >= 1, "the planner did not come back")
    planner_pid(sc)
    return {
        "partitions": [sorted(row[0] for row in done) for done in rows.values()],
        "failing_attempts": sorted({row[1] for row in rows[failing]}),
        "executor_died": executor_died,
        "queries": queries,
        "counters": settled(sc),
    }


def _first_fails(partition: int) -> Row:
    """The first attempt of every task fails, its pilots' too."""
    time.sleep(0.1)
    if TaskContext.get().attemptNumber() == 0:
        raise ValueError("on purpose")
    return this_attempt(partition)


def _first_kills(partition: int, died: Path) -> Row:
    """The first task that runs at all takes its executor along."""
    time.sleep(0.1)
    try:
        died.touch(exist_ok=False)
    except FileExistsError:
        return this_attempt(partition)
    os.kill(executor_pid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def _until(path: Path, runs: Path) -> float:
    runs.touch()
    wait_until(path.exists, "the cluster was to stay full no longer")
    return 0.0


def _planned(spark: SparkSession) -> None:
    """Workers and planner are up."""
    warm_up(spark.sparkContext, 4)
    wait_until(lambda: counters(spark.sparkContext)["plans_accepted"] > 0, "no plan came", within_s=240.0)


def _query(spark: SparkSession, number: int) -> dict[str, Any]:
    """A join of two shuffled sides and an aggregation, whose sum is known."""
    rows, keys = 20_000, 97
    with spark_sched.job(spark, f"query-{number}"):
        left = spark.range(0, rows, 1, WIDTH).withColumn("k", F.col("id") % keys)
        right = spark.range(0, keys, 1, WIDTH).withColumnRenamed("id", "k").withColumn("w", F.col("k") * 2)
        grouped = left.join(right.hint("shuffle_merge"), "k").groupBy("k").agg(F.sum("w").alias("w"))
        found = sum(row["w"] for row in grouped.collect())
    return {
        "right": found == sum(2 * (i % keys) for i in range(rows)),
        "adaptive": "isFinalPlan=true" in grouped._jdf.queryExecution().executedPlan().toString(),
    }
