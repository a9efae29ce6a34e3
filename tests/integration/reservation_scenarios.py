"""Scenarios of reservations: holds across barriers, priorities, expiry, cancelled jobs, copies."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark import RDD, BarrierTaskContext, InheritableThread, SparkContext, TaskContext
from pyspark.sql import SparkSession

import spark_sched
import spark_sched.api.job
from tests.integration.scenarios import (
    Result,
    active_stages,
    all_told,
    attached,
    background,
    counted_from,
    counters,
    properties,
    release,
    running_tasks,
    settled,
    sleeper,
    sleeper_after,
    straggling,
    wait_until,
    waits,
    warm_up,
)


def across_barriers(spark: SparkSession) -> Result:
    """Two actions of two stages each on all four slots, beside more background than fits."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    first: list[float] = []
    last: list[float] = []

    def action(begin: Path) -> None:
        uneven = sleeper_after(begin, lambda p: 0.3 + 0.3 * p)
        rows = sc.parallelize(range(4), 4).map(uneven).map(lambda row: (row[0], row))
        done = rows.partitionBy(4).values().map(lambda row: (row[1], sleeper(lambda _: 0.4)(0)[1])).collect()
        first.extend(up for up, _ in done)
        last.extend(down for _, down in done)

    # The foreground has all slots when the background comes: what it loses it loses at its barriers.
    with (
        release() as come,
        background(sc, 16, behind=4, come=come) as starts,
        spark_sched.job(spark, "foreground", priority=10),
    ):
        action(come)
        mine = max(first[:4])  # all four slots are the job's from here on …
        action(come)
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
    totals: list[int] = []

    def job(end: Path) -> None:
        with properties(sc, priority="10"):
            rows = sc.parallelize([2, 3], 2).map(straggling(end)).map(lambda r: (r[0], r))
            totals.append(rows.partitionBy(4).map(lambda r: time.sleep(0.3)).count())

    with release() as begin, release() as end, background(sc, 12, 0.5, begin=begin) as starts:
        wait_until(lambda: running_tasks(sc) == 4, "the background never filled the slots")
        thread = InheritableThread(target=job, args=(end,))
        thread.start()
        wait_until(lambda: active_stages(sc) == 2, "the job was to wait")
        begin.touch()
        wait_until(lambda: counters(sc)["prereserved_total"] >= 1, "a slot of others was to be taken")
        end.touch()
        thread.join()
    return {"total": sum(totals), "background_tasks": len(starts), "counters": settled(sc)}


def more_next_beside(spark: SparkSession) -> Result:
    """Two tasks, then four, beside an independent stage of two that runs on; both are read by a last one."""
    sc = spark.sparkContext
    warm_up(sc, 6)
    totals: list[int] = []

    def job(end: Path, last: Path) -> None:
        with properties(sc, priority="10"):
            rows = sc.parallelize([2, 3], 2).map(straggling(end)).map(lambda r: (r[0], 1))
            grown = rows.partitionBy(4).map(lambda r: (0, 1)).reduceByKey(lambda a, b: a + b, 1)
            beside = sleeper_after(last, lambda _: 0.0)
            aside = sc.parallelize(range(2), 2).map(beside).map(lambda r: (1, 1))
            totals.extend(n for _, n in grown.union(aside.reduceByKey(lambda a, b: a + b, 1)).collect())

    with (
        release() as begin,
        release() as end,
        release() as last,
        background(sc, 24, 0.5, begin=begin) as starts,
    ):
        wait_until(lambda: running_tasks(sc) == 6, "the background never filled the slots")
        thread = InheritableThread(target=job, args=(end, last))
        thread.start()
        wait_until(lambda: active_stages(sc) == 3, "both stages were to wait")
        begin.touch()
        wait_until(lambda: counters(sc)["prereserved_total"] >= 1, "a slot of others was to be taken")
        end.touch()
        wait_until(lambda: active_stages(sc) == 1, "the independent stage was to be the last one")
        last.touch()
        thread.join()
    return {"total": sum(totals), "background_tasks": len(starts), "counters": settled(sc)}


