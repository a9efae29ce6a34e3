"""An application that throws at a seam between Spark's code and ours, and goes on as on stock Spark."""

from __future__ import annotations

import time
from typing import Any

from pyspark import BarrierTaskContext, TaskContext
from pyspark.sql import SparkSession

import spark_sched
from tests.integration.executor_scenarios import kill_executor_once
from tests.integration.plan_scenarios import Plans
from tests.integration.scenarios import Result, counters, wait_until

SLOTS = 4


def all_seams(spark: SparkSession) -> list[str]:
    jvm: Any = spark.sparkContext._jvm
    return list(jvm.org.apache.spark.scheduler.sparksched.FailOpen.Seams())


def survives(spark: SparkSession) -> Result:
    """Marked and unmarked work with a failing task; then a stage that needs every slot at once."""
    sc = spark.sparkContext
    seam = sc.getConf().get("spark.testing.schedThrowAt")
    with spark_sched.job(spark, "marked", priority=5):
        pairs = sc.parallelize(range(8), 8).map(once_failing).map(lambda i: (i % 2, i))
        sums = sorted(pairs.reduceByKey(lambda a, b: a + b, 2).collect())
        if seam == "plan":
            offer_plan(spark)
        if seam == "executor":
            lose_an_executor(spark)
        if seam in ("timer", "counters"):
            wait_until(lambda: counters(sc)["failed_open"] == 1, f"{seam} was to throw")
    unmarked = sc.parallelize(range(100), 20).sum()
    # A core that was lost on the way would keep this from starting.
    whole = sc.parallelize(range(SLOTS), SLOTS).barrier().mapPartitions(together).collect()
    return {
        "sums": sums,
        "unmarked": unmarked,
        "whole": whole,
        "failed_open": counters(sc)["failed_open"],
        "seams": all_seams(spark),
    }


def once_failing(value: int) -> int:
    context = TaskContext.get()
    if value == 3 and context.attemptNumber() == 0:
        raise ValueError("the first attempt fails")
    time.sleep(0.05)
    return value


def together(_: Any) -> list[int]:
    BarrierTaskContext.get().barrier()
    return [1]


def offer_plan(spark: SparkSession) -> None:
    try:
        Plans(spark.sparkContext).submit({"job": "nobody"})
    except AssertionError as refused:
        if "failed_open" not in str(refused):
            raise


def lose_an_executor(spark: SparkSession) -> None:
    """Kill one that runs a task; the cluster replaces it."""
    sc = spark.sparkContext
    sc.parallelize([0], 1).foreach(lambda _: kill_executor_once())
    wait_until(lambda: counters(sc)["failed_open"] == 1, "the loss was to be noticed")
