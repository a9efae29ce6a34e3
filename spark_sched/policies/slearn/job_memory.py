"""GS's memory of a job between two plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_sched.policies.slearn.adaptive import AdaptiveRatio
from spark_sched.policies.slearn.doubts import Doubts
from spark_sched.policies.slearn.queues import AdaptedQueues
from spark_sched.protocol.plan import PilotSet


@dataclass(frozen=True, slots=True)
class JobMemory:
    """One job.

    Attributes:
        started_ms: when it arrived.
        thin: all its stages so far were too narrow for pilots.
        pilots: chosen pilots of which not all have ended; None: none chosen, or all ended.
        sampled: index of the stage whose pilots were chosen last, and slots that all its tasks take; a retry
            of it has fewer tasks.
        rounds: number of times that pilots were chosen.
        percent: the sampling ratio it was given; None: it was not sampled.
        task_ms: mean task time that its size follows from; None: not known yet.
        work_ms: its size in slot-ms; None: not known yet.
        unsizeable: neither pilots nor history give its size; it counts as one of the sampling queue.
        counted: indices of the stages in that size.
        reason: how its size was estimated, for people.
        pilots_ms: times of the pilots that its size is based on.
    """

    started_ms: int
    thin: bool = False
    pilots: PilotSet | None = None
    sampled: tuple[int, int] = (-1, 0)
    rounds: int = 0
    percent: int | None = None
    task_ms: float | None = None
    work_ms: float | None = None
    counted: frozenset[int] = frozenset()
    reason: str = ""
    pilots_ms: tuple[float, ...] = ()
    unsizeable: bool = False

    @property
    def undecided(self) -> bool:
        """Neither thin nor sampled nor sized yet."""
        return not self.sized and self.pilots is None and not self.thin

    @property
    def sized(self) -> bool:
        """Its size is known, or nothing will give it."""
        return self.work_ms is not None or self.unsizeable


@dataclass(frozen=True, slots=True)
class GsMemory:
    """All active jobs by key, the sampling ratio's record, doubts about history if it is used, and the queues
    that follow the jobs' sizes."""

    jobs: Mapping[str, JobMemory] = field(default_factory=dict)
    ratio: AdaptiveRatio = field(default_factory=AdaptiveRatio)
    doubts: Doubts | None = None
    adapted: AdaptedQueues | None = None
