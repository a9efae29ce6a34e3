"""The size of a job in slot time, for policies that rank by size."""

from __future__ import annotations

import math
from dataclasses import dataclass

from spark_sched.predict import EarlierRun, Forecast
from spark_sched.state import DurationSummary, JobView


@dataclass(frozen=True, slots=True)
class SizedForecast(Forecast):
    """A forecast with the job's size, as the simulator's oracle makes it.

    Attributes:
        work_slot_ms: slot-milliseconds of all its tasks, including those that have ended; None if unknown.
    """

    work_slot_ms: float | None = None


def exact_work_slot_ms(forecast: Forecast) -> float | None:
    """Slot-milliseconds of all tasks of a job, if the forecast knows them; None: a guess is the best."""
    return forecast.work_slot_ms if isinstance(forecast, SizedForecast) else None


def work_of_run_slot_ms(run: EarlierRun) -> float:
    """Slot-milliseconds that an earlier run took; stages without a task time count as nothing."""
    return sum(stage.tasks * _task_ms(stage.durations) for stage in run.stages if stage.durations.count)


def estimated_work_slot_ms(job: JobView, forecast: Forecast) -> float | None:
    """Slot-milliseconds of all tasks of a job as far as they can be estimated; None: nothing is known.

    That is the work of the latest earlier run that agrees with this one so far. Without such a run it is the
    work of the stages of this run so far, each with the mean time of its own tasks, else of the pooled ones.
    """
    if forecast.own_runs and (work := work_of_run_slot_ms(forecast.own_runs[-1])):
        return work
    pooled_ms = None
    if forecast.alpha is not None and forecast.t_m_ms is not None and forecast.alpha > 1.0:
        pooled_ms = forecast.t_m_ms * forecast.alpha / (forecast.alpha - 1.0)
    work, known = 0.0, False
    for _, stage in forecast.so_far:
        if stage.durations.count:
            work, known = work + stage.tasks * _task_ms(stage.durations), True
    for active in job.stages:
        task_ms = _task_ms(active.durations) if active.durations.count else pooled_ms
        if task_ms is not None:
            work, known = work + active.tasks * active.slots_per_task * task_ms, True
    return work if known else None


def _task_ms(durations: DurationSummary) -> float:
    """The geometric mean of some task times."""
    return math.exp(durations.sum_log_ms / durations.count)


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
