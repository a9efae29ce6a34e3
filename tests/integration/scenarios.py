"""What small applications do on real Spark; each function returns what a test asserts on.

They run in the program `driver`, several in one application, so names of jobs differ between scenarios: the
planner learns by name. Task times are sleeps, and what is asserted are orders and counts, never durations.
"""

from __future__ import annotations

import json
import os
import random
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark import BarrierTaskContext, InheritableThread, SparkContext, TaskContext
from pyspark.resource import ResourceProfileBuilder, TaskResourceRequests
from pyspark.sql import SparkSession

import spark_sched
import spark_sched.api.job

Result = dict[str, Any]


# ---- what scenarios share ----


_earlier: dict[str, int] = {}
_NOT_COUNTED = ("slots_held_now", "planner_pid")  # they say what is, not how often


def counters(sc: SparkContext) -> dict[str, int]:
    """What was counted since the scenario began."""
    entry: Any = sc._jvm.org.apache.spark.scheduler.sparksched.SparkSched
    found: dict[str, int] = json.loads(entry.counters(sc._jsc.sc()))
    return {name: n if name in _NOT_COUNTED else n - _earlier.get(name, 0) for name, n in found.items()}


def counted_from(sc: SparkContext | None) -> None:
    """Count from now on; None: from the start of the application."""
    _earlier.clear()
    if sc is not None:
        _earlier.update(counters(sc))


def attached(sc: SparkContext) -> bool:
    return spark_sched.api.job._scheduler_of(sc) is not None


def settled(sc: SparkContext) -> dict[str, int]:
    """Counters once nothing is held any more, or after ten seconds of waiting for that."""
    for _ in range(100):
        now = counters(sc)
        if now["slots_held_now"] == 0:
            break
        time.sleep(0.1)
    return now


def sleeper(seconds: Callable[[int], float]) -> Callable[[int], tuple[int, float, float]]:
    """A task body: sleeps, returns its partition with the wall-clock times of its start and end."""

    def body(partition: int) -> tuple[int, float, float]:
        started = time.time()
        time.sleep(seconds(partition))
        return partition, started, time.time()

    return body


def warm_up(sc: SparkContext, slots: int) -> None:
    sc.parallelize(range(slots), slots).map(sleeper(lambda _: 0.3)).collect()


@contextmanager
def background(
    sc: SparkContext, tasks: int, seconds: float = 1.0, *, behind: int = 0
) -> Iterator[list[float]]:
    """Unmarked single-stage work beside the block, submitted once ``behind`` tasks run.

    Yields the list of its tasks' start times, which is filled when they ended.
    """
    starts: list[float] = []

    def submit() -> None:
        wait_until(lambda: running_tasks(sc) >= behind, f"{behind} tasks were to run")
        rows = sc.parallelize(range(tasks), tasks).map(sleeper(lambda _: seconds)).collect()
        starts.extend(started for _, started, _ in rows)

    thread = InheritableThread(target=submit)
    thread.start()
    try:
        yield starts
    finally:
        thread.join()


@contextmanager
def properties(sc: SparkContext, **marks: str) -> Iterator[None]:
    for name, value in marks.items():
        sc.setLocalProperty(f"spark.sched.job.{name}", value)
    try:
        yield
    finally:
        for name in marks:
            sc.setLocalProperty(f"spark.sched.job.{name}", None)


def wait_until(condition: Callable[[], bool], what: str, within_s: float = 120.0) -> None:
    """Long enough for a busy machine: only a hang takes that long."""
    until = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError(what)
        time.sleep(0.05)


def running_tasks(sc: SparkContext) -> int:
    tracker = sc.statusTracker()
    stages = (tracker.getStageInfo(s) for s in tracker.getActiveStageIds())
    return sum(s.numActiveTasks for s in stages if s is not None)


# ---- scenarios ----


