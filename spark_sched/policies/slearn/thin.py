"""A thin limit that follows the load: chosen as the sampling ratio is, by what jobs took under each (§7)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from spark_sched.policies.slearn.adaptive import AdaptiveRatio
from spark_sched.state import JobView

__all__ = ["AdaptiveThinLimit", "NarrowJob"]

#: The widest job whose fate a limit of 1 to 5 can change.
_NARROW = 5


@dataclass(frozen=True, slots=True)
class NarrowJob:
    """What became so far of a job that the limit is judged by.

    Attributes:
        limit: in force when it came.
        work_ms: slot-ms that it has had.
        running: its tasks that ran when it was last looked at, at ``seen_ms``.
    """

    limit: int
    work_ms: float
    running: int
    seen_ms: int

    def at(self, now_ms: int, running: int = 0) -> NarrowJob:
        """The same now, with so many tasks running from here on."""
        work_ms = self.work_ms + self.running * (now_ms - self.seen_ms)
        return replace(self, work_ms=work_ms, running=running, seen_ms=now_ms)


@dataclass(frozen=True, slots=True)
class AdaptiveThinLimit:
    """Figure 3's algorithm with limits 1 to 5 in place of percents: 3 at first, then what did best lately.

    A job is judged by its completion time over its work. A limit of 1 has pilots in every job; the busier the
    cluster, the dearer is a large thin job that goes first, and the idler, the dearer a pilot that others
    wait for: so the best limit follows the load. Immutable: each step gives a new one.
    """

    choice: AdaptiveRatio = field(default_factory=AdaptiveRatio)

    def limit(self) -> int:
        """For the next job; jobs with fewer tasks are thin."""
        return self.choice.percent()

    def came(self, job: JobView, now_ms: int) -> tuple[AdaptiveThinLimit, NarrowJob | None]:
        """After a job came; wide ones do not count."""
        if not job.stages or max(stage.tasks for stage in job.stages) > _NARROW:
            return self, None
        narrow = NarrowJob(self.limit(), 0.0, job.running_slots, now_ms)
        return replace(self, choice=self.choice.next_job()), narrow

    def ended(self, narrow: NarrowJob, started_ms: int, now_ms: int) -> AdaptiveThinLimit:
        """After a narrow job ended."""
        work_ms = narrow.at(now_ms).work_ms
        if work_ms <= 0:
            return self
        return replace(self, choice=self.choice.ended(narrow.limit, (now_ms - started_ms) / work_ms))