def priorities(spark: SparkSession) -> Result:
    """While a job of priority 5 waits for its straggler, equals wait and a higher one takes its slots."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    ends: dict[str, float] = {}
    starts: dict[str, float] = {}

    def holder(end: Path) -> None:
        with spark_sched.job(spark, "holder", priority=5, copies="never"):
            rows = sc.parallelize(range(4), 4).map(straggling(end)).collect()
            ends["straggler"] = max(end for _, _, end in rows)

    def other(name: str, priority: int) -> None:
        with spark_sched.job(spark, name, priority=priority):
            rows = sc.parallelize(range(2), 2).map(sleeper(lambda _: 0.3)).collect()
            starts[name] = max(start for _, start, _ in rows)

    with release() as end:
        threads = [InheritableThread(target=holder, args=(end,))]
        threads[0].start()
        wait_until(lambda: counters(sc)["slots_held_now"] == 3, "three slots were to be held")
        for name, priority in (("equal", 5), ("lower", 1), ("higher", 9)):
            threads.append(InheritableThread(target=other, args=(name, priority)))
            threads[-1].start()
        wait_until(lambda: "higher" in starts, "the job of the highest priority was to run")
        wait_until(lambda: waits(spark, "equal", 2) and waits(spark, "lower", 2), "the others were to wait")
        wait_until(lambda: counters(sc)["offers_refused"] > 0, "they were to be refused slots")
        end.touch()
        for thread in threads:
            thread.join()
    return {
        "before_straggler": sorted(name for name, start in starts.items() if start < ends["straggler"]),
        "counters": settled(sc),
    }


def longest_wait_ms(sc: SparkContext) -> int:
    """The longest time that a running stage waited for its first task to start."""
    stages = sc._jsc.sc().statusStore().activeStages()
    waits = []
    for stage in (stages.apply(index) for index in range(stages.size())):
        waits.append(stage.firstTaskLaunchedTime().get().getTime() - stage.submissionTime().get().getTime())
    return max(waits)


def equals(spark: SparkSession) -> Result:
    """Of three jobs of priority 5 the first becomes wide while the second holds slots; the third waits.

    No other scenario of this application has jobs of these names: of a job whose stages are known from an
    earlier run, no slot is held after the last one.
    """
    sc = spark.sparkContext
    warm_up(sc, 4)
    starts: dict[str, list[float]] = {}

    def first(go: Path) -> None:
        with spark_sched.job(spark, "early", priority=5, copies="never"):
            sc.parallelize(range(1), 1).map(sleeper_after(go, lambda _: 0.0)).collect()
            rows = sc.parallelize(range(3), 3).map(sleeper(lambda _: 0.3)).collect()
            starts["early"] = [start for _, start, _ in rows]

    def second(barrier: Path, end: Path) -> None:
        def body(partition: int) -> tuple[int, float, float]:
            return sleeper_after(end if partition == 3 else barrier, lambda _: 0.0)(partition)

        with spark_sched.job(spark, "middle", priority=5, copies="never"):
            sc.parallelize(range(4), 4).map(body).collect()

    def third() -> None:
        with spark_sched.job(spark, "late", priority=5, copies="never"):
            rows = sc.parallelize(range(4), 4).map(sleeper(lambda _: 0.0)).collect()
            starts["late"] = [start for _, start, _ in rows]

    with release() as go, release() as barrier, release() as end:
        threads = [
            InheritableThread(target=first, args=(go,)),
            InheritableThread(target=second, args=(barrier, end)),
            InheritableThread(target=third),
        ]
        threads[0].start()
        wait_until(lambda: running_tasks(sc) == 1, "the first job's task was to run")
        threads[1].start()
        wait_until(lambda: running_tasks(sc) == 4, "the second job was to have three slots")
        # However late a busy machine starts its first task: it must not have waited for a tenth of its time.
        until = time.monotonic() + 11 * longest_wait_ms(sc) / 1000
        wait_until(lambda: time.monotonic() >= until, "it was to run for longer than it waited")
        barrier.touch()
        wait_until(lambda: counters(sc)["slots_held_now"] == 2, "the second job was to hold two slots")
        threads[2].start()
        wait_until(lambda: waits(spark, "late", 4), "the third job was to come")
        before = counters(sc)["holds_overridden"]
        go.touch()
        wait_until(lambda: "early" in starts, "the first job was to go on while the second one's task runs")
        taken = counters(sc)["holds_overridden"] - before
        wait_until(lambda: counters(sc)["slots_held_now"] >= 2, "the second job was to have its slots back")
        end.touch()
        for thread in threads:
            thread.join()
    return {"taken": taken, "starts": starts, "counters": settled(sc)}


def waited(spark: SparkSession) -> Result:
    """The second of three equal jobs waits for the first one; its held slots then go to the third one.

    The names are its own, as those of `equals`.
    """
    sc = spark.sparkContext
    warm_up(sc, 4)
    ended: list[str] = []

    def run(name: str, priority: int, tasks: int, body: Callable[[int], tuple[int, float, float]]) -> None:
        with spark_sched.job(spark, name, priority=priority, copies="never"):
            sc.parallelize(range(tasks), tasks).map(body).collect()
        ended.append(name)

    with release() as go, release() as end:
        idle = sleeper(lambda _: 0.0)
        jobs = {
            "leader": (5, 4, sleeper_after(go, lambda _: 0.0)),
            "waiter": (5, 4, straggling(end)),
            "inferior": (1, 2, idle),
            "borrower": (5, 2, idle),
        }
        threads = {name: InheritableThread(target=run, args=(name, *given)) for name, given in jobs.items()}
        threads["leader"].start()
        wait_until(lambda: running_tasks(sc) == 4, "the first job was to have all slots")
        threads["waiter"].start()
        wait_until(lambda: waits(spark, "waiter", 4), "the second job was to wait")
        # The three short tasks of the second job may take ten times as long as it waits.
        come = time.monotonic()
        wait_until(lambda: time.monotonic() - come >= 3.0, "it was to wait for long")
        go.touch()
        wait_until(lambda: counters(sc)["slots_held_now"] == 3, "the second job was to hold three slots")
        threads["inferior"].start()
        wait_until(lambda: waits(spark, "inferior", 2), "the job of lower priority was to wait")
        threads["borrower"].start()
        wait_until(lambda: "borrower" in ended, "the third job was to run on the held slots")
        lower_waits = waits(spark, "inferior", 2)
        end.touch()
        for thread in threads.values():
            thread.join()
    return {"lower_waits": lower_waits, "ended": ended, "counters": settled(sc)}


def _task_number() -> int:
    context = TaskContext.get()
    assert context is not None
    return context.taskAttemptId()


def by_arrival(spark: SparkSession) -> Result:
    """A job's second action is there when tasks of a later job, but of an earlier Spark job, free slots."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    second_action = threading.Event()
    mine: list[int] = []
    later: list[int] = []

    def launches(rows: RDD[Any]) -> list[int]:
        """Spark numbers tasks as it launches them; a Python worker may begin one much later."""
        return rows.map(lambda _: _task_number()).collect()

    def loop(come: Path) -> None:
        with spark_sched.job(spark, "loop", priority=0):
            sc.parallelize(range(4), 4).map(sleeper_after(come, lambda _: 0.0)).collect()
            all_told(sc)  # of the end of its stage
            second_action.set()
            mine.extend(launches(sc.parallelize(range(4), 4)))

    def other(again: Path) -> None:
        later.extend(sorted(launches(sc.parallelize(range(12), 12).map(sleeper_after(again, lambda _: 0.0)))))

    with release() as come, release() as again:
        threads = [
            InheritableThread(target=loop, args=(come,)),
            InheritableThread(target=other, args=(again,)),
        ]
        threads[0].start()
        wait_until(lambda: running_tasks(sc) == 4, "the first action was to have all slots")
        threads[1].start()
        wait_until(lambda: active_stages(sc) == 2, "the later job was to come")
        come.touch()
        second_action.wait()
        wait_until(lambda: active_stages(sc) == 2, "the second action was to come")
        again.touch()
        for thread in threads:
            thread.join()
    return {"mine": mine, "later": later, "counters": settled(sc)}


