"""Marking a job from Python: ``with spark_sched.job(spark, "nightly-kmeans", priority=10): …``."""

from __future__ import annotations

import time
import uuid
import warnings
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from spark_sched.api.attached import Driver, context_of, driver_of, is_connect
from spark_sched.config import JOB_PREFIX, keys
from spark_sched.errors import BadInputError, SparkSchedWarning, UnusedMarkWarning
from spark_sched.plain_text import MOST, bounded, short
from spark_sched.units import parse_length_ms, parse_moment_ms

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_MARKS = tuple(key for key in keys.ALL if key.kind == "job")
_TAG_PREFIX = "sched:"
_ENDED_TAG_PREFIX = "sched:ended="
_NAME_TAG_PREFIX = "sched-job:"
_ID = f"{JOB_PREFIX}id"
_NAME = f"{JOB_PREFIX}name"
_TAGS = "spark.job.tags"
_SEPARATOR = ","
# The micro-batch of a stream in whose callback a block is, and Spark's own properties that name it.
_BATCH = "sched.job.batch"
_STREAM_QUERY = "sql.streaming.queryId"
_STREAM_BATCH = "streaming.sql.batchId"
# The properties from which Spark's own pages take a job's name.
_SHOWN = ("spark.job.description", "spark.jobGroup.id")
# Contexts that already got the warning; an entry is removed with its context.
_warned: weakref.WeakSet[Any] = weakref.WeakSet()
# Names of jobs whose mark covered no work, of which a warning has said so.
_unused: set[str] = set()
_MOST_UNUSED = 1_000

_MOST_YEARS = 10
_MOST_AHEAD_MS = _MOST_YEARS * 366 * 24 * 3_600_000

Deadline = str | float | timedelta | datetime


@contextmanager
def job(
    spark: SparkSession | SparkContext,
    name: str,
    *,
    priority: int = 0,
    deadline: Deadline | None = None,
    isolation: float | None = None,
    user: str | None = None,
    job_class: str | None = None,
    copies: Literal["auto", "never"] | None = None,
) -> Iterator[str]:
    """Mark everything this thread submits inside the ``with`` block as one job.

    The job keeps held slots between its Spark jobs and releases them when the block ends.

    An inner block replaces the marks of an outer block until it ends. Marks belong to the thread: start
    threads inside the block as ``pyspark.InheritableThread``, or wrap what they run, or their pool, in
    `propagate`, so that their work belongs to the job. If no Spark job ran under the mark when the block
    ends, an `UnusedMarkWarning` says so, once for each name. On Spark's own scheduler marks have no effect,
    and one warning says so. A Spark Connect client cannot know whether work had the mark; the end of a block
    runs one statement there, ``SET spark.sched.job.id``, whose tag tells the driver.

    Spark's own pages show the name: as description and job group unless the program has set these, and as the
    job tag ``sched-job:NAME`` (commas as underscores), for ``SparkContext.cancelJobsWithTag``.

    Args:
        spark: the session or context. A Spark Connect session sends the marks as tags.
        name: the program. The planner learns from earlier jobs of the same name. Like ``user`` and
            ``job_class`` it is shortened to 256 characters, with a warning.
        priority: the higher one wins; unmarked work has 0.
        deadline: when the job must end: a length of time from its first stage (``"15 min"``, ``"1h30m"``, a
            ``timedelta`` or seconds, above 0), for each micro-batch of a stream from its own; or a moment at
            most ten years ahead (a ``datetime`` or an ISO time, which is local without a zone).
        isolation: the isolation level P from 0 to 1; by default the application's
            ``spark.sched.reservation.isolation``.
        user: the owner of the job. Forecasts by name rest on the owner's own earlier jobs.
        job_class: the class of the job, for policies that distinguish classes.
        copies: ``"never"`` if tasks write outside Spark's commit protocol: no task is copied or evicted.
            ``"auto"`` also allows both for the micro-batches of a stream, which are exempt by default.

    Yields:
        The job's id, unique to this block.

    Raises:
        BadInputError: names the wrong argument, its value and what it must be.
    """
    job_id = uuid.uuid4().hex
    marks = job_marks(
        name,
        job_id=job_id,
        now_ms=int(time.time() * 1000),
        priority=priority,
        deadline=deadline,
        isolation=isolation,
        user=user,
        job_class=job_class,
        copies=copies,
    )
    if is_connect(spark):
        with _tagged(spark, marks):
            yield job_id
        return
    context = context_of(spark)
    driver = driver_of(context)
    if driver is None:
        _warn_once(context)
    with _marked(context, driver, marks[_NAME], marks) as block:
        yield job_id
    if block.ran is False and name not in _unused and not _begins_stream(spark):
        _warn_unused(name)


