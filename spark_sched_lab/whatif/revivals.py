"""When Spark offered all free slots, learned from the log: once per `spark.scheduler.revive.interval`.

A slot that a stage refused is offered again at such a moment alone, unless a task ends on its executor or a
stage is submitted. So a launch on a slot that was free for a while, at no such event, tells when they are.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from spark_sched_lab.whatif.availability import WAVE_MS
from spark_sched_lab.whatif.overheads import Launch

#: A slot that was free for this long, with no end of a task and no submission, was offered with all others.
_QUIET_MS = 100
#: Launches of one offer are within this time.
_SPREAD_MS = 15
#: Moments tell nothing of which a smaller share agrees.
_AGREE = 0.6


def revived_at_ms(launches: Iterable[Launch], slots: Mapping[str, int], every_ms: int) -> int | None:
    """One of the moments, in ms modulo ``every_ms``; None where the log does not tell."""
    launches = list(launches)
    if every_ms <= _SPREAD_MS:
        return None
    submitted = sorted({launch.submit_ms for launch in launches})
    by_executor: dict[str, list[Launch]] = defaultdict(list)
    for launch in launches:
        by_executor[launch.attempt.executor].append(launch)
    first_ms: dict[int, int] = {}
    for launch in launches:
        at_ms = launch.attempt.start_ms
        first_ms[launch.stage] = min(at_ms, first_ms.get(launch.stage, at_ms))
    moments = sorted(
        launch.attempt.start_ms
        for executor, own in by_executor.items()
        for launch in _unprompted(own, slots[executor], submitted)
        if launch.attempt.start_ms >= first_ms[launch.stage] + WAVE_MS
    )
    phases = sorted(
        at_ms % every_ms
        for number, at_ms in enumerate(moments)
        if not number or at_ms > moments[number - 1] + _SPREAD_MS
    )
    around = [*phases, *(phase + every_ms for phase in phases)]
    most, first = 0, 0
    for at, phase in enumerate(phases):
        agree = bisect_right(around, phase + _SPREAD_MS) - at
        if agree > most:
            most, first = agree, phase
    return first if most and most >= _AGREE * len(phases) else None


def _unprompted(own: Sequence[Launch], slots: int, submitted: Sequence[int]) -> Iterable[Launch]:
    """The launches on one executor that neither an end there nor a submission explains."""
    ends = sorted(launch.attempt.end_ms for launch in own)
    starts = sorted(launch.attempt.start_ms for launch in own)
    for launch in own:
        at_ms = launch.attempt.start_ms
        running = bisect_right(starts, at_ms - _QUIET_MS) - bisect_right(ends, at_ms - _QUIET_MS)
        quiet = bisect_right(ends, at_ms) == bisect_right(ends, at_ms - _QUIET_MS)
        last = bisect_right(submitted, at_ms) - 1
        if running < slots and quiet and last >= 0 and submitted[last] < at_ms - _QUIET_MS:
            yield launch
