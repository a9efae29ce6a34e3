"""Executors that die, leave or have GPUs, under jobs that hold slots on them.

Run like those of `scenarios`.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import InheritableThread, SparkContext, TaskContext
from pyspark.resource import ResourceProfileBuilder, TaskResourceRequests
from pyspark.sql import SparkSession

import spark_sched
from tests.integration.scenarios import (
    Result,
    background,
    counters,
    executor_pid,
    release,
    running_tasks,
    settled,
    sleeper,
    sleeper_after,
    straggling,
    wait_until,
    warm_up,
)


def executor_killed(spark: SparkSession) -> Result:
    """An executor dies with running tasks and held slots on it; the job ends well all the same."""
    sc = spark.sparkContext
    warm_up(sc, 4)

    def die_once(partition: int) -> tuple[int, int]:
        time.sleep(0.3 if partition < 2 else 1.5)
        if partition == 3 and TaskContext.get().attemptNumber() == 0:
            os.kill(executor_pid(), signal.SIGKILL)
        return partition, partition

    with background(sc, 12, 0.3) as starts, spark_sched.job(spark, "survivor", priority=10):
        rows = sc.parallelize(range(4), 4).map(die_once)
        sums = sorted(rows.reduceByKey(lambda a, b: a + b, 4).collect())
        again = sc.parallelize(range(100), 4).sum()
    return {"sums": sums, "again": again, "background_tasks": len(starts), "counters": settled(sc)}


def stage_retry(spark: SparkSession) -> Result:
    """Shuffle files vanish between two actions, so map tasks run again in a second attempt of their stage."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    with background(sc, 8, 0.3) as starts, spark_sched.job(spark, "retried", priority=10):
        pairs = sc.parallelize(range(400), 4).map(lambda x: (x % 7, 1)).reduceByKey(lambda a, b: a + b, 4)
        before = sorted(pairs.collect())
        sc.parallelize([0], 1).foreach(lambda _: kill_executor_once())
        after = sorted(pairs.map(lambda kv: (kv[0], kv[1])).collect())
    return {"same": before == after, "background_tasks": len(starts), "counters": settled(sc)}


def kill_executor_once() -> None:
    if TaskContext.get().attemptNumber() == 0:
        os.kill(executor_pid(), signal.SIGKILL)


def dynamic_allocation(spark: SparkSession) -> Result:
    """Executors are asked to leave under a job that holds slots on idle ones, and leave once it is over."""
    sc = spark.sparkContext
    rows: list[Any] = []

    def holder(end: Path) -> None:
        last = straggling(end)

        def body(partition: int) -> tuple[int, float, float]:
            # All four at once, so on both executors: the first to come could run three of them in turn.
            (end.parent / f"started-{partition}").touch()
            wait_until(lambda: len(list(end.parent.glob("started-*"))) == 4, "all tasks were to run")
            return last(partition)

        with spark_sched.job(spark, "holder", priority=5, copies="never"):
            rows.extend(sc.parallelize(range(4), 4).map(body).collect())

    backend: Any = sc._jsc.sc().schedulerBackend()

    def registered() -> list[str]:
        return str(backend.getExecutorIds().mkString(" ")).split()

    def executors() -> int:
        return len(registered())

    def staying() -> int:
        # One that was asked to leave is registered until it has left, and gets no task.
        return sum(bool(backend.isExecutorActive(each)) for each in registered())

    with release() as end:
        thread = InheritableThread(target=holder, args=(end,))
        thread.start()
        wait_until(lambda: counters(sc)["slots_held_now"] > 0, "slots were to be held")
        had = executors()
        wait_until(
            lambda: executors() < had or counters(sc).get("executors_kept", 0) > 0,
            "an executor with nothing but held slots was to be asked to leave",
        )
        kept, held = executors(), counters(sc)["slots_held_now"]
        end.touch()
        thread.join()
    with background(sc, 8, 0.2) as starts:
        pass
    packed, spread = placements(spark, staying)
    wait_until(lambda: executors() == 0, "idle executors were to leave")
    scheduler: Any = sc._jsc.sc().taskScheduler()
    return {
        "has_part": scheduler.allocation().isDefined(),
        "executors_of_pair": {"packed": packed, "with_deadline": spread},
        "tasks": len(rows),
        "background_tasks": len(starts),
        "executors": (had, kept),
        "held": held,
        "counters": settled(sc),
    }


