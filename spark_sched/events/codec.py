"""Events and batches from JSON (``protocol/event-batch.schema.json``).

Decoding checks every field: one wrong event would make the planner's picture of the cluster wrong for as
long as it runs. It is the planner's hottest path (a task that outlives a batch is two events), so the checks
of each type are laid out once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from spark_sched.errors import BadInputError
from spark_sched.events.kinds import (
    Batch,
    Event,
    ExecutorAdded,
    ExecutorRemoved,
    JobCancelled,
    JobChanged,
    JobEnded,
    JobStarted,
    SchedulingChanged,
    ShortTasks,
    SlotFreed,
    SlotHeld,
    StageEnded,
    StageStarted,
    TaskEnded,
    TaskLaunched,
)

#: Version of the batch's layout. New event types and new optional fields do not change it.
SCHEMA = 1


class _Field(NamedTuple):
    name: str
    types: tuple[type, ...]
    legal: str
    allowed: Callable[[Any], bool] | None = None
    optional: bool = False
    default: Any = None  # of an absent field


def _text(name: str, *, optional: bool = False, empty: bool = True) -> _Field:
    legal = "text" if empty else "text that is not empty"
    return _Field(name, (str,), legal, None if empty else bool, optional)


def _choice(name: str, *options: str) -> _Field:
    return _Field(name, (str,), f"one of {', '.join(options)}", frozenset(options).__contains__)


def _whole(name: str, low: int | None = 0, *, optional: bool = False) -> _Field:
    if low is None:
        return _Field(name, (int,), "a whole number", None, optional)
    return _Field(name, (int,), f"a whole number >= {low}", lambda value: value >= low, optional)


def _wholes(name: str, low: int | None = 0, *, least: int = 1) -> _Field:
    def allowed(values: Sequence[Any]) -> bool:
        if not values:
            return least == 0
        # type(), as below: a set of types is much cheaper than a look at each value.
        return set(map(type, values)) == {int} and (low is None or min(values) >= low)

    legal = "a list of whole numbers" if low is None else f"a list of whole numbers >= {low}"
    return _Field(name, (list,), f"{legal}, at least one" if least else legal, allowed)


def _flag(name: str) -> _Field:
    return _Field(name, (bool,), "true or false")


_TIME, _EXECUTOR, _JOB = _whole("time_ms"), _text("executor", empty=False), _text("job", empty=False)
_STAGE = _text("stage", empty=False)
_ISOLATION = _Field("isolation", (float, int), "a number in [0, 1]", lambda value: 0 <= value <= 1, True)

# In the order of the classes' fields: instances are built by position.
_FIELDS: dict[type[Event], tuple[_Field, ...]] = {
    ExecutorAdded: (_TIME, _EXECUTOR, _text("host"), _whole("slots")),
    ExecutorRemoved: (_TIME, _EXECUTOR, _text("reason")),
    JobStarted: (
        _TIME,
        _JOB,
        _text("name"),
        _text("user", optional=True),
        _whole("priority", None),
        _ISOLATION,
        _whole("deadline_ms", None, optional=True),
        _text("class", optional=True),
        _flag("copies"),
        _flag("marked"),
        _whole("begun_ms", optional=True),
    ),
    JobEnded: (
        _TIME,
        _JOB,
        _choice("outcome", "ended", "idle"),
        _whole("ended_ms", optional=True),
    ),
    StageStarted: (
        _TIME,
        _JOB,
        _STAGE,
        _text("name"),
        _whole("index"),
        _whole("tasks"),
        _whole("next_tasks", optional=True),
        _flag("last"),
        _flag("barrier"),
        _flag("restartable")._replace(default=True),
        _whole("slots_per_task", 1)._replace(default=1),
        _whole("next_at_most", optional=True),
        _wholes("done", least=0)._replace(types=(list, tuple), default=()),
    ),
    StageEnded: (_TIME, _JOB, _STAGE, _flag("completed")),
    TaskLaunched: (
        _TIME,
        _JOB,
        _STAGE,
        _whole("task"),
        _whole("index"),
        _EXECUTOR,
        _flag("copy"),
        _whole("evictions")._replace(default=0),
    ),
    TaskEnded: (
        _TIME,
        _JOB,
        _STAGE,
        _whole("task"),
        _whole("index"),
        _EXECUTOR,
        # The driver's wall clock may step back while a task runs.
        _whole("duration_ms", None),
        _choice("outcome", "success", "failed", "killed", "lost"),
        _flag("copy"),
        _text("evicted_for", optional=True, empty=False),
    ),
    ShortTasks: (
        _TIME,
        _JOB,
        _STAGE,
        _EXECUTOR,
        _wholes("tasks"),
        _wholes("indices"),
        _wholes("durations_ms", None),
    ),
    SlotHeld: (_TIME, _JOB, _text("stage"), _EXECUTOR, _whole("deadline_ms", None)),
    SlotFreed: (
        _TIME,
        _JOB,
        _EXECUTOR,
        # A driver of a later version may have further reasons.
        _text("reason", empty=False),
    ),
    JobChanged: (
        _TIME,
        _JOB,
        _whole("priority", None),
        _ISOLATION,
        _whole("deadline_ms", None, optional=True),
        _flag("on_hold"),
        _text("by"),
    ),
    JobCancelled: (_TIME, _JOB, _text("by")),
    SchedulingChanged: (
        _TIME,
        _text("policy", empty=False),
        # A driver of a later version may have further modes.
        _text("mode", empty=False),
        _flag("reservations_paused"),
        _text("by"),
    ),
}

EVENT_TYPES: Mapping[str, type[Event]] = {cls.type: cls for cls in _FIELDS}
_BY_TYPE = {cls.type: (cls, fields) for cls, fields in _FIELDS.items()}

_BATCH_FIELDS = (_whole("version"), _flag("reset"), _whole("dropped"), _whole("now_ms"))


def decode_batch(source: str | Mapping[str, Any]) -> Batch:
    """The batch in a JSON text, or in what ``json.loads`` made of one.

    Events of unknown types are counted in ``skipped`` and left out, and unknown fields are ignored, so that
    a newer driver can talk to an older planner.

    Raises:
        BadInputError: not JSON, another schema, or a missing or wrong field; the sentence names the event's
            number in the batch (from 0), its type and the field.
    """
    if isinstance(source, str):
        try:
            source = json.loads(source)
        except ValueError as error:
            raise BadInputError(f"the event batch is not JSON: {error}") from None
    if not isinstance(source, Mapping):
        raise BadInputError(f"the event batch must be a JSON object, not {_brief(source)}")
    schema = source.get("schema")
    if schema != SCHEMA or type(schema) is not int:
        raise BadInputError(
            f"the event batch has schema {_brief(schema)}, this version reads schema {SCHEMA}: "
            "driver and planner must come from the same release of spark-sched"
        )
    version, reset, dropped, now_ms = (_read(source, f, "the event batch") for f in _BATCH_FIELDS)
    raw = source.get("events")
    if not isinstance(raw, list):
        raise BadInputError(f"the event batch's events must be a list, not {_brief(raw)}")
    events: list[Event] = []
    skipped: dict[str, int] = {}
    for number, item in enumerate(raw):
        event = _decode(item, number)
        if isinstance(event, str):
            skipped[event] = skipped.get(event, 0) + 1
        else:
            events.append(event)
    return Batch(version, reset, dropped, now_ms, tuple(events), skipped)


def decode_event(source: Mapping[str, Any], number: int = 0) -> Event | None:
    """One event; None if its type is unknown. Raises BadInputError as :func:`decode_batch` does."""
    event = _decode(source, number)
    return None if isinstance(event, str) else event


def _decode(item: Any, number: int) -> Event | str:
    """The event, or the name of its unknown type."""
    if not isinstance(item, Mapping):
        raise BadInputError(f"event {number} must be a JSON object, not {_brief(item)}")
    kind = item.get("type")
    found = _BY_TYPE.get(kind) if isinstance(kind, str) else None
    if found is None:
        if not isinstance(kind, str):
            raise BadInputError(f"event {number}: type must be text, not {_brief(kind)}")
        return kind
    cls, fields = found
    values: list[Any] = []
    for field in fields:
        value = item.get(field.name, field.default)
        # type(), not isinstance(): JSON's true is not a number.
        if type(value) in field.types:
            if field.allowed is not None and not field.allowed(value):
                _refuse(item, field, f"event {number} ({kind})")
        elif value is not None or not field.optional:
            _refuse(item, field, f"event {number} ({kind})")
        values.append(value)
    event = cls(*values)
    if isinstance(event, ShortTasks):
        _check_columns(event, f"event {number} ({kind})")
    return event


def _check_columns(event: ShortTasks, where: str) -> None:
    tasks, indices, durations = len(event.tasks), len(event.indices), len(event.durations_ms)
    if not tasks == indices == durations:
        raise BadInputError(
            f"{where}: tasks, indices and durations_ms must be equally long, "
            f"not {tasks}, {indices} and {durations}"
        )


def _read(item: Mapping[str, Any], field: _Field, where: str) -> Any:
    value = item.get(field.name)
    if type(value) not in field.types or (field.allowed is not None and not field.allowed(value)):
        _refuse(item, field, where)
    return value


def _refuse(item: Mapping[str, Any], field: _Field, where: str) -> None:
    if field.name not in item:
        raise BadInputError(f"{where}: {field.name} is missing, it must be {field.legal}")
    raise BadInputError(f"{where}: {field.name} must be {field.legal}, not {_brief(item[field.name])}")


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