def across_barriers(spark: SparkSession) -> Result:
    """Two actions of two stages each on all four slots, beside more background than fits."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    first: list[float] = []
    last: list[float] = []

    def action() -> None:
        uneven = sleeper(lambda p: 1.2 + 0.3 * p)
        rows = sc.parallelize(range(4), 4).map(uneven).map(lambda row: (row[0], row))
        done = rows.partitionBy(4).values().map(lambda row: (row[1], sleeper(lambda _: 0.4)(0)[1])).collect()
        first.extend(up for up, _ in done)
        last.extend(down for _, down in done)

    # The foreground has all slots when the background comes: what it loses it loses at its barriers.
    with background(sc, 16, behind=4) as starts, spark_sched.job(spark, "foreground", priority=10):
        action()
        mine = max(first[:4])  # all four slots are the job's from here on …
        action()
        ours_until = max(last)  # … until its last stage's last task started
    return {
        "intruders": sum(mine < started < ours_until for started in starts),
        "background_tasks": len(starts),
        "counters": settled(sc) if attached(sc) else {},
    }


def fewer_next(spark: SparkSession) -> Result:
    """Four tasks, then two, in one unmarked Spark job: two slots are kept and the first two go."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    with properties(sc, priority="10"):
        rows = sc.parallelize(range(4), 4).map(sleeper(lambda p: 0.3 + 0.4 * p)).map(lambda r: (r[0], 1))
        total = rows.reduceByKey(lambda a, b: a + b, 2).count()
    return {"total": total, "counters": settled(sc)}


def more_next(spark: SparkSession) -> Result:
    """Two tasks, then four: past R the job takes slots that others release."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    with background(sc, 12, 0.5) as starts, properties(sc, priority="10"):
        wait_until(lambda: running_tasks(sc) >= 4, "the background never filled the slots")
        rows = sc.parallelize(range(2), 2).map(sleeper(lambda p: 0.5 + 2.5 * p)).map(lambda r: (r[0], r))
        total = rows.partitionBy(4).map(lambda r: time.sleep(0.3)).count()
    return {"total": total, "background_tasks": len(starts), "counters": settled(sc)}


def priorities(spark: SparkSession) -> Result:
    """While a job of priority 5 waits for its straggler, equals wait and a higher one takes its slots."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    ends: dict[str, float] = {}
    starts: dict[str, float] = {}

    def holder() -> None:
        with spark_sched.job(spark, "holder", priority=5, copies="never"):
            rows = sc.parallelize(range(4), 4).map(sleeper(lambda p: 6.0 if p == 3 else 0.3)).collect()
            ends["straggler"] = max(end for _, _, end in rows)

    def other(name: str, priority: int) -> None:
        with spark_sched.job(spark, name, priority=priority):
            rows = sc.parallelize(range(2), 2).map(sleeper(lambda _: 0.3)).collect()
            starts[name] = max(start for _, start, _ in rows)

    threads = [InheritableThread(target=holder)]
    threads[0].start()
    wait_until(lambda: counters(sc)["slots_held_now"] == 3, "three slots were to be held")
    for name, priority in (("equal", 5), ("lower", 1), ("higher", 9)):
        threads.append(InheritableThread(target=other, args=(name, priority)))
        threads[-1].start()
    for thread in threads:
        thread.join()
    return {
        "before_straggler": sorted(name for name, start in starts.items() if start < ends["straggler"]),
        "counters": settled(sc),
    }


def expiry(spark: SparkSession) -> Result:
    """A reservation that may last for one second, beside a task of eight, on a quiet local master."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    ends: list[float] = []

    def holder() -> None:
        with spark_sched.job(spark, "holder", priority=5, copies="never"):
            rows = sc.parallelize(range(4), 4).map(sleeper(lambda p: 8.0 if p == 3 else 0.3)).collect()
            ends.extend(end for _, _, end in rows)

    thread = InheritableThread(target=holder)
    thread.start()
    wait_until(lambda: counters(sc)["slots_held_now"] == 3, "three slots were to be held")
    with background(sc, 3, 0.2) as starts:
        pass
    thread.join()
    return {"started_before_straggler": sum(s < max(ends) for s in starts), "counters": settled(sc)}


def cancelled(spark: SparkSession) -> Result:
    """A job that holds slots is cancelled, another fails; then everything is free again."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    failures: list[str] = []

    def holder() -> None:
        sc.setJobGroup("doomed", "cancelled while it holds slots", interruptOnCancel=True)
        try:
            with properties(sc, priority="5", isolation="1"):
                sc.parallelize(range(4), 4).map(sleeper(lambda p: 60.0 if p == 3 else 0.2)).map(
                    lambda r: (r[0], 1)
                ).reduceByKey(lambda a, b: a + b, 4).count()
        except Exception as error:  # whatever Spark raises for a cancelled job
            failures.append(type(error).__name__)

    thread = InheritableThread(target=holder)
    thread.start()
    wait_until(lambda: counters(sc)["slots_held_now"] >= 2, "slots were to be held")
    sc.cancelJobGroup("doomed")
    thread.join()

    def breaks(row: tuple[int, float, float]) -> tuple[int, int]:
        if row[0] == 3:
            raise ValueError("on purpose")
        return row[0], 1

    try:
        with properties(sc, priority="5"):
            sc.parallelize(range(4), 4).map(sleeper(lambda p: 0.2 + 0.3 * p)).map(breaks).reduceByKey(
                lambda a, b: a + b, 4
            ).count()
    except Exception as error:
        failures.append(type(error).__name__)
    held = settled(sc)
    with background(sc, 8, 0.2) as starts:
        pass
    return {"failures": len(failures), "background_tasks": len(starts), "counters": held}


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


