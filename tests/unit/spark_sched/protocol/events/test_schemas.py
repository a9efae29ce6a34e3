"""The JSON schemas say what the decoder does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from spark_sched.errors import BadInputError
from spark_sched.protocol.events import EVENT_TYPES, decode_batch

PROTOCOL = Path(__file__).parents[5] / "protocol"


def schema(name: str) -> Draft202012Validator:
    document = json.loads((PROTOCOL / f"{name}.schema.json").read_text())
    Draft202012Validator.check_schema(document)
    return Draft202012Validator(document)


@pytest.mark.parametrize("path", sorted((PROTOCOL / "examples").glob("*.json")), ids=lambda p: p.name)
def test_every_example_is_valid(path: Path) -> None:
    schema(path.name.split(".")[0]).validate(json.loads(path.read_text()))


def test_schema_and_decoder_know_the_same_event_types() -> None:
    document = json.loads((PROTOCOL / "event-batch.schema.json").read_text())
    assert set(document["$defs"]) - {"event"} == set(EVENT_TYPES)


def breakages() -> list[Any]:
    """Each example event once without each of its fields, and once with each field of a wrong type."""
    cases = []
    for path in sorted((PROTOCOL / "examples").glob("event-batch.*.json")):
        for event in json.loads(path.read_text())["events"]:
            if event["type"] in EVENT_TYPES:
                for field in set(event) - {"type"}:
                    gone = {key: value for key, value in event.items() if key != field}
                    cases.append((gone, f"{event['type']} without {field}"))
                    cases.append((event | {field: {}}, f"{event['type']} with an object as {field}"))
    return [pytest.param(event, id=name) for name, event in sorted({name: e for e, name in cases}.items())]


@pytest.mark.parametrize("event", breakages())
def test_schema_and_decoder_refuse_the_same_events(event: dict[str, Any]) -> None:
    batch = {"schema": 1, "version": 1, "reset": False, "dropped": 0, "now_ms": 1, "events": [event]}
    valid = schema("event-batch").is_valid(batch)
    try:
        decode_batch(batch)
        decoded = True
    except BadInputError:
        decoded = False
    assert valid == decoded
