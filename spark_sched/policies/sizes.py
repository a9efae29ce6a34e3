"""The size of a job in slot time, for policies that rank by size."""

from __future__ import annotations

from dataclasses import dataclass

from spark_sched.predict import Forecast
from spark_sched.state import JobView


@dataclass(frozen=True, slots=True)
class SizedForecast(Forecast):
    """A forecast with the job's size, as the simulator's oracle makes it.

    Attributes:
        work_slot_ms: slot-milliseconds of all its tasks, including those that have ended; None if unknown.
    """

    work_slot_ms: float | None = None


def expected_work_slot_ms(job: JobView, forecast: Forecast) -> float | None:
    """Slot-milliseconds of all tasks of a job; None where nothing is known of them.

    The forecast's own number if it has one, else tasks times mean task time. The mean task time is the Pareto
    mean alpha t_m / (alpha - 1), or the geometric mean of the task times of its active stages.
    """
    if isinstance(forecast, SizedForecast) and forecast.work_slot_ms is not None:
        return forecast.work_slot_ms
    tasks = sum(forecast.stage_tasks) or sum(stage.tasks for stage in job.stages)
    if not tasks or forecast.alpha is None or forecast.t_m_ms is None or forecast.alpha <= 1.0:
        return None
    return tasks * forecast.t_m_ms * forecast.alpha / (forecast.alpha - 1.0)
