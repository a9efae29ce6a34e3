"""The driver that a session or context of this process belongs to."""

from __future__ import annotations

from typing import Any

from spark_sched.api.job import _scheduler_of
from spark_sched.errors import BadInputError

__all__ = ["attached"]


def attached(spark: Any, *, connect: str, lacks: str) -> tuple[Any, Any]:
    """The context, and the JVM's entry for drivers.

    Args:
        spark: a session or context of this process.
        connect: sentence for a Spark Connect session: what it cannot do, and what to do instead.
        lacks: clause for Spark's own scheduler: what it does not do.

    Raises:
        BadInputError: ``spark`` is neither, comes from Spark Connect, or runs with Spark's own scheduler.
    """
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise BadInputError(f"spark is a Spark Connect session, which {connect}")
    context: Any = getattr(spark, "sparkContext", spark)
    if not hasattr(context, "setLocalProperty"):
        raise BadInputError(f"spark is {spark!r} but must be a SparkSession or SparkContext")
    scheduler = _scheduler_of(context)
    if scheduler is None:
        raise BadInputError(
            f"this application runs on {context.master} with Spark's own scheduler, which {lacks}: set "
            f"spark.master to spark-sched:{context.master}"
        )
    return context, scheduler
