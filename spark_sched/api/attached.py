"""The driver that a session or context of this process belongs to."""

from __future__ import annotations

import json
import weakref
from collections.abc import Mapping
from typing import Any

from spark_sched.errors import BadInputError

# Contexts that run under the scheduler; an entry is removed with its context.
_drivers: weakref.WeakKeyDictionary[Any, Driver] = weakref.WeakKeyDictionary()


def is_connect(spark: Any) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def context_of(spark: Any) -> Any:
    """The context of a session, or the context itself. Raises BadInputError for anything else."""
    context = getattr(spark, "sparkContext", spark)
    if not hasattr(context, "setLocalProperty"):
        raise BadInputError(f"spark is {spark!r} but must be a SparkSession or SparkContext")
    return context


def scheduler_of(context: Any) -> Any | None:
    """The JVM side's entry for drivers, or None if this application does not run under it."""
    from py4j.java_gateway import JavaClass

    entry = context._jvm.org.apache.spark.scheduler.sparksched.SparkSched
    # A class that the JVM does not have looks like one more package to py4j.
    attached = isinstance(entry, JavaClass) and entry.attached(context._jsc.sc())
    return entry if attached else None


class Driver:
    """The calls that each block makes. They are found once, for py4j asks the JVM for each part of a name."""

    def __init__(self, entry: Any, java_context: Any) -> None:
        self._context = java_context
        self._local_properties = entry.localProperties
        self._set_local_properties = entry.setLocalProperties
        self._end_job = entry.endJob

    def local_properties(self) -> dict[str, str]:
        """This thread's local properties."""
        found: dict[str, str] = json.loads(self._local_properties(self._context))
        return found

    def set_local_properties(self, changes: Mapping[str, str | None]) -> None:
        """Change some of them; None removes one."""
        self._set_local_properties(self._context, json.dumps(changes))

    def end_job(self, job_id: str) -> bool:
        """The job is over. Returns whether any work had its mark; true if the driver cannot tell."""
        return bool(self._end_job(self._context, job_id))


def driver_of(context: Any) -> Driver | None:
    """The calls of the context's driver, or None if this application does not run under the scheduler."""
    driver = _drivers.get(context)
    if driver is None:
        entry = scheduler_of(context)
        if entry is not None:
            driver = _drivers[context] = Driver(entry, context._jsc.sc())
    return driver


def attached(spark: Any, *, lacks: str, connect: str | None = None) -> tuple[Any, Any]:
    """The context, and the JVM's entry for drivers.

    Args:
        spark: a session or context of this process.
        lacks: clause for Spark's own scheduler: what it does not do.
        connect: sentence for a Spark Connect session: what it cannot do, and what to do instead; None: the
            caller has dealt with such sessions.

    Raises:
        BadInputError: ``spark`` is neither, comes from Spark Connect, or runs with Spark's own scheduler.
    """
    if connect is not None and is_connect(spark):
        raise BadInputError(f"spark is a Spark Connect session, which {connect}")
    context = context_of(spark)
    scheduler = scheduler_of(context)
    if scheduler is None:
        raise BadInputError(
            f"this application runs on {context.master} with Spark's own scheduler, which {lacks}: start it "
            "with the properties of `spark-sched conf`"
        )
    return context, scheduler