def placements(spark: SparkSession, staying: Callable[[], int]) -> tuple[int, int]:
    """How many of two executors, idle both, two tasks run on: of a job without and of one with a deadline.

    ``staying`` is how many executors may get tasks.
    """

    def pair(deadline: str | None) -> int:
        while True:
            # All four at once, so that no executor has been idle for long when the pair comes.
            warm_up(spark.sparkContext, 4)
            with spark_sched.job(spark, "pair", isolation=0.0, deadline=deadline):
                pids = spark.sparkContext.parallelize(range(2), 2).map(lambda _: executor_pid()).collect()
            if staying() == 2:
                return len(set(pids))

    def packed() -> bool:
        # Tasks that had to wait for executors are spread for a while.
        found.append(pair(None))
        return found[-1] == 1

    found: list[int] = []
    wait_until(packed, "two tasks were to be packed")
    return found[-1], pair("1ms")


def gpus(spark: SparkSession) -> Result:
    """Half a GPU for a task, so that an executor of four cores has two slots; then a whole one.

    The tasks of a whole GPU take all four slots: two of them, or four on Spark 3.5, where two share a GPU.
    """
    sc = spark.sparkContext
    warm_up(sc, 4)
    whole = ResourceProfileBuilder().require(TaskResourceRequests().resource("gpu", 1)).build
    tasks = 4 if sc.version.startswith("3.5.") else 2
    first: list[float] = []
    last: list[float] = []
    held: list[int] = []

    def action(begin: Path) -> None:
        uneven = sleeper_after(begin, lambda p: 0.3 + 0.3 * p)
        rows = sc.parallelize(range(4), 4).map(uneven).map(lambda row: (row[0], row))
        first.extend(row[1] for row in rows.partitionBy(4).values().collect())
        held.append(counters(sc)["slots_held_now"])
        before = counters(sc)["holds_total"]
        wide = sc.parallelize(range(tasks), tasks).withResources(whole).map(sleeper(lambda _: 0.5)).collect()
        # After this pause, which is taken to be as short as the one before, they are not held for long.
        held.append(counters(sc)["holds_total"] - before)
        last.extend(started for _, started, _ in wide)

    with (
        release() as come,
        background(sc, 12, 0.5, behind=4, come=come) as starts,
        spark_sched.job(spark, "foreground", priority=10),
    ):
        action(come)
    return {
        "intruders": sum(max(first) < started < max(last) for started in starts),
        "background_tasks": len(starts),
        "held": held,
        "counters": settled(sc),
    }


def larger_next(spark: SparkSession) -> Result:
    """Three tasks of one core, then one of both cores of an executor, beside work that ends after them."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    both = ResourceProfileBuilder().require(TaskResourceRequests().cpus(2)).build
    rows: list[Any] = []

    def holder(end: Path) -> None:
        with spark_sched.job(spark, "holder", priority=10, copies="never"):
            first = sc.parallelize([1, 2, 3], 3).map(straggling(end)).map(lambda row: (0, row[0]))
            rows.extend(first.partitionBy(1).withResources(both).values().collect())

    def other(end: Path) -> None:
        sc.parallelize([3] * 6, 6).map(straggling(end)).collect()

    with release() as end, release() as last:
        holding = InheritableThread(target=holder, args=(end,))
        holding.start()
        wait_until(lambda: running_tasks(sc) == 3, "the first stage was to run")
        beside = InheritableThread(target=other, args=(last,))
        beside.start()
        # The straggler's executor is kept for the next task; on the other one two tasks run.
        wait_until(
            lambda: running_tasks(sc) == 3 and counters(sc)["slots_held_now"] == 1,
            "one slot was to be held beside the straggler, and others' tasks to run elsewhere",
        )
        end.touch()
        holding.join(600)
        done = sorted(rows)
        last.touch()
        holding.join()
        beside.join()
    return {"done": done, "counters": settled(sc)}


def decommissioned(spark: SparkSession) -> Result:
    """An executor is told to leave while slots are held on it."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    done: list[int] = []

    def holder(end: Path) -> None:
        with spark_sched.job(spark, "holder", priority=5, copies="never"):
            done.extend(row[0] for row in sc.parallelize(range(4), 4).map(straggling(end)).collect())

    with release() as end:
        thread = InheritableThread(target=holder, args=(end,))
        thread.start()
        _decommission_one(sc)
        end.touch()
        thread.join()
    return {"tasks": sorted(done), "counters": settled(sc)}


def _decommission_one(sc: SparkContext) -> None:
    wait_until(lambda: counters(sc)["slots_held_now"] == 3, "three slots were to be held")
    backend: Any = sc._jsc.sc().schedulerBackend()
    info = sc._jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo("test", sc._jvm.scala.Option.empty())
    backend.decommissionExecutor(backend.getExecutorIds().head(), info, False, False)
    wait_until(lambda: counters(sc)["slots_held_now"] <= 2, "holds on the leaving executor were to go")
