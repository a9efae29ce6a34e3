"""SLearn beside 3Sigma and the others on a recorded trace whose tasks were measured (SLearn §4.3, §5).

    python benchmarks/slearn_trace.py TRACE [--seeds 1,2,3] [--jobs 1250] [--arms slearn,3sigma-gs,…] [--json]

The trace is split into halves by submission. From the second one as many jobs of at most 150 tasks are drawn
for each seed, their arrivals stretched so that the mean load of 150 slots is ``--load``; all of the first
half is history. Prints mean JCTs, their ratio to SLearn's with a 95 % interval over the seeds.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import click
import numpy as np
from _common import interval, publish, stderr

from benchmarks.papers.slearn.arm_runs import SLOTS, policy_of, run_arm
from benchmarks.papers.slearn.workload import Workload
from spark_sched_lab.accuracy.tasks import MeasuredJob, measured_jobs
from spark_sched_lab.runs.paired.statistics import paired_ratios, spread
from spark_sched_lab.traces.readers import open_trace


def extract(jobs: list[MeasuredJob], seed: int, count: int, load: float, widest: int) -> Workload:
    """History and the jobs to run (§4.3, steps 1 to 4)."""
    half = len(jobs) // 2
    second = [job for job in jobs[half:] if job.width <= widest]
    rng = np.random.default_rng(seed)
    chosen = sorted(rng.choice(len(second), size=min(count, len(second)), replace=False).tolist())
    run = [second[n] for n in chosen]
    span_s = run[-1].submit_s - run[0].submit_s
    stretch = sum(job.work_s for job in run) / SLOTS / load / span_s
    begin_s = run[0].submit_s
    run = [replace(job, submit_s=begin_s + (job.submit_s - begin_s) * stretch) for job in run]
    return Workload(tuple(jobs[:half]), tuple(run))


@click.command()
@click.argument("trace", type=click.Path(exists=True, path_type=Path))
@click.option("--seeds", default="1,2,3", show_default=True, help="Of the draws, separated by commas.")
@click.option("--jobs", default=1250, show_default=True)
@click.option("--load", default=1.0, show_default=True, help="Mean load of the slots.")
@click.option("--widest", default=SLOTS, show_default=True, help="Tasks of the widest job drawn.")
@click.option("--arms", default="slearn,3sigma-gs,slearn-bayes,gs-oracle", show_default=True)
@click.option("--json", "json_output", is_flag=True)
def main(trace: Path, seeds: str, jobs: int, load: float, widest: int, arms: str, json_output: bool) -> None:
    """Mean completion times under SLearn and others on a recorded trace."""
    measured = measured_jobs(open_trace(trace, None).chunks())
    stderr.print(f"{len(measured)} jobs whose tasks were all measured", highlight=False)
    names = arms.split(",")
    means: dict[str, list[float]] = {name: [] for name in names}
    for seed in map(int, seeds.split(",")):
        workload = extract(measured, seed, jobs, load, widest)
        for name in names:
            result = run_arm(workload, policy_of(name), seed)
            means[name].append(float(np.mean(np.array(result.jobs["jct_ms"], dtype=float))) / 1000.0)
            stderr.print(f"seed {seed} {name}: {means[name][-1]:.0f} s", highlight=False)
    rng = np.random.default_rng(0)
    over = {name: spread(paired_ratios(means[name], means[names[0]]), rng).as_json() for name in names}
    document = {
        "benchmark": "slearn_trace",
        "runs": len(means[names[0]]),
        "trace": trace.name,
        "jobs": jobs,
        "load": load,
        "mean_jct_s": means,
        f"jct_over_{names[0]}": over,
    }
    lines = [
        f"{name}: {np.mean(means[name]):.0f} s, {ratio['mean']:.3f} times {names[0]}'s{interval(ratio, 3)}"
        for name, ratio in over.items()
    ]
    publish(document, lines, json_output)


if __name__ == "__main__":
    main()
