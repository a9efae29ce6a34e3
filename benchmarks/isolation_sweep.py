#!/usr/bin/env python3
"""Isolation against held-idle slots: the paper's figure 14 on this machine.

    python benchmarks/isolation_sweep.py [--runs N] [--workload kmeans] [--json]

A foreground job under background work at isolation levels P = 0, 0.2 … 1, and once alone, in random order
inside each run and on the same seed: same input, same background batch. Reported per P: slowdown, the
slot-seconds that were held and idle, and the utilization loss: those, divided by all slots' time while the
job lived (a job at low P lives longer, so its idle time is a sum over a longer life). "Utilization
improvement" is the paper's: the share of the loss at P = 1 that a lower P saves.
"""

from __future__ import annotations

import dataclasses

import click
import numpy as np
from _common import publish, stderr
from rich.console import Console

from spark_sched.experiments import plan
from spark_sched.experiments.arms import Mark, RunResult
from spark_sched.experiments.demo import Stage
from spark_sched.experiments.statistics import paired_ratios, spread
from spark_sched.workloads.foreground import WORKLOADS, same_results

LEVELS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
SLOTS = plan.WORKERS * plan.SLOTS_PER_WORKER


@click.command()
@click.option("--runs", default=3, show_default=True, help="Paired runs per level.")
@click.option("--workload", type=click.Choice(list(WORKLOADS)), default="kmeans", show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--json", "json_output", is_flag=True)
def main(runs: int, workload: str, seed: int, json_output: bool) -> None:
    """Slowdown and held-idle slot time over the isolation level."""
    rng = np.random.default_rng(seed)
    size = dataclasses.replace(plan.QUICK, runs=runs)
    done: dict[float | None, list[RunResult]] = {level: [] for level in (None, *LEVELS)}
    with Stage(seed, size, Console(stderr=True), ("spark_sched",)) as stage:
        arm = stage.arms["spark_sched"]
        for pair in (pair for pair in stage.pairs if pair.workload == workload):
            for level in rng.permutation(np.array([None, *LEVELS], dtype=object)):
                mark = None
                if level is not None:
                    # One name per level: what one level's runs teach must not help another's.
                    mark = Mark(f"{workload} at {level}", plan.PRIORITY, level, plan.COPIES)
                background = None if level is None else pair.background
                result = arm.run(workload, pair.foreground, mark=mark, background=background)
                done[level].append(result)
                stderr.print(f"run {pair.run + 1}, P = {level}: JCT {result.jct_s:.1f} s", highlight=False)
    alone_s = [result.jct_s for result in done[None]]
    rows = []
    for level in LEVELS:
        ratios = paired_ratios([result.jct_s for result in done[level]], alone_s)
        idle_s = [result.counters["held_idle_slot_ms"] / 1000 for result in done[level]]
        slot_s = [SLOTS * result.jct_s for result in done[level]]
        rows.append(
            {
                "isolation": level,
                "slowdown": spread(ratios, rng).as_json(),
                "held_idle_slot_s": spread(idle_s, rng).as_json(),
                "utilization_loss": spread(paired_ratios(idle_s, slot_s), rng).as_json(),
                "holds_expired": sum(result.counters["holds_expired"] for result in done[level]),
            }
        )
    worst = rows[-1]["utilization_loss"]["mean"]
    for row in rows:
        loss = row["utilization_loss"]["mean"]
        row["utilization_improvement"] = round(1 - loss / worst, 4) if worst else None
    equal = all(same_results(done[None][0].values, result.values) for result in _first_runs(done))
    document = {
        "benchmark": "isolation_sweep",
        "runs": runs,
        "seed": seed,
        "workload": workload,
        "alone_jct_s": [round(s, 3) for s in alone_s],
        "results_equal": equal,
        "method": plan.method(size, ""),
        "rows": rows,
    }
    lines = [f"{workload}, alone: {np.mean(alone_s):.1f} s"]
    for row in rows:
        idle_s, loss = row["held_idle_slot_s"]["mean"], row["utilization_loss"]["mean"]
        lines.append(
            f"P = {row['isolation']:.1f}: slowdown {row['slowdown']['mean']:.2f}, held idle {idle_s:.1f} "
            f"slot-s ({loss:.1%} of all slots' time), {row['holds_expired']:.0f} holds expired"
        )
    publish(document, lines, json_output)


def _first_runs(done: dict[float | None, list[RunResult]]) -> list[RunResult]:
    return [results[0] for results in done.values()]


if __name__ == "__main__":
    main()
