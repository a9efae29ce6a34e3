"""Scenarios of pipelined groups (Spark 4.3): stages that run at the same time, beside held slots."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark import InheritableThread
from pyspark.sql import SparkSession

import spark_sched
from tests.integration.scenarios import (
    Result,
    counters,
    release,
    running_tasks,
    settled,
    sleeper_after,
    wait_until,
    warm_up,
)

_SLOT_CHECK = "spark.scheduler.pipelinedGroup.slotCheck.enabled"


def _pipelined(spark: SparkSession, writers: int, readers: int) -> Any:
    """An RDD of 100 rows: `readers` tasks read what `writers` tasks write meanwhile."""
    jvm: Any = spark._jvm
    adaptive = spark.conf.get("spark.sql.adaptive.enabled")
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    try:
        frame = spark.range(0, 100, 1, writers).repartition(readers)
        exchange = frame._jdf.queryExecution().executedPlan()
    finally:
        spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    shuffle = exchange.shuffleDependency()
    none = jvm.scala.Option.empty()
    kind = getattr(getattr(jvm.scala.reflect, "ClassTag$"), "MODULE$").Any()
    pipelined = jvm.org.apache.spark.PipelinedShuffleDependency(
        *(shuffle.rdd(), shuffle.partitioner(), shuffle.serializer(), none, none, False),
        *(shuffle.shuffleWriterProcessor(), shuffle.rowBasedChecksums(), kind, kind, kind),
    )
    return jvm.org.apache.spark.sql.execution.ShuffledRowRDD(pipelined, exchange.readMetrics()).toJavaRDD()


def _count(spark: SparkSession, name: str) -> int | str:
    """Rows that a group of two tasks reads; or why it was refused."""
    with spark_sched.job(spark, name):
        try:
            found: int = _pipelined(spark, 1, 1).count()
        except Py4JJavaError as error:
            return str(error.java_exception.getMessage())
    return found


def groups(spark: SparkSession) -> Result:
    """Of four slots, two are held and one is busy, then one is held and one is busy, then three are busy."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    conf = sc._jsc.sc().conf()
    found = {**_beside(spark, "holds two", 3, 2, "refused"), **_beside(spark, "holds one", 2, 1, "started")}
    conf.set(_SLOT_CHECK, "false")
    try:
        found |= _beside(spark, "holds none", 3, 0, "beside_busy_slots")
    finally:
        conf.remove(_SLOT_CHECK)
    return {**found, "counters": settled(sc)}


def _beside(spark: SparkSession, name: str, tasks: int, held: int, group: str) -> Result:
    """What becomes of a group while a job of that name holds slots, and how many are held then."""
    sc = spark.sparkContext

    def job(first: Path, last: Path) -> None:
        def body(partition: int) -> tuple[int, float, float]:
            return sleeper_after(last if partition >= held else first, lambda _: 0.0)(partition)

        with spark_sched.job(spark, name, priority=5, copies="never"):
            sc.parallelize(range(tasks), tasks).map(body).collect()

    with release() as first, release() as last:
        thread = InheritableThread(target=job, args=(first, last))
        thread.start()
        wait_until(lambda: running_tasks(sc) == tasks, "its tasks were to run")
        first.touch()
        wait_until(lambda: counters(sc)["slots_held_now"] == held, f"{held} slots were to be held")
        became = _count(spark, group)
        # Whatever became of the group, it did not wait for these.
        still = counters(sc)["slots_held_now"]
        last.touch()
        thread.join()
    settled(sc)
    return {group: became, f"{group}_held": still}
