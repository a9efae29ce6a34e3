"""Workloads W-A to W-E of the thesis as task tables (§9.3.4), and their low-load versions."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from spark_sched.errors import BadInputError, did_you_mean
from spark_sched_lab.evictions.google import (
    ArrivedTasks,
    sampled_window,
    short_bursts,
    tasks_of_table_5_2,
)
from spark_sched_lab.evictions.task_table import TaskTable, table_of_trace
from spark_sched_lab.traces.generators import thesis_workload
from spark_sched_lab.traces.generators.thesis import WORKLOADS as ARRIVALS

#: W-A: sampled from the real trace, with CPU and memory by request, or scaled to table 5.2's usage, or CPU
#: scaled to its demand; or generated.
WORKLOADS = ("W-A-request", "W-A-usage", "W-A-demand", "W-A-generated", "W-B", "W-C", "W-D", "W-E")
_SAMPLED = {
    "W-A-request": ArrivedTasks.by_request,
    "W-A-usage": ArrivedTasks.by_usage,
    "W-A-demand": ArrivedTasks.by_demand,
}
_TASKS = 60_000
#: Of all CPU demands. Beyond it a run of 15 h would last years of virtual time.
HIGHEST_FACTOR = 1000
#: "Approximately 25 % lower load" (§9.3.4).
_LOW = 0.75
#: Table 9.3 has no class above 9.
_HIGHEST = 9


def workload(
    name: str,
    seed: int,
    *,
    source: ArrivedTasks | None = None,
    low: bool = False,
    hours: float = 15.0,
) -> TaskTable:
    """About 60,000 tasks in 15 h, fewer in proportion if ``low`` or shorter. Draws are repeated until the
    number is within 3 % (short horizons: 10 %), since few bursts decide on it.

    Args:
        name: one of `WORKLOADS`, with a factor of all CPU demands if wanted, as in ``W-A-generated@1.2``.
        source: the real trace's tasks; without it W-B and W-C sample those of table 5.2, and W-A sampled from
            the trace is refused.

    Raises:
        BadInputError: the name is unknown, the factor not a number above 0, or the source missing.
    """
    name, at, factor = name.partition("@")
    if at:
        table = workload(name, seed, source=source, low=low, hours=hours)
        return replace(table, demand=table.demand * _factor(factor))
    if name not in WORKLOADS:
        raise BadInputError(
            f"workload {name!r} is unknown{did_you_mean(name, WORKLOADS)}: use one of {', '.join(WORKLOADS)}"
        )
    rng = np.random.default_rng(seed)
    tasks = _TASKS * hours / 15.0
    if name in _SAMPLED:
        if source is None:
            raise BadInputError(f"{name} is sampled from Google's trace: name its folder")
        table = _SAMPLED[name](source, rng)
        sampled = sampled_window(table, rng, hours=hours, tasks=round(tasks * (_LOW if low else 1.0)))
        return _without_highest(sampled)
    within = 0.03 if hours >= 15.0 else 0.1
    wanted = tasks * (_LOW if low else 1.0)
    for _ in range(10_000):
        state = rng.bit_generator.state
        arrival_s = _arrivals(name, rng, low, hours)
        if abs(len(arrival_s) - wanted) <= within * wanted:
            break
    if name in ("W-D", "W-E"):
        rng.bit_generator.state = state  # it draws the same arrivals
        return _without_highest(table_of_trace(thesis_workload(rng, workload=name, low=low, hours=hours)))
    if name == "W-A-generated":
        return _without_highest(tasks_of_table_5_2(rng, arrival_s))
    table = source.by_usage(rng) if source is not None else tasks_of_table_5_2(rng, arrival_s)
    rows = rng.integers(0, len(table), len(arrival_s))
    sampled = TaskTable(arrival_s, table.priority[rows], table.demand[rows], table.memory[rows])
    return _without_highest(sampled)


def _factor(text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if not 0.0 < factor <= HIGHEST_FACTOR:
        raise BadInputError(
            f"the demand's factor is {text!r} but must be a number above 0, at most {HIGHEST_FACTOR}, "
            "as in W-B@1.2"
        )
    return factor


def _arrivals(name: str, rng: np.random.Generator, low: bool, hours: float) -> np.ndarray:
    if name in ARRIVALS:
        return ARRIVALS[name].arrivals_s(rng, hours, low)
    arrival_s = short_bursts(rng, hours)
    return arrival_s[rng.random(len(arrival_s)) < _LOW] if low else arrival_s


def _without_highest(table: TaskTable) -> TaskTable:
    return table.rows(np.flatnonzero(table.priority <= _HIGHEST))
