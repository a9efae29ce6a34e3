"""Cycle time and proven plan quality of 3Sigma's planner, beside HiGHS and CBC.

Each instance is a snapshot of a cluster with P waiting and R = min(400, 2 P) running jobs: runtimes of 30
samples each around a lognormal median, Pareto slots per job, half of the jobs with a deadline and three of
four partitions preferred, half best-effort. The cluster's size is such that the waiting jobs' work is 1.4
times what running jobs leave of the window of 24 slots. Every cycle is cold: a new policy object, which has
seen neither jobs nor prices. Runtime distributions are ready, as a predictor would have them. Each is made
`--repeats` times, and its least times count: other work on the machine can only add to them. The percentiles
are those over cycles.

A cycle is `ThreeSigmaPolicy.decide`: jobs, options, model, solve, plan (with verification). HiGHS and CBC
solve the very problems of some of these cycles, from arrays to answer, with a limit of ten seconds.

    python benchmarks/planner.py [--pending 50,200,500,1000] [--cycles 40] [--repeats 3] [--solvers highs,cbc]
"""

from __future__ import annotations

import time
from typing import Any

import click
import numpy as np
from _common import publish, stderr
from rich.progress import track

from spark_sched.config import validate
from spark_sched.policies import PolicySettings
from spark_sched.policies.three_sigma.policy import ThreeSigmaPolicy
from spark_sched.policies.three_sigma.problem import Problem
from spark_sched.policies.three_sigma.settings import ThreeSigmaOptions
from spark_sched.policies.three_sigma.solvers import Ask, Lagrangian, Solution, create_solver
from spark_sched.policies.three_sigma.window import uniform
from spark_sched.predict import Forecast, RuntimeDistribution
from spark_sched.state import (
    DurationSummary,
    ExecutorView,
    JobMarks,
    JobView,
    Preferred,
    RunningTask,
    Snapshot,
    StageView,
)

PARTITIONS, STEPS_AHEAD, STEP_MS, CONTENTION = 4, 24, 60_000, 1.4
NOW_MS = 1_700_000_000_000
STEPS = ("jobs", "options", "model", "solve", "plan")
SETTINGS = PolicySettings.from_config(validate({}))


