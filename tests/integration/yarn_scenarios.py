"""Scenarios of applications that YARN runs; `submitted_app` runs one of them."""

from __future__ import annotations

import os
import signal
import sys
from operator import add
from pathlib import Path
from typing import Any

from pyspark import InheritableThread, SparkContext
from pyspark.sql import SparkSession

import spark_sched
from tests.integration.executor_scenarios import dynamic_allocation
from tests.integration.line_scenarios import duties_of_a_line
from tests.integration.scenarios import (
    Result,
    attached,
    counters,
    planner_pid,
    release,
    settled,
    straggling,
    wait_until,
    warm_up,
)

# On the racks of the test cluster; the last one is on none.
_HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3")


def duties(spark: SparkSession, _folder: Path) -> Result:
    """Those of a line, and what the application has of YARN."""
    sc = spark.sparkContext
    done = duties_of_a_line(spark)
    manager = sc._jvm.org.apache.spark.scheduler.cluster.YarnClusterManager()
    stock = manager.createTaskScheduler(sc._jsc.sc(), "yarn")
    return {
        **done,
        **_of_yarn(sc),
        "deploy_mode": sc.getConf().get("spark.submit.deployMode"),
        "racks": _racks(sc, sc._jsc.sc().taskScheduler()),
        "stock_racks": _racks(sc, stock),
        "nodes": len(set(_node_ports(sc).values())),
    }


def second_attempt(spark: SparkSession, folder: Path) -> Result:
    """The first attempt's ApplicationMaster is killed while its job holds slots; the second runs the job."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    sums: list[tuple[int, int]] = []
    attempt = sc._jsc.sc().applicationAttemptId().get()
    end = folder / "end"

    def holder() -> None:
        sums.extend(_sums_with_a_straggler(sc, end))

    holding = InheritableThread(target=holder, daemon=True)
    holding.start()
    wait_until(lambda: counters(sc)["slots_held_now"] == 3, "three slots were to be held")
    if attempt == "1":
        application_master = os.getppid()  # in cluster mode
        pids = f"{application_master} {planner_pid(sc)} {os.getpid()}"
        (folder / "pids.new").write_text(pids)
        (folder / "pids.new").rename(folder / "pids")
        os.kill(application_master, signal.SIGKILL)
        sys.exit("its ApplicationMaster was killed")
    end.touch()
    holding.join()
    return {
        **_of_yarn(sc),
        "attempt": attempt,
        "sums": sums,
        "planner": planner_pid(sc),
        "counters": settled(sc),
    }


def node_lost(spark: SparkSession, folder: Path) -> Result:
    """A NodeManager stops, with an executor on which slots are held.

    ``folder/nodes`` says where executors are, then the test stops the node of one of them.
    """
    sc = spark.sparkContext
    warm_up(sc, 4)
    sums: list[tuple[int, int]] = []
    nodes = _node_ports(sc)

    def holder(end: Path) -> None:
        sums.extend(_sums_with_a_straggler(sc, end))

    with release() as end:
        holding = InheritableThread(target=holder, args=(end,))
        holding.start()
        wait_until(lambda: counters(sc)["slots_held_now"] == 3, "three slots were to be held")
        (folder / "nodes.new").write_text(" ".join([sc.applicationId, *map(str, nodes.values())]))
        (folder / "nodes.new").rename(folder / "nodes")
        wait_until(lambda: _executors(sc) == 1, "one executor was to be lost")
        # The backend forgets an executor before it tells the scheduler.
        wait_until(lambda: counters(sc)["slots_held_now"] <= 2, "holds on the lost executor were to go")
        end.touch()
        holding.join()
    return {**_of_yarn(sc), "sums": sums, "counters": settled(sc)}


def allocation(spark: SparkSession, _folder: Path) -> Result:
    """Executors come and go as jobs need them, and stay while slots are held on them."""
    done = dynamic_allocation(spark)
    return {**done, **_of_yarn(spark.sparkContext), "executors": done["executors"]}


def _sums_with_a_straggler(sc: SparkContext, end: Path) -> list[tuple[int, int]]:
    """Of a job whose first stage has four tasks, of which one runs until the file exists."""
    with spark_sched.job(sc, "holder", priority=5, copies="never"):
        rows = sc.parallelize(range(4), 4).map(straggling(end)).map(lambda row: (row[0] % 2, row[0]))
        return sorted(rows.reduceByKey(add, 4).collect())


def _of_yarn(sc: SparkContext) -> Result:
    return {
        "application": sc.applicationId,
        "attached": attached(sc),
        "master": sc.master,
        "executors": _executors(sc),
    }


def _executors(sc: SparkContext) -> int:
    backend: Any = sc._jsc.sc().schedulerBackend()
    return int(backend.getExecutorIds().size())


def _racks(sc: SparkContext, scheduler: Any) -> list[str]:
    hosts = sc._jvm.org.apache.spark.api.python.PythonUtils.toSeq(list(_HOSTS))
    return str(scheduler.getRacksForHosts(hosts).mkString(" ")).split(" ")


def _node_ports(sc: SparkContext) -> dict[str, int]:
    """By container, the HTTP port of its NodeManager."""

    def place(_: int) -> tuple[str, int]:
        return os.environ["CONTAINER_ID"], int(os.environ["NM_HTTP_PORT"])

    return dict(sc.parallelize(range(8), 8).map(place).collect())
