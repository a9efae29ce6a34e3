"""The span of time in which an executor accepted tasks, which may be shorter than its span in the log.

Spark launches no tasks on an executor that it excluded or is about to remove, that has another resource
profile, or whose plugins have not started. The log does not record this. So if an executor got none of the
tasks of a stage that had to wait for slots, it counts as not available to that stage.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

from spark_sched_lab.traces.tables import Machine
from spark_sched_lab.whatif.recorded import RecordedAttempt

#: A launch at least this long after its stage's first one waited for a slot.
WAVE_MS = 200
#: A stage that gets its first slot at least this long after its submission waited for it.
LONG_MS = 1_000
_ALWAYS_MS = 2**62


class Wait(NamedTuple):
    """A span in which a task waited for a slot on any executor; at least `WAVE_MS` long."""

    begin_ms: int
    end_ms: int


def available_executors(
    executors: Sequence[Machine], attempts: Iterable[RecordedAttempt], waits: Iterable[Wait]
) -> list[Machine]:
    """The executors over the spans in which they took tasks.

    An executor that was idle throughout a wait before its first task becomes available with that task. One
    that was idle throughout a wait after its last task is unavailable from that task's end. One without a
    task was never available.
    """
    ordered = sorted(waits)
    begins = [wait.begin_ms for wait in ordered]
    # Of the waits from each one on: the earliest end.
    ends = list(accumulate((wait.end_ms for wait in reversed(ordered)), min))[::-1]
    spans: dict[str, tuple[int, int]] = {}
    for a in attempts:
        first, last = spans.get(a.executor, (a.start_ms, a.end_ms))
        spans[a.executor] = (min(first, a.start_ms), max(last, a.end_ms))
    found = []
    for machine in executors:
        added_ms = round((machine.added_s or 0.0) * 1000)
        until_ms = _ALWAYS_MS if machine.removed_s is None else round(machine.removed_s * 1000)
        first, last = spans.get(machine.machine, (until_ms, added_ms))
        after = bisect_left(begins, last)
        if after < len(begins) and begins[after] <= until_ms - WAVE_MS:
            if machine.machine not in spans:
                continue
            until_ms = last
        before = bisect_left(begins, added_ms)
        if before < len(begins) and ends[before] <= first:
            added_ms = first
        removed_s = None if until_ms == _ALWAYS_MS else until_ms / 1000.0
        found.append(replace(machine, added_s=added_ms / 1000.0, removed_s=removed_s))
    return found or list(executors)
