"""Jobs of the simulated testbed: recorded MLlib jobs, and the background of the paper's section II-B.

``data/mllib.json`` has the stages and task times of real runs of MLlib's KMeans and SVM and of PageRank
(``benchmarks/record_mllib.py``). The simulator multiplies all task times by one factor, because the recorded
jobs are small: the tasks of a job then take 2 s on average, as those that stand for the paper's MLlib traces
in figures 15 to 17. Widths, the order of the stages and the spread of task times are as recorded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from spark_sched_lab.runs.workloads.background import draw_tasks_ms, trace_fit
from spark_sched_lab.simulator import JobSpec, StageSpec

APPLICATIONS = ("kmeans", "svm", "pagerank")
PRIORITY = 10
MEAN_TASK_MS = 2_000.0
#: The time that Spark's driver takes from the end of a Spark job to the tasks of the next one.
DRIVER_MS = 50
_JOBS, _WINDOW_MS, _TIME_SCALE = 100, 3_600_000, 10.0


@cache
def _document() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("data/mllib.json").read_text()
    found: dict[str, Any] = json.loads(text)["jobs"]
    return found


def recorded_runs(application: str, width: int) -> list[list[dict[str, Any]]]:
    """The recorded runs of an application with ``width`` partitions, each a list of stages."""
    runs: list[list[dict[str, Any]]] = _document()[application][str(width)]
    return runs


def job_of(
    stages: Sequence[Mapping[str, Any]], key: str, mean_ms: float, *, foreground: bool = True
) -> JobSpec:
    """A job of recorded stages whose tasks take ``mean_ms`` on average.

    A foreground job of several Spark jobs is marked, as live: the scheduler knows each Spark job's stages,
    but not which Spark job is the last. The DAG of a single Spark job is known completely.

    A wide stage behind an aggregation reads the cached input, not the aggregate: the wide stage before it
    is its parent, too, so that its input is on the nodes that ran that one.
    """
    times_us = [us for stage in stages for us in stage["tasks_us"]]
    factor = mean_ms * len(times_us) / sum(times_us)
    widest = max(len(stage["tasks_us"]) for stage in stages)
    specs: list[StageSpec] = []
    for number, stage in enumerate(stages):
        follows = number > 0 and stage["job"] != stages[number - 1]["job"]
        durations_ms = [max(1, round(us * factor)) for us in stage["tasks_us"]]
        parents = set(stage["parents"])
        wide = [n for n, spec in enumerate(specs) if spec.tasks == widest]
        if follows and len(durations_ms) == widest and wide:
            parents.add(wide[-1])
        delay_ms = DRIVER_MS if follows else 0
        specs.append(StageSpec(durations_ms, tuple(sorted(parents)), delay_ms=delay_ms, part=stage["job"]))
    job = JobSpec(key, 0, tuple(specs), job_class=key)
    if not foreground:
        return job
    marked = stages[-1]["job"] != stages[0]["job"]
    return replace(job, priority=PRIORITY, marked=marked, dag_known="next stage" if marked else "to the end")


def recorded_job(
    application: str, width: int, run: int, *, foreground: bool = True, pace: float = 1.0
) -> JobSpec:
    """Recorded run ``run`` (counted round) of an application; ``pace`` multiplies its task times."""
    runs = recorded_runs(application, width)
    return job_of(runs[run % len(runs)], application, MEAN_TASK_MS * pace, foreground=foreground)


def background(rng: np.random.Generator, *, stretch: float) -> list[JobSpec]:
    """100 jobs of one stage from the fit to Google's 2011 trace, task times divided by 10.

    As section II-B: jobs of a one-hour window. Arrivals are divided by 10, too, else the jobs would fill
    a fifth of the slots. Half of the jobs wait at 1 ms, when the first stage of a job submitted at 0 runs;
    the others come in the window. ``stretch`` multiplies the task times and leaves the arrivals as they are.
    """
    fit = trace_fit()
    window_ms = _WINDOW_MS / _TIME_SCALE
    at_ms = np.sort(rng.uniform(1.0, window_ms, _JOBS - _JOBS // 2))
    arrivals_ms = [1] * (_JOBS // 2) + [round(ms) for ms in at_ms.tolist()]
    found = []
    for number, arrival_ms in enumerate(arrivals_ms):
        tasks_ms = draw_tasks_ms(
            fit, rng, time_scale=_TIME_SCALE, max_task_s=window_ms / 1_000.0, max_tasks=1_050
        )
        stretched = [max(1, round(ms * stretch)) for ms in tasks_ms]
        found.append(JobSpec(f"bg-{number}", arrival_ms, (StageSpec(stretched),), job_class="background"))
    return found