def expiry(spark: SparkSession) -> Result:
    """A reservation that may last for one second, beside a longer task, on a quiet local master."""
    warm_up(spark.sparkContext, 4)
    # Tasks that end too late hold nothing any more: on a crowded machine another job begins anew.
    found = (_expiry(spark, f"holder-{number}") for number in itertools.count())
    return next(each for each in found if each is not None)


def _expiry(spark: SparkSession, name: str) -> Result | None:
    """The same of one job; None: its tasks took so long that it never had three slots held."""
    sc = spark.sparkContext
    counted_from(sc)
    ends: list[float] = []
    starts: list[float] = []

    def holder(end: Path) -> None:
        with spark_sched.job(spark, name, priority=5, copies="never"):
            rows = sc.parallelize(range(4), 4).map(straggling(end)).collect()
            ends.extend(end for _, _, end in rows)

    def three_done() -> bool:
        return any(each.name == name and each.tasks_done == 3 for each in spark_sched.status(spark).jobs)

    with release() as end:
        thread = InheritableThread(target=holder, args=(end,))
        thread.start()
        wait_until(three_done, "three tasks were to end")
        in_time = counters(sc)["holds_total"] == 3
        if in_time:
            with background(sc, 3, 0.2) as starts:
                pass
        end.touch()
        thread.join()
    if not in_time:
        return None
    return {"started_before_straggler": sum(s < max(ends) for s in starts), "counters": settled(sc)}


