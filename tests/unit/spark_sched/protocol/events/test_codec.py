"""Batches from the wire: what is decoded, what is skipped and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spark_sched.errors import BadInputError
from spark_sched.protocol.events import (
    EVENT_TYPES,
    JobStarted,
    SlotFreed,
    StageStarted,
    TaskEnded,
    codec,
    decode_batch,
    decode_event,
)
from tests.encoding import encode_event

EXAMPLES = Path(__file__).parents[5] / "protocol" / "examples"


def batch_of(*events: Any, **changes: Any) -> dict[str, Any]:
    return {
        "schema": 1,
        "version": 3,
        "reset": False,
        "dropped": 0,
        "now_ms": 50,
        "events": list(events),
    } | changes


def job_started(**changes: Any) -> dict[str, Any]:
    return {
        "type": "job_started", "time_ms": 5, "job": "mark-1", "name": "n", "user": "ana", "priority": -3,
        "isolation": 0.5, "deadline_ms": 99, "class": "etl", "copies": False, "marked": True,
    } | changes  # fmt: skip


def without(item: dict[str, Any], *names: str) -> dict[str, Any]:
    return {key: value for key, value in item.items() if key not in names}


def test_a_job_arrives_with_all_its_marks() -> None:
    (event,) = decode_batch(json.dumps(batch_of(job_started()))).events
    assert event == JobStarted(
        time_ms=5, job="mark-1", name="n", user="ana", priority=-3, isolation=0.5, deadline_ms=99,
        job_class="etl", copies=False, marked=True,
    )  # fmt: skip


def test_optional_marks_may_be_null_or_absent_alike() -> None:
    optional = ("user", "isolation", "deadline_ms", "class")
    as_null = decode_event(job_started(**dict.fromkeys(optional)))
    absent = decode_event(without(job_started(), *optional))
    assert as_null == absent
    assert isinstance(as_null, JobStarted)
    assert as_null.isolation is None


def test_a_stage_is_restartable_unless_it_says_otherwise() -> None:
    stage = {
        "type": "stage_started", "time_ms": 1, "job": "j", "stage": "1.0", "name": "n", "index": 0,
        "tasks": 2, "next_tasks": None, "last": False, "barrier": False,
    }  # fmt: skip
    plain, once = decode_event(stage), decode_event(stage | {"restartable": False})
    assert isinstance(plain, StageStarted)
    assert isinstance(once, StageStarted)
    assert (plain.restartable, once.restartable) == (True, False)
    assert encode_event(plain) == stage
    assert encode_event(once) == stage | {"restartable": False}
    with pytest.raises(BadInputError, match="restartable must be true or false, not None"):
        decode_event(stage | {"restartable": None})


def test_a_stage_whose_tasks_take_several_slots_says_so() -> None:
    plain = {
        "type": "stage_started", "time_ms": 5, "job": "j", "stage": "1.0", "name": "map", "index": 0,
        "tasks": 2, "next_tasks": None, "last": False, "barrier": False,
    }  # fmt: skip
    one, two = decode_event(plain), decode_event({**plain, "slots_per_task": 2})
    assert isinstance(one, StageStarted)
    assert isinstance(two, StageStarted)
    assert (one.slots_per_task, two.slots_per_task) == (1, 2)
    assert (encode_event(one), encode_event(two)) == (plain, {**plain, "slots_per_task": 2})


def test_a_stage_of_which_adaptive_execution_decides_what_follows_has_a_bound_of_that() -> None:
    plain = {
        "type": "stage_started", "time_ms": 5, "job": "j", "stage": "1.0", "name": "map", "index": 0,
        "tasks": 2, "next_tasks": None, "last": False, "barrier": False,
    }  # fmt: skip
    unknown, bounded = decode_event(plain), decode_event({**plain, "next_at_most": 200})
    assert isinstance(unknown, StageStarted)
    assert isinstance(bounded, StageStarted)
    assert (unknown.next_at_most, bounded.next_at_most) == (None, 200)
    assert (encode_event(unknown), encode_event(bounded)) == (plain, {**plain, "next_at_most": 200})


def test_a_stage_that_is_told_again_says_which_tasks_are_done() -> None:
    plain = {
        "type": "stage_started", "time_ms": 5, "job": "j", "stage": "1.0", "name": "map", "index": 0,
        "tasks": 9, "next_tasks": None, "last": False, "barrier": False,
    }  # fmt: skip
    fresh, told = decode_event(plain), decode_event({**plain, "done": [3, 7]})
    assert isinstance(fresh, StageStarted)
    assert isinstance(told, StageStarted)
    assert (list(fresh.done), list(told.done)) == ([], [3, 7])
    assert (encode_event(fresh), encode_event(told)) == (plain, {**plain, "done": [3, 7]})
    for wrong in ([-1], [True], ["3"], 3, None):
        with pytest.raises(BadInputError, match="done must be a list of whole numbers >= 0, not"):
            decode_event({**plain, "done": wrong})


def test_unknown_event_types_are_skipped_and_counted() -> None:
    novel = {"type": "moon_rose", "time_ms": 1}
    batch = decode_batch(batch_of(novel, job_started(), novel))
    assert [event.type for event in batch.events] == ["job_started"]
    assert batch.skipped == {"moon_rose": 2}


def test_unknown_fields_are_ignored() -> None:
    assert decode_event(job_started(colour="red")) == decode_event(job_started())


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("event-batch.*.json")), ids=lambda p: p.name)
def test_examples_survive_decoding_and_encoding(path: Path) -> None:
    document = json.loads(path.read_text())
    batch = decode_batch(path.read_text())
    document["events"] = [event for event in document["events"] if event["type"] in EVENT_TYPES]
    encoded = {**document, "events": [encode_event(event) for event in batch.events]}
    assert encoded == document
    assert decode_batch(json.dumps(encoded)).events == batch.events


_WRONG: list[Any] = [None, True, -1, 0.5, "", "x", {}, [], [0, True], [-1, -2], [1, 2, 3]]


@pytest.mark.parametrize("kind", sorted(EVENT_TYPES))
def test_the_compiled_checks_take_an_event_where_those_of_single_fields_do(kind: str) -> None:
    examples = [
        event
        for path in sorted(EXAMPLES.glob("event-batch.*.json"))
        for event in json.loads(path.read_text())["events"]
        if event["type"] == kind
    ]
    taken = refused = 0
    for example in examples:
        fields = sorted(set(example) - {"type"})
        changed = [without(example, field) for field in fields]
        changed += [example | {field: wrong} for field in fields for wrong in _WRONG]
        for item in [example, *changed]:
            try:
                expected = codec._decode(item, 0)
                taken += 1
            except BadInputError:
                expected = None
                refused += 1
            assert codec._quickly(item) == expected, item
    assert taken
    assert refused


def test_the_examples_together_show_every_event_type() -> None:
    shown = {
        event.type
        for path in EXAMPLES.glob("event-batch.*.json")
        for event in decode_batch(path.read_text()).events
    }
    assert shown == set(EVENT_TYPES)


def test_events_are_frozen() -> None:
    event = decode_event({"type": "slot_freed", "time_ms": 1, "job": "j", "executor": "1", "reason": "used"})
    assert isinstance(event, SlotFreed)
    with pytest.raises(AttributeError):
        event.job = "k"  # type: ignore[misc]
    assert encode_event(event)["reason"] == "used"


ENDED = {
    "type": "task_ended", "time_ms": 1, "job": "j", "stage": "1.0", "task": 4, "index": 0, "executor": "1",
    "duration_ms": 7, "outcome": "success", "copy": False,
}  # fmt: skip
SHORT = {
    "type": "short_tasks", "time_ms": 9, "job": "j", "stage": "1.0", "executor": "e",
    "tasks": [4, 5], "indices": [0, 1], "durations_ms": [7, -1],
}  # fmt: skip


def test_a_duration_may_be_negative_as_clocks_step_back() -> None:
    event = decode_event(ENDED | {"duration_ms": -2})
    assert isinstance(event, TaskEnded)
    assert event.duration_ms == -2


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("{", ["not JSON"]),
        ("[]", ["JSON object", "[]"]),
        (batch_of(schema=2), ["schema 2", "schema 1", "same release"]),
        (batch_of(schema=True), ["schema True"]),
        (without(batch_of(), "schema"), ["schema None"]),
        (without(batch_of(), "version"), ["the event batch", "version is missing"]),
        (batch_of(reset=0), ["reset", "true or false", "0"]),
        (batch_of(events={}), ["events must be a list"]),
        (batch_of(3), ["event 0", "JSON object"]),
        (batch_of(job_started(), {"time_ms": 1}), ["event 1", "type"]),
        (
            batch_of(job_started(), without(ENDED, "executor")),
            ["event 1 (task_ended)", "executor is missing"],
        ),
        (batch_of(ENDED | {"task": "4"}), ["event 0 (task_ended)", "task", "whole number", "'4'"]),
        (batch_of(ENDED | {"task": True}), ["task", "whole number", "True"]),
        (batch_of(ENDED | {"task": 4.0}), ["task", "4.0"]),
        (batch_of(ENDED | {"outcome": "odd"}), ["outcome", "success, failed, killed, lost", "'odd'"]),
        (batch_of(ENDED | {"job": ""}), ["job", "not empty"]),
        (batch_of(ENDED | {"copy": None}), ["copy", "true or false", "None"]),
        (batch_of(job_started(isolation=1.5)), ["isolation", "[0, 1]", "1.5"]),
        (batch_of(job_started(isolation=float("nan"))), ["isolation", "nan"]),
        (batch_of(SHORT | {"tasks": []}), ["event 0 (short_tasks)", "tasks", "at least one"]),
        (batch_of(SHORT | {"indices": [0, True]}), ["indices", "whole numbers", "True"]),
        (batch_of(SHORT | {"tasks": [4, -1]}), ["tasks", ">= 0"]),
        (batch_of(SHORT | {"tasks": [4]}), ["equally long", "1, 2 and 2"]),
        (batch_of(ENDED | {"executor": ["x" * 500]}), ["executor", "..."]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_batches_are_refused_by_event_number_and_field(source: Any, words: list[str]) -> None:
    with pytest.raises(BadInputError) as refused:
        decode_batch(source)
    for word in words:
        assert word in str(refused.value)
    assert len(str(refused.value)) < 300