def job_marks(
    name: str,
    *,
    job_id: str,
    now_ms: int,
    priority: int = 0,
    deadline: Deadline | None = None,
    isolation: float | None = None,
    user: str | None = None,
    job_class: str | None = None,
    copies: str | None = None,
) -> dict[str, str]:
    """The marks as local properties, checked. A deadline must be after ``now_ms`` (epoch ms).

    Raises BadInputError naming the argument, its value and what it must be.
    """
    if not isinstance(name, str):
        raise BadInputError(f"name is {name!r} but must be text that is not empty")
    given: dict[str, object] = {
        "id": job_id,
        "name": _bounded("name", name),
        "user": _bounded("user", user),
        "priority": priority,
        "deadline": None if deadline is None else _deadline_mark(deadline, now_ms),
        "isolation": isolation,
        "class": _bounded("job_class", job_class),
        "copies": copies,
    }
    marks = {}
    for key in _MARKS:
        field = key.name.removeprefix(JOB_PREFIX)
        value = given[field]
        if value is None:
            continue
        text = str(value).strip()
        try:
            if isinstance(value, bool) or not text:
                raise ValueError(text)
            if field != "deadline":  # has its own form, which is checked
                key.value.parse(text)
        except ValueError:
            argument = "job_class" if field == "class" else field
            wanted = key.value.wanted if text and key.value.wanted != "text" else "text that is not empty"
            raise BadInputError(f"{argument} is {value!r} but must be {wanted}") from None
        marks[key.name] = text
    return marks


def _deadline_mark(deadline: Deadline, now_ms: int) -> str:
    """A length of time as it is, for the driver knows when the job starts; a moment in epoch milliseconds."""
    length_ms = deadline_length_ms(deadline, now_ms)
    return str(now_ms + length_ms) if _is_moment(deadline) else f"{length_ms}ms"


def _is_moment(deadline: Deadline) -> bool:
    if not isinstance(deadline, str):
        return isinstance(deadline, datetime)
    try:
        parse_length_ms(deadline)
    except ValueError:
        return True
    return False


def _bounded(argument: str, text: str | None) -> str | None:
    """The text as the driver shortens it, with a warning."""
    if text is None or bounded(str(text)) == str(text):
        return text
    warnings.warn(
        f"{argument} has {len(str(text)):,} characters but at most {MOST} count: it is "
        f"{bounded(str(text))!r}",
        SparkSchedWarning,
        stacklevel=5,  # the with statement: past job_marks, the generator and contextlib
    )
    return bounded(str(text))


def deadline_length_ms(deadline: Deadline, now_ms: int) -> int:
    """Milliseconds from ``now_ms`` (since 1970) to the deadline. Raises BadInputError unless it is ahead, by
    at most ten years."""
    wanted = "a time from now above 0 such as 15 min, 1h30m, a timedelta or seconds, or an ISO time to come"
    try:
        if isinstance(deadline, bool):
            raise ValueError(deadline)
        if isinstance(deadline, datetime):
            length_ms = round(deadline.timestamp() * 1000) - now_ms
        elif isinstance(deadline, timedelta):
            length_ms = round(deadline.total_seconds() * 1000)
        elif isinstance(deadline, str):
            length_ms = parse_moment_ms(deadline, now_ms) - now_ms
        else:
            length_ms = round(float(deadline) * 1000)
    except (TypeError, ValueError, OverflowError, OSError):
        raise BadInputError(f"deadline is {_quoted(deadline)} but must be {wanted}") from None
    if length_ms <= 0:
        is_moment = isinstance(deadline, datetime) or (isinstance(deadline, str) and length_ms < 0)
        wrong = f", which is past: give {wanted}" if is_moment else f" but must be {wanted}"
        raise BadInputError(f"deadline is {_quoted(deadline)}{wrong}")
    if length_ms > _MOST_AHEAD_MS:
        counts = (
            "" if isinstance(deadline, str | datetime | timedelta) else "; a number counts seconds from now"
        )
        raise BadInputError(
            f"deadline is {_quoted(deadline)}, which is more than {_MOST_YEARS} years ahead{counts}: give "
            f"{wanted}"
        )
    return length_ms


def _quoted(deadline: object) -> str:
    return short(repr(deadline))


@dataclass
class _Block:
    """What is known of a block when it is over: whether any work had its marks; None: nobody knows."""

    ran: bool | None = None


@contextmanager
def _marked(context: Any, driver: Driver | None, name: str, marks: Mapping[str, str]) -> Iterator[_Block]:
    """Set this thread's marks, clear absent ones, and have Spark show the thread's work under this name.

    A call of the driver takes long beside a tiny Spark job, so all properties are read, and written, at once.
    """
    block = _Block()
    before = _read(context, driver)
    own = {key.name: marks.get(key.name) for key in _MARKS}
    _write(context, driver, own | {_BATCH: _batch(before)} | _shown(name, before))
    try:
        yield block
    finally:
        if context._jsc is not None:  # else the block stopped the context
            try:
                _write(context, driver, _restored(name, before, _read(context, driver)))
            finally:
                if driver is not None:
                    block.ran = driver.end_job(marks[_ID])


_Properties: TypeAlias = Mapping[str, str | None]


