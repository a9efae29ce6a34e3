"""Events and batches from JSON (``protocol/event-batch.schema.json``).

Decoding checks every field: one wrong event would make the planner's picture of the cluster wrong for as
long as it runs. It is the planner's hottest path (a task that outlives a batch is two events), so the checks
of each type are compiled once into a function without loops, as ``dataclasses`` does with initialisers. An
item that this function does not take is checked field by field, which finds the sentence for the error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from types import NoneType
from typing import Any, NamedTuple, get_args, get_type_hints

from spark_sched.errors import BadInputError
from spark_sched.protocol.events.kinds import Batch, Event, ShortTasks, is_count

#: Version of the batch's layout. New event types and new optional fields do not change it.
SCHEMA = 1


class _Field(NamedTuple):
    """A field of an event: how it is checked, and its value where it is absent.

    Attributes:
        required: it has no value where it is absent.
    """

    name: str
    types: tuple[type, ...]
    legal: str
    allowed: Callable[[Any], bool] | None
    optional: bool
    required: bool
    default: Any


def _fields(kind: type[Event] | type[Batch]) -> tuple[_Field, ...]:
    """The fields that a class declares with a `Check`, in their order: instances are built by position."""
    hints = get_type_hints(kind, include_extras=True)
    found = []
    for each in fields(kind):
        declared = hints[each.name]
        optional = NoneType in get_args(declared)
        for check in getattr(get_args(declared)[0] if optional else declared, "__metadata__", ()):
            name = "class" if each.name == "job_class" else each.name
            absent = each.default is MISSING
            required, default = absent and not optional, None if absent else each.default
            types, legal, allowed = check
            found.append(_Field(name, types, legal, allowed, optional, required, default))
    return tuple(found)


#: Checks that are short enough to stand in the compiled function in place of a call.
_INLINE: Mapping[Callable[[Any], bool], str] = {is_count: "{0} >= 0", bool: "{0}"}
#: What fields must be together.
_TOGETHER: Mapping[type[Event], str] = {ShortTasks: "len(tasks_) == len(indices_) == len(durations_ms_)"}


def _compiled(kind: type[Event], fields: tuple[_Field, ...]) -> Callable[[Any], Event | None]:
    """A function from an item to its event; it returns None, or raises KeyError, if a field is wrong."""
    names: dict[str, Any] = {"kind": kind}
    lines, conditions, values = [], [], []
    for field in fields:
        value, default, allowed = f"{field.name}_", f"default_{field.name}", f"allowed_{field.name}"
        values.append(value)
        names[default], names[allowed] = field.default, field.allowed
        given = f"item[{field.name!r}]" if field.required else f"item.get({field.name!r}, {default})"
        lines.append(f"    {value} = {given}")
        # type(), not isinstance(): JSON's true is not a number.
        right = " or ".join(f"type({value}) is {each.__name__}" for each in field.types)
        if field.allowed is not None:
            right = f"({right}) and " + _INLINE.get(field.allowed, f"{allowed}({{0}})").format(value)
        conditions.append(f"({value} is None or {right})" if field.optional else f"({right})")
    conditions.append(_TOGETHER.get(kind, "True"))
    lines.append(f"    return kind({', '.join(values)}) if {' and '.join(conditions)} else None")
    exec("\n".join(["def made(item):", *lines]), names)
    made: Callable[[Any], Event | None] = names["made"]
    return made


EVENT_TYPES: Mapping[str, type[Event]] = {kind.type: kind for kind in get_args(Event)}
_BY_TYPE = {name: (kind, _fields(kind)) for name, kind in EVENT_TYPES.items()}
_COMPILED = {name: _compiled(*checked) for name, checked in _BY_TYPE.items()}
_BATCH_FIELDS = _fields(Batch)


def parse_batch(text: str) -> Any:
    """The JSON of a batch, unchecked. Raises BadInputError for anything else than JSON."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise BadInputError(f"the event batch is not JSON: {error}") from None


def decode_batch(source: str | Mapping[str, Any]) -> Batch:
    """The batch in a JSON text, or in what ``json.loads`` made of one.

    Events of unknown types are counted in ``skipped`` and left out, and unknown fields are ignored, so that
    a newer driver can talk to an older planner.

    Raises:
        BadInputError: not JSON, another schema, or a missing or wrong field; the sentence names the event's
            number in the batch (from 0), its type and the field.
    """
    if isinstance(source, str):
        source = parse_batch(source)
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
        event = _quickly(item) or _decode(item, number)
        if isinstance(event, str):
            skipped[event] = skipped.get(event, 0) + 1
        else:
            events.append(event)
    return Batch(version, reset, dropped, now_ms, tuple(events), skipped)


def decode_event(source: Mapping[str, Any], number: int = 0) -> Event | None:
    """One event; None if its type is unknown. Raises BadInputError as :func:`decode_batch` does."""
    event = _decode(source, number)
    return None if isinstance(event, str) else event


def _quickly(item: Any) -> Event | None:
    """The event of an item that is right; None for some types, and for anything else."""
    try:
        return _COMPILED[item["type"]](item)
    except (KeyError, TypeError):
        return None


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
