"""The rule of one job's reservations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from spark_sched.errors import BadInputError
from spark_sched.predict.stages.pareto import MAX_SHAPE, MIN_SHAPE
from spark_sched.protocol.plan import PoolShare

DeadlineRule = Literal["calibrated", "pareto", "fixed"]


@dataclass(frozen=True, slots=True)
class CopyAge:
    """How long a task runs before it may get a copy, as ``schedcore.ledger.CopyAge``.

    Attributes:
        min_task_ms: tasks younger than this get none yet.
        min_slowdown: nor does a task that ran less than this many times its stage's geometric mean task.
    """

    min_task_ms: int = 100
    min_slowdown: float = 1.5

    def __post_init__(self) -> None:
        _within("copy_min_task_ms", self.min_task_ms, 0, 2**53)
        _within("copy_min_slowdown", self.min_slowdown, 0.0, 1000.0)


@dataclass(frozen=True, slots=True)
class Rule:
    """A job's rule, as ``schedcore.ledger.Rule``: defaults, overlaid by its marks, then by the newest plan.

    Marks and plans replace single figures of it.

    Attributes:
        priority: higher wins; a reservation refuses tasks of lower priority, and of equal priority those of
            jobs that come later.
        isolation: P in [0, 1], the probability that a stage ends before its reservations expire; 0 holds
            nothing.
        pre_reserve_threshold: R in [0, 1], the finished fraction past which slots released by others are
            taken.
        shape: alpha expected before tasks of the stage finished, in [1.01, 100].
        shape_weight: pseudo-observations behind ``shape``, >= 0.
        scale_ms: t_m known from earlier runs, used until the stage's first task ends; None where unknown.
        max_hold_ms: hard cap on the time from a stage's last launch to the end of its reservations.
        gap_ms: how long slots stay held at most after a stage ended while no next one has started.
        copies: whether held idle slots may run copies of the stage's last running tasks.
        whole_job: hold for the widest stage still expected of a marked job rather than for the next stage
            only.
        stage_tasks: tasks of each stage of the job in earlier runs, by index; empty when unknown.
        first_gap_ms: how long slots stay held after an action before the job's own pauses are known; None:
            always for gap_ms.
        pool: the pool to which the job's slots count under FAIR mode; None: only its priority counts.
        deadline: how the deadline follows from ``isolation``: ``calibrated`` on earlier stages, the paper's
            ``pareto``, or ``fixed`` at ``max_hold_ms`` whatever the isolation level is.
    """

    priority: int = 0
    isolation: float = 1.0
    pre_reserve_threshold: float = 0.5
    shape: float = 1.6
    shape_weight: float = 5.0
    scale_ms: float | None = None
    max_hold_ms: int = 600_000
    gap_ms: int = 10_000
    copies: bool = True
    copy_age: CopyAge = field(default_factory=CopyAge)
    whole_job: bool = True
    stage_tasks: tuple[int, ...] = ()
    first_gap_ms: int | None = None
    pool: PoolShare | None = None
    deadline: DeadlineRule = "calibrated"

    def __post_init__(self) -> None:
        _within("isolation", self.isolation, 0.0, 1.0)
        _within("pre_reserve_threshold", self.pre_reserve_threshold, 0.0, 1.0)
        _within("shape", self.shape, MIN_SHAPE, MAX_SHAPE)
        _within("shape_weight", self.shape_weight, 0.0, 1e6)
        if self.scale_ms is not None:
            _within("scale_ms", self.scale_ms, 5e-324, 1e15)
        _within("max_hold_ms", self.max_hold_ms, 0, 2**53)
        _within("gap_ms", self.gap_ms, 0, 2**53)
        if self.first_gap_ms is not None:
            _within("first_gap_ms", self.first_gap_ms, 0, 2**53)
        if self.deadline not in get_args(DeadlineRule):
            known = ", ".join(get_args(DeadlineRule))
            raise BadInputError(f"deadline of a rule must be one of {known}, not {self.deadline!r}")

    @property
    def calibrates(self) -> bool:
        """Whether its deadlines are calibrated: at 0 nothing is held, at 1 until ``max_hold_ms``."""
        return self.observes and self.isolation < 1.0

    @property
    def observes(self) -> bool:
        """Whether calibrated deadlines learn from the job's stages."""
        return self.deadline == "calibrated" and self.isolation > 0.0


def _within(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise BadInputError(f"{name} of a rule must be a number from {low:g} to {high:g}, not {value!r}")
