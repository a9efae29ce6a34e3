"""One run of priority scheduling, or one pass over the trace, as JSON values."""

from __future__ import annotations

import os
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from spark_sched.errors import BadInputError
from spark_sched.policies.eviction import named_rule
from spark_sched_lab.evictions import TaskTable, simulate_priorities, thesis_servers
from spark_sched_lab.evictions.google import ArrivedTasks, arrived_tasks
from spark_sched_lab.evictions.workloads import workload
from spark_sched_lab.traces.evictions import EvictionAnalysis, EvictionTables, summary

#: Environment variable with the folder of Google's 2011 tables.
SOURCE = "SPARK_SCHED_GOOGLE2011"
#: Samples kept of a run.
_SAMPLES = 90


def source_folder() -> str | None:
    """The real trace's folder; None: the environment names none. BadInputError: it has no ``task_events``."""
    folder = os.environ.get(SOURCE, "")
    if folder and not (Path(folder) / "task_events").is_dir():
        raise BadInputError(
            f"{SOURCE} is {folder!r}, which has no folder task_events: set it to the folder of Google's "
            "tables, or unset it"
        )
    return folder or None


@cache
def _source(folder: str | None) -> ArrivedTasks | None:
    return None if folder is None else arrived_tasks(Path(folder))


@cache
def _tasks(name: str, seed: int, low: bool, hours: float, folder: str | None) -> TaskTable:
    return workload(name, seed, source=_source(folder), low=low, hours=hours)


def trace_evictions(folder: str) -> dict[str, Any]:
    """Tables 5.1 and 5.2 and figure 5.2 of the trace in ``folder``."""
    tables = EvictionTables(Path(folder))
    found = EvictionAnalysis(usage=tables.has("task_usage"), machines=tables.has("machine_events"))
    found.feed(tables.rows())
    found.finish()
    return summary(found)


def characteristics(name: str, seed: int, hours: float, folder: str | None) -> dict[str, Any]:
    """Table 9.2's row of a workload, and its arrivals by ten minutes (figure 9.5)."""
    tasks = _tasks(name, seed, False, hours, folder)
    minutes = np.bincount((tasks.arrival_s // 60).astype(int))
    tens = np.bincount((tasks.arrival_s // 600).astype(int))
    return {
        "tasks": len(tasks),
        "max_in_1_min": int(minutes.max()),
        "max_in_10_min": int(tens.max()),
        "max_gap_s": float(np.diff(tasks.arrival_s).max()),
        "demand": float(tasks.demand.sum()),
        "in_10_min": tens.tolist(),
    }


def priorities(
    name: str,
    seed: int,
    rule: str,
    configuration: str,
    memory: bool,
    resume: bool,
    memory_eviction: str,
    low: bool,
    hours: float,
    folder: str | None,
) -> dict[str, Any]:
    """The metrics of a run (`PriorityResult.summary`), with distributions and samples."""
    tasks = _tasks(name, seed, low, hours, folder)
    result = simulate_priorities(
        tasks,
        thesis_servers(configuration, memory=memory),
        named_rule(rule, resume=resume),
        memory_eviction=memory_eviction,
        seed=seed,
    )
    evictions = result.priority_evictions
    lowest = (tasks.priority == tasks.priority.min()) & np.isfinite(result.end_s)
    both = [state for state in result.states if state[0] and state[1]]
    every = max(1, len(result.samples) // _SAMPLES)
    total = sum(kind.count * kind.slots for kind in thesis_servers(configuration))
    used = np.array([sample[1:] for sample in result.samples], dtype=float)
    return {
        **result.summary(),
        **dict(
            zip(
                ("slots_used", "queue_mean", "servers_on", "cpu_used", "memory_used"),
                [round(float(x), 3) for x in used.mean(axis=0) if len(used)],
                strict=False,
            )
        ),
        "evictions_of_tasks": {
            str(k): n for k, n in sorted(Counter(evictions[evictions > 0].tolist()).items())
        },
        "response_by_evictions": {
            str(count): float(result.response_s[lowest & (evictions == count)].mean())
            for count in sorted(set(evictions[lowest].tolist()))
        },
        "victim_evicted_before": float(np.mean([s[2] for s in both])) if both else None,
        "running_evicted_before": float(np.mean([s[0] / (s[0] + s[1]) for s in both])) if both else None,
        "samples": [
            [at_s, used / total, queue, on, cpu, memory]
            for at_s, used, queue, on, cpu, memory in result.samples[::every]
        ],
    }