def _read(context: Any, driver: Driver | None) -> _Properties:
    """This thread's marks, and the properties by which Spark shows its work."""
    names = (*(key.name for key in _MARKS), _BATCH, _STREAM_QUERY, _STREAM_BATCH, *_SHOWN, _TAGS)
    if driver is None:
        return {name: context.getLocalProperty(name) for name in names}
    found = driver.local_properties()
    return {name: found.get(name) for name in names}


def _write(context: Any, driver: Driver | None, changes: _Properties) -> None:
    if driver is not None:
        driver.set_local_properties(changes)
        return
    for name, value in changes.items():
        context.setLocalProperty(name, value)


def _batch(before: _Properties) -> str | None:
    """The micro-batch in whose callback this thread is: a mark of the query's thread describes the batch."""
    batch = before[_STREAM_BATCH]
    return None if batch is None else f"stream-{before[_STREAM_QUERY]}-{batch}"


def name_tag(name: str) -> str:
    """The job tag that jobs of this name have."""
    return _NAME_TAG_PREFIX + name.strip().replace(_SEPARATOR, "_")


def _shown(name: str, before: _Properties) -> dict[str, str | None]:
    """Changes by which Spark shows the thread's work under this name; texts that the program set itself stay.

    Texts that an outer block set are not the program's own.
    """
    outer = before[_NAME]
    tags = [tag for tag in _tags(before) if outer is None or tag != name_tag(outer)]
    shown = {key: name.strip() for key in _SHOWN if before[key] is None or before[key] == outer}
    return {**shown, _TAGS: _joined([*tags, name_tag(name)])}


def _restored(name: str, before: _Properties, now: _Properties) -> dict[str, str | None]:
    """Changes that restore the marks of before, and what Spark shows unless the block itself changed it."""
    mine, outer = name_tag(name), before[_NAME]
    again = [tag for tag in (mine, None if outer is None else name_tag(outer)) if tag in _tags(before)]
    tags = [tag for tag in _tags(now) if tag != mine]
    shown = {
        key: before[key]
        for key in _SHOWN
        if (before[key] is None or before[key] == outer) and now[key] == name.strip()
    }
    marks = {key: before[key] for key in (*(key.name for key in _MARKS), _BATCH)}
    return {**marks, **shown, _TAGS: _joined([*tags, *(tag for tag in again if tag is not None)])}


def _tags(properties: _Properties) -> list[str]:
    return [tag for tag in (properties[_TAGS] or "").split(_SEPARATOR) if tag]


def _joined(tags: list[str]) -> str | None:
    return _SEPARATOR.join(dict.fromkeys(tags)) or None


@contextmanager
def _tagged(session: Any, marks: Mapping[str, str]) -> Iterator[None]:
    tags = {f"{_TAG_PREFIX}{name.removeprefix(JOB_PREFIX)}={value}" for name, value in marks.items()}
    for tag in sorted(tags):
        if "," in tag:
            raise BadInputError(
                f"{tag.removeprefix(_TAG_PREFIX)} has a comma, which ends a tag: leave it out"
            )
    tags.add(name_tag(marks[_NAME]))
    before = {tag for tag in session.getTags() if tag.startswith((_TAG_PREFIX, _NAME_TAG_PREFIX))}
    _replace_tags(session, before, tags)
    try:
        yield
    finally:
        _replace_tags(session, tags, before)
        _tell_end(session, marks[_ID])


def _tell_end(session: Any, job_id: str) -> None:
    """Let the driver see a statement whose tag says that the block is over: a client has nothing to call."""
    tag = f"{_ENDED_TAG_PREFIX}{job_id}"
    with suppress(Exception):  # The block may have stopped the session. Then the job ends when it is idle.
        session.addTag(tag)
        try:
            session.sql(f"SET {_ID}")
        finally:
            session.removeTag(tag)


def _replace_tags(session: Any, old: set[str], new: set[str]) -> None:
    for tag in old - new:
        session.removeTag(tag)
    for tag in new - old:
        session.addTag(tag)


def _warn_once(context: Any) -> None:
    if context in _warned:
        return
    _warned.add(context)
    warnings.warn(
        f"this application runs on {context.master} with Spark's own scheduler, so marks of spark_sched.job "
        "have no effect: start it with the properties of `spark-sched conf`",
        SparkSchedWarning,
        stacklevel=4,  # the with statement: past this function, the generator and contextlib
    )


def _begins_stream(spark: Any) -> bool:
    """Whether a stream has yet to run its first batch, which may come under the mark after the block."""
    from pyspark.sql import SparkSession

    session = spark if isinstance(spark, SparkSession) else SparkSession.getActiveSession()
    return session is not None and any(query.lastProgress is None for query in session.streams.active)


def _warn_unused(name: str) -> None:
    if len(_unused) >= _MOST_UNUSED:
        _unused.clear()
    _unused.add(name)
    warnings.warn(
        f"no Spark job ran under the mark of the block spark_sched.job(…, {name!r}): marks belong to the "
        "thread, so start threads as pyspark.InheritableThread, or wrap what they run, or their pool, in "
        "spark_sched.propagate",
        UnusedMarkWarning,
        stacklevel=4,  # the with statement: past this function, the generator and contextlib
    )
