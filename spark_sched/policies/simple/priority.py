"""Priorities without reservations: no isolation ("Speculative Slot Reservation", section II)."""

from __future__ import annotations

from collections.abc import Mapping

from spark_sched.policies.base import Capabilities, ChangesWith, Ranking, RankingPolicy
from spark_sched.predict import Forecast
from spark_sched.state import JobView, Snapshot


class PriorityPolicy(RankingPolicy):
    """Jobs by priority, then by arrival or FAIR order, as under ``reservation``, but no job holds a slot."""

    name = "priority"
    capabilities = Capabilities(changes_with=ChangesWith.ARRIVALS, marks=frozenset({"priority"}))
    ordered = False

    def ranking(self, snapshot: Snapshot, forecasts: Mapping[str, Forecast]) -> Ranking:
        return (
            lambda job: (-job.marks.priority, job.arrival),
            lambda job: (job.marks.priority, None, f"priority {job.marks.priority}"),
        )

    def basis(self, job: JobView, forecasts: Mapping[str, Forecast]) -> tuple[object, ...]:
        return (job.marks,)
