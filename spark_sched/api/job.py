"""Marking a job from Python: ``with spark_sched.job(spark, "nightly-kmeans", priority=10): …``."""

from __future__ import annotations

import time
import uuid
import warnings
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from spark_sched.api.attached import context_of, is_connect, scheduler_of
from spark_sched.config import JOB_PREFIX, SCHEME, keys
from spark_sched.errors import BadInputError, SparkSchedWarning
from spark_sched.units import parse_moment_ms

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_MARKS = tuple(key for key in keys.ALL if key.kind == "job")
_TAG_PREFIX = "sched:"
_NAME_TAG_PREFIX = "sched-job:"
_ID = f"{JOB_PREFIX}id"
_NAME = f"{JOB_PREFIX}name"
_TAGS = "spark.job.tags"
_SEPARATOR = ","
# The properties from which Spark's own pages take a job's name.
_SHOWN = ("spark.job.description", "spark.jobGroup.id")
# Contexts that already got the warning; an entry is removed with its context.
_warned: weakref.WeakSet[Any] = weakref.WeakSet()

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
    threads inside the block as ``pyspark.InheritableThread`` so that their work belongs to the job. On
    Spark's own scheduler marks have no effect, and one warning says so. A Spark Connect client cannot report
    the end of its job: held slots are released after ``spark.sched.reservation.gap``.

    Spark's own pages show the name: as description and job group unless the program has set these, and as the
    job tag ``sched-job:NAME``, by which ``SparkContext.cancelJobsWithTag`` finds the job. Commas, which end a
    tag, are underscores there.

    Args:
        spark: the session or context. A Spark Connect session sends the marks as tags.
        name: the program. The planner learns from earlier jobs of the same name.
        priority: the higher one wins; unmarked work has 0.
        deadline: when the job must end: a length of time from now (``"15 min"``, ``"1h30m"``, a
            ``timedelta`` or seconds, above 0), or a moment in the future (a ``datetime`` or an ISO time,
            which is local without a zone).
        isolation: the isolation level P from 0 to 1; by default the application's
            ``spark.sched.reservation.isolation``.
        user: the owner of the job, for policies that distinguish users.
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
    scheduler = scheduler_of(context)
    if scheduler is None:
        _warn_once(context)
    with _marked(context, scheduler, name, marks):
        yield job_id


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
    """The marks as local properties, checked. ``now_ms`` is what a deadline counts from (epoch ms).

    Raises BadInputError naming the argument, its value and what it must be.
    """
    given: dict[str, object] = {
        "id": job_id,
        "name": name,
        "user": user,
        "priority": priority,
        "deadline": None if deadline is None else now_ms + deadline_length_ms(deadline, now_ms),
        "isolation": isolation,
        "class": job_class,
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
            key.value.parse(text)
        except ValueError:
            argument = "job_class" if field == "class" else field
            wanted = key.value.wanted if text and key.value.wanted != "text" else "text that is not empty"
            raise BadInputError(f"{argument} is {value!r} but must be {wanted}") from None
        marks[key.name] = text
    return marks


def deadline_length_ms(deadline: Deadline, now_ms: int) -> int:
    """Milliseconds from ``now_ms`` (since 1970) to the deadline. Raises BadInputError unless it is ahead."""
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
        if not 0 < length_ms < 2**53:
            raise ValueError(deadline)
    except (TypeError, ValueError, OverflowError, OSError):
        raise BadInputError(f"deadline is {deadline!r} but must be {wanted}") from None
    return length_ms


@contextmanager
def _marked(context: Any, scheduler: Any | None, name: str, marks: Mapping[str, str]) -> Iterator[None]:
    before = context.getLocalProperty(_NAME)
    with _shown(context, name, before), _local_properties(context, marks):
        try:
            yield
        finally:
            if scheduler is not None and context._jsc is not None:
                scheduler.endJob(context._jsc.sc(), marks[_ID])


@contextmanager
def _local_properties(context: Any, marks: Mapping[str, str]) -> Iterator[None]:
    """Set this thread's marks and clear absent ones; restore the previous marks afterwards."""
    before = {key.name: context.getLocalProperty(key.name) for key in _MARKS}
    try:
        for name in before:
            context.setLocalProperty(name, marks.get(name))
        yield
    finally:
        if context._jsc is not None:  # else the block stopped the context
            for name, value in before.items():
                context.setLocalProperty(name, value)


def name_tag(name: str) -> str:
    """The job tag that jobs of this name have."""
    return _NAME_TAG_PREFIX + name.strip().replace(_SEPARATOR, "_")


@contextmanager
def _shown(context: Any, name: str, before: str | None) -> Iterator[None]:
    """Have Spark show the thread's work under this name; texts that the program set itself stay.

    ``before`` is the name of the outer block: texts that the outer block set are not the program's own.
    """
    name = name.strip()
    mine = name_tag(name)
    outer = None if before is None else name_tag(before)
    properties = {key: context.getLocalProperty(key) for key in _SHOWN}
    named = [key for key, value in properties.items() if value is None or value == before]
    tags = _tags(context)
    _set_tags(context, [*(tag for tag in tags if tag != outer), mine])
    for key in named:
        context.setLocalProperty(key, name)
    try:
        yield
    finally:
        if context._jsc is not None:
            kept = [tag for tag in _tags(context) if tag != mine]
            _set_tags(context, [*kept, *(tag for tag in (mine, outer) if tag in tags)])
            for key in named:
                if context.getLocalProperty(key) == name:
                    context.setLocalProperty(key, properties[key])


def _tags(context: Any) -> list[str]:
    return [tag for tag in (context.getLocalProperty(_TAGS) or "").split(_SEPARATOR) if tag]


def _set_tags(context: Any, tags: list[str]) -> None:
    context.setLocalProperty(_TAGS, _SEPARATOR.join(dict.fromkeys(tags)) or None)


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
        f"have no effect: set spark.master to {SCHEME}{context.master} (see `spark-sched conf`)",
        SparkSchedWarning,
        stacklevel=4,  # the with statement: past this function, the generator and contextlib
    )
