"""A batch application of one short Spark job: ``batch_app.py ENDING RUNS MASTER [KEY=VALUE …]``.

ENDING is ``stop`` (spark.stop() right after the job), ``raise`` (an exception, with no stop), ``hang`` (the
planner is stopped by SIGSTOP first), ``plan`` (after the first plan was followed), ``refused`` (one
application for each setting, none of which may start), ``killed`` (jobs during which the planner is killed
and stopped), ``locked`` (jobs while another client locks the history) or ``locked-to-the-end``. RUNS
applications follow each other.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Callable

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

import spark_sched
from spark_sched.attach import conf


def counters(spark: SparkSession) -> dict[str, int]:
    entry = spark._jvm.org.apache.spark.scheduler.sparksched.SparkSched
    found: dict[str, int] = json.loads(entry.counters(spark._jsc.sc()))
    return found


def until(name: str, spark: SparkSession) -> int:
    while (found := counters(spark)[name]) <= 0:
        time.sleep(0.05)
    return found


def job(spark: SparkSession, name: str, between: Callable[[], object] = lambda: None) -> None:
    """Two actions of two stages each."""
    with spark_sched.job(spark, name):
        for first in (True, False):
            rows = spark.sparkContext.parallelize(range(40), 4).map(lambda x: (x % 2, x))
            assert sum(value for _, value in rows.reduceByKey(lambda a, b: a + b, 2).collect()) == 780
            if first:
                between()


def kill(spark: SparkSession, number: int) -> int:
    """Send the planner a signal. Returns its process id."""
    pid = until("planner_pid", spark)
    os.kill(pid, number)
    return pid


def killed(spark: SparkSession) -> None:
    """Jobs while the planner is killed before, in, between and after them, and hangs during others."""
    until("plans_accepted", spark)
    for n in range(3):
        job(spark, f"calm-{n}")
    for n in range(3):
        job(spark, f"killed-within-{n}", lambda: kill(spark, signal.SIGKILL))
        job(spark, f"next-{n}")
        # Some time between the end of the job and the report that it is stored.
        time.sleep(0.05 * n)
        kill(spark, signal.SIGKILL)
    # One that was never heard of may take minutes to start.
    before = counters(spark)["plans_accepted"]
    while counters(spark)["plans_accepted"] <= before:
        time.sleep(0.05)
    stopped = kill(spark, signal.SIGSTOP)
    for n in range(3):
        job(spark, f"hung-{n}")
    while counters(spark)["planner_pid"] in (stopped, -1):
        time.sleep(0.05)
    job(spark, "last")


def locked(spark: SparkSession, to_the_end: bool) -> None:
    """Jobs while another client locks the history for longer than anybody waits for a lock."""
    until("plans_accepted", spark)
    job(spark, "before")
    while counters(spark)["jobs_unstored"] > 0:
        time.sleep(0.05)
    other = sqlite3.connect("history.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for n in range(5):
        job(spark, f"locked-{n}")
    # Planning goes on.
    before = counters(spark)["plans_accepted"]
    while counters(spark)["plans_accepted"] < before + 3:
        time.sleep(0.05)
    print("UNSTORED", counters(spark)["jobs_unstored"], flush=True)
    if to_the_end:
        spark.stop()
    else:
        kill(spark, signal.SIGKILL)
        while counters(spark)["planner_restarts"] == 0:
            time.sleep(0.05)
        other.execute("ROLLBACK")
        while counters(spark)["jobs_unstored"] > 0:
            time.sleep(0.05)
        print("UNLEARNED", counters(spark)["jobs_unlearned"], flush=True)


def run(ending: str, master: str, settings: dict[str, str]) -> None:
    spark = SparkSession.builder.config(map=conf(master, settings)).getOrCreate()
    if ending in ("hang", "plan"):
        until("plans_accepted", spark)
    if ending == "hang":
        os.kill(until("planner_pid", spark), signal.SIGSTOP)
    if ending == "killed":
        killed(spark)
    elif ending.startswith("locked"):
        locked(spark, to_the_end=ending != "locked")
    else:
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
