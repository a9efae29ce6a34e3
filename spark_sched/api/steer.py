"""Change a running application from its own Python driver: ``spark_sched.steer.hold(spark, "report")``.

Every change is an event for the planner and for recorded logs, a line in the driver's log that names who made
it, and an entry in the job's story. It outlives the planner process. Name a job by its key in the status, by
the id that `spark_sched.job` gave, or by its name, in this order. If several jobs have the name, give the
key.

Each function returns a sentence that says what it changed. It raises BadInputError with the driver's message
if the application is not attached, the job is unknown, or a value is wrong.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from spark_sched.api.attached import attached
from spark_sched.api.job import Deadline, deadline_length_ms
from spark_sched.errors import BadInputError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


def change(
    spark: SparkSession | SparkContext,
    job: str,
    *,
    priority: int | None = None,
    deadline: Deadline | None = None,
    isolation: float | str | None = None,
) -> str:
    """Change a job's marks; those that are None stay as they are.

    The limits on marks (``spark.sched.limits.*``) restrict tenants and do not apply here.

    Args:
        spark: a session or context of this process (not Spark Connect), attached.
        job: see the module.
        priority: the higher one wins.
        deadline: as for `spark_sched.job`, or ``"none"`` to remove it.
        isolation: the isolation level P from 0 to 1, or ``"default"`` for the configured one.
    """
    given: dict[str, object] = {"job": job}
    if priority is not None:
        given["priority"] = priority
    if deadline is not None:
        given["deadline"] = deadline if deadline == "none" else _moment_ms(deadline)
    if isolation is not None:
        given["isolation"] = isolation
    return _steer(spark, "set", given)


def hold(spark: SparkSession | SparkContext, job: str) -> str:
    """Start no further task of a job until it is resumed. Its running tasks continue. It holds no slots."""
    return _steer(spark, "hold", {"job": job})


def resume(spark: SparkSession | SparkContext, job: str) -> str:
    """Let a job on hold start tasks again."""
    return _steer(spark, "resume", {"job": job})


def cancel(spark: SparkSession | SparkContext, job: str) -> str:
    """Cancel the Spark jobs that run for a job now, as Spark's kill links do.

    The thread that waits for them gets an exception. Spark jobs that the program submits later run as usual.
    """
    return _steer(spark, "cancel", {"job": job})


def end(spark: SparkSession | SparkContext, job: str) -> str:
    """End a job that does not end by itself, such as one that the settings of a SQL session mark.

    It holds no slots from now on and ends with its last active stage, or with its last activity if it has
    none. Work that is submitted later under the same mark belongs to a new job of the same name.
    """
    return _steer(spark, "end", {"job": job})


def pause(spark: SparkSession | SparkContext) -> str:
    """Release all held slots, and let no job hold any until `unpause`. Plans still decide order and
    starts."""
    return _steer(spark, "pause", {})


def unpause(spark: SparkSession | SparkContext) -> str:
    """Let jobs hold slots again, as their rules say."""
    return _steer(spark, "unpause", {})


def policy(spark: SparkSession | SparkContext, name: str) -> str:
    """Switch to another policy: the planner checks the name, then a new planner process takes over.

    The last plan stays in force until it expires or the first plan of the new policy arrives.
    """
    return _steer(spark, "policy", {"name": name})


def mode(spark: SparkSession | SparkContext, name: str) -> str:
    """Switch to ``"on"``, ``"shadow"`` (plans are made but not enforced) or ``"off"``."""
    return _steer(spark, "mode", {"name": name})


def _moment_ms(deadline: Deadline) -> int:
    now_ms = int(time.time() * 1000)
    return now_ms + deadline_length_ms(deadline, now_ms)


def _steer(spark: SparkSession | SparkContext, action: str, given: dict[str, object]) -> str:
    context, scheduler = attached(
        spark,
        connect=f"cannot change the application: use `spark-sched {action}` with the address of its UI",
        lacks="cannot be steered",
    )
    answer = json.loads(scheduler.steer(context._jsc.sc(), action, json.dumps(given)))
    if "error" in answer:
        raise BadInputError(answer["error"])
    return str(answer["done"])
