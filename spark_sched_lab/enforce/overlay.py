"""The rule of a job: the configuration's, overlaid by the job's marks and then by the newest plan.

The twin of ``schedcore.plan.Overlay``: the same operations and results. ``protocol/golden/rules`` and
``tests/contract/test_overlay_golden.py`` compare the two: change both together.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple, cast

from spark_sched.config import Settings, keys
from spark_sched.protocol.plan import PoolShare, ReservationRule
from spark_sched_lab.enforce.idle import IdleLimits
from spark_sched_lab.enforce.rule import CopyAge, DeadlineRule, Rule


class Planned(NamedTuple):
    """What a plan says of a job's rule.

    Attributes:
        priority: in force under the plan.
        reservation: how the job holds slots; None: it holds none.
        pool: where the application itself has no pools.
    """

    priority: int
    reservation: ReservationRule | None
    pool: PoolShare | None = None


class Overlay:
    """Makes the rules of jobs from settings, marks and plans.

    Attributes:
        idle: what held slots may cost while no stage of their job is active.
    """

    __slots__ = ("_defaults", "_enabled", "_made", "_min_priority", "idle")

    def __init__(self, settings: Settings) -> None:
        self._enabled = settings[keys.RESERVATION_ENABLED]
        self._min_priority = settings[keys.RESERVATION_MIN_PRIORITY]
        self._defaults = Rule(
            isolation=settings[keys.RESERVATION_ISOLATION],
            pre_reserve_threshold=settings[keys.RESERVATION_PRE_RESERVE_THRESHOLD],
            shape=settings[keys.RESERVATION_ALPHA],
            shape_weight=settings[keys.RESERVATION_ALPHA_WEIGHT],
            max_hold_ms=settings[keys.RESERVATION_MAX_HOLD],
            gap_ms=settings[keys.RESERVATION_GAP],
            copies=settings[keys.COPIES_ENABLED],
            copy_age=CopyAge(settings[keys.COPIES_MIN_TASK_TIME], settings[keys.COPIES_MIN_SLOWDOWN]),
            whole_job=settings[keys.RESERVATION_LOOKAHEAD] == "job",
            first_gap_ms=settings[keys.RESERVATION_FIRST_GAP],
            deadline=cast(DeadlineRule, settings[keys.RESERVATION_DEADLINE]),
        )
        self.idle = IdleLimits(
            settings[keys.RESERVATION_IDLE_SHARE],
            settings[keys.LIMITS_IDLE_SHARE],
            settings[keys.LIMITS_IDLE_BURST],
            settings[keys.LIMITS_IDLE_WAITING_COST],
        )
        # Jobs with equal marks share one rule.
        self._made: dict[tuple[int, float, bool, PoolShare | None], Rule] = {}

    def own(
        self, priority: int, isolation: float | None, copies: bool, pool: PoolShare | None = None
    ) -> Rule:
        """The rule of a job without a plan.

        Args:
            priority: by its mark; below ``spark.sched.reservation.minPriority`` a job holds no slots unless
                it sets an isolation level.
            isolation: by its mark; None: it sets none.
            copies: whether its tasks may run again for the scheduler's own ends.
            pool: of the application, where that has pools.
        """
        if isolation is None:
            isolation = self._defaults.isolation if priority >= self._min_priority else 0.0
        key = (priority, isolation, self._defaults.copies and copies, pool)
        rule = self._made.get(key)
        if rule is None:
            rule = self._made[key] = replace(
                self._defaults, priority=priority, isolation=isolation, copies=key[2], pool=pool
            )
        return rule

    def in_force(
        self, own: Rule, planned: Planned | None, *, changed: bool = False, may_hold: bool = True
    ) -> Rule:
        """The rule that holds for a job now.

        Args:
            own: the job's `own` rule.
            planned: what the plan in force says of it; None: nothing.
            changed: an operator changed the job's marks after that plan was made.
            may_hold: whether neither an operator nor the end of the job forbids it to hold slots.
        """
        rule = own if planned is None else _over(own, *planned)
        if changed:
            rule = replace(rule, priority=own.priority, isolation=own.isolation)
        if rule.isolation > 0.0 and not (self._enabled and may_hold):
            rule = replace(rule, isolation=0.0)
        return rule


def _over(own: Rule, priority: int, reservation: ReservationRule | None, pool: PoolShare | None) -> Rule:
    pool = pool if own.pool is None else own.pool
    if reservation is None:
        if own.isolation == 0.0 and own.priority == priority and own.pool == pool:
            return own  # Most rules of most plans: a copy of each would take longer than the rest.
        return replace(own, priority=priority, isolation=0.0, stage_tasks=(), pool=pool)
    return replace(
        own,
        priority=priority,
        isolation=reservation.isolation,
        shape=own.shape if reservation.alpha is None else reservation.alpha,
        scale_ms=own.scale_ms if reservation.t_m_ms is None else reservation.t_m_ms,
        pre_reserve_threshold=reservation.prereserve_threshold,
        copies=own.copies and reservation.copies,
        first_gap_ms=own.first_gap_ms if reservation.gap_ms is None else reservation.gap_ms,
        stage_tasks=reservation.stage_tasks,
        pool=pool,
    )
