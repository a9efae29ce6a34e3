"""A predictor that knows the workload: an upper bound on the accuracy of real predictors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from spark_sched.policies.sizes import SizedForecast
from spark_sched.predict import UNKNOWN, Forecast, RuntimeDistribution
from spark_sched.protocol.events import Event
from spark_sched.state import JobSummary, JobView, Summary
from spark_sched_lab.engine.workload import JobSpec, longest_path_ms


class Oracle:
    """Forecasts the true size, stages and runtime of every job that passed through `watch`.

    The runtime is that of a job with a preferred slot for every task.
    """

    observes = False

    def __init__(self) -> None:
        self._forecasts: dict[str, Forecast] = {}

    def watch(self, jobs: Iterable[JobSpec]) -> Iterator[JobSpec]:
        """Yield the same jobs, and remember each until it ends."""
        for job in jobs:
            for known in job.and_followers():
                self._forecasts[known.key] = SizedForecast(
                    stage_tasks=tuple(stage.tasks for stage in known.stages),
                    source="oracle",
                    work_slot_ms=float(known.work_ms()),
                    runtime=RuntimeDistribution.point_s(longest_path_ms(known.stages) / 1000.0),
                )
            yield job

    def observe(self, event: Event) -> None:
        """Ignored: the oracle knows the workload."""

    def learn(self, summary: Summary) -> None:
        if isinstance(summary, JobSummary):
            self._forecasts.pop(summary.job, None)

    def reset(self) -> None:
        """Ignored: the oracle learns nothing from events."""

    def forecast(self, job: JobView) -> Forecast:
        return self._forecasts.get(job.job, UNKNOWN)
