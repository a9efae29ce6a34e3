"""The planner process, killed, stopped or looked at while jobs run.

Run like those of `scenarios`.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time

from pyspark import InheritableThread
from pyspark.sql import SparkSession

import spark_sched
from tests.integration.scenarios import (
    Result,
    counters,
    more_events,
    planner_pid,
    settled,
    wait_until,
    warm_up,
)


def planner_killed(spark: SparkSession) -> Result:
    """kill -9 of the planner at 20 random moments of three concurrent jobs."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    rng = random.Random(7)
    planner_pid(sc)
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
        more_events(sc, rng.randrange(50))
        pid = planner_pid(sc)
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
    first = planner_pid(sc)
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
    pid = planner_pid(sc)
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
    return {"pid": planner_pid(sc), "kill": True}
