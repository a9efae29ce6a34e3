"""Options of 3Sigma's planner: the ablations and the compared schedulers differ in these."""

from __future__ import annotations

from dataclasses import dataclass, field

from spark_sched.policies.options import OptionValues
from spark_sched.policies.three_sigma.jobs import Worth
from spark_sched.policies.three_sigma.window import Grid, window_of


@dataclass(frozen=True)
class ThreeSigmaOptions:
    """How to plan.

    Attributes:
        point: plan with the point estimate as if it were certain (3SigmaNoDist, PointPerfEst, PointRealEst).
        preempt: best-effort jobs may be preempted (§4.3.5), at the utility that they would lose; those that
            the driver would not evict keep their slots until their expected end.
        cycle_ms: the scheduler's cycle; also the unit of under-estimates (§4.2.1).
        again_ms: plan again after this even if nothing happens while jobs wait.
        gap: a plan within this share of the bound is good enough.
        limit_s: wall time for solvers with a limit of their own: a share of the cycle (§4.3.6).
    """

    worth: Worth = field(default_factory=Worth)
    point: bool = False
    preempt: bool = True
    cycle_ms: int = 2_000
    grid: Grid = field(default_factory=lambda: window_of(OptionValues()))  # one object: it is cached
    again_ms: int = 10_000
    gap: float = 0.001
    limit_s: float = 1.0
