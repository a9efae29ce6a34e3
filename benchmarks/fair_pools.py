#!/usr/bin/env python3
"""A fair share across barriers: the paper's figure 13 on this machine.

    python benchmarks/fair_pools.py [--width N]… [--runs N] [--svg FILE] [--json]

Two jobs of equal priority in two pools of Spark's FAIR mode: job-1 has three stages, job-2 many parallel
tasks and no barrier. Each should have half of the slots while both run. Stock Spark gives job-1's slots to
job-2 at every barrier; with reservations (``spark.sched.reservation.minPriority=0``, job-1 marked with
priority 0) job-1 keeps its share, and what a wider job-1 holds beyond its share goes to job-2. Reported, for
stages of job-1 that are narrower than, as wide as and wider than its share: both jobs' JCTs over those under
stock Spark, and the mean share of the slots that job-1 has until it ends. `spark-sched reproduce
slot-reservation fig13` simulates the same jobs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
from _common import application, local_properties, publish, stderr, workspace

from benchmarks.papers.slot_reservation.fair_pools import DELAY_MS, STAGES, task_times_ms
from spark_sched import attach
from spark_sched.files import write_whole
from spark_sched_lab.reports.plots import curves_svg
from spark_sched_lab.runs.demo.timeline import Timeline, read_timeline
from spark_sched_lab.runs.paired.application import ArmApplication, Mark, StagesJob
from spark_sched_lab.runs.paired.statistics import paired_ratios, spread

STEP_S = 0.25
NAMES = ("stock", "spark_sched")
POOLS = (
    '<?xml version="1.0"?>\n<allocations>\n'
    '  <pool name="job-1"><schedulingMode>FIFO</schedulingMode><weight>1</weight></pool>\n'
    '  <pool name="job-2"><schedulingMode>FIFO</schedulingMode><weight>1</weight></pool>\n'
    "</allocations>\n"
)


def jobs(width: int, slots: int, rng: np.random.Generator, marked: bool) -> list[StagesJob]:
    """job-1: three stages of ``width`` tasks. job-2: map only, enough for the whole time."""
    first, second = task_times_ms(width, slots, rng)
    return [
        StagesJob([(ms, ms) for ms in first], Mark("job-1", 0, 1.0, "never") if marked else None, "job-1"),
        StagesJob([(second, second)], None, "job-2", delay_s=DELAY_MS / 1000),
    ]


def share(timeline: Timeline, kind: str, slots: int) -> tuple[list[float], list[float]]:
    """Times (seconds) and the share of the slots that ``kind`` used at each."""
    times_s = np.arange(0, (timeline.end_ms - timeline.start_ms) / 1000, STEP_S)
    at_ms = timeline.start_ms + 1000 * times_s
    used = [sum(s.kind == kind and s.start_ms <= t < s.end_ms for s in timeline.spans) / slots for t in at_ms]
    return [float(t) for t in times_s], used


def run_pairs(
    arms: dict[str, ArmApplication], widths: tuple[int, ...], runs: int, slots: int, seed: int
) -> dict[int, dict[str, list[tuple[int, list[float]]]]]:
    """By width and arm, per run: epoch ms of its start and both jobs' JCTs in seconds."""
    rng = np.random.default_rng(seed)
    done: dict[int, dict[str, list[tuple[int, list[float]]]]] = {w: {n: [] for n in NAMES} for w in widths}
    for run in range(runs):
        for width in widths:
            for name in map(str, rng.permutation(NAMES)):
                work = jobs(width, slots, np.random.default_rng([seed, run, width]), name == "spark_sched")
                found = arms[name].stages(work)
                jct_s = [round(s, 3) for s in found.jct_s]
                done[width][name].append((found.started_ms, jct_s))
                stderr.print(f"run {run + 1} of {runs}, width {width}, {name}: {jct_s} s", highlight=False)
    return done


