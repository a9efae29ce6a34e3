"""First come, first served: the baseline without priorities and reservations."""

from __future__ import annotations

from collections.abc import Mapping

from spark_sched.policies.base import Capabilities, ChangesWith, Ranking, RankingPolicy
from spark_sched.predict import Forecast
from spark_sched.state import JobView, Snapshot


class FifoPolicy(RankingPolicy):
    """Jobs in the order of their arrival, all of priority 0; none holds a slot."""

    name = "fifo"
    capabilities = Capabilities(changes_with=ChangesWith.ARRIVALS, marks=frozenset())

    def ranking(self, snapshot: Snapshot, forecasts: Mapping[str, Forecast]) -> Ranking:
        return lambda job: job.arrival, lambda job: (0, None, f"arrival {job.arrival}")

    def basis(self, job: JobView, forecasts: Mapping[str, Forecast]) -> tuple[object, ...]:
        return job.marks, job.arrival
