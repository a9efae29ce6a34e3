"""Background jobs drawn from the Google 2011 trace's distributions.

As in the paper (section II-B): jobs of a one-hour window, durations divided by ten. A demo lasts a minute,
not an hour, so a batch is cut from that workload in three ways, each a parameter and each in the reports:

* a job whose tasks would take longer than ``max_task_s`` (scaled) is drawn again: it would outlast the run;
* a job wider than the cluster has slots counts as many tasks as there are slots: one wave of it;
* jobs are drawn until they hold ``work_slot_s`` of work; the first of them, ``backlog_slot_s`` of work, are
  there at the start, since the paper's cluster is never empty, and the others arrive at the trace's gaps,
  compressed to fit the time in which the batch can be worked off.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

TIME_SCALE = 10.0
MIN_TASK_S = 0.2


@dataclass(frozen=True)
class BackgroundJob:
    """One background job: when it arrives (seconds after the batch starts) and how long its tasks sleep."""

    number: int
    arrival_s: float
    task_durations_ms: tuple[int, ...]

    @property
    def work_slot_s(self) -> float:
        return sum(self.task_durations_ms) / 1000


@dataclass(frozen=True)
class BatchSize:
    """The limits on a batch of background jobs; see the module's text.

    ``slots`` of the cluster; ``work_s`` seconds of work for all of them; ``max_task_s`` longest task.
    """

    slots: int
    work_s: float
    max_task_s: float
    backlog_s: float = 15.0


def trace_fit() -> dict[str, Any]:
    """The fitted distributions that ship with the package (made by ``benchmarks/fit_google2011.py``)."""
    text = resources.files("spark_sched_lab.runs.workloads").joinpath("data/google2011.json").read_text()
    document: dict[str, Any] = json.loads(text)
    return document


def shortest_tasks_s(fit: dict[str, Any]) -> float:
    """The mean task of the trace's shortest job, in scaled seconds: `draw_tasks_ms` needs more."""
    return float(min(c["job_mean_duration_s"][0] for c in fit["classes"])) / TIME_SCALE


def draw_batch(fit: dict[str, Any], size: BatchSize, rng: np.random.Generator) -> list[BackgroundJob]:
    """A batch of background jobs; the same generator state gives the same batch.

    Returns jobs in order of arrival, numbered from 0, with at least ``slots × work_s`` slot-seconds of work.
    """
    target_slot_s = size.slots * size.work_s
    backlog_slot_s = min(size.slots * size.backlog_s, target_slot_s)
    tasks: list[tuple[int, ...]] = []
    gaps: list[float] = []
    work_slot_s, queued = 0.0, 0
    while work_slot_s < target_slot_s:
        durations_ms = draw_tasks_ms(fit, rng, max_task_s=size.max_task_s, max_tasks=size.slots)
        tasks.append(durations_ms)
        if work_slot_s < backlog_slot_s:
            queued += 1
        else:
            gaps.append(_quantile(fit["arrival_gap_over_mean"], rng))
        work_slot_s += sum(durations_ms) / 1000
    # Later jobs arrive over the first half of the time the whole batch needs: the queue never runs dry.
    span = sum(gaps)
    scale_s = (size.work_s / 2) / span if span > 0 else 0.0
    arrivals_s = [0.0] * queued + [float(a) * scale_s for a in np.cumsum(gaps)]
    return [
        BackgroundJob(number, round(arrival_s, 3), durations_ms)
        for number, (arrival_s, durations_ms) in enumerate(zip(arrivals_s, tasks, strict=True))
    ]


def draw_tasks_ms(
    fit: dict[str, Any],
    rng: np.random.Generator,
    *,
    time_scale: float = TIME_SCALE,
    max_task_s: float = float("inf"),
    max_tasks: int | None = None,
) -> tuple[int, ...]:
    """Task durations in ms of one job of the trace, divided by ``time_scale``.

    A job whose mean task would take longer than ``max_task_s`` (scaled) is drawn again and its single tasks
    are cut there; a job wider than ``max_tasks`` counts as ``max_tasks`` tasks. Raises ValueError if no job
    of the trace is that short.
    """
    possible = [c for c in fit["classes"] if c["job_mean_duration_s"][0] / time_scale < max_task_s]
    if not possible:
        raise ValueError(f"no job of the trace has tasks as short as {max_task_s} s")
    row = None
    while row is None:
        count = int(fit["task_count"][rng.integers(len(fit["task_count"]))])
        row = next((c for c in possible if c["min_tasks"] <= count <= c["max_tasks"]), None)
    while True:
        mean_s = _quantile(row["job_mean_duration_s"], rng) / time_scale
        if mean_s <= max_task_s:
            break
    cov = _quantile(row["within_job_cov"], rng)
    # Log-normal inside a job: positive, and its two parameters follow from mean and spread.
    sigma = float(np.sqrt(np.log1p(cov**2)))
    factors = rng.lognormal(
        -(sigma**2) / 2, sigma, size=count if max_tasks is None else min(count, max_tasks)
    )
    durations_s = np.clip(mean_s * factors, MIN_TASK_S, max_task_s)
    return tuple(round(1000 * d) for d in durations_s)


def _quantile(quantiles: list[float], rng: np.random.Generator) -> float:
    """A draw from the distribution given by its evenly spaced quantiles."""
    return float(np.interp(rng.random(), np.linspace(0, 1, len(quantiles)), quantiles))
