"""What is asked of each line of Spark, in one application."""

from __future__ import annotations

import os
import signal

from pyspark.sql import SparkSession

import spark_sched
from tests.integration.reservation_scenarios import across_barriers
from tests.integration.scenarios import Result, counters, planner_pid, settled, wait_until


def duties_of_a_line(spark: SparkSession) -> Result:
    """Slots are held, the planner is killed and comes back, and RDDs and SQL give results under marks."""
    sc = spark.sparkContext
    held = across_barriers(spark)
    killed = planner_pid(sc)
    os.kill(killed, signal.SIGKILL)
    with spark_sched.job(spark, "summed", priority=5):
        pairs = sc.parallelize(range(1000), 4).map(lambda n: (n % 3, n))
        sums = sorted(pairs.reduceByKey(lambda a, b: a + b, 4).collect())
    wait_until(lambda: counters(sc)["planner_pid"] not in (killed, -1), "the planner did not come back")
    before = counters(sc)["plans_accepted"]
    with spark_sched.job(spark, "queried", priority=5):
        left = spark.range(0, 1000, 1, 4).selectExpr("id % 5 AS k", "id")
        right = spark.range(0, 5, 1, 2).selectExpr("id AS k", "id * 10 AS weight")
        joined = left.join(right, "k").groupBy("k").agg({"id": "count", "weight": "max"})
        rows = sorted(tuple(row) for row in joined.select("k", "count(id)", "max(weight)").collect())
    wait_until(lambda: counters(sc)["plans_accepted"] > before, "no plan after the kill")
    return {
        **held,
        "version": sc.version,
        "sums": sums,
        "rows": rows,
        "restarts": counters(sc)["planner_restarts"],
        "counters": settled(sc),
    }