def snapshot(pending: int, seed: int) -> tuple[Snapshot, dict[str, Forecast]]:
    """A cluster under contention and the forecasts of its jobs."""
    rng = np.random.default_rng(seed)
    window_s = STEPS_AHEAD * STEP_MS / 1000
    running = min(400, 2 * pending)
    forecasts: dict[str, Forecast] = {}
    sizes: dict[str, int] = {}
    ages_s: dict[str, float] = {}
    work = held = 0.0
    for n in range(pending + running):
        median_s, spread = np.exp(rng.normal(np.log(window_s / 5), 0.9)), rng.choice([0.1, 0.3, 0.8])
        runtime = RuntimeDistribution.from_samples_s(median_s * np.exp(spread * rng.normal(size=30)))
        key = f"j{n}"
        forecasts[key] = Forecast(runtime=runtime, source="benchmark")
        sizes[key] = min(200, max(1, int(np.ceil(2 * rng.pareto(1.2)))))
        if n < pending:
            work += min(runtime.mean_s, window_s) * sizes[key]
        else:
            ages_s[key] = 0.9 * rng.random() * runtime.max_s
            left = runtime.conditional(ages_s[key])
            held += min(left.mean_s - ages_s[key], window_s) * sizes[key]
    total = max(int((work / CONTENTION + held) / window_s), sum(sizes[key] for key in ages_s) + 1)
    # One executor per partition: the planner sees slots by partition, whatever their number.
    per = -(-total // PARTITIONS)
    free = [per] * PARTITIONS
    jobs: dict[str, JobView] = {}
    task = 0
    for n, key in enumerate(forecasts):
        launched: list[RunningTask] = []
        if key in ages_s:
            since_ms = NOW_MS - round(1000 * ages_s[key])
            for index in range(sizes[key]):
                q = int(rng.choice([q for q in range(PARTITIONS) if free[q]]))
                free[q] -= 1
                launched.append(RunningTask(task, index, f"e{q}", since_ms, False))
                task += 1
        else:
            since_ms = NOW_MS - round(1000 * rng.random() * window_s / 4)
        is_slo = rng.random() < 0.5
        mean_s = forecasts[key].runtime.mean_s  # type: ignore[union-attr]
        due_ms = since_ms + round(1000 * mean_s * (1 + rng.choice([0.2, 0.4, 0.6, 0.8])))
        places = frozenset(rng.permutation(PARTITIONS)[: round(0.75 * PARTITIONS)].tolist())
        stage = StageView(
            f"{n}.0",
            "",
            0,
            sizes[key],
            None,
            True,
            True,
            since_ms,
            0,
            DurationSummary(0, None, 0.0),
            tuple(launched),
        )
        deadline_ms = max(due_ms, NOW_MS + round(1000 * mean_s)) if is_slo else None
        jobs[key] = JobView(
            key, JobMarks(key, None, 0, None, deadline_ms, None, copies=True, marked=True), since_ms, n,
            (stage,), {}, len(launched), Preferred(places, 1.5) if is_slo else None,
        )  # fmt: skip
    executors = {f"e{q}": ExecutorView(f"e{q}", f"h{q}", per, per - free[q], 0, q) for q in range(PARTITIONS)}
    return Snapshot(1, NOW_MS, executors, jobs), forecasts


class Keeping:
    """Our solver; keeps the problems that it was given."""

    name = "prices"

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._inner = Lagrangian()

    def solve(self, problem: Problem, ask: Ask) -> Solution:
        self.problems.append(problem)
        return self._inner.solve(problem, ask)


def cycles(
    pending: int, count: int, seed: int, repeats: int
) -> tuple[dict[str, Any], list[tuple[Problem, float, float]]]:
    """Figures of ``count`` cold cycles, and their problems with our values and times in s."""
    wall, cpu, gaps, kept = [], [], [], []
    laps: dict[str, list[float]] = {step: [] for step in STEPS}
    for n in track(range(count), f"{pending} waiting jobs", console=stderr, transient=True):
        shot, forecasts = snapshot(pending, seed + n)
        walls, cpus, steps = [], [], []
        for _ in range(repeats):
            solver = Keeping()
            policy = ThreeSigmaPolicy(
                SETTINGS,
                ThreeSigmaOptions(grid=uniform(STEPS_AHEAD, STEP_MS)),
                solver=solver,
                clock_s=time.perf_counter,
            )
            began, began_cpu = time.perf_counter(), time.process_time()
            plan, _ = policy.decide(shot, forecasts, NOW_MS, np.random.default_rng(n), None)
            cpus.append(1000 * (time.process_time() - began_cpu))
            walls.append(1000 * (time.perf_counter() - began))
            quality = plan.quality
            assert quality is not None
            assert quality.steps_ms is not None
            assert quality.gap is not None
            steps.append(quality.steps_ms)
        wall.append(min(walls))
        cpu.append(min(cpus))
        fastest = steps[int(np.argmin(walls))]
        if quality.status in ("refused", "none"):
            raise SystemExit(f"seed {seed + n}: the plan is {quality.status}")
        gaps.append(100 * quality.gap)
        for step in STEPS:
            laps[step].append(fastest[step])
        kept.append((solver.problems[0], quality.value, fastest["solve"] / 1000))
    total = sum(sum(laps[step]) for step in STEPS)
    figures = {
        "pending": pending,
        "running": min(400, 2 * pending),
        "cycles": count,
        "repeats": repeats,
        "options": int(np.median([problem.options for problem, _, _ in kept])),
        "wall_ms": {"p50": float(np.median(wall)), "p99": float(np.percentile(wall, 99)), "max": max(wall)},
        "cpu_ms": {"p50": float(np.median(cpu)), "p99": float(np.percentile(cpu, 99))},
        "share": {step: sum(laps[step]) / total for step in STEPS},
        "gap_percent": {
            "p50": float(np.median(gaps)),
            "p99": float(np.percentile(gaps, 99)),
            "max": max(gaps),
        },
    }
    return figures, kept


def beside(name: str, kept: list[tuple[Problem, float, float]], limit_s: float) -> dict[str, Any]:
    """Another solver on the same problems: its time over ours, its value over ours."""
    solver = create_solver(name)
    times, values, statuses = [], [], []
    for problem, value, solve_s in kept:
        ask = Ask(np.random.default_rng(0), gap=0.01, limit_s=limit_s, clock_s=time.perf_counter)
        solution = solver.solve(problem, ask)
        assert solution.runtime_s is not None
        times.append(solution.runtime_s / solve_s)
        values.append(solution.value / value if value else 1.0)
        statuses.append(solution.status)
    return {
        "solver": name,
        "instances": len(kept),
        "limit_s": limit_s,
        "gap_asked_percent": 1.0,
        "time_ratio_median": float(np.median(times)),
        "value_ratio_median": float(np.median(values)),
        "value_ratio_worst": float(np.min(values)),
        "status": {status: statuses.count(status) for status in sorted(set(statuses))},
    }


@click.command(help=__doc__)
@click.option("--pending", default="50,200,500,1000", help="Waiting jobs, separated by commas.")
@click.option("--cycles", "count", default=40, help="Cycles of each size.")
@click.option("--repeats", default=3, help="Times that each is made; the least time counts.")
@click.option("--solvers", default="highs,cbc", help="Solvers to compare with; empty: none.")
@click.option("--compared", default=2, help="Instances of each size for these.")
@click.option("--limit", "limit_s", default=10.0, help="Their time limit in seconds.")
@click.option("--seed", default=1, help="Of the first instance; the next one has the next number.")
@click.option("--json", "json_output", is_flag=True, help="One JSON document on standard output.")
def main(
    pending: str,
    count: int,
    repeats: int,
    solvers: str,
    compared: int,
    limit_s: float,
    seed: int,
    json_output: bool,
) -> None:
    found, lines = [], []
    # Imports and first calls cost more than cycles.
    cycles(5, 2, seed, 1)
    for size in [int(text) for text in pending.split(",")]:
        figures, kept = cycles(size, count, seed, repeats)
        figures["others"] = [beside(name, kept[:compared], limit_s) for name in solvers.split(",") if name]
        found.append(figures)
        wall, cpu, gap = figures["wall_ms"], figures["cpu_ms"], figures["gap_percent"]
        shares = ", ".join(f"{step} {100 * share:.0f} %" for step, share in figures["share"].items())
        lines.append(
            f"{size} waiting, {figures['running']} running, {figures['options']} options: cycle p50 "
            f"{wall['p50']:.0f} ms, p99 {wall['p99']:.0f} ms (CPU {cpu['p50']:.0f}, {cpu['p99']:.0f} ms); "
            f"gap p50 {gap['p50']:.2f} %, p99 {gap['p99']:.2f} %; {shares}"
        )
        lines += [
            f"  {other['solver']}: {other['time_ratio_median']:.0f} times our solver's time, "
            f"{other['value_ratio_median']:.3f} of our value (worst {other['value_ratio_worst']:.3f}), "
            f"{other['status']}"
            for other in figures["others"]
        ]
    publish({"runs": count, "sizes": found}, lines, json_output)


if __name__ == "__main__":
    main()
