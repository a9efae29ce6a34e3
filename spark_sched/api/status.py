"""The status of an application, for its own Python driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_sched.api.attached import attached
from spark_sched.view.status import JobStatus, Status

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


def status(spark: SparkSession | SparkContext) -> Status:
    """The running jobs, the waiting jobs with the reason, the held slots, and whether the planner is alive.

    A notebook shows the result as a table. As text it is the table that ``spark-sched top`` prints.

    Args:
        spark: a session or context of this process (not Spark Connect), attached.

    Raises:
        BadInputError: the application is not attached.
    """
    scheduler, context = _attached(spark)
    return Status.from_text(scheduler.status(context))


def explain(spark: SparkSession | SparkContext, job: str) -> JobStatus:
    """One job with its story: why it waited, which slots it held, which plans contained it.

    Args:
        spark: as for `status`.
        job: its key, the id that `spark_sched.job` gave, or its name, in this order. If several jobs have
            this name, the newest is returned: give the key to mean another one. A job that has ended remains
            available for 15 minutes.

    Raises:
        BadInputError: the application is not attached, or the job is unknown; the message has the most
            similar names.
    """
    scheduler, context = _attached(spark)
    found = Status.from_text(scheduler.explain(context, job)).jobs
    if not found:
        raise status(spark).unknown_job(job)
    return found[-1]


def _attached(spark: Any) -> tuple[Any, Any]:
    """The JVM's entry for drivers, and its context."""
    context, scheduler = attached(
        spark,
        connect="cannot ask the driver: use `spark-sched top` with the address of the application's UI",
        lacks="has no status",
    )
    return scheduler, context._jsc.sc()
