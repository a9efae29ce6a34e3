"""Which job a Spark job belongs to, as the live scheduler reads its local properties and tags."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["key_of", "marks_of"]

_PREFIX = "spark.sched.job."
#: Spark Connect wraps a user's tag into one of its own that ends with it.
_TAG = re.compile(r"(?:^|.*_)sched:([a-z]+)=(.*)")


def marks_of(properties: dict[str, Any]) -> dict[str, str]:
    """The job's marks by field; local properties win over tags, as live."""
    tags = str(properties.get("spark.job.tags") or "").split(",")
    marks = {m[1]: m[2].strip() for tag in tags if (m := _TAG.match(tag))}
    marks |= {k[len(_PREFIX) :]: str(v).strip() for k, v in properties.items() if k.startswith(_PREFIX)}
    return {k: v for k, v in marks.items() if v}


def key_of(marks: dict[str, str], properties: dict[str, Any], spark_job: int) -> str:
    """The live scheduler's key: mark, job group, SQL execution, Spark job, in this order."""
    if "id" in marks:
        return f"mark-{marks['id']}"
    if "name" in marks:
        return f"mark-name-{marks['name']}"
    if properties.get("spark.jobGroup.id"):
        return f"group-{properties['spark.jobGroup.id']}"
    if properties.get("spark.sql.execution.id"):
        return f"sql-{properties['spark.sql.execution.id']}"
    return f"spark-{spark_job}"
