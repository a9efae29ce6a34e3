"""Slots and slot time of jobs, and sums of them by class, by user and by tenants' queue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class JobSlots:
    """A job's slots now.

    Attributes:
        running: slots with attempts on them, including copies.
        held: slots held idle for the job.
        pilot: of the running ones, those of pilots whose stage waits for them.
        copied: of the running ones, those of copies.
        waiting: slots for which its tasks wait.
        deferred: of the waiting ones, those that the plan does not let it take yet.
    """

    running: int
    held: int
    pilot: int
    copied: int
    waiting: int
    deferred: int


@dataclass(frozen=True, slots=True)
class SlotTimes:
    """Slot time of a job so far in slot-milliseconds: run by originals that were not evicted, held idle, run
    by evicted attempts, run by copies; what would have been held idle, had not the application been in shadow
    mode; and what equation 4 of "Speculative Slot Reservation" expects of ``held_idle`` at most, 0 where the
    isolation level does not bound it."""

    run: int
    held_idle: int
    evicted: int
    copied: int
    would_have_held_idle: int = 0
    held_idle_at_most: int = 0


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """Sums over the jobs of one class, of one user or of one tenants' queue and those below it.

    Attributes:
        name: its; ``none`` for jobs without one, ``other`` for all classes or users after the first 32.
        jobs, waiting_jobs, jobs_at_risk: jobs that have not ended; those of them that have work and no slots;
            those that are past their deadline or more likely to miss than to meet it.
        jobs_ended, deadlines_met, deadlines_missed: since the application's start. Only jobs that succeeded
            meet deadlines; one that an operator cancelled before its deadline has not missed it either.
        jct_ms: sum of the completion times of the ended jobs.
        slots: of the jobs that have not ended.
        slot_ms: of all jobs, ended or not.
    """

    name: str
    jobs: int
    waiting_jobs: int
    jobs_at_risk: int
    jobs_ended: int
    deadlines_met: int
    deadlines_missed: int
    jct_ms: int
    slots: JobSlots
    slot_ms: SlotTimes


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """What the jobs of a tenants' queue, and of the queues below it, have now.

    Attributes:
        ceiling_slots, floor_slots: those that it may have at most now, and is promised; None: it has none.
        peak_slots: the most that ran tasks and were held at a time.
        refused_jobs: how often one was cancelled because too many waited, or it waited too long.
        slot_ms: slot time of its attempts that ended.
        weight, sums: None: no queue has a floor or a weight; the driver is older.
        day_slot_ms, day_most_slot_ms, day_frees_ms: slot time of the last 24 hours, its limit, and when it
            admits jobs again at the earliest; None: it has no limit, or admits jobs now.
    """

    queue: str
    ceiling_slots: int | None
    running_slots: int
    held_slots: int
    peak_slots: int
    running_jobs: int
    waiting_jobs: int
    refused_jobs: int
    floor_slots: int | None = None
    slot_ms: int = 0
    weight: float | None = None
    sums: GroupStatus | None = None
    day_slot_ms: int | None = None
    day_most_slot_ms: int | None = None
    day_frees_ms: int | None = None


def read_fields(kind: type[T], given: Mapping[str, Any], **read: Any) -> T:
    """Of a dataclass whose fields have the document's names; ``read`` are those that need reading. A field
    with a default may be absent."""
    names = [
        each.name
        for each in fields(kind)  # type: ignore[arg-type]
        if each.default is MISSING or each.name in given or each.name in read
    ]
    return kind(**{name: read[name] if name in read else given[name] for name in names})


def read_group(given: Mapping[str, Any], kind: str) -> GroupStatus:
    return read_fields(
        GroupStatus,
        given,
        name=given[kind],
        slots=read_fields(JobSlots, given["slots"]),
        slot_ms=read_fields(SlotTimes, given["slot_ms"]),
    )


def read_queue(given: Mapping[str, Any]) -> QueueStatus:
    sums = read_group({**given["sums"], "queue": given["queue"]}, "queue") if "sums" in given else None
    return read_fields(QueueStatus, given, sums=sums)
