"""Spark's FAIR order as a plan: pools with weights and minimum shares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from spark_sched.config import values
from spark_sched.policies.base import Capabilities, ChangesWith, PolicySettings, Ranking, RankingPolicy
from spark_sched.policies.options import Option, Options
from spark_sched.predict import Forecast
from spark_sched.state import JobView, Snapshot

__all__ = ["FairPolicy"]


POOL_BY = Option(
    "poolBy",
    values.choice("job", "user", "class"),
    "job",
    "What names a job's pool: the job, its user or its class.",
)
WEIGHTS = Option("weights", values.by_name(1e-9), "", "Weights of pools, `ann=2,bob=1`; others have 1.")
MIN_SHARES = Option(
    "minShares",
    values.by_name(0),
    "",
    "Slots that pools get before others get more, `ann=8`; others have none.",
)


class FairPolicy(RankingPolicy):
    """Pools below their minimum share first, then pools by running tasks over weight; FIFO within a pool.

    The order of Spark's ``FairSchedulingAlgorithm``. A plan's ranks hold until the next plan, so that shares
    are exact only where plans are made at every launch (``ChangesWith.LAUNCHES``); between two plans the
    first job takes all slots that come free.

    Args:
        settings: of the application.
    """

    name = "fair"
    capabilities = Capabilities(changes_with=ChangesWith.LAUNCHES)
    options = Options((POOL_BY, WEIGHTS, MIN_SHARES))

    def __init__(self, settings: PolicySettings) -> None:
        super().__init__(settings)
        self._pool_by = settings.options[POOL_BY]
        self._weights = settings.options[WEIGHTS]
        self._min_shares = settings.options[MIN_SHARES]

    def ranking(self, snapshot: Snapshot, forecasts: Mapping[str, Forecast]) -> Ranking:
        running: Counter[str] = Counter()
        for job in snapshot.jobs.values():
            running[self._pool(job)] += job.running_slots

        def rank_by(job: JobView) -> tuple[bool, float, str, int]:
            name = self._pool(job)
            least = self._min_shares.get(name, 0.0)
            needy = running[name] < least
            ratio = running[name] / (max(least, 1) if needy else self._weights.get(name, 1.0))
            # Spark breaks ties by name; among jobs as pools their arrival is the fairer name.
            return (not needy, ratio, "" if self._pool_by == "job" else name, job.arrival)

        return rank_by, lambda job: (
            0,
            None,
            f"pool {self._pool(job)!r} runs {running[self._pool(job)]} tasks",
        )

    def _pool(self, job: JobView) -> str:
        if self._pool_by == "job":
            return job.job
        return (job.user if self._pool_by == "user" else job.job_class) or "default"
