"""Usage from the file that ``spark.sched.events.path`` names, the only source that records single holds."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from spark_sched.errors import BadInputError
from spark_sched.files import open_regular
from spark_sched.protocol import events
from spark_sched.protocol.events.codec import EVENT_TYPES, decode_event
from spark_sched_lab.traces.lines import MAX_LINE_BYTES, parse_json
from spark_sched_lab.traces.read_report import ReadReport
from spark_sched_lab.usage.records import ChargedAttempt, Hold, Owner, Presence, Usage
from spark_sched_lab.usage.unlisted import cover_attempts

_RESET = "reset"


def is_recorded(path: Path) -> bool:
    """Whether the first line of the file is an event that the planner recorded."""
    try:
        with open_regular(path) as lines:
            first = json.loads(lines.readline(1 << 20))
    except (BadInputError, OSError, ValueError, RecursionError):
        return False
    return isinstance(first, dict) and (first.get("type") == _RESET or first.get("type") in EVENT_TYPES)


def usage_of_recorded(
    path: Path, progress: Callable[[int], None] = lambda read: None, report: ReadReport | None = None
) -> Usage:
    """The usage of one application; ``progress`` gets the bytes of every line, ``report`` the ignored lines.

    Raises BadInputError if the file cannot be read or a line is not an event. A last line that is cut off is
    left out: the planner may have been killed while it wrote.
    """
    fold = _Fold()
    report = ReadReport() if report is None else report
    try:
        with open_regular(path) as lines:
            for number, line in enumerate(iter(partial(lines.readline, MAX_LINE_BYTES), b""), 1):
                progress(len(line))
                report.rows += 1
                if len(line) == MAX_LINE_BYTES:
                    raise BadInputError(
                        f"{path} line {number} is longer than {MAX_LINE_BYTES >> 20} MB, the most that is "
                        "read: give a file that spark.sched.events.path named"
                    )
                if line.endswith(b"\n"):
                    fold.apply(_parsed(path, number, line))
                else:
                    report.cut(str(path), number, "the last line is cut off")
    except OSError as error:
        raise BadInputError(f"{path} cannot be read ({error.strerror}): check the path") from None
    return fold.finish()


def _parsed(path: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        found = parse_json(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise BadInputError(
            f"{path}, line {number} is not a recorded event: give a file that spark.sched.events.path named"
        )
    return found


class _Fold:
    """Events in, intervals out."""

    def __init__(self) -> None:
        self._usage = Usage(holds=[])
        self._holds: list[Hold] = []
        self._now_ms = 0
        self._present: dict[str, events.ExecutorAdded] = {}
        self._running: dict[int, ChargedAttempt] = {}
        #: Attempts from before a reset that no event has mentioned since, and the time of the reset.
        self._doubtful: dict[int, tuple[ChargedAttempt, int]] = {}
        self._held: dict[tuple[str, str], deque[int]] = defaultdict(deque)
        self._slots_per_task: dict[str, int] = {}

    def apply(self, line: dict[str, Any]) -> None:
        if line.get("type") == _RESET:
            self._reset(int(line["time_ms"]))
            return
        event = decode_event(line)
        if event is None:
            return  # of a later version
        self._now_ms = max(self._now_ms, event.time_ms)
        match event:
            case events.ExecutorAdded():
                self._present.setdefault(event.executor, event)
            case events.ExecutorRemoved():
                self._executor_left(event.executor, event.time_ms)
            case events.JobStarted():
                self._usage.owners[event.job] = Owner(event.name, event.user or "", event.job_class or "")
                if event.isolation is not None:
                    self._usage.isolation[event.job] = event.isolation
            case events.StageStarted():
                self._slots_per_task[event.stage] = event.slots_per_task
                if not event.last:
                    self._usage.barriers[event.stage] = event.job
            case events.StageEnded():
                self._slots_per_task.pop(event.stage, None)
            case events.TaskLaunched():
                self._launched(event)
            case events.TaskEnded():
                self._ended(event)
            case events.ShortTasks():
                for index, duration_ms in zip(event.indices, event.durations_ms, strict=True):
                    attempt = self._attempt(event, index, duration_ms, "success")
                    self._usage.attempts.append(attempt)
            case events.SlotHeld():
                self._held[event.job, event.executor].append(event.time_ms)
            case events.SlotFreed():
                self._freed(event.job, event.executor, event.time_ms)

    def finish(self) -> Usage:
        """End every open interval with the last event."""
        self._reset(self._now_ms)
        for attempt, at_ms in self._doubtful.values():
            self._usage.attempts.append(_until(attempt, at_ms, "unknown"))
        for executor in list(self._present):
            self._executor_left(executor, self._now_ms)
        self._usage.holds = self._holds
        cover_attempts(self._usage, self._now_ms)
        return self._usage

    def _reset(self, at_ms: int) -> None:
        # The events that follow report all running attempts and holds again.
        self._now_ms = max(self._now_ms, at_ms)
        for attempt, since_ms in self._doubtful.values():
            self._usage.attempts.append(_until(attempt, since_ms, "unknown"))
        self._doubtful = {task: (attempt, at_ms) for task, attempt in self._running.items()}
        self._running.clear()
        for job, executor in list(self._held):
            while self._held[job, executor]:
                self._freed(job, executor, at_ms)
        self._held.clear()

    def _launched(self, event: events.TaskLaunched) -> None:
        known = self._doubtful.pop(event.task, None)
        self._running[event.task] = (
            self._attempt(event, event.index, 0, "unknown") if known is None else known[0]
        )

    def _ended(self, event: events.TaskEnded) -> None:
        known = self._running.pop(event.task, None)
        if known is None and event.task in self._doubtful:
            known = self._doubtful.pop(event.task)[0]
        if known is not None:
            self._usage.attempts.append(_until(known, event.time_ms, event.outcome, event.evicted_for or ""))
            return
        self._usage.attempts.append(self._attempt(event, event.index, event.duration_ms, event.outcome))

    def _attempt(
        self,
        event: events.TaskLaunched | events.TaskEnded | events.ShortTasks,
        index: int,
        duration_ms: int,
        outcome: str,
    ) -> ChargedAttempt:
        """An attempt that took this time until the event."""
        slots, start_ms = self._slots_per_task.get(event.stage, 1), event.time_ms - duration_ms
        return ChargedAttempt(
            event.job, event.stage, index, event.executor, start_ms, event.time_ms, outcome, slots
        )

    def _freed(self, job: str, executor: str, at_ms: int) -> None:
        since = self._held[job, executor]
        if since:
            self._holds.append(Hold(job, executor, since.popleft(), at_ms))

    def _executor_left(self, executor: str, at_ms: int) -> None:
        added = self._present.pop(executor, None)
        if added is not None:
            self._usage.executors.append(Presence(executor, added.slots, added.time_ms, at_ms, added.host))


def _until(attempt: ChargedAttempt, end_ms: int, outcome: str, evicted_for: str = "") -> ChargedAttempt:
    end_ms = max(attempt.start_ms, end_ms)
    return replace(attempt, end_ms=end_ms, outcome=outcome, evicted_for=evicted_for)
