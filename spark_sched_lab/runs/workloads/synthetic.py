"""Synthetic jobs of sleeping stages and of empty tasks, for benchmarks that need exact durations.

A stage is one Spark action; its tasks sleep inside the JVM. Every attempt of a task may have a duration of
its own, as when a copy of a straggler lands on a faster slot.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# An executor's thread is named after its task: "… for task <index>.<attempt> in stage …".
_FIRST_ATTEMPT = r"task [0-9]+\.0 in stage"


def sleeping_stage(spark: SparkSession, first_ms: Sequence[int], copy_ms: Sequence[int]) -> DataFrame:
    """A stage of ``len(first_ms)`` tasks; evaluating partition *i* sleeps in its executor.

    ``first_ms[i]`` is how long the first attempt takes, ``copy_ms[i]`` every later one, in milliseconds.
    """
    thread = "java_method('java.lang.Thread', 'currentThread')"
    chosen = f"if({thread} rlike '{_FIRST_ATTEMPT}', {_pick(first_ms)}, {_pick(copy_ms)})"
    tasks = spark.range(0, len(first_ms), 1, len(first_ms))
    with_escapes = chosen.replace("\\", "\\\\")
    return tasks.selectExpr(f"java_method('java.lang.Thread', 'sleep', {with_escapes})")


def run_stages(spark: SparkSession, stages: Sequence[tuple[Sequence[int], Sequence[int]]]) -> float:
    """Run stages one after the other, each behind the last one's barrier; returns the seconds they took."""
    started_s = time.monotonic()
    for first_ms, copy_ms in stages:
        sleeping_stage(spark, first_ms, copy_ms).collect()
    return time.monotonic() - started_s


def run_query(spark: SparkSession, rows: int, tasks: int) -> float:
    """A real aggregation over ``rows`` generated rows in ``tasks`` tasks, shuffled; returns its seconds.

    Raises RuntimeError if its result is wrong.
    """
    started_s = time.monotonic()
    numbers = spark.range(0, rows, 1, tasks).selectExpr("hash(id) % 64 as k", "id")
    found = numbers.groupBy("k").sum("id").selectExpr("sum(`sum(id)`)").first()
    taken_s = time.monotonic() - started_s
    if found is None or found[0] != rows * (rows - 1) // 2:
        raise RuntimeError(f"the sum of {rows} numbers is wrong: {found}")
    return taken_s


def run_empty_tasks(spark: SparkSession, tasks: int) -> float:
    """One Spark job of ``tasks`` JVM tasks over empty partitions; returns the seconds it took."""
    sc = spark.sparkContext
    assert sc._jvm is not None
    empty = sc._jsc.parallelize(sc._jvm.java.util.ArrayList(), tasks)
    started_s = time.monotonic()
    empty.count()
    return time.monotonic() - started_s


def _pick(times_ms: Sequence[int]) -> str:
    return f"element_at(array({', '.join(f'{ms}L' for ms in times_ms)}), cast(id + 1 as int))"
