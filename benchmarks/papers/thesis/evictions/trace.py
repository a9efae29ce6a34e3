"""Chapter 5: causes of evictions in the trace, and its classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from benchmarks.papers.figures import Chart, Figure, FigureSpec, Value
from benchmarks.papers.runs import Results, RunSpec, Scale, run_of
from benchmarks.papers.thesis.evictions import priority_runs

#: Table 5.1, % of evictions; machine failures are the same at every tolerance.
_TABLE_5_1 = {
    ("higher-priority task", 1): 93.69,
    ("higher-priority task", 5): 93.76,
    ("higher-priority task", 10): 93.94,
    ("higher-priority task", 20): 94.59,
    ("higher-priority task", 30): 95.36,
    ("memory excess", 0): 1.74,
    ("disk excess", 0): 0.0002,
}
#: Columns of table 5.2: name, unit, and the key of ours, which has shares where the table has percentages.
_COLUMNS_5_2 = (
    ("tasks", "%", "task_share"), ("evictions", "%", "eviction_share"),
    ("interarrival", "s", "interarrival_s"),
    ("cpu_demand", "cpu·s", "cpu_demand_s"), ("memory_demand", "ram·s", "memory_demand_s"),
    ("cpu_usage", "", "cpu_usage"), ("memory_usage", "", "memory_usage"),
)  # fmt: skip
#: Its rows by priority; None where it has a bound or nothing.
_TABLE_5_2 = {
    0: (23.29, 92.73, 0.059153, 15.408, 9.1068, 0.0066832, 0.0035707),
    1: (12.78, 6.26, 0.43635, 40.758, 33.47, 0.012176, 0.0049097),
    2: (0.39, 0.36, 14.586, 382.12, 204.4, 0.018668, 0.0061447),
    3: (None, 0.0, 17876.0, 0.24663, 0.025122, 0.0034657, 0.00036929),
    4: (59.94, 0.41, 0.16401, 49.768, 27.721, 0.019338, 0.0064713),
    5: (None, 0.0, 30601.0, 0.15221, 0.023401, 0.0034661, 0.00041077),
    6: (1.28, None, 7.5633, 12.628, 4.6929, 0.020213, 0.00298),
    7: (None, 0.0, 2243.9, None, None, None, None),
    8: (1.10, 0.04, 9.0927, 25.975, 39.625, 0.0037737, 0.003922),
    9: (1.19, 0.19, 2.9024, 269.47, 230.65, 0.0071297, 0.0042992),
    10: (0.01, None, 86.006, 66.186, 85.448, 0.0092705, 0.0042258),
    11: (0.01, 0.0, 1144.3, 1506.8, 1413.6, 0.010355, 0.014984),
}
_NOTES = (
    "The thesis looks at 7 days from 9 May 2011; here are the first 25 h, less three parts. Memory and disk "
    "excess need task_usage; without it usage is the request, and demand request × duration."
)
_MISSING = f"The trace is missing: name the folder of Google's 2011 tables in {priority_runs.SOURCE}."


def _runs(scale: Scale) -> list[RunSpec]:
    folder = priority_runs.source_folder()
    return [] if folder is None else [run_of(priority_runs.trace_evictions, 60.0, folder=folder)]


def _spec(identity: str, title: str, fill: Callable[[Mapping[str, Any]], Figure]) -> FigureSpec:
    def build(scale: Scale, results: Results) -> Figure:
        needed = _runs(scale)
        return fill(results[needed[0]]) if needed else Figure([], [], _MISSING)

    return FigureSpec(identity, title, _runs, build)


def _causes(found: Mapping[str, Any]) -> Figure:
    values = []
    for row in found["causes"]:
        paper = _TABLE_5_1.get((row["cause"], row["tolerance_s"]))
        paper = 0.67 if row["cause"] == "machine failure" else paper
        name = f"{row['cause']} {row['tolerance_s']} s".replace(" ", "_").replace("-", "_")
        values.append(Value(name, "%", paper, _percent(row["share"])))
    rows = [
        {**row, "evictions": "no usage table" if row["evictions"] is None else row["evictions"]}
        for row in found["causes"]
    ]
    return Figure(rows, values, _NOTES)


def _classes(found: Mapping[str, Any]) -> Figure:
    values = []
    for row in found["classes"]:
        paper = _TABLE_5_2.get(row["priority"], (None,) * 7)
        for (name, unit, key), theirs in zip(_COLUMNS_5_2, paper, strict=True):
            mine = _percent(row[key]) if unit == "%" else row[key]
            rounded = None if mine is None else round(mine, 6)
            values.append(Value(f"{name}_of_priority_{row['priority']}", unit, theirs, rounded))
    for name, theirs in (("evicted_tasks_that_finished", 38.09), ("evicted_tasks_evicted_again", 43.0)):
        values.append(Value(name, "%", theirs, _percent(found[name])))
    pair = sum(p["share"] for p in found["pairs"] if (p["evictor"], p["evicted"]) == (4, 0))
    values.append(Value("evictions_of_0_by_4", "%", 70.0, _percent(pair)))
    return Figure(found["classes"], values, _NOTES)


def _arrivals(found: Mapping[str, Any]) -> Figure:
    series = {
        f"priority {p}": [(float(h), float(n)) for h, n in enumerate(counts)]
        for p, counts in found["arrivals_per_hour"].items()
    }
    rows = [
        {"priority": p, "max_per_hour": max(c), "mean_per_hour": round(sum(c) / len(c), 1)}
        for p, c in found["arrivals_per_hour"].items()
    ]
    values = [
        Value("max_per_hour_of_priority_0", "tasks", 1.1e6, float(max(found["arrivals_per_hour"]["0"])))
    ]
    return Figure(rows, values, _NOTES, [Chart("Task arrivals", "hour", "tasks", series)])


def _percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 3)


FIGURES = (
    _spec("table5.1", "Causes of eviction", _causes),
    _spec("table5.2", "Tasks, evictions and demand by priority", _classes),
    _spec("fig5.2", "Task arrivals by priority", _arrivals),
)
