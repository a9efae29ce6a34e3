"""Applications under the planner's ``priority-evictions`` policy: tasks that give their slots to others.

Run like those of `scenarios`.
"""

from __future__ import annotations

import os
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from pyspark import RDD, InheritableThread, SparkContext
from pyspark.sql import SparkSession

import spark_sched
from tests.integration.plan_scenarios import Row, this_attempt
from tests.integration.scenarios import (
    Result,
    counters,
    running_tasks,
    settled,
    wait_until,
    warm_up,
)

SLOTS = 4
#: As ``most_evictions`` of the application.
MOST_EVICTIONS = 3
#: Evictions under load. Each costs the fork of a Python worker besides.
MANY = int(os.environ.get("SPARK_SCHED_EVICTIONS", "100"))


class Job:
    """A marked job of one stage in a thread of its own, whose tasks run until the file ``until`` exists."""

    def __init__(self, spark: SparkSession, name: str, priority: int, tasks: int, until: Path) -> None:
        self.rows: list[Row] = []
        self._error = ""
        self._begun = _Begun(until.parent, name, tasks)
        body = _until(until, self._begun)

        def work() -> None:
            try:
                with spark_sched.job(spark, name, priority=priority):
                    self.rows = spark.sparkContext.parallelize(range(tasks), tasks).map(body).collect()
            except Exception as error:
                self._error = str(error)

        self._thread = InheritableThread(target=work, daemon=True)
        self._thread.start()

    def join(self) -> list[Row]:
        """(partition, attempt) of its tasks' last attempts."""
        self._thread.join(600)
        if self._thread.is_alive() or self._error:
            raise AssertionError(self._error or "the job never ended")
        return self.rows

    def await_attempt(self, attempt: int) -> None:
        """Wait until this attempt of each of its tasks runs."""
        self._begun.wait(attempt)

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()


class _Begun:
    """Which attempts of a stage's tasks have begun, as they say themselves.

    Spark's status tracker hears of tasks later, and may still count those of the stage before.
    """

    def __init__(self, folder: Path, name: str, tasks: int) -> None:
        self._folder, self._name, self._tasks = folder, name, tasks

    def tell(self, partition: int, attempt: int) -> None:
        self._sign(partition, attempt).touch()

    def wait(self, attempt: int = 0) -> None:
        wait_until(
            lambda: all(self._sign(partition, attempt).exists() for partition in range(self._tasks)),
            f"attempt {attempt} of each task of {self._name} was to run",
        )

    def _sign(self, partition: int, attempt: int) -> Path:
        return self._folder / f"{self._name} task {partition} attempt {attempt}"


def _until(end: Path, begun: _Begun) -> Callable[[int], Row]:
    """A task body that tells when it begins, and runs until the file exists."""

    def body(partition: int) -> Row:
        row = this_attempt(partition)
        begun.tell(partition, row[1])
        wait_until(end.exists, "the task was to be released")
        return row

    return body


def preempted(spark: SparkSession) -> Result:
    """Tasks of a low priority that run for as long as they like, and urgent jobs one after another."""
    sc = spark.sparkContext
    warm_up(sc, SLOTS)
    with tempfile.TemporaryDirectory(prefix="spark-sched-tests-") as folder:
        late, now = Path(folder) / "late", Path(folder) / "now"
        now.touch()
        low = Job(spark, "low", 0, SLOTS, late)
        low.await_attempt(0)
        urgent = []
        for number in range(MOST_EVICTIONS):
            urgent.append(len(Job(spark, f"urgent-{number}", 10, SLOTS, now).join()))
            low.await_attempt(number + 1)
        evictions = counters(sc)["evictions"]
        # Nobody may be evicted once more.
        last = Job(spark, "urgent-last", 10, SLOTS, now)
        plans = counters(sc)["plans_accepted"] + 2
        wait_until(lambda: len(sc.statusTracker().getActiveStageIds()) == 2, "the last job was to wait")
        wait_until(lambda: counters(sc)["plans_accepted"] >= plans, "no plan with the last job came")
        waits = last.alive and counters(sc)["evictions"] == evictions
        low_waits = low.alive
        late.touch()
        rows, last_rows = low.join(), last.join()
        info = sc.statusTracker().getStageInfo(rows[0][2])
        assert info is not None
        return {
            "urgent": urgent,
            "evictions": evictions,
            "waits": waits,
            "low_waits": low_waits,
            "low": sorted(row[:2] for row in rows),
            "last": len(last_rows),
            "low_stage": {"attempt": info.currentAttemptId, "failed_tasks": info.numFailedTasks},
            "never": _never_evicted(spark, Path(folder)),
            "counters": settled(sc),
        }


