"""The status of an application, for its own Python driver and for clients of its Spark Connect server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spark_sched.api import connect
from spark_sched.api.attached import attached, is_connect
from spark_sched.view.status import JobStatus, Status

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


def status(spark: SparkSession | SparkContext) -> Status:
    """The running jobs, the waiting jobs with the reason, the held slots, and whether the planner is alive.

    A notebook shows the result as a table. As text it is the table that ``spark-sched top`` prints.

    Args:
        spark: a session or context of this process, or a session of Spark Connect; its application is
            attached.

    Raises:
        BadInputError: the application is not attached, or the user of the Spark Connect session is not in its
            view ACLs.
    """
    return Status.from_text(_document(spark))


def explain(spark: SparkSession | SparkContext, job: str) -> JobStatus:
    """One job with its story: why it waited, which slots it held, which plans contained it.

    Args:
        spark: as for `status`.
        job: its key, the id that `spark_sched.job` gave, or its name, in this order. If several jobs have
            this name, the newest is returned: give the key to mean another one. A job that has ended remains
            available for 15 minutes.

    Raises:
        BadInputError: as for `status`, or the job is unknown; the message has the most similar names.
    """
    found = Status.from_text(_document(spark, job)).jobs
    if not found:
        raise status(spark).unknown_job(job)
    return found[-1]


def _document(spark: Any, job: str | None = None) -> str:
    """The status document of the jobs that are not over, or with their stories of those called ``job``."""
    if is_connect(spark):
        return connect.fetch_document(spark, job)
    context, scheduler = attached(spark, lacks="has no status")
    java_context = context._jsc.sc()
    document: str = scheduler.status(java_context) if job is None else scheduler.explain(java_context, job)
    return document
