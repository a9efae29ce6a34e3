"""A thin limit that follows the load: chosen as the sampling ratio is, by what jobs took under each (§7)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from spark_sched.policies.slearn.adaptive import AdaptiveRatio
from spark_sched.state import JobView

__all__ = ["AdaptiveThinLimit"]

#: The widest job whose fate a limit of 1 to 5 can change.
_NARROW = 5


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

    def came(self, job: JobView) -> tuple[AdaptiveThinLimit, int | None]:
        """After a job came, and the limit in force for it; None: it is wide and does not count."""
        if not job.stages or max(stage.tasks for stage in job.stages) > _NARROW:
            return self, None
        return replace(self, choice=self.choice.next_job()), self.limit()

    def ended(self, limit: int, normalised_jct: float) -> AdaptiveThinLimit:
        """After a narrow job that came under ``limit`` ended: its completion time over its work."""
        return replace(self, choice=self.choice.ended(limit, normalised_jct))
