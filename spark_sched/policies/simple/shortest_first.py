"""Jobs with the least forecast work first; with an oracle's forecasts a lower bound."""

from __future__ import annotations

from collections.abc import Mapping

from spark_sched.policies.base import Capabilities, ChangesWith, Ranking, RankingPolicy
from spark_sched.policies.sizes import expected_work_slot_ms
from spark_sched.predict import UNKNOWN, Forecast
from spark_sched.state import JobView, Snapshot


class ShortestFirstPolicy(RankingPolicy):
    """Jobs by their total work in slot-milliseconds; jobs of unknown size come last, in order of arrival."""

    name = "shortest-first"
    capabilities = Capabilities(changes_with=ChangesWith.STAGES, marks=frozenset())

    def ranking(self, snapshot: Snapshot, forecasts: Mapping[str, Forecast]) -> Ranking:
        work = {
            key: expected_work_slot_ms(job, forecasts.get(key, UNKNOWN)) for key, job in snapshot.jobs.items()
        }

        def rank_by(job: JobView) -> tuple[bool, float, int]:
            size = work[job.job]
            return (size is None, size or 0.0, job.arrival)

        def reason(job: JobView) -> str:
            size = work[job.job]
            return "size unknown" if size is None else f"{size / 1000.0:.1f} slot-seconds of work"

        return rank_by, lambda job: (0, None, reason(job))
