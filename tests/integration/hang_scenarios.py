"""Jobs that share stages, end early, fail or hold slots against each other: nobody may wait for ever.

Run like those of `scenarios`, the same cases under each policy.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import BarrierTaskContext, InheritableThread, SparkContext
from pyspark.sql import SparkSession

import spark_sched
from tests.integration.scenarios import Result, all_told, counters, release, settled, wait_until, warm_up

#: Far above what any case takes on a busy machine, far below `maxHold` (10 min) and what a hang takes.
PATIENCE_S = 300.0
TASK_S = 0.2
#: Planners that are killed in each case, the first as it begins; the next one comes in its middle. Simulated
#: lifecycles kill several under every policy.
KILLS = 1

Case = Callable[[SparkSession], Any]


class Action:
    """What a thread of its own does; its result, or the error that it ended with."""

    def __init__(self, body: Callable[[], Any]) -> None:
        self.result: Any = None
        self.error = ""

        def work() -> None:
            try:
                self.result = body()
            except Exception as error:
                self.error = type(error).__name__

        self._thread = InheritableThread(target=work)
        self._thread.daemon = True
        self._thread.start()

    @property
    def over(self) -> bool:
        return not self._thread.is_alive()


def shared_stage(spark: SparkSession) -> Any:
    """Two counts share one shuffle stage; the Spark job that submitted it is cancelled."""
    sc = spark.sparkContext
    # Spark remembers the jobs of an earlier run of this case by their tags.
    one, other = (f"{name}-{uuid.uuid4().hex}" for name in ("first", "second"))
    with release() as cancelled:
        pairs = sc.parallelize(range(12), 12).map(_slow_after(cancelled)).map(lambda i: (i % 3, i))
        sums = pairs.reduceByKey(lambda a, b: a + b, 3)
        first = Action(lambda: tagged(sc, one, sums.count))
        wait_until(lambda: len(tracked(sc, one)) > 0, "the first count was to start")
        wait_until(lambda: busy(sc) > 0, "the shared stage was to run")
        second = Action(lambda: tagged(sc, other, sums.count))
        wait_until(lambda: len(tracked(sc, other)) > 0, "the second count was to start")
        sc.cancelJobsWithTag(one)
        wait_until(lambda: first.over, "the first count was to end", PATIENCE_S)
        cancelled.touch()
        wait_until(lambda: second.over, "the second count was to end", PATIENCE_S)
    return [first.error, second.result]


def _slow_after(sign: Path) -> Callable[[int], int]:
    def task(value: int) -> int:
        wait_until(sign.exists, "the sign was to be given", PATIENCE_S)
        return slow(value)

    return task


def block_ends_first(spark: SparkSession) -> Any:
    """A marked block ends while a thread that it started still runs its action, and starts another."""
    sc = spark.sparkContext
    all_told(sc)
    with spark_sched.job(spark, "early", priority=5):
        action = Action(lambda: [sc.parallelize(range(8), 8).map(slow).sum() for _ in range(2)])
        wait_until(lambda: busy(sc) > 0, "the action was to run")
    wait_until(lambda: action.over, "the action was to end", PATIENCE_S)
    return action.result


def failed_subquery(spark: SparkSession) -> Any:
    """A scalar subquery raises while tasks of the query's broadcast side wait, unless those come first."""
    sc = spark.sparkContext
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    spark.udf.register("pause", slower, "long")
    spark.range(0, 8, 1, 8).selectExpr("pause(id) AS k").createOrReplaceTempView("small")
    spark.range(0, 100, 1, 2).createOrReplaceTempView("big")
    query = (
        "SELECT /*+ BROADCAST(small) */ sum(id) "
        "+ (SELECT CAST(raise_error(string(id)) AS LONG) FROM range(0, 1, 1, 1)) "
        "FROM big JOIN small ON id = k"
    )
    failing = Action(lambda: spark.sql(query).collect())
    wait_until(lambda: failing.over, "the query was to fail", PATIENCE_S)
    all_told(sc)
    wait_until(lambda: not active_jobs(sc), "the Spark job of the broadcast side was to end", PATIENCE_S)
    spark.conf.unset("spark.sql.adaptive.enabled")
    return failing.error


def gangs_hold_against_each_other(spark: SparkSession) -> Any:
    """Two marked jobs of equal priority hold two slots each; each starts a barrier stage of three."""
    sc = spark.sparkContext
    both = threading.Barrier(2, timeout=PATIENCE_S)

    def gang(name: str) -> Any:
        with spark_sched.job(spark, name, priority=5):
            sc.parallelize(range(2), 2).map(slow).count()
            both.wait()
            return sc.parallelize(range(3), 3).barrier().mapPartitions(together).collect()

    jobs = [Action(lambda name=name: gang(name)) for name in ("gang-a", "gang-b")]
    wait_until(lambda: all(job.over for job in jobs), "both gangs were to end", PATIENCE_S)
    return [job.result or job.error for job in jobs]


CASES: tuple[Case, ...] = (shared_stage, block_ends_first, failed_subquery, gangs_hold_against_each_other)


def slow(value: int) -> int:
    time.sleep(TASK_S)
    return value


def slower(value: int) -> int:
    time.sleep(4 * TASK_S)
    return value


def together(_: Any) -> list[int]:
    BarrierTaskContext.get().barrier()
    return [1]


def tagged(sc: SparkContext, tag: str, action: Callable[[], Any]) -> Any:
    """Run the action with a tag to cancel it by; a job group would make one job of all that is in it."""
    sc.addJobTag(tag)
    return action()


def tracked(sc: SparkContext, tag: str) -> Any:
    jvm_context: Any = sc._jsc.sc()
    return jvm_context.statusTracker().getJobIdsForTag(tag)


def active_jobs(sc: SparkContext) -> Any:
    return sc.statusTracker().getActiveJobsIds()


def busy(sc: SparkContext) -> int:
    stages = (sc.statusTracker().getStageInfo(stage) for stage in sc.statusTracker().getActiveStageIds())
    return sum(stage.numActiveTasks for stage in stages if stage is not None)


class PlannerKiller:
    """Kills planners while the block runs, each after its first plan, up to a number of them."""

    def __init__(self, sc: SparkContext, most: int) -> None:
        self._sc = sc
        self._most = most
        self._over = threading.Event()
        self.kills = 0
        self._thread = threading.Thread(target=self._kill, daemon=True)

    def _kill(self) -> None:
        planned = 0
        while self.kills < self._most and not self._over.wait(0.1):
            now = counters(self._sc)
            pid = now["planner_pid"]
            if pid > 0 and now["plans_accepted"] > planned:
                planned = now["plans_accepted"]
                try:
                    os.kill(pid, signal.SIGKILL)
                    self.kills += 1
                except ProcessLookupError:
                    pass

    def __enter__(self) -> PlannerKiller:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def nobody_waits_for_ever(spark: SparkSession) -> Result:
    """Each case, then each with planners killed in its middle."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    # The first planner of a machine compiles its loops.
    wait_until(lambda: counters(sc)["plans_accepted"] > 0, "no plan came", within_s=240.0)
    calm = {case.__name__: case(spark) for case in CASES}
    killed, kills = {}, 0
    for case in CASES:
        with PlannerKiller(sc, KILLS) as killer:
            killed[case.__name__] = case(spark)
        kills += killer.kills
    return {"calm": calm, "killed": killed, "kills": kills, "counters": settled(sc)}