@click.command()
@click.option("--runs", default=5, show_default=True, help="Paired runs of each width.")
@click.option("--slots", default=8, show_default=True)
@click.option(
    "--width", "widths", type=int, multiple=True, default=(2, 4, 8), show_default=True,
    help="Tasks of each stage of job-1.",
)  # fmt: skip
@click.option("--svg", type=click.Path(dir_okay=False, path_type=Path), help="Write the first run's shares.")
@click.option("--seed", default=0, show_default=True)
@click.option("--json", "json_output", is_flag=True)
def main(
    runs: int, slots: int, widths: tuple[int, ...], svg: Path | None, seed: int, json_output: bool
) -> None:
    """Share of the slots over time under FAIR, with and without reservations."""
    master = f"local[{slots}]"
    with workspace() as directory:
        (directory / "pools.xml").write_text(POOLS)
        fair = {
            **local_properties(directory),
            "spark.scheduler.mode": "FAIR",
            "spark.scheduler.allocation.file": (directory / "pools.xml").as_uri(),
        }
        attached = attach.conf(master, {**fair, "spark.sched.reservation.minPriority": "0"})
        with (
            application("stock", {**fair, "spark.master": master}, directory) as stock,
            application("spark_sched", attached, directory) as ours,
        ):
            arms: dict[str, ArmApplication] = {"stock": stock, "spark_sched": ours}
            for arm in arms.values():
                arm.stages([StagesJob([([50] * slots, [50] * slots)] * 3)])
            done = run_pairs(arms, widths, runs, slots, seed)
            for arm in arms.values():
                arm.stop()
        shares = {
            (width, name): [
                share(_until_its_end(directory, arms[name], *run), "foreground", slots)
                for run in done[width][name]
            ]
            for width in widths
            for name in NAMES
        }
    rng = np.random.default_rng(seed)
    rows = [_row(width, done[width], {n: shares[width, n] for n in NAMES}, rng) for width in widths]
    document = {
        "benchmark": "fair_pools",
        "runs": runs,
        "seed": seed,
        "sizes": {"slots": slots, "stages": STAGES},
        "rows": rows,
    }
    if svg is not None:
        titled = {f"job-1 under {n}, width {w}": found[0] for (w, n), found in shares.items()}
        write_whole(svg, curves_svg(titled, "seconds", "share of the slots"))
    publish(document, [_line(row) for row in rows], json_output)


def _until_its_end(directory: Path, arm: ArmApplication, start_ms: int, jct_s: list[float]) -> Timeline:
    log = directory / "event-logs" / arm.application
    return read_timeline(log, start_ms, start_ms + int(1000 * jct_s[0]))


def _row(
    width: int,
    done: dict[str, list[tuple[int, list[float]]]],
    shares: dict[str, list[tuple[list[float], list[float]]]],
    rng: np.random.Generator,
) -> dict[str, Any]:
    jct_s = {
        job: {name: [jcts[number] for _, jcts in done[name]] for name in NAMES}
        for number, job in enumerate(("job_1", "job_2"))
    }
    over = {
        f"{job}_over_stock": spread(paired_ratios(by["spark_sched"], by["stock"]), rng).as_json()
        for job, by in jct_s.items()
    }
    return {
        "width": width,
        **{f"{job}_jct_s": by for job, by in jct_s.items()},
        **over,
        "job_1_mean_share": {
            name: round(float(np.mean([slot for _, used in found for slot in used])), 4)
            for name, found in shares.items()
        },
        "first_run_share": {
            name: {"time_s": found[0][0], "share": found[0][1]} for name, found in shares.items()
        },
    }


def _line(row: dict[str, Any]) -> str:
    shares = row["job_1_mean_share"]
    return (
        f"width {row['width']}: job-1 takes {row['job_1_over_stock']['mean']:.3f} of its time under stock, "
        f"with {shares['spark_sched']:.0%} of the slots instead of {shares['stock']:.0%}; job-2 "
        f"{row['job_2_over_stock']['mean']:.3f}"
    )


if __name__ == "__main__":
    main()