def _never_evicted(spark: SparkSession, folder: Path) -> list[list[int]]:
    """Last attempts of a barrier stage and of a job that forbids copies, beside an urgent job."""
    sc = spark.sparkContext
    late, now = folder / "never", folder / "now"
    begun = [_Begun(folder, name, 2) for name in ("barrier", "once")]
    together, alone = (_until(late, each) for each in begun)
    found: list[list[int]] = []

    def barrier() -> None:
        rdd = sc.parallelize(range(2), 2).barrier()
        found.append([row[1] for row in rdd.mapPartitionsWithIndex(lambda p, _: [together(p)]).collect()])

    def once() -> None:
        with spark_sched.job(spark, "once", copies="never"):
            found.append([row[1] for row in sc.parallelize(range(2), 2).map(alone).collect()])

    threads = [InheritableThread(target=work, daemon=True) for work in (barrier, once)]
    for thread in threads:
        thread.start()
    for each in begun:
        each.wait()
    urgent = Job(spark, "urgent-never", 10, SLOTS, now)
    plans = counters(sc)["plans_accepted"] + 2
    wait_until(lambda: len(sc.statusTracker().getActiveStageIds()) == 3, "the urgent job was to wait")
    wait_until(lambda: counters(sc)["plans_accepted"] >= plans, "no plan with the urgent job came")
    assert urgent.alive
    late.touch()
    for thread in threads:
        thread.join(600)
    urgent.join()
    return found


def preempted_at_random(spark: SparkSession) -> Result:
    """Jobs of low priority beside urgent ones, until so many tasks were evicted."""
    sc = spark.sparkContext
    warm_up(sc, SLOTS)
    rng = random.Random(7)
    stop = threading.Event()
    sums: Counter[bool] = Counter()
    most_evicted: list[int] = []
    errors: list[str] = []

    def load(tenant: int) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            with spark_sched.job(spark, f"load-{tenant}", priority=tenant):
                rows = _slow(sc, 12, 0.2).collect()
            sums[sum(row[0] for row in rows) == sum(range(12))] += 1
            most_evicted.append(_most_evicted(sc, rows))

    def urgent() -> None:
        while counters(sc)["evictions"] < MANY:
            width = rng.randint(2, SLOTS)
            with spark_sched.job(spark, "urgent", priority=10):
                rows = _slow(sc, width, 0.02).collect()
            sums[sum(row[0] for row in rows) == sum(range(width))] += 1
            # Others are to take the slots again.
            wait_until(lambda: running_tasks(sc) == SLOTS, "the load was to go on")

    def run(body: Callable[..., None], *args: int) -> InheritableThread:
        def work() -> None:
            try:
                body(*args)
            except Exception as error:
                errors.append(str(error))

        thread = InheritableThread(target=work, daemon=True)
        thread.start()
        return thread

    loads = [run(load, tenant) for tenant in range(2)]
    pressing = run(urgent)
    begun = time.monotonic()
    pressing.join()
    stop.set()
    for thread in loads:
        thread.join(600)
    return {
        "alive": [thread.is_alive() for thread in (pressing, *loads)],
        "errors": errors,
        "right": sums[True],
        "wrong": sums[False],
        "seconds": time.monotonic() - begun,
        "most_evicted": max(most_evicted, default=0),
        "counters": settled(sc),
    }


def _slow(sc: SparkContext, tasks: int, seconds: float) -> RDD[Row]:
    """Each partition's row after a sleep."""

    def body(partition: int) -> Row:
        time.sleep(seconds)
        return this_attempt(partition)

    return sc.parallelize(range(tasks), tasks).map(body)


def _most_evicted(sc: SparkContext, rows: list[Row]) -> int:
    """How often a task of this stage was evicted at most. Attempts that failed have numbers, too."""
    most, stage = max(row[1] for row in rows), rows[0][2]
    if most <= MOST_EVICTIONS:
        return most

    def ended() -> bool:
        told = sc.statusTracker().getStageInfo(stage)
        return told is not None and told.numCompletedTasks == len(rows)

    wait_until(ended, "the ends of the stage's tasks were to be told")
    info = sc.statusTracker().getStageInfo(stage)
    assert info is not None
    return most - info.numFailedTasks


def fast_executors_first(spark: SparkSession) -> Result:
    """Where tasks of an urgent and of another job run once the planner has learned that executor 0 is slow.

    Each executor has four slots, all idle when the stages of four tasks come.
    """
    sc = spark.sparkContext
    warm_up(sc, 8)

    def executor(partition: int) -> str:
        """Its id: Spark runs each local executor in a folder of that name."""
        name = Path.cwd().name
        time.sleep(0.6 if name == "0" else 0.2)
        return name

    def run(tasks: int) -> Counter[str]:
        return Counter(sc.parallelize(range(tasks), tasks).map(executor).collect())

    def reason() -> str:
        return next(each.reason or "" for each in spark_sched.status(spark).jobs if each.name == "urgent")

    def learned() -> bool:
        run(8)
        return reason().endswith("; starts on the fastest executors first")

    with spark_sched.job(spark, "urgent", priority=9, isolation=0.0):
        wait_until(learned, "the plan was to know the fast executor")
        urgent = run(4)
        more = run(6)
    with spark_sched.job(spark, "other", priority=8, isolation=0.0):
        other = run(4)
    return {"urgent": urgent, "more": more, "other": other, "counters": settled(sc)}
