"""SQL sessions whose statements set the marks of a job.

Run like those of `scenarios`.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from tests.integration.scenarios import Result, counters, settled, sleeper, wait_until, warm_up


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
