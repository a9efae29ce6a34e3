"""When jobs are expected to end, for people: what a plan carries beside its rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from spark_sched.policies import EndForecast, JobPlan, Plan
from spark_sched.predict import UNKNOWN, Forecast
from spark_sched.state import JobView, Snapshot

__all__ = ["Outlook"]

#: Ends are computed no oftener, and for no more jobs: it takes 50 µs per job.
_EVERY_MS = 1_000.0
_MOST_JOBS = 200
_QUANTILES = (0.1, 0.5, 0.9)


class Outlook:
    """Ends of jobs from the forecasts of their runtimes.

    A runtime counts from the job's first task on, which the snapshot does not tell of a job between two
    stages, so that the first sight of each job with a task is remembered here.

    Args:
        clock_ms: a monotonic clock in milliseconds.
    """

    def __init__(self, clock_ms: Callable[[], float]) -> None:
        self._clock_ms = clock_ms
        self._begun_ms: dict[str, int] = {}
        self._made_at_ms = -float("inf")
        self._last: Mapping[str, EndForecast] = {}

    def clear(self) -> None:
        """Active jobs will be told anew."""
        self._begun_ms.clear()
        self._made_at_ms = -float("inf")

    def see(self, snapshot: Snapshot) -> None:
        """Remember who has begun."""
        gone = self._begun_ms.keys() - snapshot.jobs.keys()
        for key in gone:
            del self._begun_ms[key]
        for key, view in snapshot.jobs.items():
            if key not in self._begun_ms and view.running_slots > 0:
                launched = [task.launched_ms for stage in view.stages for task in stage.running]
                self._begun_ms[key] = min(launched, default=view.started_ms)

    def ends(
        self, snapshot: Snapshot, known: Mapping[str, Forecast], plan: Plan, now_ms: int
    ) -> Mapping[str, EndForecast]:
        """Expected ends by job, of those first in rank; ``now_ms`` is the driver's clock."""
        if self._clock_ms() - self._made_at_ms >= _EVERY_MS:
            self._made_at_ms = self._clock_ms()
            found = {}
            for entry in plan.jobs[:_MOST_JOBS]:
                view, forecast = snapshot.jobs.get(entry.job), known.get(entry.job, UNKNOWN)
                end = None if view is None else self._end(view, forecast, entry, now_ms)
                if end is not None:
                    found[entry.job] = end
            self._last = found
        return self._last

    def _end(self, view: JobView, forecast: Forecast, entry: JobPlan, now_ms: int) -> EndForecast | None:
        runtime = forecast.runtime
        begun_ms = self._begun_ms.get(view.job)
        if runtime is None or (begun_ms is None and entry.deferred and entry.start_ms is None):
            return None  # nobody knows when it starts
        if begun_ms is None:
            begun_ms = max(now_ms, entry.start_ms or now_ms)
        else:
            runtime = runtime.conditional((now_ms - begun_ms) / 1000.0)
        low, middle, high = (begun_ms + round(1000.0 * float(t)) for t in runtime.quantile(_QUANTILES))
        probability = None
        if view.deadline_ms is not None:
            probability = float(runtime.cdf((view.deadline_ms - begun_ms) / 1000.0))
        return EndForecast(low, middle, high, probability)
