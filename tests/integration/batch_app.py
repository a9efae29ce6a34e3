"""A batch application of one short Spark job: ``batch_app.py ENDING RUNS MASTER [KEY=VALUE …]``.

ENDING is ``stop`` (spark.stop() right after the job), ``raise`` (an exception, with no stop), ``hang`` (the
planner is stopped by SIGSTOP first) or ``plan`` (after the first plan was followed). RUNS applications follow
each other.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

from pyspark.sql import SparkSession

from spark_sched.bridge import conf


def counters(spark: SparkSession) -> dict[str, int]:
    entry = spark._jvm.org.apache.spark.scheduler.sparksched.SparkSched
    found: dict[str, int] = json.loads(entry.counters(spark._jsc.sc()))
    return found


def until(name: str, spark: SparkSession) -> int:
    while (found := counters(spark)[name]) <= 0:
        time.sleep(0.05)
    return found


def run(ending: str, master: str, settings: dict[str, str]) -> None:
    spark = SparkSession.builder.config(map=conf(master, settings)).getOrCreate()
    if ending in ("hang", "plan"):
        until("plans_accepted", spark)
    if ending == "hang":
        os.kill(until("planner_pid", spark), signal.SIGSTOP)
    assert spark.sparkContext.parallelize(range(100), 4).sum() == 4950
    if ending == "raise":
        raise RuntimeError("the application fails here")
    spark.stop()


if __name__ == "__main__":
    how, runs, inner, *given = sys.argv[1:]
    for _ in range(int(runs)):
        run(how, inner, {"spark.ui.enabled": "false", **dict(each.split("=", 1) for each in given)})
    print("ended", flush=True)
