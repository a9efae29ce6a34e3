"""SQL sessions whose statements set the marks of a job.

Run like those of `scenarios`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast, spark_partition_id, udf

import spark_sched
from tests.integration.scenarios import (
    Result,
    all_told,
    counters,
    properties,
    release,
    running_tasks,
    settled,
    sleeper,
    straggling,
    wait_until,
    wait_until_steady,
    warm_up,
)


def sql_mark(spark: SparkSession) -> Result:
    """A marked query; what ends its holds, and that an unmarked job gets the slots then."""
    sc = spark.sparkContext
    warm_up(sc, 4)

    def marked(name: str) -> int:
        spark.sql(f"SET spark.sched.job.name={name}")
        spark.sql("SET spark.sched.job.priority=10")
        spark.sql("SELECT count(*) FROM range(0, 4000, 1, 4)").collect()
        return counters(sc)["slots_held_now"]

    def freed(statement: str) -> int:
        spark.sql(statement)
        wait_until(lambda: counters(sc)["slots_held_now"] == 0, f"{statement!r} freed nothing")
        return len(sc.parallelize(range(4), 4).map(sleeper(lambda _: 0.0)).collect())

    ends = ("RESET spark.sched.job.name", "SET spark.sched.job.name=", "SET spark.sched.job.name=another")
    held = []
    for number, end in enumerate(ends):
        held.append(marked(f"report-{number}"))
        assert freed(end) == 4
    for name in ("name", "priority"):
        spark.sql(f"RESET spark.sched.job.{name}")
    return {"held": held, "counters": settled(sc)}


def sql_mark_without_end(spark: SparkSession) -> Result:
    """Nobody ends the mark: what it holds is freed by itself, long before ``gap``."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    spark.sql("SET spark.sched.job.name=endless")
    spark.sql("SET spark.sched.job.priority=10")
    spark.sql("SELECT count(*) FROM range(0, 4000, 1, 4)").collect()
    wait_until(lambda: counters(sc)["slots_held_now"] == 0, "the slots stay held")
    rows = sc.parallelize(range(4), 4).map(sleeper(lambda _: 0.0)).collect()
    for name in ("name", "priority"):
        spark.sql(f"RESET spark.sched.job.{name}")
    return {"rows": len(rows), "counters": counters(sc)}


# ---- adaptive execution ----


def adaptive_more_next(spark: SparkSession) -> Result:
    """Four map tasks, then six tasks: two slots more are held while one straggles."""

    def state() -> Result:
        wait_until(lambda: counters(spark.sparkContext)["slots_held_now"] == 5, "five slots were to be held")
        return counters(spark.sparkContext)

    return _beside_a_straggler(spark, state)


def adaptive_fewer_next(spark: SparkSession) -> Result:
    """The same with so little output that one task will read it all: the sizes of the first outputs tell."""

    def state() -> Result:
        sc = spark.sparkContext
        wait_until(
            lambda: _last_done(sc) == 3 and counters(sc)["slots_held_now"] == 0, "the slots were to be free"
        )
        return counters(sc)

    return _beside_a_straggler(spark, state)


def adaptive_broadcast_join(spark: SparkSession) -> Result:
    """The same four map tasks, joined with a side so small that it is broadcast: four tasks read them."""
    return _broadcast_join(spark)


def adaptive_broadcast_join_of_a_marked_job(spark: SparkSession) -> Result:
    """The same in a job that may run more queries."""
    return _broadcast_join(spark, name="report")


def _broadcast_join(spark: SparkSession, **marks: str) -> Result:
    sc = spark.sparkContext

    def join(rows: DataFrame) -> int:
        small = sc.parallelize(range(1), 1).flatMap(lambda _: [(k,) for k in range(100)]).toDF("key long")
        return len(rows.join(small, "key").collect())

    def state() -> Result:
        wait_until(
            lambda: _last_done(sc) == 3 and len(sc.statusTracker().getActiveStageIds()) == 1,
            "the straggler was to be the only task",
        )
        # Three are held for any next stage, fewer until the broadcast is planned, and more if it is not.
        wait_until_steady(lambda: counters(sc)["slots_held_now"] == 3, "three slots were to stay held")
        return counters(sc)

    return _beside_a_straggler(spark, state, join, **marks)


def adaptive_last_stage(spark: SparkSession) -> Result:
    """An unmarked query's result stage: three of its four tasks end, and what they leave is anybody's."""
    sc = spark.sparkContext
    warm_up(sc, 8)
    with properties(sc, priority="10", isolation="1"):
        return {"rows": _freed_in_last_stage(spark), "counters": settled(sc)}


def adaptive_last_stage_of_earlier_run(spark: SparkSession) -> Result:
    """The same inside a block that ran before: its slots are free before it ends."""
    sc = spark.sparkContext
    warm_up(sc, 8)
    with spark_sched.job(spark, "adaptive-nightly", priority=10, isolation=1.0), release() as end:
        end.touch()
        rows = _two_stages(spark, end, end)
    with spark_sched.job(spark, "adaptive-nightly", priority=10, isolation=1.0):
        rows += _freed_in_last_stage(spark)
    return {"rows": rows, "counters": settled(sc)}


