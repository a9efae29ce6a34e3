"""Events as the driver writes them."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from spark_sched.protocol.events import Event


def encode_event(event: Event) -> dict[str, Any]:
    """The event as a JSON object, without the fields that have their default."""
    values = {field.name: getattr(event, field.name) for field in fields(event)}
    spared = {field.name for field in fields(event) if values[field.name] == field.default}
    named = {"class" if name == "job_class" else name: value for name, value in values.items()}
    return {"type": event.type, **{name: value for name, value in named.items() if name not in spared}}
