"""Executors that a log does not list, or not for as long as their attempts ran."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from spark_sched_lab.usage.records import ChargedAttempt, Presence, Usage


def most_at_once(spans: Iterable[tuple[int, int, int]]) -> int:
    """The most slots in use at once, of attempts given as start, end and slots; at least 1."""
    changes = sorted(
        change
        for start, end, slots in spans
        if end > start
        for change in ((start, 1, slots), (end, 0, -slots))
    )
    running = most = 0
    for _, _, slots in changes:
        running += slots
        most = max(most, running)
    return max(1, most)


def cover_attempts(usage: Usage, last_ms: int) -> None:
    """Make the executors of ``usage`` cover its attempts, and count the executors that were not listed.

    An executor is there while its attempts run, whatever the log says. One that is not listed, or without its
    slots, has as many slots as it ran attempts at once, until ``last_ms`` if its end is not known either.
    """
    ran: dict[str, list[ChargedAttempt]] = defaultdict(list)
    for attempt in usage.attempts:
        ran[attempt.executor].append(attempt)
    found = []
    for there in usage.executors:
        attempts = ran.pop(there.executor, [])
        if there.slots == 0 and attempts:
            usage.unlisted += 1
            there = replace(there, slots=_slots(attempts))
        if attempts:
            there = replace(
                there,
                start_ms=min(there.start_ms, *(a.start_ms for a in attempts)),
                end_ms=max(there.end_ms, *(a.end_ms for a in attempts)),
            )
        found.append(there)
    for executor, attempts in sorted(ran.items()):
        usage.unlisted += 1
        start_ms, end_ms = min(a.start_ms for a in attempts), max(a.end_ms for a in attempts)
        found.append(Presence(executor, _slots(attempts), start_ms, max(end_ms, last_ms)))
    usage.executors = found


def _slots(attempts: list[ChargedAttempt]) -> int:
    return most_at_once((a.start_ms, a.end_ms, a.slots) for a in attempts)
