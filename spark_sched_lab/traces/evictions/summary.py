"""The analysis as tables 5.1 and 5.2 and figure 5.2 of the thesis, in JSON values."""

from __future__ import annotations

from typing import Any

from spark_sched_lab.traces.evictions.analysis import ClassTotals, EvictionAnalysis


def summary(found: EvictionAnalysis) -> dict[str, Any]:
    """Tables 5.1 and 5.2 and figure 5.2; shares are fractions of 1, None if the tables have no value."""
    evicted = sum(totals.evicted_tasks for totals in found.classes.values())
    tasks = sum(totals.tasks for totals in found.classes.values())
    span_s = (found.last_us - found.first_us) / 1e6 if found.first_us is not None else 0.0
    return {
        "evictions": found.evictions,
        "tasks": tasks,
        "evicted_tasks": evicted,
        "evicted_tasks_that_finished": _share(
            sum(totals.evicted_finished for totals in found.classes.values()), evicted
        ),
        "evicted_tasks_evicted_again": _share(
            sum(totals.evicted_again for totals in found.classes.values()), evicted
        ),
        "evictions_without_cause": _share(found.evictions - found.causes.explained, found.evictions),
        "evictions_with_several_causes": _share(found.causes.several, found.evictions),
        "span_s": span_s,
        "usage_table": found.usage,
        "machine_table": found.machines,
        "demand_from": "usage" if found.usage else "request and duration",
        "causes": _causes(found),
        "classes": [
            {"priority": priority, **_class(totals, tasks, found.evictions)}
            for priority, totals in sorted(found.classes.items())
        ],
        "pairs": [
            {"evictor": evictor, "evicted": low, "evictions": count, "share": count / found.evictions}
            for (evictor, low), count in found.causes.pairs.most_common()
        ],
        "arrivals_per_hour": _hourly(found),
    }


def _causes(found: EvictionAnalysis) -> list[dict[str, Any]]:
    """Table 5.1."""
    rows: list[dict[str, Any]] = []

    def row(cause: str, tolerance_s: int, count: int | None) -> None:
        share = None if count is None else _share(count, found.evictions)
        rows.append({"cause": cause, "tolerance_s": tolerance_s, "evictions": count, "share": share})

    for tolerance_s in found.failure_tolerances_s:
        row("machine failure", tolerance_s, found.causes.failures[tolerance_s] if found.machines else None)
    row("memory excess", 0, found.causes.memory_excess if found.usage else None)
    row("disk excess", 0, found.causes.disk_excess if found.usage else None)
    for tolerance_s in found.tolerances_s:
        row("higher-priority task", tolerance_s, found.causes.preempted[tolerance_s])
    return rows


def _class(totals: ClassTotals, tasks: int, evictions: int) -> dict[str, Any]:
    """A row of table 5.2."""
    gaps = sum(totals.hourly.values()) - 1
    first_us = totals.first_us
    return {
        "tasks": totals.tasks,
        "task_share": _share(totals.tasks, tasks),
        "evictions": totals.evictions,
        "eviction_share": _share(totals.evictions, evictions),
        "evicted_tasks": totals.evicted_tasks,
        "evictions_per_evicted_task": _share(totals.evictions, totals.evicted_tasks),
        "max_evictions": totals.max_evictions,
        "interarrival_s": (totals.last_us - first_us) / 1e6 / gaps if gaps > 0 and first_us else None,
        "cpu_demand_s": _share(totals.cpu_s, totals.departed),
        "memory_demand_s": _share(totals.memory_s, totals.departed),
        "cpu_usage": _share(totals.cpus, totals.departed),
        "memory_usage": _share(totals.memory, totals.departed),
    }


def _hourly(found: EvictionAnalysis) -> dict[str, list[int]]:
    """Figure 5.2: arrivals of each priority in each hour of the trace."""
    hours = [hour for totals in found.classes.values() for hour in totals.hourly]
    if not hours:
        return {}
    first, last = min(hours), max(hours)
    return {
        str(priority): [totals.hourly[hour] for hour in range(first, last + 1)]
        for priority, totals in sorted(found.classes.items())
    }


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None
