"""Sticky slots (HYBRID, thesis chapter 9): some slots serve jobs that waited long, in order of arrival."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from spark_sched.state import JobView, Snapshot

_NO_JOBS: Mapping[str, int] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Sticky:
    """The state of jobs with sticky slots; immutable.

    Attributes:
        idle_since_ms: since when a job has waiting tasks and no running task.
        granted: sticky slots that jobs may take before all others.
        tasks: running attempts on sticky slots, which are never evicted.
        again_ms: when the next job will have waited long enough; None: none waits.
    """

    idle_since_ms: Mapping[str, int] = field(default_factory=lambda: _NO_JOBS)
    granted: Mapping[str, int] = field(default_factory=lambda: _NO_JOBS)
    tasks: frozenset[int] = frozenset()
    again_ms: int | None = None


class StickySlots:
    """Grants sticky slots.

    Args:
        slots: how many there are; 0: none.
        wait_ms: time without a running task after which a job may get sticky slots.
    """

    def __init__(self, slots: int, wait_ms: int) -> None:
        self._slots = slots
        self._wait_ms = wait_ms

    def at(self, before: Sticky, snapshot: Snapshot, now_ms: int) -> Sticky:
        """The state at this time.

        1. Attempts that a job started on slots granted to it are sticky until they end.
        2. Jobs that have waited long enough and that running jobs of higher priority keep waiting are granted
           the sticky slots that are left, in the order of their arrival. They keep what they have not used of
           these while some of their tasks run already.
        """
        if not self._slots:
            return Sticky()
        tasks, used, unused = self._tasks(before, snapshot)
        # A job on hold starts no tasks, so it takes no slots from others and needs none.
        jobs = [job for job in snapshot.jobs.values() if not job.on_hold]
        top = max((job.marks.priority for job in jobs if job.running_slots), default=None)
        idle_since_ms: dict[str, int] = {}
        granted: dict[str, int] = {}
        again_ms: int | None = None
        for job in sorted(jobs, key=lambda job: job.arrival):
            if not _grant(job, self._slots):
                continue
            most = unused.get(job.job, 0)
            if not job.running_slots:
                since_ms = idle_since_ms[job.job] = before.idle_since_ms.get(job.job, now_ms)
                if now_ms - since_ms < self._wait_ms:
                    at_ms = since_ms + self._wait_ms
                    again_ms = at_ms if again_ms is None else min(again_ms, at_ms)
                    continue
                most = self._slots
            grant = _grant(job, min(most, self._slots - used))
            if grant and top is not None and job.marks.priority < top:
                granted[job.job] = grant
                used += grant
        return Sticky(MappingProxyType(idle_since_ms), MappingProxyType(granted), tasks, again_ms)

    def _tasks(self, before: Sticky, snapshot: Snapshot) -> tuple[frozenset[int], int, dict[str, int]]:
        """Running attempts on sticky slots, their slots, and what jobs have not used of theirs."""
        tasks, used, unused = [], 0, dict(before.granted)
        for job in snapshot.jobs.values():
            running = [
                (task.launched_ms, task.task, s.slots_per_task) for s in job.stages for task in s.running
            ]
            for _, task, slots in sorted(running):
                new = task not in before.tasks and unused.get(job.job, 0) >= slots
                if new:
                    unused[job.job] -= slots
                if new or task in before.tasks:
                    tasks.append(task)
                    used += slots
        return frozenset(tasks), used, unused


def _grant(job: JobView, most: int) -> int:
    """Slots for its waiting tasks, at most ``most``; 0 if they do not suffice for one task. A barrier stage
    starts whole and gets no sticky slots."""
    waiting = [(stage.slots_per_task, stage.waiting) for stage in job.stages if not stage.barrier]
    widths = [slots for slots, tasks in waiting if tasks > 0]
    if not widths or min(widths) > most:
        return 0
    return min(most, sum(slots * tasks for slots, tasks in waiting if tasks > 0))
