"""Which job a Spark job belongs to, as the live scheduler reads its local properties and tags.

The same rules as `JobMark.scala`; ``protocol/golden/marks/jobs.json`` has cases that bind both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spark_sched.plain_text import bounded

#: The Thrift server runs a statement as a job group; this event has its user.
THRIFT_START = "org.apache.spark.sql.hive.thriftserver.ui.SparkListenerThriftServerOperationStart"

_PREFIX = "spark.sched.job."
_FIELDS = ("id", "name", "user", "priority", "deadline", "isolation", "class", "copies")
_TAGS = "spark.job.tags"
_GROUP = "spark.jobGroup.id"
_EXECUTION = "spark.sql.execution.id"
_ROOT = "spark.sql.execution.root.id"
#: Local properties whose values, if a session has ``SET`` them, say nothing of whose a Spark job is.
IDENTITY_KEYS = (_TAGS, _GROUP, _EXECUTION, _ROOT)
#: Settings of a session that a reader must know.
SETTINGS = (*IDENTITY_KEYS, *(_PREFIX + field for field in _FIELDS))
#: The batch in which `spark_sched.job` set a mark.
_IN_BATCH = "sched.job.batch"
#: Spark wraps a user's tag into one of its own that ends with it: after "-" on a session, "_" with Connect.
_TAG = re.compile(r"(?:^|.*[_-])sched:([a-z]+)=(.*)")
#: Spark Connect puts the operation's user in a tag of its own, before the client's tags.
_CONNECT_USER = re.compile(
    r"SparkConnect_OperationTag_User_(.+?)_Session_[0-9a-fA-F-]{36}_(?:Operation|Tag)_.*"
)
#: A Thrift server's statements are such job groups, as were broadcasts up to Spark 3.4.
RANDOM_ID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
#: Spark tags what a session executes with the session.
_SESSION = re.compile(rf"spark-session-({RANDOM_ID.pattern})")
#: Structured Streaming describes a query's jobs by its name, if it has one, its ids and its batch.
_STREAM_NAME = re.compile(r"(.+?)<br/>id = .*", re.DOTALL)
#: What Java's ``trim`` removes.
_BLANKS = "".join(map(chr, range(33)))


@dataclass(frozen=True, slots=True)
class Origin:
    """What is known of a Spark job's origin beside its local properties.

    Attributes:
        session: the SQL session that runs it, if that is certain.
        settings: what that session had ``SET``.
        user: whom a server knows the session's user to be.
        inherited: the marks of a streaming query's thread when its batch began. An event log lacks them.
    """

    session: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    inherited: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Marked:
    """What local properties and tags say of a Spark job.

    Attributes:
        key: the live scheduler's key of the job.
        name: by its mark, or that of its streaming query; None where neither says one.
        user: whom a server knows, else from the mark of code or a tag; None: not recorded.
        server_user: whom a server knows; None: no server does.
        fields: the marks that count, without blank ones.
        execution: the SQL execution that it is part of.
    """

    key: str
    name: str | None
    user: str | None
    server_user: str | None
    fields: Mapping[str, str]
    execution: str | None = None


def mark_of(
    properties: Mapping[str, Any],
    spark_job: int,
    users_of_groups: Mapping[str, str] | None = None,
    allowed: str | None = None,
    origin: Origin | None = None,
) -> Marked:
    """The job of a Spark job with these local properties.

    The user is whom a server knows; without a server it is whom code or a tag marks. Ids, names and job
    groups are the user's own, and those that a session has ``SET`` the session's where no user is known.

    Args:
        users_of_groups: whose a job group is, where a server said so (`user_of_group`).
        allowed: the setting ``spark.sched.limits.marks``, the marks that count; None: all do.
        origin: None: no session.
    """
    origin = origin or Origin()

    def set_in_session(key: str) -> bool:
        return key in origin.settings and origin.settings[key] == properties.get(key)

    def identity(key: str) -> str | None:
        value = properties.get(key)
        return None if value is None or set_in_session(key) else bounded(str(value))

    set_tags = set(origin.settings.get(_TAGS, "").split(","))
    tags = [tag for tag in str(properties.get(_TAGS) or "").split(",") if tag not in set_tags]
    tagged = {m[1]: m[2] for tag in tags if (m := _TAG.fullmatch(tag))}
    marks = {k: str(v) for k, v in properties.items() if k.startswith(_PREFIX)}
    given = {k[len(_PREFIX) :]: v for k, v in marks.items() if not set_in_session(k)}
    own = _counting({**tagged, **given}, allowed)
    settings = _counting({k[len(_PREFIX) :]: v for k, v in marks.items() if set_in_session(k)}, allowed)

    # 1. Who it is.
    group, execution = identity(_GROUP), identity(_EXECUTION)
    root = execution and (identity(_ROOT) or execution)
    connect = next((bounded(m[1]) for tag in tags if (m := _CONNECT_USER.fullmatch(tag))), None)
    known = origin.user or connect or (users_of_groups or {}).get(str(group))
    users = None if known is None else _scope(known)

    # 2. What it is called. Who gives an id or a name gives both.
    called = own
    whose = users or ""
    if not {"id", "name"} & own.keys() and (users is not None or origin.session is not None):
        called = settings
        whose = users or f"session-{origin.session}-"
    job_id, name = called.get("id"), called.get("name")

    # 3. Which job that makes it, the most specific first.
    query, batch = _micro_batch(properties)
    new = _marks_of_callback(batch, properties, own, origin.inherited)
    # A callback that sets a name alone leaves the id of the block in which the query began.
    job_id = None if new and "id" not in new else job_id
    if batch is not None and not (new and (job_id or name)):
        key = batch
        described = _STREAM_NAME.fullmatch(str(properties.get("spark.job.description") or ""))
        name = name or (bounded(described[1]) if described else query)
    elif job_id is not None:
        key = f"mark-{whose}{job_id}"
    elif name is not None:
        key = f"{batch}-{whose}{name}" if new else f"mark-name-{whose}{name}"
    elif group is not None and not (RANDOM_ID.fullmatch(group) and root):
        key = f"group-{users or ''}{group}"
    elif execution is not None:
        key = f"sql-{execution if group is None else root}"
    else:
        key = f"spark-{spark_job}"
    return Marked(key, name, known or own.get("user"), known, {**settings, **own}, execution)


def _micro_batch(properties: Mapping[str, Any]) -> tuple[str | None, str | None]:
    """The streaming query that a Spark job belongs to, and the key of its micro-batch."""
    query, number = (
        None if (value := properties.get(key)) is None else bounded(str(value))
        for key in ("sql.streaming.queryId", "streaming.sql.batchId")
    )
    return query, f"stream-{query}-{number}" if None not in (query, number) else None


def _scope(user: str) -> str:
    """With the length (Java's, in UTF-16 units), so that no user and id together are another user and id."""
    return f"{len(user.encode('utf-16-le')) // 2}-{user}-"


def _marks_of_callback(
    batch: str | None,
    properties: Mapping[str, Any],
    own: Mapping[str, str],
    before: Mapping[str, str] | None,
) -> set[str]:
    """Which of id and name the callback of a micro-batch has set, so that they do not describe the batch."""
    called = {"id", "name"} & own.keys()
    if batch is None or properties.get(_IN_BATCH) == batch:
        return called if batch is not None else set()
    return set() if before is None else {field for field in called if own[field] != before.get(field)}


def _counting(marks: Mapping[str, str], allowed: str | None) -> dict[str, str]:
    """The marks that are not blank and that the limits allow."""
    counting = None if allowed is None else {field.strip() for field in allowed.split(",")}
    stripped = {k: bounded(v.strip(_BLANKS)) for k, v in marks.items()}
    return {k: v for k, v in stripped.items() if v and (counting is None or k in counting)}


def sessions_of(properties: Mapping[str, Any], settings: Mapping[str, str]) -> set[str]:
    """The SQL sessions that a Spark job's tags name, without those that a session's settings added."""
    set_tags = set(settings.get(_TAGS, "").split(","))
    tags = str(properties.get(_TAGS) or "").split(",")
    return {m[1] for tag in tags if tag not in set_tags and (m := _SESSION.fullmatch(tag))}


def user_of_group(event: Mapping[str, Any]) -> tuple[str, str] | None:
    """The job group and the user of a `THRIFT_START` event that has both."""
    group, user = event.get("groupId"), event.get("userName")
    if isinstance(group, str) and isinstance(user, str) and group and user and user != "UNKNOWN":
        return bounded(group), bounded(user)
    return None


def databricks_user(properties: Mapping[str, Any]) -> str | None:
    """The user of a Spark job in a log of Databricks, whose applications are root's."""
    user = properties.get("user")
    if isinstance(user, str) and user and any(name.startswith("spark.databricks.") for name in properties):
        return user
    return None
