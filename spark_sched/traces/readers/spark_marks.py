"""Which job a Spark job belongs to, as the live scheduler reads its local properties and tags.

The same rules as `JobMark.scala`; ``protocol/golden/marks/jobs.json`` has cases that bind both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: The Thrift server runs a statement as a job group; this event has its user.
THRIFT_START = "org.apache.spark.sql.hive.thriftserver.ui.SparkListenerThriftServerOperationStart"

_PREFIX = "spark.sched.job."
#: Spark wraps a user's tag into one of its own that ends with it: after "-" on a session, "_" with Connect.
_TAG = re.compile(r"(?:^|.*[_-])sched:([a-z]+)=(.*)")
#: Spark Connect puts the operation's user in a tag of its own, before the client's tags.
_CONNECT_USER = re.compile(
    r"SparkConnect_OperationTag_User_(.+?)_Session_[0-9a-fA-F-]{36}_(?:Operation|Tag)_.*"
)
#: Structured Streaming describes a query's jobs by its name, if it has one, its ids and its batch.
_STREAM_NAME = re.compile(r"(.+?)<br/>id = .*", re.DOTALL)
#: What Java's ``trim`` removes.
_BLANKS = "".join(map(chr, range(33)))


@dataclass(frozen=True, slots=True)
class Marked:
    """What local properties and tags say of a Spark job.

    Attributes:
        key: the live scheduler's key of the job.
        name: by its mark, or that of its streaming query; None where neither says one.
        user: from Spark Connect, else from the mark, else from the Thrift session; None: not recorded.
        fields: the marks, without blank ones.
    """

    key: str
    name: str | None
    user: str | None
    fields: Mapping[str, str]


def mark_of(
    properties: Mapping[str, Any],
    spark_job: int,
    users_of_groups: Mapping[str, str] | None = None,
    allowed: str | None = None,
) -> Marked:
    """The job of a Spark job with these local properties.

    With Spark Connect, jobs are the user's own: an id or a name that another user chose too is another job.

    Args:
        users_of_groups: whose a job group is, where a server said so (`user_of_group`).
        allowed: the setting ``spark.sched.limits.marks``, the marks that count; None: all do.
    """
    tags = str(properties.get("spark.job.tags") or "").split(",")
    fields = {m[1]: m[2] for tag in tags if (m := _TAG.fullmatch(tag))}
    fields |= {k[len(_PREFIX) :]: str(v) for k, v in properties.items() if k.startswith(_PREFIX)}
    fields = {k: text for k, v in fields.items() if (text := v.strip(_BLANKS))}
    if allowed is not None:
        counting = {field.strip() for field in allowed.split(",")}
        fields = {k: v for k, v in fields.items() if k in counting}
    connect = next((m[1] for tag in tags if (m := _CONNECT_USER.fullmatch(tag))), None)
    group = properties.get("spark.jobGroup.id")
    # With the length (Java's, in UTF-16 units), so that no user and id together are another user and id.
    whose = "" if connect is None else f"{len(connect.encode('utf-16-le')) // 2}-{connect}-"
    query, batch = properties.get("sql.streaming.queryId"), properties.get("streaming.sql.batchId")
    execution = properties.get("spark.sql.execution.id")
    name = fields.get("name")
    if query is not None and batch is not None:
        key = f"stream-{query}-{batch}"
        described = _STREAM_NAME.fullmatch(str(properties.get("spark.job.description") or ""))
        name = name or (described[1] if described else str(query))
    elif "id" in fields:
        key = f"mark-{whose}{fields['id']}"
    elif name is not None:
        key = f"mark-name-{whose}{name}"
    elif group is not None:
        key = f"group-{group}"
    elif execution is not None:
        key = f"sql-{execution}"
    else:
        key = f"spark-{spark_job}"
    user = connect or fields.get("user") or (users_of_groups or {}).get(str(group))
    return Marked(key, name, user, fields)


def user_of_group(event: Mapping[str, Any]) -> tuple[str, str] | None:
    """The job group and the user of a `THRIFT_START` event that has both."""
    group, user = event.get("groupId"), event.get("userName")
    if isinstance(group, str) and isinstance(user, str) and group and user and user != "UNKNOWN":
        return group, user
    return None
