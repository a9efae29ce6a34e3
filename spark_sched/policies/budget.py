"""How long one decision may take: a policy that runs out of time considers fewer candidates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

#: Share of ``spark.sched.planner.stallTimeout`` for one decision. An admission query makes up to eight
#: decisions between two signs of life.
SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Budget:
    """The time for one decision.

    Live it is a share of ``spark.sched.planner.stallTimeout``, so that a decision on a very large snapshot is
    worse instead of being the planner's last. In the simulator it is unlimited, so that plans do not depend
    on the machine's speed.

    Attributes:
        limit_ms: for one decision.
        clock_ms: a monotonic clock; None: the budget is unlimited.
    """

    limit_ms: float = float("inf")
    clock_ms: Callable[[], float] | None = None

    @classmethod
    def before_stall(cls, stall_ms: float, clock_ms: Callable[[], float]) -> Budget:
        """The budget of a planner that is restarted after so long without a sign of life."""
        return cls(SHARE * stall_ms, clock_ms)

    def begin(self) -> Deadline:
        """A decision begins now."""
        clock_ms = self.clock_ms
        return Deadline(None if clock_ms is None else clock_ms() + self.limit_ms, clock_ms)


@dataclass(frozen=True, slots=True)
class Deadline:
    """When a decision must come to its end. ``at_ms``: None: never."""

    at_ms: float | None = None
    clock_ms: Callable[[], float] | None = None

    @property
    def passed(self) -> bool:
        """Whether the policy must consider no further candidates."""
        return self.clock_ms is not None and self.at_ms is not None and self.clock_ms() >= self.at_ms


#: What is said of jobs that a plan leaves out for lack of time.
OUT_OF_TIME = "the time for one plan (a tenth of spark.sched.planner.stallTimeout) was over before"
