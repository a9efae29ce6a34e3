"""A batch application of one short Spark job: ``batch_app.py ENDING RUNS MASTER [KEY=VALUE …]``.

ENDING is ``stop`` (spark.stop() right after the job), ``raise`` (an exception, with no stop), ``hang`` (the
planner is stopped by SIGSTOP first), ``plan`` (after the first plan was followed) or ``refused`` (one
application for each setting, none of which may start). RUNS applications follow each other.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

from pyspark import SparkConf, SparkContext
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


def refused(master: str, settings: dict[str, str]) -> None:
    try:
        SparkSession.builder.config(map=conf(master, settings)).getOrCreate()
    except Exception as error:
        print("REFUSED", str(error).replace("\n", " "), flush=True)


def start_jvm() -> None:
    """One with the bridge: settings of the application that starts it would be defaults of later ones."""
    class_path = "spark.driver.extraClassPath"
    SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).set(class_path, conf()[class_path]))


def main(ending: str, runs: int, master: str, given: dict[str, str]) -> None:
    # A busy machine may need more than half a minute until a planner has looked at its settings.
    quiet = {"spark.ui.enabled": "false", "spark.sched.planner.startTimeout": "5min"}
    if ending == "refused":
        start_jvm()
        for name, value in given.items():
            refused(master, {**quiet, "spark.executor.memory": "512m", name: value})
    else:
        for _ in range(runs):
            run(ending, master, {**quiet, **given})
    print("ended", flush=True)


if __name__ == "__main__":
    how, count, inner, *settings_given = sys.argv[1:]
    main(how, int(count), inner, dict(each.split("=", 1) for each in settings_given))