def held_against_waiting(spark: SparkSession) -> Result:
    """A job pauses until another one has run, for whose tasks all slots are held."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    counted_from(sc)
    paused = threading.Event()
    starts: list[float] = []

    def others() -> None:
        paused.wait()
        rows = sc.parallelize(range(4), 4).map(sleeper(lambda _: 0.1)).collect()
        starts.extend(started for _, started, _ in rows)

    thread = InheritableThread(target=others)
    thread.start()
    with spark_sched.job(spark, "holder", priority=5, copies="never"):
        sc.parallelize(range(4), 4).map(sleeper(lambda _: 0.1)).collect()
        wait_until(lambda: counters(sc)["slots_held_now"] == 4, "four slots were to be held")
        before = counters(sc)
        paused.set()
        thread.join()
    return {"before": before, "started": len(starts), "counters": settled(sc)}


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
    after_cancel = settled(sc)

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
    return {
        "failures": len(failures),
        "background_tasks": len(starts),
        "held_after_cancel": after_cancel["slots_held_now"],
        "counters": held,
    }


def barrier(spark: SparkSession) -> Result:
    """Barrier stages of a job with high priority beside background, and of unmarked work beside holds."""
    sc = spark.sparkContext
    warm_up(sc, 4)

    def together(_: Iterator[int]) -> Iterator[tuple[int, float]]:
        context, started = BarrierTaskContext.get(), time.time()
        time.sleep(0.2 + 0.4 * context.partitionId())
        context.barrier()
        yield context.partitionId(), started

    def gang(size: int) -> list[tuple[int, float]]:
        return sorted(sc.parallelize(range(size), size).barrier().mapPartitions(together).collect())

    with background(sc, 8, 0.3) as starts, spark_sched.job(spark, "gang", priority=10):
        high = gang(4) + gang(4)
    with spark_sched.job(spark, "holder", priority=10):
        sc.parallelize(range(2), 2).map(sleeper(lambda _: 0.2)).collect()
        wait_until(lambda: counters(sc)["slots_held_now"] == 2, "two slots were to be held")
        # Two slots are open to the unmarked gang, and two more idle but are held until the block ends.
        low: list[tuple[int, float]] = []
        all_told(sc)
        threads = [threading.Thread(target=lambda: low.extend(gang(3)))]
        threads[0].start()
        wait_until(lambda: active_stages(sc) == 1, "the gang was to wait")
        # Slots are offered to the gang, too, when another task comes and when it ends.
        threads.append(threading.Thread(target=sc.parallelize([0], 1).count))
        threads[1].start()
        threads[1].join()
        ends = time.time()
    threads[0].join()
    return {
        "high": [partition for partition, _ in high],
        "low": [partition for partition, _ in low],
        "started_in_block": sum(started < ends for _, started in low),
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


def failing_copy(spark: SparkSession) -> Result:
    """A straggler owns a file that only one attempt may own, so its copy fails. It ends after that."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    sums: list[tuple[int, int]] = []

    def run(end: Path) -> None:
        def body(partition: int) -> tuple[int, int]:
            end.with_name(f"owned-{partition}").touch(exist_ok=False)
            time.sleep(0.3)
            if partition == 3:
                wait_until(end.exists, "the straggler was to end")
            return partition % 2, partition

        rows = sc.parallelize(range(4), 4).map(body).reduceByKey(lambda a, b: a + b, 4)
        sums.extend(sorted(rows.collect()))

    with release() as end, spark_sched.job(spark, "export", priority=10):
        thread = InheritableThread(target=run, args=(end,))
        thread.start()
        wait_until(lambda: counters(sc)["copies_failed"] > 0, "the straggler's copy was to fail")
        end.touch()
        thread.join()
        story = [entry.text for entry in spark_sched.explain(spark, "export").story]
    return {"sums": sums, "story": story, "counters": settled(sc)}


def recurring(spark: SparkSession) -> Result:
    """The same name twice: the second run's first plan knows the stages of the first."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    totals = []
    for _ in range(2):
        with release() as planned, spark_sched.job(spark, "nightly", priority=10):
            thread = InheritableThread(target=_two_stages, args=(sc, planned))
            thread.start()
            wait_until(lambda: running_tasks(sc) == 4, "the first stage was to run")
            # The first plan from now on may have been made before the job came, the second one not.
            known = counters(sc)["plans_accepted"] + 2
            wait_until(lambda known=known: counters(sc)["plans_accepted"] >= known, "no plan came")
            planned.touch()
            thread.join()
        totals.append(settled(sc)["holds_total"])
    return {"first": totals[0], "second": totals[1] - totals[0], "counters": counters(sc)}


def _two_stages(sc: SparkContext, begin: Path) -> None:
    """Four tasks that run until the file exists and end one after another, then two."""

    def body(partition: int) -> tuple[int, int]:
        wait_until(begin.exists, "the first stage was to end")
        time.sleep(0.5 * partition)
        return partition, 1

    rows = sc.parallelize(range(4), 4).map(body)
    rows.reduceByKey(lambda a, b: a + b, 2).map(lambda kv: time.sleep(0.8)).count()
