"""The tasks that ran on each slot over time, and the held slots, from Spark's event log and the recorded
events.

Spark's log says on which executor a task ran, not on which of its slots; slots of an executor are alike, so
tasks are laid out on lanes: each takes the lane that has been free for the shortest time, which puts a held
slot right behind the task that left it.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_sched.errors import BadInputError
from spark_sched_lab.runs.workloads.submit import BACKGROUND_GROUP

# The end of a task and the start of the next one on its slot come from different clocks.
_OVERLAP_MS = 60


@dataclass(frozen=True)
class Span:
    """Something on one slot of one executor; times in epoch milliseconds.

    ``kind`` is ``"foreground"``, ``"background"`` or ``"held"``; ``lane`` counts from 0 within the executor.
    """

    executor: str
    start_ms: int
    end_ms: int
    kind: str
    lane: int = 0


@dataclass(frozen=True)
class Timeline:
    """Spans of one window, and the executors' names (``"<id> on <host>"``) in order."""

    start_ms: int
    end_ms: int
    executors: dict[str, str]
    slots: dict[str, int]
    spans: tuple[Span, ...]


def read_timeline(
    event_log: Path, start_ms: int, end_ms: int, scheduler_events: Path | None = None
) -> Timeline:
    """The timeline of ``[start_ms, end_ms]`` of an application.

    ``event_log`` is a plain (uncompressed, not rolled) Spark event log; ``scheduler_events`` the file that
    ``spark.sched.events.path`` named. Raises BadInputError if the log cannot be read as one.
    """
    hosts: dict[str, str] = {}
    slots: dict[str, int] = {}
    tasks: list[Span] = []
    kinds: dict[int, str] = {}
    for event in _events(event_log):
        kind = event["Event"]
        if kind == "SparkListenerExecutorAdded":
            hosts[event["Executor ID"]] = event["Executor Info"]["Host"]
            slots[event["Executor ID"]] = int(event["Executor Info"]["Total Cores"])
        elif kind == "SparkListenerStageSubmitted":
            group = (event.get("Properties") or {}).get("spark.jobGroup.id") or ""
            kinds[event["Stage Info"]["Stage ID"]] = (
                "background" if group.startswith(f"{BACKGROUND_GROUP}-") else "foreground"
            )
        elif kind == "SparkListenerTaskEnd":
            info = event["Task Info"]
            if info["Finish Time"] >= start_ms and info["Launch Time"] <= end_ms:
                tasks.append(
                    Span(
                        info["Executor ID"],
                        int(info["Launch Time"]),
                        int(info["Finish Time"]),
                        kinds.get(event["Stage ID"], "foreground"),
                    )
                )
    held = [] if scheduler_events is None else list(_held(scheduler_events, start_ms, end_ms))
    spans: list[Span] = []
    for executor, count in slots.items():
        own = [span for span in (*tasks, *held) if span.executor == executor]
        spans += lay_out(own, count)
    names = {executor: f"executor {executor} on {host}" for executor, host in hosts.items()}
    return Timeline(start_ms, end_ms, names, slots, tuple(spans))


def lay_out(spans: Iterable[Span], slots: int) -> list[Span]:
    """Give every span of one executor a lane below ``slots``.

    A span takes the lane that was freed last before its start, since a held or reused slot is the one that
    became free last. If all lanes appear occupied because of clock differences, the lane that becomes free
    first is used.
    """
    free_at_ms = [-1] * slots
    placed = []
    for span in sorted(spans, key=lambda s: (s.start_ms, s.end_ms)):
        free = [lane for lane in range(slots) if free_at_ms[lane] <= span.start_ms + _OVERLAP_MS]
        if free:
            lane = max(free, key=lambda lane: free_at_ms[lane])
        else:
            lane = min(range(slots), key=lambda lane: free_at_ms[lane])
        free_at_ms[lane] = max(span.end_ms, free_at_ms[lane])
        placed.append(Span(span.executor, span.start_ms, span.end_ms, span.kind, lane))
    return placed


def _held(scheduler_events: Path, start_ms: int, end_ms: int) -> Iterator[Span]:
    """Held intervals: every ``slot_freed`` closes the oldest open hold of its job on its executor."""
    open_ms: dict[tuple[str, str], deque[int]] = defaultdict(deque)
    for event in _events(scheduler_events):
        if event.get("type") == "slot_held":
            open_ms[event["job"], event["executor"]].append(int(event["time_ms"]))
        elif event.get("type") == "slot_freed":
            held = open_ms[event["job"], event["executor"]]
            if held:
                span = Span(event["executor"], held.popleft(), int(event["time_ms"]), "held")
                if span.end_ms >= start_ms and span.start_ms <= end_ms:
                    yield span
    for (_, executor), starts_ms in open_ms.items():
        for held_ms in starts_ms:
            if held_ms <= end_ms:
                yield Span(executor, held_ms, end_ms, "held")


def _events(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with path.open() as lines:
            for line in lines:
                try:
                    yield json.loads(line)
                except json.JSONDecodeError:
                    return  # the last line of a log whose writer was stopped
    except (OSError, UnicodeDecodeError) as error:
        raise BadInputError(f"{path} cannot be read as an event log: {error}") from error
