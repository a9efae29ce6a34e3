"""The slot time that jobs have used (attained service), computed from the snapshots that a policy saw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_sched.state import JobView, Snapshot


@dataclass(frozen=True, slots=True)
class Service:
    """Slot-ms that each job has attained at ``now_ms``, and the slots that it ran on then.

    A job is assumed to keep its slots between two snapshots. A job first seen while it runs is credited with
    its running tasks' ages.
    """

    now_ms: int = 0
    attained_ms: Mapping[str, float] = field(default_factory=dict)
    slots: Mapping[str, int] = field(default_factory=dict)

    def at(self, job: JobView, now_ms: int) -> float:
        """What the job has attained at ``now_ms``."""
        if job.job not in self.attained_ms:
            return float(running_ms(job, now_ms))
        attained_ms, slots = self.attained_ms[job.job], self.slots[job.job]
        # Of a job without slots the same object, so that its plan is known to be the same.
        return attained_ms + slots * max(0, now_ms - self.now_ms) if slots else attained_ms

    @classmethod
    def of(cls, snapshot: Snapshot, now_ms: int, attained_ms: Mapping[str, float]) -> Service:
        """The state for the next decision."""
        return cls(now_ms, attained_ms, {key: job.running_slots for key, job in snapshot.jobs.items()})


def running_ms(job: JobView, now_ms: int) -> int:
    """Slot-milliseconds of the job's running attempts so far."""
    return sum(
        stage.slots_per_task * max(0, now_ms - task.launched_ms)
        for stage in job.stages
        for task in stage.running
    )