def executor_pid() -> int:
    """The JVM above this Python worker: worker → daemon → executor."""
    pid = os.getpid()
    while True:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            name, rest = stat.read().rsplit(")", 1)
        if name.split("(", 1)[1] == "java":
            return pid
        pid = int(rest.split()[1])


def barrier(spark: SparkSession) -> Result:
    """Barrier stages of a job with high priority beside background, and of unmarked work beside holds."""
    sc = spark.sparkContext
    warm_up(sc, 4)

    def together(_: Iterator[int]) -> Iterator[int]:
        context = BarrierTaskContext.get()
        time.sleep(0.2 + 0.4 * context.partitionId())
        context.barrier()
        yield context.partitionId()

    def gang(size: int) -> list[int]:
        return sorted(sc.parallelize(range(size), size).barrier().mapPartitions(together).collect())

    with background(sc, 8, 0.3) as starts, spark_sched.job(spark, "gang", priority=10):
        high = gang(4) + gang(4)
    with spark_sched.job(spark, "holder", priority=10):
        sc.parallelize(range(2), 2).map(sleeper(lambda _: 0.2)).collect()
        wait_until(lambda: counters(sc)["slots_held_now"] == 2, "two slots were to be held")
        # Two slots are open to the unmarked gang, and two more idle but are held until the block ends.
        low: list[list[int]] = []
        thread = threading.Thread(target=lambda: low.append(gang(3)))
        thread.start()
        time.sleep(0.5)
        waited = not low
    thread.join()
    return {
        "high": high,
        "low": low[0],
        "waited": waited,
        "background_tasks": len(starts),
        "counters": settled(sc),
    }


def copies(spark: SparkSession) -> Result:
    """A straggler whose first attempt would sleep for half a minute; its copy does not. Then none."""
    sc = spark.sparkContext
    warm_up(sc, 4)

    def lucky_the_second_time(seconds: float) -> Callable[[int], tuple[int, int]]:
        def body(partition: int) -> tuple[int, int]:
            attempt = TaskContext.get().attemptNumber()
            time.sleep(seconds if partition == 3 and attempt == 0 else 0.3)
            return partition, attempt

        return body

    with spark_sched.job(spark, "copied", priority=10):
        copied = sc.parallelize(range(4), 4).map(lucky_the_second_time(30.0)).collect()
    wait_until(lambda: counters(sc)["copies_wasted_ms"] > 0, "the overtaken original was never killed")
    after_copies = settled(sc)
    with spark_sched.job(spark, "not-copied", priority=10, copies="never"):
        uncopied = sc.parallelize(range(4), 4).map(lucky_the_second_time(2.0)).collect()
    return {"copied": copied, "uncopied": uncopied, "first": after_copies, "counters": settled(sc)}


