"""How far 3Sigma's own solver is from the optimum on small problems, where jobs need many of the slots.

Problems have 3 to 7 time steps, one or two partitions of 3 to 9 slots, up to 5 running and 3 to 12 waiting
jobs. About a third of the waiting jobs have a deadline and are worth up to 1; the others are worth about a
thousandth. Some need all slots. HiGHS solves each to optimality. Each is also solved without the branch and
bound, by prices and search alone. The two take turns, and the times are of the processor.

    python benchmarks/small_plans.py [--problems 600] [--seed 20000]
"""

from __future__ import annotations

import time

import click
import numpy as np
from _common import publish
from numpy.typing import NDArray
from rich.progress import track

from spark_sched.policies.three_sigma.problem import Candidate, Problem, Running, build
from spark_sched.policies.three_sigma.solvers import Ask, Lagrangian, create_solver
from spark_sched.policies.three_sigma.warm import warm_up
from spark_sched.policies.three_sigma.window import uniform

_STEP_MS = 1000
_BEST_EFFORT = 0.001
_EXACT = 1e-7


def falling(rng: np.random.Generator, steps: int) -> NDArray[np.float64]:
    """Chances to be still running: 1 at first, then falling to a multiple of 1/8."""
    drops = np.concatenate(([0], np.cumsum(rng.integers(0, 4, steps - 1)))) / 8
    return np.maximum(0.0, 1.0 - drops)


def random_problem(seed: int) -> Problem:
    rng = np.random.default_rng([seed, 77])
    steps, partitions = int(rng.integers(3, 8)), int(rng.integers(1, 3))
    grid = uniform(steps, _STEP_MS)
    capacity = rng.integers(3, 10, partitions).astype(float)
    jobs, everywhere = int(rng.integers(3, 13)), (1 << partitions) - 1
    candidates = []
    for job in range(jobs):
        slots = int(rng.integers(1, int(capacity.sum()) + 1 if rng.random() < 0.4 else 4))
        utility = utility_of(rng, steps, slots)
        consumption = falling(rng, len(grid.elapsed_ms))
        if partitions == 2 and rng.random() < 0.5:
            candidates.append(Candidate(job, int(rng.integers(1, 3)), slots, utility, consumption))
            utility, consumption = 0.8 * utility, falling(rng, len(grid.elapsed_ms))
        candidates.append(Candidate(job, everywhere, slots, utility, consumption))
    return build(grid, capacity, jobs, candidates, running_jobs(rng, steps, capacity))


def utility_of(rng: np.random.Generator, steps: int, slots: int) -> NDArray[np.float64]:
    """Of a waiting job, by its start: 0 after its deadline, or what over-estimate handling leaves."""
    if rng.random() >= 0.35:
        return np.asarray(_BEST_EFFORT * slots * (1.0 - 0.5 * np.arange(steps) / steps))
    utility = np.where(np.arange(steps) < rng.integers(1, steps + 1), falling(rng, steps), 0.0)
    return np.maximum(utility, 0.3 * falling(rng, steps)) if rng.random() < 0.3 else utility


def running_jobs(rng: np.random.Generator, steps: int, capacity: NDArray[np.float64]) -> list[Running]:
    free, running = capacity.copy(), []
    for _ in range(int(rng.integers(0, 6))):
        held = np.floor(0.8 * free * rng.random(len(free)))
        if held.any():
            free -= held
            most = 1.0 if rng.random() < 0.3 else 2.0 * _BEST_EFFORT
            running.append(Running(held, falling(rng, steps), most * float(rng.uniform(0.1, 1.0))))
    return running


def summary(losses: list[float], seconds: list[float]) -> dict[str, float]:
    loss, ms = np.array(losses), 1000.0 * np.array(seconds)
    return {
        "within_0.1_percent": float(np.mean(loss < 0.001)),
        "mean_loss": float(loss.mean()),
        "p99_loss": float(np.quantile(loss, 0.99)),
        "greatest_loss": float(loss.max()),
        "mean_ms": float(ms.mean()),
        "p50_ms": float(np.median(ms)),
        "p99_ms": float(np.quantile(ms, 0.99)),
        "greatest_ms": float(ms.max()),
    }


@click.command()
@click.option("--problems", default=600, help="How many problems.")
@click.option("--seed", default=20_000, help="Of the first one; the next one has the next number.")
@click.option("--json", "json_output", is_flag=True, help="Print one JSON document.")
def main(problems: int, seed: int, json_output: bool) -> None:
    warm_up()
    solvers = {"solver": Lagrangian(), "search_alone": Lagrangian(work=0)}
    losses: dict[str, list[float]] = {name: [] for name in solvers}
    seconds: dict[str, list[float]] = {name: [] for name in solvers}
    proven = 0
    for number in track(range(problems), "solving", disable=json_output):
        problem = random_problem(seed + number)
        best = create_solver("highs").solve(problem, Ask(np.random.default_rng(1), gap=_EXACT)).value
        for name in sorted(solvers, reverse=number % 2 == 0):
            began_s = time.process_time()
            solution = solvers[name].solve(problem, Ask(np.random.default_rng(1), gap=_EXACT))
            seconds[name].append(time.process_time() - began_s)
            losses[name].append(max(0.0, (best - solution.value) / best) if best > 0.0 else 0.0)
            proven += name == "solver" and solution.status == "optimal"
    found = {name: summary(losses[name], seconds[name]) for name in solvers}
    document = {"runs": problems, "proven": proven / problems, **found}
    lines = [f"{problems} problems, {proven / problems:.1%} proven optimal"]
    lines += [
        f"{name}: {each['within_0.1_percent']:.1%} within 0.1 % of the optimum; loss {each['mean_loss']:.3%} "
        f"in the mean, p99 {each['p99_loss']:.2%}, at most {each['greatest_loss']:.2%}; processor time "
        f"{each['mean_ms']:.1f} ms in the mean, p50 {each['p50_ms']:.1f}, p99 {each['p99_ms']:.0f}, at most "
        f"{each['greatest_ms']:.0f}"
        for name, each in found.items()
    ]
    publish(document, lines, json_output)


if __name__ == "__main__":
    main()
