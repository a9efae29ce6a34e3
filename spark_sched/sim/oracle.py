"""A predictor that knows the workload: the bound that no real one passes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from spark_sched.events import Event
from spark_sched.policies.sizes import SizedForecast
from spark_sched.predict import UNKNOWN, Forecast
from spark_sched.sim.workload import JobSpec
from spark_sched.state import JobSummary, JobView, Summary

__all__ = ["Oracle"]


class Oracle:
    """Forecasts the true size and phases of every job that `watch` let through."""

    observes = False

    def __init__(self) -> None:
        self._forecasts: dict[str, Forecast] = {}

    def watch(self, jobs: Iterable[JobSpec]) -> Iterator[JobSpec]:
        """The same jobs; what passes is known until it ends."""
        for job in jobs:
            self._forecasts[job.key] = SizedForecast(
                phase_tasks=tuple(phase.tasks for phase in job.phases),
                source="oracle",
                work_slot_ms=float(job.work_ms()),
            )
            yield job

    def observe(self, event: Event) -> None:
        """It knows already."""

    def learn(self, summary: Summary) -> None:
        if isinstance(summary, JobSummary):
            self._forecasts.pop(summary.job, None)

    def reset(self) -> None:
        """Nothing it knows came from events."""

    def forecast(self, job: JobView) -> Forecast:
        return self._forecasts.get(job.job, UNKNOWN)
