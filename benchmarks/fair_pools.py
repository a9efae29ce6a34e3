#!/usr/bin/env python3
"""A fair share across barriers: the paper's figure 13 on this machine.

    python benchmarks/fair_pools.py [--runs N] [--svg FILE] [--json]

Two jobs of equal priority in two pools of Spark's FAIR mode: job-1 has three stages, job-2 many parallel
tasks and no barrier. Each should have half of the slots while both run. Stock Spark gives job-1's slots to
job-2 at every barrier; with reservations (``spark.sched.reservation.minPriority=0``, job-1 marked with
priority 0) job-1 keeps its share. Reported: job-1's JCT and its mean share of the slots until it ends.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
from _common import application, local_properties, publish, stderr, workspace

from spark_sched import bridge
from spark_sched.experiments.demo.timeline import Timeline, read_timeline
from spark_sched.experiments.paired.application import ArmApplication, Mark, StagesJob
from spark_sched.experiments.paired.statistics import paired_ratios, spread
from spark_sched.files import write_whole
from spark_sched.reports.plots import curves_svg

STAGES = 3
STEP_S = 0.25
POOLS = (
    '<?xml version="1.0"?>\n<allocations>\n'
    '  <pool name="job-1"><schedulingMode>FIFO</schedulingMode><weight>1</weight></pool>\n'
    '  <pool name="job-2"><schedulingMode>FIFO</schedulingMode><weight>1</weight></pool>\n'
    "</allocations>\n"
)


def jobs(slots: int, rng: np.random.Generator, marked: bool) -> list[StagesJob]:
    """job-1: three stages as wide as its share. job-2: map only, enough for the whole time."""
    half = slots // 2

    def even(low: int, high: int, tasks: int) -> list[int]:
        return [int(ms) for ms in rng.permutation(np.linspace(low, high, tasks))]

    first = [even(1500, 2500, half) for _ in range(STAGES)]
    second = even(3000, 5000, 4 * slots)
    return [
        StagesJob([(ms, ms) for ms in first], Mark("job-1", 0, 1.0, "never") if marked else None, "job-1"),
        StagesJob([(second, second)], None, "job-2", delay_s=0.5),
    ]


def share(timeline: Timeline, kind: str, slots: int) -> tuple[list[float], list[float]]:
    """Times (seconds) and the share of the slots that ``kind`` used at each."""
    times_s = np.arange(0, (timeline.end_ms - timeline.start_ms) / 1000, STEP_S)
    at_ms = timeline.start_ms + 1000 * times_s
    used = [sum(s.kind == kind and s.start_ms <= t < s.end_ms for s in timeline.spans) / slots for t in at_ms]
    return [float(t) for t in times_s], used


@click.command()
@click.option("--runs", default=5, show_default=True, help="Paired runs.")
@click.option("--slots", default=8, show_default=True)
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="Write the first run's shares.")
@click.option("--seed", default=0, show_default=True)
@click.option("--json", "json_output", is_flag=True)
def main(runs: int, slots: int, svg: Path | None, seed: int, json_output: bool) -> None:
    """Share of the slots over time under FAIR, with and without reservations."""
    rng = np.random.default_rng(seed)
    master = f"local[{slots}]"
    names = ("stock", "spark_sched")
    rows: list[dict[str, Any]] = []
    windows: dict[str, list[tuple[int, float]]] = {name: [] for name in names}
    applications: dict[str, str] = {}
    with workspace() as directory:
        (directory / "pools.xml").write_text(POOLS)
        fair = {
            **local_properties(directory),
            "spark.scheduler.mode": "FAIR",
            "spark.scheduler.allocation.file": (directory / "pools.xml").as_uri(),
        }
        attached = bridge.conf(master, {**fair, "spark.sched.reservation.minPriority": "0"})
        with (
            application("stock", {**fair, "spark.master": master}, directory) as stock,
            application("spark_sched", attached, directory) as ours,
        ):
            arms: dict[str, ArmApplication] = {"stock": stock, "spark_sched": ours}
            for arm in arms.values():
                arm.stages([StagesJob([([50] * slots, [50] * slots)] * 3)])
            for run in range(runs):
                row: dict[str, Any] = {"run": run}
                for name in map(str, rng.permutation(names)):
                    work = jobs(slots, np.random.default_rng([seed, run]), name == "spark_sched")
                    done = arms[name].stages(work)
                    row[name] = [round(s, 3) for s in done.jct_s]
                    windows[name].append((done.started_ms, done.jct_s[0]))
                rows.append(row)
                stderr.print(f"run {run + 1} of {runs}: {row}", highlight=False)
            for name, arm in arms.items():
                applications[name] = arm.application
                arm.stop()
        timelines = {
            name: [
                read_timeline(directory / "event-logs" / applications[name], start, start + int(1000 * jct_s))
                for start, jct_s in windows[name]
            ]
            for name in names
        }
    shares = {
        name: [float(np.mean(share(timeline, "foreground", slots)[1])) for timeline in timelines[name]]
        for name in names
    }
    speedup = spread(paired_ratios([r["stock"][0] for r in rows], [r["spark_sched"][0] for r in rows]), rng)
    first = {name: share(timelines[name][0], "foreground", slots) for name in names}
    document = {
        "benchmark": "fair_pools",
        "runs": runs,
        "seed": seed,
        "sizes": {"slots": slots, "stages": STAGES, "tasks_per_stage": slots // 2},
        "job_1_jct_s": {name: [row[name][0] for row in rows] for name in names},
        "job_2_jct_s": {name: [row[name][1] for row in rows] for name in names},
        "job_1_mean_share": {name: spread(values, rng).as_json() for name, values in shares.items()},
        "stock_jct_over_ours": speedup.as_json(),
        "first_run_share": {name: {"time_s": t, "share": s} for name, (t, s) in first.items()},
    }
    if svg is not None:
        titled = {f"job-1 under {name}": series for name, series in first.items()}
        write_whole(svg, curves_svg(titled, "seconds", "share of the slots"))
    lines = [
        f"{name}: job-1 {np.mean(document['job_1_jct_s'][name]):.1f} s with {np.mean(shares[name]):.0%} of "
        f"the slots on average (fair: 50%), job-2 {np.mean(document['job_2_jct_s'][name]):.1f} s"
        for name in names
    ]
    publish(document, [*lines, f"job-1 takes {speedup.mean:.2f} times as long under stock"], json_output)


if __name__ == "__main__":
    main()