def stage_retry(spark: SparkSession) -> Result:
    """Shuffle files vanish between two actions, so map tasks run again in a second attempt of their stage."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    with background(sc, 8, 0.3) as starts, spark_sched.job(spark, "retried", priority=10):
        pairs = sc.parallelize(range(400), 4).map(lambda x: (x % 7, 1)).reduceByKey(lambda a, b: a + b, 4)
        before = sorted(pairs.collect())
        sc.parallelize([0], 1).foreach(lambda _: _kill_executor_once())
        after = sorted(pairs.map(lambda kv: (kv[0], kv[1])).collect())
    return {"same": before == after, "background_tasks": len(starts), "counters": settled(sc)}


def _kill_executor_once() -> None:
    if TaskContext.get().attemptNumber() == 0:
        os.kill(executor_pid(), signal.SIGKILL)


def fair_pools(spark: SparkSession) -> Result:
    """Figure 13: stages of uneven tasks and a map-only job share the slots fairly, at equal priority."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    rows: dict[str, list[tuple[int, float, float]]] = {}

    def stages() -> None:
        sc.setLocalProperty("spark.scheduler.pool", "one")
        with spark_sched.job(spark, "stages", isolation=1.0, copies="never"):
            rows["one"] = []
            for _ in range(3):
                uneven = sleeper(lambda p: 0.4 + 1.2 * p)
                rows["one"] += sc.parallelize(range(2), 2).map(uneven).collect()

    def flat() -> None:
        sc.setLocalProperty("spark.scheduler.pool", "two")
        rows["two"] = sc.parallelize(range(24), 24).map(sleeper(lambda _: 0.8)).collect()

    threads = [InheritableThread(target=stages), InheritableThread(target=flat)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    begin = max(start for _, start, _ in rows["one"][:2])
    end = max(start for _, start, _ in rows["one"])
    # What the map-only job runs at once while the other has its stages: never more than its half.
    inside = [(s, e) for _, s, e in rows["two"] if s > begin and s < end]
    most = max((sum(s2 <= s < e2 for s2, e2 in inside) for s, _ in inside), default=0)
    return {"most_at_once": most, "counters": settled(sc)}


def fair_straggler(spark: SparkSession) -> Result:
    """A job as wide as all slots waits for its straggler; a job of another pool, of equal weight, comes."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    rows: dict[str, list[tuple[int, float, float]]] = {}
    started = threading.Event()

    def wide() -> None:
        sc.setLocalProperty("spark.scheduler.pool", "one")
        with spark_sched.job(spark, "wide", isolation=1.0, copies="never"):
            rows["wide"] = sc.parallelize(range(4), 4).map(_until_the_other_ran).collect()

    def other() -> None:
        sc.setLocalProperty("spark.scheduler.pool", "two")
        rows["other"] = sc.parallelize(range(4), 4).map(sleeper(lambda _: 0.2)).collect()
        started.set()

    with tempfile.TemporaryDirectory() as folder:
        gate = os.path.join(folder, "gate")

        def _until_the_other_ran(partition: int) -> tuple[int, float, float]:
            begin = time.time()
            # The straggler ends once the other job did, or after half a minute of waiting for it.
            until = begin + (30.0 if partition == 3 else 0.2)
            while time.time() < until and not os.path.exists(gate):
                time.sleep(0.05)
            return partition, begin, time.time()

        threads = [InheritableThread(target=wide)]
        threads[0].start()
        wait_until(lambda: counters(sc)["slots_held_now"] == 3, "three slots were to be held")
        threads.append(InheritableThread(target=other))
        threads[1].start()
        started.wait(25.0)
        held = counters(sc)["slots_held_now"]
        with open(gate, "w", encoding="utf-8"):
            pass
        for thread in threads:
            thread.join()
    straggler = max(end for _, _, end in rows["wide"])
    starts = sorted((start, end) for _, start, end in rows["other"])
    return {
        "before_straggler": sum(end < straggler for _, end in starts),
        "most_at_once": max(sum(s <= start < e for s, e in starts) for start, _ in starts),
        "held": held,
        "counters": settled(sc),
    }


def pool_weights(spark: SparkSession) -> Result:
    """Two pools of `conf/fairscheduler.xml` with more tasks than slots: how many of each start meanwhile."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    wait_until(lambda: counters(sc)["plans_accepted"] > 0, "no plan came", within_s=240.0)
    rows: dict[str, list[tuple[int, float, float]]] = {}

    def fill(pool: str) -> None:
        sc.setLocalProperty("spark.scheduler.pool", pool)
        rows[pool] = sc.parallelize(range(24), 24).map(sleeper(lambda _: 0.5)).collect()

    threads = [InheritableThread(target=fill, args=(pool,)) for pool in ("batch", "interactive")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # While both have tasks that wait; the first tasks of the first had all slots to themselves.
    starts = {pool: sorted(start for _, start, _ in each) for pool, each in rows.items()}
    begin = max(each[0] for each in starts.values()) + 0.1
    end = min(each[-1] for each in starts.values())
    return {
        "started": {pool: sum(begin <= at <= end for at in each) for pool, each in starts.items()},
        "counters": settled(sc),
    }


def recurring(spark: SparkSession) -> Result:
    """The same name twice: the second run's first plan knows the stages of the first."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    totals = []
    for _ in range(2):
        before = counters(sc)["plans_accepted"]
        with spark_sched.job(spark, "nightly", priority=10):
            rows = sc.parallelize(range(4), 4).map(sleeper(lambda p: 0.8 + 0.5 * p)).map(lambda r: (r[0], 1))
            rows.reduceByKey(lambda a, b: a + b, 2).map(lambda kv: time.sleep(0.8)).count()
            wait_until(lambda before=before: counters(sc)["plans_accepted"] > before, "no plan came")
        totals.append(settled(sc)["holds_total"])
    return {"first": totals[0], "second": totals[1] - totals[0], "counters": counters(sc)}


def dynamic_allocation(spark: SparkSession) -> Result:
    """Executors are asked to leave under a job that holds slots on idle ones, and leave once it is over."""
    sc = spark.sparkContext
    rows: list[Any] = []

    def holder() -> None:
        with spark_sched.job(spark, "holder", priority=5, copies="never"):
            rows.extend(sc.parallelize(range(4), 4).map(sleeper(lambda p: 12.0 if p == 3 else 0.3)).collect())

    def executors() -> int:
        return len(sc._jsc.sc().schedulerBackend().getExecutorIds().mkString(" ").split())

    thread = InheritableThread(target=holder)
    thread.start()
    wait_until(lambda: counters(sc)["slots_held_now"] > 0, "slots were to be held")
    had = executors()
    wait_until(
        lambda: executors() < had or counters(sc).get("executors_kept", 0) > 0,
        "an executor with nothing but held slots was to be asked to leave",
    )
    kept, held = executors(), counters(sc)["slots_held_now"]
    thread.join()
    with background(sc, 8, 0.2) as starts:
        pass
    wait_until(lambda: executors() == 0, "idle executors were to leave")
    return {
        "tasks": len(rows),
        "background_tasks": len(starts),
        "executors": (had, kept),
        "held": held,
        "counters": settled(sc),
    }


def gpus(spark: SparkSession) -> Result:
    """Half a GPU for a task, so that an executor of four cores has two slots; then a whole one."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    whole = ResourceProfileBuilder().require(TaskResourceRequests().resource("gpu", 1)).build
    first: list[float] = []
    last: list[float] = []
    held: list[int] = []

    def action() -> None:
        uneven = sleeper(lambda p: 1.0 + 0.3 * p)
        rows = sc.parallelize(range(4), 4).map(uneven).map(lambda row: (row[0], row))
        first.extend(row[1] for row in rows.partitionBy(4).values().collect())
        held.append(counters(sc)["slots_held_now"])
        wide = sc.parallelize(range(2), 2).withResources(whole).map(sleeper(lambda _: 0.5)).collect()
        held.append(counters(sc)["slots_held_now"])
        last.extend(started for _, started, _ in wide)

    with background(sc, 12, 0.5, behind=4) as starts, spark_sched.job(spark, "foreground", priority=10):
        action()
    return {
        "intruders": sum(max(first) < started < max(last) for started in starts),
        "background_tasks": len(starts),
        "held": held,
        "counters": settled(sc),
    }


def decommissioned(spark: SparkSession) -> Result:
    """An executor is told to leave while slots are held on it."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    done: list[int] = []

    def holder() -> None:
        with spark_sched.job(spark, "holder", priority=5, copies="never"):
            done.extend(
                r[0]
                for r in sc.parallelize(range(4), 4).map(sleeper(lambda p: 5.0 if p == 3 else 0.3)).collect()
            )

    thread = InheritableThread(target=holder)
    thread.start()
    wait_until(lambda: counters(sc)["slots_held_now"] == 3, "three slots were to be held")
    scheduler: Any = sc._jsc.sc().schedulerBackend()
    executors = scheduler.getExecutorIds()
    info = sc._jvm.org.apache.spark.scheduler.ExecutorDecommissionInfo("test", sc._jvm.scala.Option.empty())
    scheduler.decommissionExecutor(executors.head(), info, False, False)
    wait_until(lambda: counters(sc)["slots_held_now"] <= 2, "holds on the leaving executor were to go")
    thread.join()
    return {"tasks": sorted(done), "counters": settled(sc)}


def planner_killed(spark: SparkSession) -> Result:
    """kill -9 of the planner at 20 random moments of three concurrent jobs."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    rng = random.Random(7)
    wait_until(lambda: counters(sc)["planner_pid"] > 0, "the planner never started")
    sums: dict[str, int] = {}
    stop = threading.Event()

    def tenant(name: str, priority: int) -> None:
        total = 0
        with spark_sched.job(spark, name, priority=priority):
            while not stop.is_set():
                rows = sc.parallelize(range(40), 2).map(lambda x: (time.sleep(0.005), (x % 4, x))[1])
                total = sum(v for _, v in rows.reduceByKey(lambda a, b: a + b, 2).collect())
                if total != sum(range(40)):
                    break
        sums[name] = total

    threads = [InheritableThread(target=tenant, args=(f"tenant-{p}", p)) for p in (1, 5, 9)]
    for thread in threads:
        thread.start()
    killed = []
    for _ in range(20):
        time.sleep(rng.uniform(0.0, 1.0))
        wait_until(lambda: counters(sc)["planner_pid"] > 0, "the planner did not come back")
        pid = counters(sc)["planner_pid"]
        os.kill(pid, signal.SIGKILL)
        killed.append(pid)
        wait_until(
            lambda pid=pid: counters(sc)["planner_pid"] not in (pid, -1), "the planner did not come back"
        )
    before = counters(sc)["plans_accepted"]
    wait_until(lambda: counters(sc)["plans_accepted"] > before, "no plan after the last kill")
    stop.set()
    for thread in threads:
        thread.join()
    return {"sums": sums, "killed": len(set(killed)), "counters": settled(sc)}


def planner_stopped(spark: SparkSession) -> Result:
    """A planner that hangs (SIGSTOP) is replaced; meanwhile its plan runs out."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    wait_until(lambda: counters(sc)["plans_accepted"] > 0, "no plan came")
    first = counters(sc)["planner_pid"]
    os.kill(first, signal.SIGSTOP)
    wait_until(lambda: counters(sc)["plan_fallbacks"] > 0, "the plan never ran out")
    total = sc.parallelize(range(100), 4).sum()
    wait_until(lambda: counters(sc)["planner_pid"] not in (first, -1), "the planner was not replaced")
    before = counters(sc)["plans_accepted"]
    wait_until(lambda: counters(sc)["plans_accepted"] > before, "the new planner made no plan")
    return {"total": total, "counters": counters(sc)}


def planner_visible(spark: SparkSession) -> Result:
    """What other users of the machine can see of the planner."""
    sc = spark.sparkContext
    warm_up(sc, 2)
    wait_until(lambda: counters(sc)["plans_accepted"] > 0, "no plan came")
    pid = counters(sc)["planner_pid"]
    seen = ""
    for name in ("cmdline", "environ"):
        with open(f"/proc/{pid}/{name}", "rb") as file:
            seen += file.read().decode(errors="replace").replace("\0", " ")
    listening = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table, encoding="ascii") as file:
            listening += [line.split()[1] for line in file.readlines()[1:] if line.split()[3] == "0A"]
    return {"pid": pid, "seen": seen, "listening": listening, "counters": counters(sc)}


def leave_running(spark: SparkSession) -> Result:
    """The driver dies by SIGKILL, JVM and all; the test looks for the planner afterwards."""
    sc = spark.sparkContext
    warm_up(sc, 2)
    wait_until(lambda: counters(sc)["planner_pid"] > 0, "the planner never started")
    return {"pid": counters(sc)["planner_pid"], "kill": True}


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
        wait_until(lambda: counters(sc)["slots_held_now"] == 0, f"{statement!r} freed nothing", within_s=60.0)
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
    wait_until(lambda: counters(sc)["slots_held_now"] == 0, "the slots stay held", within_s=60.0)
    rows = sc.parallelize(range(4), 4).map(sleeper(lambda _: 0.0)).collect()
    for name in ("name", "priority"):
        spark.sql(f"RESET spark.sched.job.{name}")
    return {"rows": len(rows), "counters": counters(sc)}
