#!/usr/bin/env python3
"""Isolation against held-idle slots: the paper's figure 14 on this machine.

    python benchmarks/isolation_sweep.py [--runs N] [--workload kmeans] [--json]

A foreground job under background work at isolation levels P = 0, 0.2 … 1, and once alone, in random order
inside each run and on the same seed: same input, same background. Reported per P: slowdown, the slot-seconds
that were held and idle, and the utilization loss: those, divided by all slots' time while the job lived.
"Utilization improvement" is the paper's: the share of the loss at P = 1 that a lower P saves.

``stages``, the default, is a job of sleeping stages whose task times are Pareto distributed, as the paper's
analysis has them, 8 tasks wide on 64 slots, under one wide background job. Its task times are exponential, so
that how long a lost slot stays away does not depend on when it was lost. ``kmeans``, ``svm`` and ``pagerank``
are the demo's jobs and background on its cluster: their task times have no tail to speak of, and they fill
half of it, so that a job that lost its slots runs ragged waves and idles at their ends.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator

import click
import numpy as np
from _common import application, local_properties, publish, stderr, workspace
from rich.console import Console

from spark_sched import attach
from spark_sched_lab.runs.demo import design
from spark_sched_lab.runs.demo.demo import DemoRuns
from spark_sched_lab.runs.paired.application import Mark, StagesJob
from spark_sched_lab.runs.paired.statistics import paired_ratios, spread
from spark_sched_lab.runs.workloads.foreground import WORKLOADS, same_results

LEVELS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
SLOTS, TASKS, STAGES = 64, 8, 8
ALPHA, MIN_TASK_MS, MAX_TASK_MS = 1.6, 400, 4_000
BACKGROUND_MEAN_MS, BACKGROUND_MAX_MS, BACKGROUND_TASKS = 5_000, 15_000, 400


@dataclasses.dataclass(frozen=True)
class Outcome:
    """One run: JCT in seconds, slot-seconds held and idle, holds expired, the job's results if it has any."""

    jct_s: float
    held_idle_slot_s: float
    holds_expired: int
    values: tuple[float, ...] = ()


# Runs the job of a pair at an isolation level, None for alone.
Measure = Callable[[int, float | None], Outcome]


def mark_at(workload: str, level: float) -> Mark:
    """One name per level: history learned from one level's runs must not help another level."""
    return Mark(f"{workload} at {level}", design.PRIORITY, level, "never")


@contextlib.contextmanager
def sleeping_stages(seed: int) -> Iterator[Measure]:
    """The default workload, on a local master."""

    def foreground_and_background(run: int, level: float | None) -> list[StagesJob]:
        rng = np.random.default_rng([seed, run])
        times_ms = np.minimum(MAX_TASK_MS, MIN_TASK_MS * (1 + rng.pareto(ALPHA, (STAGES, TASKS))))
        stages = [[int(ms) for ms in row] for row in times_ms]
        waiting_ms = np.minimum(BACKGROUND_MAX_MS, rng.exponential(BACKGROUND_MEAN_MS, BACKGROUND_TASKS))
        waiting = [int(ms) for ms in waiting_ms]
        mark = mark_at("stages", level) if level is not None else None
        foreground = StagesJob([(ms, ms) for ms in stages], mark, delay_s=1.0)
        return [foreground] if level is None else [foreground, StagesJob([(waiting, waiting)])]

    with workspace() as directory:
        properties = attach.conf(f"local[{SLOTS}]", local_properties(directory))
        with application("sweep", properties, directory) as arm:
            arm.stages([StagesJob([([50] * SLOTS, [50] * SLOTS)] * 3)])

            def measure(run: int, level: float | None) -> Outcome:
                done = arm.stages(foreground_and_background(run, level))
                held_ms, expired = (done.counters[key] for key in ("held_idle_slot_ms", "holds_expired"))
                return Outcome(done.jct_s[0], held_ms / 1000, int(expired))

            yield measure


@contextlib.contextmanager
def demo_job(workload: str, runs: int, seed: int) -> Iterator[Measure]:
    """A foreground job of the demo, on its cluster and under its background."""
    size = dataclasses.replace(design.QUICK, runs=runs)
    with DemoRuns(seed, size, Console(stderr=True), ("spark_sched",)) as started:
        arm = started.arms["spark_sched"]
        pairs = [pair for pair in started.pairs if pair.workload == workload]

        def measure(run: int, level: float | None) -> Outcome:
            pair = pairs[run]
            mark = mark_at(workload, level) if level is not None else None
            background = None if level is None else pair.background
            done = arm.run(workload, pair.foreground.parameters, pair.seed, mark=mark, background=background)
            counters = done.counters
            held_s = counters["held_idle_slot_ms"] / 1000
            return Outcome(done.jct_s, held_s, int(counters["holds_expired"]), done.values)

        yield measure


@click.command()
@click.option("--runs", default=5, show_default=True, help="Paired runs per level.")
@click.option("--workload", type=click.Choice(["stages", *WORKLOADS]), default="stages", show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--json", "json_output", is_flag=True)
def main(runs: int, workload: str, seed: int, json_output: bool) -> None:
    """Slowdown and held-idle slot time over the isolation level."""
    rng = np.random.default_rng(seed)
    slots = SLOTS if workload == "stages" else design.WORKERS * design.SLOTS_PER_WORKER
    done: dict[float | None, list[Outcome]] = {level: [] for level in (None, *LEVELS)}
    stage = sleeping_stages(seed) if workload == "stages" else demo_job(workload, runs, seed)
    with stage as measure:
        for run in range(runs):
            for level in rng.permutation(np.array([None, *LEVELS], dtype=object)):
                outcome = measure(run, level)
                done[level].append(outcome)
                stderr.print(f"run {run + 1}, P = {level}: JCT {outcome.jct_s:.1f} s", highlight=False)
    alone_s = [outcome.jct_s for outcome in done[None]]
    rows = []
    for level in LEVELS:
        jct_s = [outcome.jct_s for outcome in done[level]]
        idle_s = [outcome.held_idle_slot_s for outcome in done[level]]
        loss = paired_ratios(idle_s, [slots * s for s in jct_s])
        rows.append(
            {
                "isolation": level,
                "slowdown": spread(paired_ratios(jct_s, alone_s), rng).as_json(),
                "held_idle_slot_s": spread(idle_s, rng).as_json(),
                "utilization_loss": spread(loss, rng).as_json(),
                "holds_expired": sum(outcome.holds_expired for outcome in done[level]),
            }
        )
    worst = rows[-1]["utilization_loss"]["mean"]
    for row in rows:
        row["utilization_improvement"] = (
            round(1 - row["utilization_loss"]["mean"] / worst, 4) if worst else None
        )
    first = [outcomes[0].values for outcomes in done.values()]
    document = {
        "benchmark": "isolation_sweep",
        "runs": runs,
        "seed": seed,
        "workload": workload,
        "alone_jct_s": [round(s, 3) for s in alone_s],
        "results_equal": all(same_results(first[0], values) for values in first),
        "rows": rows,
    }
    lines = [f"{workload}, alone: {np.mean(alone_s):.1f} s"]
    for row in rows:
        idle, lost = row["held_idle_slot_s"]["mean"], row["utilization_loss"]["mean"]
        lines.append(
            f"P = {row['isolation']:.1f}: slowdown {row['slowdown']['mean']:.2f}, held idle {idle:.1f} "
            f"slot-s ({lost:.1%} of all slots' time), {row['holds_expired']} holds expired"
        )
    publish(document, lines, json_output)


if __name__ == "__main__":
    main()
