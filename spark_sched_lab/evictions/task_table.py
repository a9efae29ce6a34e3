"""Tasks with priority, arrival, CPU demand and memory: the input of the thesis' system (§6.2.1)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_sched.errors import BadInputError
from spark_sched_lab.traces import Trace

Floats = np.ndarray


@dataclass(frozen=True)
class TaskTable:
    """Columns of equal length, in the order of arrival.

    Attributes:
        arrival_s: seconds from the beginning.
        priority: higher ones go first.
        demand: CPU demand in cpu·s (largest server = 1).
        memory: average memory (largest server = 1).
    """

    arrival_s: Floats
    priority: Floats
    demand: Floats
    memory: Floats

    def __post_init__(self) -> None:
        if not len(self.arrival_s):
            raise BadInputError("the workload has no task: give one that has")
        if np.any(np.diff(self.arrival_s) < 0):
            raise BadInputError("the tasks are not in the order of arrival: sort them")
        if not np.all(self.demand > 0):
            raise BadInputError("a task has no CPU demand: leave out tasks without duration")

    def __len__(self) -> int:
        return len(self.arrival_s)

    def rows(self, rows: Floats) -> TaskTable:
        return TaskTable(self.arrival_s[rows], self.priority[rows], self.demand[rows], self.memory[rows])


def table_of_trace(trace: Trace) -> TaskTable:
    """The finished tasks of any trace with priorities: CPU demand = CPU request × duration (1 where no
    request is known). A task arrives with its job; parents and children are not modelled.

    Raises:
        BadInputError: no task has a duration.
    """
    jobs, stages, tasks = trace.jobs, trace.stages, trace.tasks
    job_ids = jobs.column("job").to_numpy()
    submit_s = jobs.column("submit_s").to_numpy(zero_copy_only=False).astype(float)
    priority = np.nan_to_num(jobs.column("priority").to_numpy(zero_copy_only=False).astype(float)).astype(int)
    stage_job = np.searchsorted(job_ids, stages.column("job").to_numpy())
    cpus = _or(stages.column("cpus").to_numpy(zero_copy_only=False).astype(float), 1.0)
    memory = _or(stages.column("memory").to_numpy(zero_copy_only=False).astype(float), 0.0)
    if len(tasks):
        outcome = np.asarray(tasks.column("outcome").to_pylist(), dtype=object)
        duration_s = tasks.column("duration_s").to_numpy(zero_copy_only=False).astype(float)
        first = np.searchsorted(stages.column("job").to_numpy(), tasks.column("job").to_numpy())
        stage = first + tasks.column("stage").to_numpy()
        keep = (outcome == "finished") & (duration_s > 0)
        stage, duration_s = stage[keep], duration_s[keep]
    else:
        count = stages.column("tasks").to_numpy()
        stage = np.repeat(np.arange(len(stages)), count)
        duration_s = stages.column("mean_task_s").to_numpy(zero_copy_only=False).astype(float)[stage]
    job = stage_job[stage]
    keep = np.isfinite(duration_s) & (duration_s > 0) & np.isfinite(submit_s[job])
    stage, job, duration_s = stage[keep], job[keep], duration_s[keep]
    if not len(job):
        raise BadInputError(f"{trace.meta.source or 'the trace'} has no task with a duration: give another")
    order = np.argsort(submit_s[job], kind="stable")
    arrival_s = submit_s[job][order]
    demand = np.maximum(1e-3, (cpus[stage] * duration_s)[order])
    return TaskTable(arrival_s - arrival_s[0], priority[job][order], demand, memory[stage][order])


def _or(values: Floats, default: float) -> Floats:
    return np.where(np.isfinite(values), values, default)
