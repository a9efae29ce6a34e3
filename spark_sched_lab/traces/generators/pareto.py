"""Stages whose task durations are Pareto (slot-reservation paper §IV-B and §VI-B)."""

from __future__ import annotations

import numpy as np

from spark_sched.arrays import Floats
from spark_sched.errors import BadInputError
from spark_sched_lab.traces.generators.arrivals import check_positive, poisson
from spark_sched_lab.traces.jobs import JobRecord, StageRecord, TaskRows, chunked
from spark_sched_lab.traces.tables import Trace, TraceMeta


def pareto_durations_s(rng: np.random.Generator, mean_s: Floats, alpha: float) -> Floats:
    """One Pareto(``alpha``) duration for each mean: scale t_m = mean · (α-1)/α, P(T > t) = (t_m/t)^α.

    Raises:
        BadInputError: ``alpha`` is not above 1 (the mean would be infinite).
    """
    if not (np.isfinite(alpha) and alpha > 1):
        raise BadInputError(
            f"alpha is {alpha}: a Pareto distribution has a mean only above 1, the papers use 1.1 to 3"
        )
    scale_s = mean_s * (alpha - 1) / alpha
    return np.asarray(scale_s * (1.0 + rng.pareto(alpha, len(mean_s))), dtype=np.float64)


def pareto_jobs(
    rng: np.random.Generator,
    *,
    jobs: int = 100,
    stages: int = 4,
    tasks: int = 20,
    mean_task_s: float = 10.0,
    alpha: float = 1.6,
    mean_gap_s: float = 60.0,
    priority: int = 0,
) -> Trace:
    """``jobs`` chains of ``stages`` stages with ``tasks`` i.i.d. Pareto tasks each; Poisson arrivals.

    Raises:
        BadInputError: a count below 1, a time that is not above 0, ``alpha`` not above 1, a priority of
            more than 32 bits.
    """
    for name, value in (("jobs", jobs), ("stages", stages), ("tasks", tasks)):
        if value < 1:
            raise BadInputError(f"{name} is {value}: give at least 1")
    if not -(2**31) <= priority < 2**31:
        raise BadInputError(f"priority is {priority}: give a whole number of 32 bits")
    check_positive("mean_task_s", mean_task_s)
    submit_s = poisson(rng, jobs, mean_gap_s)
    durations = pareto_durations_s(rng, np.full(jobs * stages * tasks, mean_task_s), alpha)
    shaped = durations.reshape(jobs, stages, tasks)
    records = []
    for number in range(jobs):
        chain = []
        for index in range(stages):
            rows = TaskRows()
            for task, duration_s in enumerate(shaped[number, index].tolist()):
                rows.add(task, duration_s)
            chain.append(StageRecord(tasks=tasks, parents=(index - 1,) if index else (), rows=rows))
        records.append(
            JobRecord(
                f"pareto-{number}",
                "finished",
                "malleable",
                chain,
                name="pareto",
                priority=priority,
                submit_s=float(submit_s[number]),
                slots=tasks,
            )
        )
    parameters = {
        "jobs": jobs,
        "stages": stages,
        "tasks": tasks,
        "mean_task_s": mean_task_s,
        "alpha": alpha,
        "mean_gap_s": mean_gap_s,
        "priority": priority,
    }
    return Trace.from_chunks(
        chunked(records), TraceMeta("pareto", "Pareto stages", notes=("generated",), parameters=parameters)
    )
