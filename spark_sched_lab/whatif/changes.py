"""Operators' changes of a recorded application, and which of these a replay repeats."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from spark_sched.config.queue_file import parse_queues
from spark_sched.config.queues import NO_QUEUES, QueueTree
from spark_sched.errors import BadInputError
from spark_sched.protocol.events import Event, JobChanged, SchedulingChanged, decode_event
from spark_sched_lab.simulator import MarkChange
from spark_sched_lab.traces.lines import lines, parse_json
from spark_sched_lab.traces.read_report import ReadReport
from spark_sched_lab.traces.readers.spark_measured import EVENT

_CHANGE = b'"change"'
_SWITCHED = re.compile(r"the mode is (on|shadow|off)")


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """One change.

    Attributes:
        what: the change in a sentence.
        event: the event that the planner received, with times of the driver's clock; None: it received none,
            or an earlier version of the bridge, which did not log the event, wrote the log.
        at_ms: on the driver's clock.
        queues: the tenants' queues from then on; None: the same as before.
    """

    what: str
    event: Event | None = None
    at_ms: int = 0
    queues: QueueTree | None = None


@dataclass(frozen=True, slots=True)
class QueuesPut:
    """Other queues in force.

    Attributes:
        what: the change in a sentence.
        at_ms: on the application's own clock.
    """

    what: str
    at_ms: int
    tree: QueueTree


@dataclass(frozen=True, slots=True)
class Switch:
    """A change for all jobs.

    Attributes:
        what: the change in a sentence.
        at_ms: on the application's own clock.
        policy: the name of the policy from now on; None: the same as before.
        mode: ``on``, ``shadow`` or ``off`` from now on; None: the same as before.
        reserves: whether jobs may hold slots, so that reservations are not paused.
    """

    what: str
    at_ms: int
    policy: str | None
    mode: str | None
    reserves: bool


def read_changes(files: Iterable[Path]) -> Iterator[RecordedChange]:
    """The changes in the files of an event log (``protocol/README.md``), in their order, without damaged
    ones."""
    head = b'{"Event":"' + EVENT.encode() + b'"'
    for file in files:
        for _, line in lines(file, ReadReport()):
            if not line.startswith(head) or _CHANGE not in line:
                continue
            try:
                logged = parse_json(line)
                body = logged["body"] if logged["kind"] == "change" and logged["schema"] == 1 else None
                if body is not None and isinstance(body["what"], str):
                    yield RecordedChange(body["what"], _event(body), int(logged["timeMs"]), _queues(body))
            except (ValueError, KeyError, TypeError, RecursionError):
                continue  # Damaged: the reader has counted it.


def _event(body: dict[str, object]) -> Event | None:
    found = body.get("event")
    if not isinstance(found, dict):
        return None
    try:
        return decode_event(found)
    except BadInputError:
        return None  # The sentence is still used.


def _queues(body: dict[str, object]) -> QueueTree | None:
    text = body.get("queues")
    if not isinstance(text, str):
        return None
    try:
        return parse_queues(text) or NO_QUEUES
    except ValueError:
        return None  # Of another version. The sentence is still used.


def mode_switched_to(change: RecordedChange) -> str | None:
    """The mode that the change switched to; None: it was another change."""
    found = _SWITCHED.fullmatch(change.what)
    return None if found is None else found[1]


def repeatable(
    changes: Sequence[RecordedChange], submitted_ms: Mapping[str, int], origin_ms: int
) -> tuple[dict[str, tuple[MarkChange, ...]], list[RecordedChange], list[RecordedChange]]:
    """Changes of jobs' marks by job, the same as recorded, and all others, which a replay does not repeat.

    A hold that nobody ended is not repeated: the replayed job would never end, although the log has only the
    tasks that ran. Times are moved to the application's own clock, which starts at ``origin_ms``;
    ``submitted_ms`` has the jobs' submissions by that clock.
    """
    resumed_ms = {
        change.event.job: change.event.time_ms  # the last time
        for change in changes
        if isinstance(change.event, JobChanged) and not change.event.on_hold
    }
    marks: dict[str, tuple[MarkChange, ...]] = {}
    repeated, others = [], []
    for change in changes:
        event = change.event
        if not isinstance(event, JobChanged) or event.job not in submitted_ms:
            others.append(change)
            continue
        if event.on_hold and resumed_ms.get(event.job, event.time_ms) <= event.time_ms:
            others.append(change)
            continue
        repeated.append(change)
        marks[event.job] = (
            *marks.get(event.job, ()),
            MarkChange(
                after_ms=max(0, event.time_ms - origin_ms - submitted_ms[event.job]),
                priority=event.priority,
                deadline_ms=None if event.deadline_ms is None else event.deadline_ms - origin_ms,
                isolation=event.isolation,
                on_hold=event.on_hold,
            ),
        )
    return marks, repeated, others


def queues_of(
    changes: Sequence[RecordedChange], origin_ms: int
) -> tuple[list[QueuesPut], list[RecordedChange]]:
    """Changes of the tenants' queues, and all other changes."""
    put = [
        QueuesPut(change.what, max(0, change.at_ms - origin_ms), change.queues)
        for change in changes
        if change.queues is not None
    ]
    return put, [change for change in changes if change.queues is None]


def switches_of(
    changes: Sequence[RecordedChange], policy: str, mode: str, origin_ms: int
) -> tuple[list[Switch], list[RecordedChange]]:
    """Switches of the policy and of the mode, pauses of reservations and their ends, and all other changes.

    ``policy`` and ``mode`` are those with which the application began. If an earlier version logged a switch
    of the mode in words only, no switches are returned, because the mode at the other changes is unknown.
    """
    switches, others = [], []
    paused = False
    if any(mode_switched_to(change) is not None and change.event is None for change in changes):
        return [], list(changes)
    for change in changes:
        event = change.event
        if not isinstance(event, SchedulingChanged):
            others.append(change)
            continue
        if (event.policy, event.mode, event.reservations_paused) != (policy, mode, paused):
            new_policy = None if event.policy == policy else event.policy
            new_mode = None if event.mode == mode else event.mode
            at_ms = max(0, event.time_ms - origin_ms)
            switches.append(Switch(change.what, at_ms, new_policy, new_mode, not event.reservations_paused))
        policy, mode, paused = event.policy, event.mode, event.reservations_paused
    return switches, others
