"""Workload W-A: sampled from Google's trace, or generated from what the thesis prints about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from spark_sched.errors import BadInputError
from spark_sched_lab.evictions.censoring import completed_durations
from spark_sched_lab.evictions.task_table import TaskTable
from spark_sched_lab.traces.evictions.tables import EVICT, LOST, SCHEDULE, SUBMIT, EvictionTables
from spark_sched_lab.traces.generators.arrivals import bursty
from spark_sched_lab.traces.lines import Progress

#: The class whose tasks come as class 4 later on (`ArrivedTasks.by_demand`).
_NOT_YET_4 = 2
_HOURS = 15.0
_TASKS = 60_000


class ClassStatistics(NamedTuple):
    """A row of table 5.2: share of tasks in %, mean CPU demand in cpu·s, mean CPU and memory usage."""

    percent: float
    cpu_demand: float
    cpu_usage: float
    memory_usage: float


#: Table 5.2 without the classes whose share or demand it does not give (3, 5, 7).
TABLE_5_2: Mapping[int, ClassStatistics] = {
    0: ClassStatistics(23.29, 15.408, 0.0066832, 0.0035707),
    1: ClassStatistics(12.78, 40.758, 0.012176, 0.0049097),
    2: ClassStatistics(0.39, 382.12, 0.018668, 0.0061447),
    4: ClassStatistics(59.94, 49.768, 0.019338, 0.0064713),
    6: ClassStatistics(1.28, 12.628, 0.020213, 0.00298),
    8: ClassStatistics(1.10, 25.975, 0.0037737, 0.003922),
    9: ClassStatistics(1.19, 269.47, 0.0071297, 0.0042992),
    10: ClassStatistics(0.01, 66.186, 0.0092705, 0.0042258),
    11: ClassStatistics(0.01, 1506.8, 0.010355, 0.014984),
}
#: Short bursts on Poisson arrivals. 60,000 tasks in 15 h are given; the other values are chosen so that a
#: window of 1 min (10 min) has up to about as many arrivals as W-A has in table 9.2: 1,708 (3,802).
_ARRIVALS = {"mean_gap_s": 1.5, "burst_gap_s": 0.035, "between_bursts_s": 3_176.0, "mean_burst_s": 49.0}


def short_bursts(rng: np.random.Generator, hours: float = _HOURS) -> np.ndarray:
    """Arrivals in s with the burstiness of W-A in table 9.2."""
    return bursty(rng, hours * 3600.0, **_ARRIVALS)


def tasks_of_table_5_2(rng: np.random.Generator, arrival_s: np.ndarray) -> TaskTable:
    """Tasks with these arrivals and the shares and means of table 5.2.

    As in the thesis' synthetic workloads, usage and execution length are exponential: a demand is the product
    of two exponentials with the mean of the table.
    """
    count = len(arrival_s)
    percent = np.array([row.percent for row in TABLE_5_2.values()])
    priority = rng.choice(list(TABLE_5_2), size=count, p=percent / percent.sum())
    demand, memory = np.empty(count), np.empty(count)
    for level, row in TABLE_5_2.items():
        mine = priority == level
        size = int(mine.sum())
        demand[mine] = row.cpu_demand * rng.exponential(1.0, size) * rng.exponential(1.0, size)
        memory[mine] = _memory(rng, row, size)
    return TaskTable(arrival_s, priority, np.maximum(1e-3, demand), memory)


def _memory(rng: np.random.Generator, row: ClassStatistics, count: int) -> np.ndarray:
    drawn: np.ndarray = np.minimum(1.0, row.memory_usage * rng.exponential(1.0, count))
    return drawn


@dataclass(frozen=True)
class ArrivedTasks:
    """Tasks that arrived and ran in the tables, in the order of arrival: arrival in s, duration of the last
    attempt in s and whether it ended then, priority, CPU and memory request (largest machine = 1).

    An attempt that was evicted, or still ran at the end of the tables, would have run longer. Leaving out
    such tasks would leave out the long ones: services of priority 9 run for days, the tables for hours.
    """

    arrival_s: np.ndarray
    duration_s: np.ndarray
    ended: np.ndarray
    priority: np.ndarray
    cpus: np.ndarray
    memory: np.ndarray

    def by_request(self, rng: np.random.Generator) -> TaskTable:
        """CPU demand = CPU request × duration, memory = memory request. Durations that the tables cut off are
        drawn (`completed_durations`)."""
        return self._table(rng, self.cpus, self.memory)

    def by_usage(self, rng: np.random.Generator) -> TaskTable:
        """As `by_request`, with the requests of each class scaled such that their mean over its tasks is the
        mean usage of table 5.2. Users request more than they use, and there is no usage table."""
        cpus, memory = self.cpus.copy(), self.memory.copy()
        for priority in np.unique(self.priority):
            mine = self.priority == priority
            if int(priority) in TABLE_5_2:
                row = TABLE_5_2[int(priority)]
                cpus[mine] *= row.cpu_usage / max(1e-9, float(cpus[mine].mean()))
                memory[mine] *= row.memory_usage / max(1e-9, float(memory[mine].mean()))
        return self._table(rng, cpus, memory)

    def by_demand(self, rng: np.random.Generator) -> TaskTable:
        """CPU demands of each class are scaled to the mean of table 5.2, memory is drawn as by
        `tasks_of_table_5_2`, and class 2 counts as class 4.

        In the first 16 hours of the tables no task of class 4 arrives, and most are of class 2. Then class 2
        ends and class 4 begins, mostly with tasks of the same users. Together they have about the share that
        class 4 has in table 5.2.
        """
        priority = np.where(self.priority == _NOT_YET_4, 4, self.priority)
        table = replace(self, priority=priority).by_request(rng)
        demand, memory = table.demand.copy(), table.memory.copy()
        for each in np.unique(priority):
            mine = priority == each
            if int(each) in TABLE_5_2:
                row = TABLE_5_2[int(each)]
                demand[mine] *= row.cpu_demand / float(demand[mine].mean())
                memory[mine] = _memory(rng, row, int(mine.sum()))
        return replace(table, demand=np.maximum(1e-3, demand), memory=memory)

    def _table(self, rng: np.random.Generator, cpus: np.ndarray, memory: np.ndarray) -> TaskTable:
        duration_s = completed_durations(rng, self.duration_s, self.ended, self.priority)
        demand = np.maximum(1e-3, cpus * duration_s)
        return TaskTable(self.arrival_s - self.arrival_s[0], self.priority, demand, memory)


@dataclass(slots=True)
class _Arrived:
    """A task that arrived: its running attempt's start, or -1, and what is known of its last one."""

    arrival_s: float
    start_s: float = -1.0
    duration_s: float = 0.0
    ended: bool = False
    priority: int = 0
    cpus: float = 0.0
    memory: float | None = None

    def stopped(self, at_s: float, ended: bool) -> None:
        if self.start_s >= 0.0:
            self.duration_s, self.ended, self.start_s = at_s - self.start_s, ended, -1.0


