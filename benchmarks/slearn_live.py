#!/usr/bin/env python3
"""Completion times under SLearn on real Spark: sixty jobs of mixed sizes, sleeping and real SQL.

    python benchmarks/slearn_live.py [--runs N] [--json]

One standalone cluster, one warm application per scheduler: stock Spark in FIFO and in FAIR mode (a pool for
each job), and spark_sched under ``slearn``. In each run all of them get the same jobs at the same times, in
random order. Four of five jobs sleep in 3 to 48 tasks, most of them small, few of them with most of the work;
the others are real aggregations with a shuffle, adaptive execution on. Nothing is known of any job before.
Sizes span two orders of magnitude from half a slot-second on: a first queue of 1 s spreads them over three.
"""

from __future__ import annotations

from typing import Any

import click
import numpy as np
from _common import interval, publish, stderr, workspace
from _live import arms, live_options, paired_runs, warm_up

from spark_sched_lab.runs.paired.application import Mark, StagesJob
from spark_sched_lab.runs.paired.statistics import paired_ratios, spread

ARMS = ("fifo", "fair", "slearn")
JOBS = 60
SQL_EVERY = 5


def one_run(load: float, slots: int, rng: np.random.Generator) -> list[StagesJob]:
    """Sixty jobs that come at random within the time that their work takes on the slots at ``load``."""
    drawn: list[tuple[list[int], int]] = []
    for number in range(JOBS):
        if number % SQL_EVERY == 0:
            drawn.append(([0] * int(rng.integers(4, 9)), int(rng.integers(2, 8)) * 500_000))
            continue
        # Sizes from 0.5 to some 60 slot-seconds, evenly over their logarithm but for a heavier low end.
        tasks = int(3 * 16 ** (rng.random() ** 2))
        typical_ms = 150.0 * 8 ** rng.random()
        drawn.append(([int(typical_ms * rng.lognormal(0.0, 0.25)) for _ in range(tasks)], 0))
    work_s = sum(sum(ms) for ms, _ in drawn) / 1000.0
    horizon_s = work_s / slots / load
    jobs = []
    for number, (ms, rows) in enumerate(drawn):
        mark = Mark(f"job-{number}", 0, 0.0, "never", None, "benchmark")
        jobs.append(StagesJob([(ms, ms)], mark, None, float(rng.uniform(0.0, horizon_s)), rows))
    return jobs


@click.command()
@live_options(runs=8)
@click.option("--load", default=1.2, show_default=True, help="Sleeping work over what the slots can do.")
@click.option("--first-queue", default="1s", show_default=True, help="Slot time below which jobs go first.")
def main(
    runs: int,
    cores: int,
    load: float,
    first_queue: str,
    minutes: float,
    together: bool,
    seed: int,
    json_output: bool,
) -> None:
    """Mean job completion time under FIFO, FAIR and SLearn on a standalone cluster."""
    rng = np.random.default_rng(seed)
    means: dict[str, list[float]] = {arm: [] for arm in ARMS}
    longest: dict[str, list[float]] = {arm: [] for arm in ARMS}
    settings = {"slearn": {"spark.sched.policy.slearn.firstQueue": first_queue}}
    with workspace() as directory, arms(ARMS, cores, directory, settings) as running:
        warm = one_run(6.0, cores, np.random.default_rng([seed, 1 << 20]))
        warm_up(running, warm[:10])
        for run, _, done in paired_runs(
            running,
            lambda run: one_run(load, cores, np.random.default_rng([seed, run])),
            rng,
            runs=runs,
            minutes=minutes,
            together=together,
        ):
            for name in ARMS:
                means[name].append(float(np.mean(done[name].jct_s)))
                longest[name].append(max(done[name].jct_s))
            line = ", ".join(f"{name} {means[name][-1]:.2f} s" for name in ARMS)
            stderr.print(f"run {run + 1} of {runs}: mean completion time {line}", highlight=False)
    document: dict[str, Any] = {
        "benchmark": "slearn_live",
        "runs": len(means["slearn"]),
        "seed": seed,
        "sizes": {
            "slots": cores,
            "jobs": JOBS,
            "load": load,
            "first_queue": first_queue,
            "together": together,
        },
        "mean_jct_s": {name: spread(means[name], rng).as_json() for name in ARMS},
        "longest_jct_s": {name: spread(longest[name], rng).as_json() for name in ARMS},
        "jct_over_slearn": {
            name: spread(paired_ratios(means[name], means["slearn"]), rng).as_json()
            for name in ARMS
            if name != "slearn"
        },
        "runs_s": means,
    }
    lines = []
    for name in ARMS:
        mean = document["mean_jct_s"][name]
        line = f"{name}: {mean['mean']:.2f} s on average{interval(mean, 2)}, the longest job "
        line += f"{document['longest_jct_s'][name]['mean']:.1f} s"
        if name != "slearn":
            ratio = document["jct_over_slearn"][name]
            line += f"; {ratio['mean']:.2f} times slearn's{interval(ratio, 2)}"
        lines.append(line)
    publish(document, lines, json_output)


if __name__ == "__main__":
    main()
