"""Scenarios of applications that run on Kubernetes; `submitted_app` runs one of them."""

from __future__ import annotations

from operator import add
from pathlib import Path
from typing import Any

from pyspark import InheritableThread, SparkContext
from pyspark.sql import SparkSession

import spark_sched
from tests.integration.executor_scenarios import dynamic_allocation
from tests.integration.line_scenarios import duties_of_a_line
from tests.integration.reservation_scenarios import across_barriers
from tests.integration.scenarios import (
    Result,
    attached,
    release,
    settled,
    straggling,
    wait_until,
    warm_up,
)

#: How an executor is lost: its process is killed, its pod is deleted, its node asks it to leave.
LOSSES = ("killed", "deleted", "decommissioned")


def duties(spark: SparkSession, _folder: Path) -> Result:
    """Those of a line."""
    return {**_of_kubernetes(spark.sparkContext), **duties_of_a_line(spark)}


def isolation(spark: SparkSession, _folder: Path) -> Result:
    """A job keeps its slots between its stages."""
    return {**_of_kubernetes(spark.sparkContext), **across_barriers(spark)}


def allocation(spark: SparkSession, _folder: Path) -> Result:
    """Executors come and go as jobs need them, and stay while slots are held on them."""
    allocated = dynamic_allocation(spark)
    return {**_of_kubernetes(spark.sparkContext), **allocated}


def executors_lost(spark: SparkSession, folder: Path) -> Result:
    """Executors with nothing but held slots are lost, each in another way, while a job runs.

    ``folder/HOW`` has the id of the executor that the test takes away next.
    """
    found = _of_kubernetes(spark.sparkContext)
    for how in LOSSES:
        found[how] = _lose(spark, folder / how)
    return {**found, "counters": settled(spark.sparkContext)}


def _lose(spark: SparkSession, ask: Path) -> Result:
    sc = spark.sparkContext
    wait_until(lambda: len(_executors(sc)) == 2, "two executors were to be there")
    warm_up(sc, 4)
    sums: list[tuple[int, int]] = []

    def holder(end: Path) -> None:
        with spark_sched.job(sc, f"holder {ask.name}", priority=5, copies="never"):
            rows = sc.parallelize(range(4), 4).map(straggling(end)).map(lambda row: (row[0] % 2, row[0]))
            sums.extend(sorted(rows.reduceByKey(add, 4).collect()))

    def held() -> dict[str, int]:
        of = spark_sched.status(spark).executors
        return {each.executor: sum(hold.slots for hold in each.held) for each in of}

    with release() as end:
        holding = InheritableThread(target=holder, args=(end,))
        holding.start()
        wait_until(lambda: sorted(held().values()) == [1, 2], "three slots were to be held")
        before = held()
        lost = max(before, key=before.__getitem__)
        ask.with_suffix(".new").write_text(lost)
        ask.with_suffix(".new").rename(ask)
        wait_until(lambda: lost not in _executors(sc), "the executor was to be lost")
        wait_until(lambda: held().get(lost, 0) == 0, "nothing was to be held there any more")
        end.touch()
        holding.join()
    return {"sums": sums, "executors": sorted(before), "lost": lost}


def _of_kubernetes(sc: SparkContext) -> Result:
    return {
        "application": sc.applicationId,
        "attached": attached(sc),
        "master": sc.master,
        "executors": len(_executors(sc)),
        "cores": sc.defaultParallelism,
        "plugins": sc._jsc.sc().conf().get("spark.plugins", ""),
    }


def _executors(sc: SparkContext) -> set[str]:
    backend: Any = sc._jsc.sc().schedulerBackend()
    return set(backend.getExecutorIds().mkString(" ").split())
