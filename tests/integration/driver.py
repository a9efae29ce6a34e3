"""A driver program that runs scenarios one after another, in one JVM.

``python -m tests.integration.driver`` reads requests as lines of JSON (``name``, ``master``, ``settings``)
and prints each result as one line of JSON after ``MARKER``. Scenarios that ask for the same master and
settings share an application; others get one of their own, in the same JVM. A scenario that was run in an
application before gets a new one: what the planner learned from it would change its plans.

What fails ends the process: nobody knows what it left behind.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql import SparkSession

import spark_sched
from spark_sched.config import SCHEME
from tests.integration import (
    crowd_scenarios,
    eviction_scenarios,
    executor_scenarios,
    fail_open_scenarios,
    group_scenarios,
    hang_scenarios,
    hostile_scenarios,
    lifecycles,
    line_scenarios,
    plan_scenarios,
    planner_scenarios,
    pool_scenarios,
    queue_scenarios,
    reservation_scenarios,
    scenarios,
    slearn_scenarios,
    sql_scenarios,
    sql_status_scenarios,
    status_scenarios,
    steering_scenarios,
    tenant_scenarios,
)

MARKER = "SCENARIO "
MODULES: tuple[ModuleType, ...] = (
    reservation_scenarios,
    crowd_scenarios,
    executor_scenarios,
    pool_scenarios,
    queue_scenarios,
    sql_scenarios,
    planner_scenarios,
    plan_scenarios,
    slearn_scenarios,
    eviction_scenarios,
    hang_scenarios,
    hostile_scenarios,
    fail_open_scenarios,
    group_scenarios,
    lifecycles,
    line_scenarios,
    status_scenarios,
    steering_scenarios,
    tenant_scenarios,
    sql_status_scenarios,
)


@dataclass
class Application:
    """The one that runs now; attached if its master was declared with our prefix."""

    wanted: tuple[str, tuple[str, ...]]
    spark: SparkSession
    done: set[str] = field(default_factory=set)

    @classmethod
    def start(cls, master: str, settings: tuple[str, ...]) -> Application:
        inner = master.removeprefix(SCHEME)
        session = SparkSession.builder.config(
            map={
                **spark_sched.conf(inner, door="plugin" if master.startswith(SCHEME) else "master"),
                "spark.master": inner,
                "spark.ui.enabled": "false",
                "spark.log.level": "WARN",
                # The status tracker that scenarios ask is to know of every task at once.
                "spark.ui.liveUpdate.period": "0",
                "spark.ui.showConsoleProgress": "false",
                "spark.testing.schedInvariants": "true",
                **dict(setting.split("=", 1) for setting in settings),
            }
        ).getOrCreate()
        return cls((master, settings), session)

    def run(self, name: str) -> dict[str, Any]:
        if self.done:
            # An earlier scenario may have killed some; others come in their place.
            scenarios.wait_until(lambda: _all_here(self.spark), "executors were to come back")
        scenarios.counted_from(self.spark.sparkContext if self.done else None)
        self.done.add(name)
        result: dict[str, Any] = _scenario(name)(self.spark)
        return result


def _scenario(name: str) -> Callable[[SparkSession], dict[str, Any]]:
    """The function of this name, of the module that defines it."""
    found = (vars(module).get(name) for module in MODULES)
    return next(each for each in found if each is not None)


def _all_here(spark: SparkSession) -> bool:
    """Whether a cluster on this machine has all of its executors."""
    cluster = re.search(r"local-cluster\[(\d+),", spark.sparkContext.master)
    backend: Any = spark.sparkContext._jsc.sc().schedulerBackend()
    return cluster is None or int(backend.getExecutorIds().size()) == int(cluster[1])


def main() -> None:
    # Settings of a JVM's first application would be defaults of the later ones: it starts with none but this.
    class_path = "spark.driver.extraClassPath"
    plain = SparkConf(loadDefaults=False).set(class_path, spark_sched.conf()[class_path])
    SparkContext._ensure_initialized(conf=plain)
    # Spark's scripts become the JVM. One that lost its application need not answer any more.
    jvm: Any = SparkContext._gateway.proc
    for module in (scenarios, *MODULES):
        register_pickle_by_value(module)  # executors need not find the tests
    running: Application | None = None
    for line in sys.stdin:
        request = json.loads(line)
        wanted = (request["master"], tuple(request["settings"]))
        if running is not None and (running.wanted != wanted or request["name"] in running.done):
            running.spark.stop()
            running = None
        running = running or Application.start(*wanted)
        result = running.run(request["name"])
        print(MARKER + json.dumps(result), flush=True)
        if result.get("kill"):
            os.kill(jvm.pid, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
    if running is not None:
        running.spark.stop()


if __name__ == "__main__":
    main()