def _freed_in_last_stage(spark: SparkSession) -> list[int]:
    """A query's rows, once nothing was held while the last task of its last stage ran."""
    sc = spark.sparkContext
    found: list[int] = []
    all_told(sc)  # A query before this one has as many tasks.
    with release() as planned, release() as end:
        thread = InheritableThread(target=lambda: found.extend(_two_stages(spark, planned, end)))
        thread.start()
        try:
            wait_until(lambda: running_tasks(sc) == 4, "the first stage was to run")
            first = max(sc.statusTracker().getActiveStageIds())
            # The first plan from now on may have been made before the job came, the second one not.
            known = counters(sc)["plans_accepted"] + 2
            wait_until(lambda: counters(sc)["plans_accepted"] >= known, "no plan came")
            planned.touch()
            wait_until(
                lambda: _last_done(sc, after=first) == 3 and counters(sc)["slots_held_now"] == 0,
                "the slots were to be free",
            )
        finally:
            planned.touch()
            end.touch()
            thread.join()
    return found


def _two_stages(spark: SparkSession, begin: Path, end: Path) -> list[int]:
    """Four map tasks that run until one file exists, then four of which one runs until the other does."""

    def first(partition: int) -> tuple[int]:
        wait_until(begin.exists, "the first stage was to end")
        return (partition,)

    @udf("long")
    def last(row: int, partition: int) -> int:
        if partition == 3:
            wait_until(end.exists, "the last task was to end")
        return row

    sc = spark.sparkContext
    rows = sc.parallelize(range(4), 4).map(first).flatMap(lambda row: [row] * 10).toDF("key long")
    # As many partitions as a program asks for are not coalesced.
    found = rows.repartition(4).select(last("key", spark_partition_id()).alias("key")).collect()
    return sorted({row.key for row in found})


def _groups(rows: DataFrame) -> int:
    return rows.groupBy("key").count().count()


def _beside_a_straggler(
    spark: SparkSession,
    state: Callable[[], Result],
    query: Callable[[DataFrame], int] = _groups,
    **marks: str,
) -> Result:
    """What ``state`` finds while one of a query's four map tasks runs on."""
    sc = spark.sparkContext
    warm_up(sc, 8)
    found: list[int] = []

    def run(end: Path) -> None:
        body = straggling(end)
        rows = sc.parallelize(range(4), 4).map(body).flatMap(lambda _: [(k,) for k in range(1000)])
        with properties(sc, priority="10", **marks):
            found.append(query(rows.toDF("key long")))

    with release() as end:
        thread = InheritableThread(target=run, args=(end,))
        thread.start()
        try:
            during = state()
        finally:
            end.touch()
            thread.join()
    return {"rows": found, "during": during, "counters": settled(sc)}


def _last_done(sc: Any, after: int = -1) -> int:
    """Tasks that are done of the only stage that runs with one task left, of those that came after one."""
    tracker = sc.statusTracker()
    later = [s for s in tracker.getActiveStageIds() if s > after]
    stages = [s for s in map(tracker.getStageInfo, later) if s is not None]
    return max((s.numCompletedTasks for s in stages if s.numActiveTasks == 1), default=0)


def time_limit(spark: SparkSession) -> Result:
    """Queries with a broadcast, one of them adaptive, wait for slots that a marked job uses."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    limit_s = 6  # half of it is many looks at waiting queries, which come about once a second
    ended: dict[str, str] = {}

    def query(adaptive: str) -> None:
        session = spark.newSession()
        session.conf.set("spark.sql.adaptive.enabled", adaptive)
        session.conf.set("spark.sql.broadcastTimeout", str(limit_s))
        small = session.range(50, numPartitions=2).withColumnRenamed("id", "k")
        big = session.range(2000, numPartitions=4).selectExpr("id % 50 k", "id v")
        try:
            ended[adaptive] = str(big.join(broadcast(small), "k").count())
        except Exception as error:
            ended[adaptive] = str(error)

    def waiting() -> list[str]:
        return [job.job for job in spark_sched.status(spark).jobs if not job.marks.marked]

    waited: set[str] = set()  # a query that fails leaves the status, but its story stays

    def stories() -> list[tuple[str, str]]:
        waited.update(waiting())
        explained = [spark_sched.explain(spark, job) for job in sorted(waited)]
        return [(job.job, entry.text) for job in explained for entry in job.story]

    told: dict[str, str] = {}

    def is_told() -> bool:
        told.update((job, text) for job, text in stories() if "spark.sql.broadcastTimeout" in text)
        return bool(told)

    with release() as end, spark_sched.job(spark, "important", priority=10):
        holder = InheritableThread(target=sc.parallelize(range(4), 4).foreach, args=(_until(end),))
        holder.start()
        wait_until(lambda: running_tasks(sc) == 4, "all slots were to be used")
        threads = [threading.Thread(target=query, args=(adaptive,)) for adaptive in ("true", "false")]
        threads[0].start()
        try:
            wait_until(lambda: len(waiting()) == 1, "the adaptive query was to wait")
            limit_over_s = time.monotonic() + 2 * limit_s
            threads[1].start()
            wait_until(is_told, "the waiting query was to be told of")
            wait_until(lambda: time.monotonic() > limit_over_s, "the limit was to be over")
            is_told()
        finally:
            end.touch()
            holder.join()
    # The slots are held for the job until its block ends.
    for thread in threads:
        thread.join()
    return {"told": told, "ended": ended, "counters": settled(sc)}


def _until(end: Path) -> Callable[[int], None]:
    return lambda _: wait_until(end.exists, "the slots were to be given back")
