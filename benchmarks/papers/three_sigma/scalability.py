"""Figure 12: how long prediction, cycle and solver take on 12,583 nodes."""

from __future__ import annotations

from typing import Any

from benchmarks.papers.figures import Chart, Figure, Lines, Value, figure
from benchmarks.papers.runs import Results, RunSpec, Scale, run_of
from benchmarks.papers.three_sigma import e2e

_NODES = 12_583
_POLICIES = ("point-real-est", "3sigma")
_LOAD = 0.95
#: Jobs per hour.
_RATES = (2000, 3000, 4000)


def run(*, policy: str, seed: int, hours: float, rate: int) -> dict[str, Any]:
    """An end-to-end run of about ``rate`` jobs per hour; at a lower rate jobs have more slots each, so that
    the load is the same."""
    drawn = len(e2e.workload(seed, hours, _LOAD)) / e2e.NODES
    wider = max(1, round(drawn * _NODES / (rate * hours)))
    return e2e.run(policy=policy, seed=seed, hours=hours, load=_LOAD, nodes=_NODES, wider=wider)


def _run(scale: Scale, policy: str, rate: int) -> RunSpec:
    hours = 0.25 if scale.quick else 5.0
    return run_of(run, hours * rate / 500, policy=policy, seed=scale.seeds[0], hours=hours, rate=rate)


def _runs(scale: Scale) -> list[RunSpec]:
    return [_run(scale, policy, rate) for rate in _RATES for policy in _POLICIES]


@figure("fig12", "Time of prediction, cycle and solver", _runs)
def figure_12(scale: Scale, results: Results) -> Figure:
    rows: list[dict[str, Any]] = []
    values: list[Value] = []
    series: Lines = {}
    for policy in _POLICIES:
        for rate in _RATES:
            found = results[_run(scale, policy, rate)]
            lookup = found["lookup_ms"] or {}
            cycle, solve = found["cycle_cpu_ms"], found.get("solve_cpu_ms", {})
            rows.append(
                {
                    "jobs per hour": rate,
                    "policy": policy,
                    "jobs": found["jobs"],
                    "most waiting": found.get("pending", {}).get("max"),
                    "cycle p50, ms": cycle["p50"],
                    "p99": cycle["p99"],
                    "worst": cycle["max"],
                    "solver p50, ms": solve.get("p50"),
                    "solver p99": solve.get("p99"),
                    "prediction p99, ms": lookup.get("p99"),
                    "prediction worst": lookup.get("max"),
                }
            )
            tag = f"{policy.replace('-', '_')}_{rate}"
            values += [
                Value(f"cycle_p99_{tag}", "ms", None, cycle["p99"]),
                Value(f"solver_p99_{tag}", "ms", None, solve.get("p99")),
                Value(f"prediction_worst_{tag}", "ms", 14.0, lookup.get("max")),
            ]
            series.setdefault(policy, []).append((rate, cycle["p99"]))
    notes = (
        f"{_NODES:,} nodes, load 0.95; the drawn jobs are widened until this rate of jobs gives this load. "
        "Processor time of one thread; it depends on the machine and on other work there. The "
        "paper's text gives the longest prediction, 14 ms; its plots of cycle and solver have no numbers. "
        "Prediction is submission and lookup of a job together. One seed."
    )
    chart = Chart("Cycle, 99th percentile", "jobs per hour", "ms", series)
    return Figure(rows, values, notes, [chart])
