"""Speculative slot reservation: which jobs hold slots, at which isolation level, with which forecasts.

The plan carries the rule per job; Algorithm 1 itself runs where tasks complete (the driver's ledger, the
simulator's ledger).
"""

from __future__ import annotations

from collections.abc import Mapping

from spark_sched.policies.base import Capabilities, ChangesWith, Ranking, RankingPolicy
from spark_sched.policies.key_order import OrderedJob
from spark_sched.predict import UNKNOWN, Forecast
from spark_sched.protocol.plan import ReservationRule
from spark_sched.state import JobView, Snapshot


class ReservationPolicy(RankingPolicy):
    """Jobs by priority, then in the order of their arrival, or in FAIR mode in Spark's order of pools.

    A job's isolation level P is its own mark, else the configured one if its priority is at least
    ``spark.sched.reservation.minPriority``, else 0; at 0 it holds nothing. The rule carries the forecast of
    its stages from earlier runs of its name (n of Algorithm 1, alpha and t_m of equation 2).
    """

    name = "reservation"
    capabilities = Capabilities(
        changes_with=ChangesWith.STAGES,
        changes_unforecast=ChangesWith.ARRIVALS,
        marks=frozenset({"priority", "isolation"}),
    )
    ordered = False

    def ranking(self, snapshot: Snapshot, forecasts: Mapping[str, Forecast]) -> Ranking:
        def decide_job(job: JobView) -> tuple[int, ReservationRule | None, str]:
            rule, reason = self.rule(job, forecasts.get(job.job, UNKNOWN))
            return job.marks.priority, rule, f"priority {job.marks.priority}: {reason}"

        return lambda job: (-job.marks.priority, job.arrival), decide_job

    def basis(self, job: JobView, forecasts: Mapping[str, Forecast]) -> tuple[object, ...]:
        return job.marks, forecasts.get(job.job, UNKNOWN)

    def rule(
        self, job: OrderedJob, forecast: Forecast, tuned: float | None = None
    ) -> tuple[ReservationRule | None, str]:
        """How the job holds slots, None where it holds nothing, and why.

        ``tuned`` is the isolation level to use instead of the configured one.
        """
        settings = self._settings
        if not settings.reservation_enabled:
            return None, "reservations are disabled"
        if job.marks.isolation is not None:
            isolation, whose = job.marks.isolation, "its own isolation"
        elif job.marks.priority >= settings.min_priority:
            isolation, whose = settings.isolation, "the configured isolation"
            if tuned is not None:
                isolation, whose = tuned, "the tuned isolation"
        else:
            return None, (
                "holds no slots between stages: its priority is below "
                f"spark.sched.reservation.minPriority, {settings.min_priority}, and no isolation is marked"
            )
        if isolation <= 0.0:
            return None, f"holds no slots between stages: {whose} is 0"
        rule = ReservationRule(
            isolation=isolation,
            alpha=forecast.alpha,
            t_m_ms=forecast.t_m_ms,
            prereserve_threshold=settings.prereserve_threshold,
            stage_tasks=forecast.stage_tasks,
            copies=settings.copies_enabled and job.marks.copies,
            gap_ms=_gap_hold_ms(forecast.gap_ms, settings.first_gap_ms),
        )
        return rule, f"{whose} {isolation:g}; {_knowledge(forecast)}"


def _gap_hold_ms(gap_ms: int | None, first_gap_ms: int) -> int | None:
    """How long to hold slots before this run's own pauses are known; 0 if earlier runs had none.

    A run's first pause is often its longest, because the driver runs code for the first time, so the typical
    pause of earlier runs is too short for it. Therefore the time is never below that of a job without a
    history. A hold that is too long costs little; one that is too short loses the slots.
    """
    return max(first_gap_ms, 2 * gap_ms) if gap_ms else gap_ms


def _knowledge(forecast: Forecast) -> str:
    if not forecast.stage_tasks and not forecast.samples:
        return "nothing is known about its stages"
    stages = f"{len(forecast.stage_tasks)} stages as in {forecast.runs} earlier runs"
    times = f"task times from {forecast.samples} tasks"
    return f"{stages if forecast.stage_tasks else 'stages unknown'}, {times}"
