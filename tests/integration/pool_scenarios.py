"""Jobs in pools of Spark's FAIR mode.

Run like those of `scenarios`.
"""

from __future__ import annotations

from pathlib import Path

from pyspark import InheritableThread
from pyspark.sql import SparkSession

import spark_sched
from tests.integration.scenarios import (
    Result,
    active_stages,
    counters,
    release,
    settled,
    sleeper,
    sleeper_after,
    straggling,
    wait_until,
    warm_up,
)


def fair_pools(spark: SparkSession) -> Result:
    """Figure 13: stages of uneven tasks and a map-only job share the slots fairly, at equal priority."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    rows: dict[str, list[tuple[int, float, float]]] = {}

    def stages() -> None:
        sc.setLocalProperty("spark.scheduler.pool", "one")
        with spark_sched.job(spark, "stages", isolation=1.0, copies="never"):
            uneven = sleeper(lambda p: 0.4 + 1.2 * p)
            rows["one"] = sc.parallelize(range(2), 2).map(uneven).collect()
            # The pause after an action is expected to be like those before it: here there is no second one.
            pairs = sc.parallelize(range(2), 2).map(uneven).map(lambda row: (row[0], row)).partitionBy(2)
            done = pairs.values().map(lambda row: (row, uneven(row[0]))).collect()
            rows["one"] += [row for both in done for row in both]

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

    def wide(end: Path) -> None:
        sc.setLocalProperty("spark.scheduler.pool", "one")
        with spark_sched.job(spark, "wide", isolation=1.0, copies="never"):
            rows["wide"] = sc.parallelize(range(4), 4).map(straggling(end)).collect()

    def other() -> None:
        sc.setLocalProperty("spark.scheduler.pool", "two")
        rows["other"] = sc.parallelize(range(4), 4).map(sleeper(lambda _: 0.2)).collect()

    with release() as end:
        threads = [InheritableThread(target=wide, args=(end,))]
        threads[0].start()
        wait_until(lambda: counters(sc)["slots_held_now"] == 3, "three slots were to be held")
        threads.append(InheritableThread(target=other))
        threads[1].start()
        wait_until(lambda: "other" in rows, "the job of the other pool was to run")
        held = counters(sc)["slots_held_now"]
        end.touch()
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
    wait_until(lambda: counters(sc)["plans_accepted"] > 0, "no plan came")
    rows: dict[str, list[tuple[int, float, float]]] = {}

    def fill(pool: str, begin: Path) -> None:
        sc.setLocalProperty("spark.scheduler.pool", pool)
        rows[pool] = sc.parallelize(range(24), 24).map(sleeper_after(begin, lambda _: 0.5)).collect()

    with release() as begin_both:
        threads = [
            InheritableThread(target=fill, args=(pool, begin_both)) for pool in ("batch", "interactive")
        ]
        for thread in threads:
            thread.start()
        wait_until(lambda: active_stages(sc) == 2, "both were to come")
        begin_both.touch()
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