def arrived_tasks(path: Path, progress: Progress | None = None) -> ArrivedTasks:
    """The tasks that arrive in a folder with ``task_events`` (Google 2011), up to the first part that is
    missing: beyond it the window is not contiguous. As in the thesis (§5.2.3), tasks that were there before
    the tables begin are left out: how long they had run is unknown.

    Raises:
        BadInputError: there are no such tables, or no task came and ran to an end.
    """
    tables = EvictionTables(path, progress)
    tables.keep_contiguous()
    tasks: dict[tuple[int, int], _Arrived | None] = {}  # None: before the tables
    at_s = 0.0
    for row in tables.rows():
        if row.kind > LOST:
            continue
        key, at_s = (row.job, row.task), row.time_us / 1e6
        if key not in tasks:
            tasks[key] = _Arrived(at_s) if row.kind == SUBMIT and row.time_us else None
        task = tasks[key]
        if task is None or row.kind == SUBMIT:
            continue
        if row.kind == SCHEDULE:
            task.start_s, task.priority = at_s, row.priority
            task.cpus, task.memory = row.cpus or 0.0, row.memory
        else:
            task.stopped(at_s, row.kind != EVICT)
    found = []
    for task in tasks.values():
        if task is None:
            continue
        task.stopped(at_s, ended=False)
        if task.duration_s > 0.0 and task.cpus and task.memory is not None:
            found.append((task.arrival_s, task.duration_s, task.ended, task.priority, task.cpus, task.memory))
    if not any(task[2] for task in found):
        raise BadInputError(f"{path} has no task that arrived and finished: give more parts")
    found.sort()
    return ArrivedTasks(*(np.array(column) for column in zip(*found, strict=True)))


def sampled_window(
    source: TaskTable, rng: np.random.Generator, *, hours: float = _HOURS, tasks: int = _TASKS
) -> TaskTable:
    """About ``tasks`` tasks drawn one by one from a window of ``hours`` that begins anywhere in ``source``;
    they keep their arrival, priority, demand and memory.

    Raises:
        BadInputError: ``source`` is shorter than the window.
    """
    length_s = hours * 3600.0
    spare_s = float(source.arrival_s[-1]) - length_s
    if spare_s < 0:
        raise BadInputError(f"the trace is shorter than {hours:g} h: give a longer one or a smaller window")
    begin_s = rng.uniform(0.0, spare_s)
    rows = np.flatnonzero((source.arrival_s >= begin_s) & (source.arrival_s < begin_s + length_s))
    rows = rows[rng.random(len(rows)) < min(1.0, tasks / max(1, len(rows)))]
    found = source.rows(rows)
    return replace(found, arrival_s=found.arrival_s - begin_s)
