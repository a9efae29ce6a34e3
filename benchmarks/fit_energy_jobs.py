#!/usr/bin/env python3
"""Keep the short jobs of the Google 2011 trace that energy simulations draw from.

    python benchmarks/fit_energy_jobs.py TRACE_DIR [--out spark_sched_lab/energy/data/google2011_jobs.json]

TRACE_DIR holds ``task_events/part-?????-of-00500.csv.gz`` of clusterdata-2011-2. Which jobs count: those of
``fit_google2011.py`` that state CPU and memory and whose tasks take 900 s on average at most, since longer
ones are services rather than the MapReduce jobs of the thesis' chapter 4. Kept of each: number of tasks, mean
and spread of their times, requests. Of the jobs with ten tasks or fewer a random 500 stand for all, with a
weight.
"""

from __future__ import annotations

import json
from pathlib import Path

import click
import numpy as np
from _google2011 import TRACE_START_S, TaskEvents, task_events

from spark_sched.files import write_whole

LONGEST_S = 900.0
FEW_TASKS = 10
SMALL_JOBS = 500
DEFAULT_OUT = Path(__file__).parents[1] / "spark_sched" / "energy" / "data" / "google2011_jobs.json"

Job = tuple[float, int, float, float, float, float]


def jobs_of(events: TaskEvents) -> list[Job]:
    """Submission, width, mean time and its CoV, CPU and memory request of each job that states both."""
    found = []
    for job in events.seen_whole():
        if job in events.requests:
            mean_s = float(np.mean(events.durations_s[job]))
            cov = float(np.std(events.durations_s[job])) / mean_s
            found.append((events.submitted[job], len(events.tasks[job]), mean_s, cov, *events.requests[job]))
    return sorted(found)


@click.command()
@click.argument("trace_dir", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), default=DEFAULT_OUT, show_default=True
)
def main(trace_dir: Path, out: Path) -> None:
    """Keep the short jobs of the Google 2011 trace in TRACE_DIR."""
    events = task_events(trace_dir)
    jobs = jobs_of(events)
    short = [job for job in jobs if job[2] <= LONGEST_S]
    gaps_s = np.diff([job[0] for job in short])
    small = [job for job in short if job[1] <= FEW_TASKS]
    rng = np.random.default_rng(0)
    chosen = rng.choice(len(small), size=min(SMALL_JOBS, len(small)), replace=False)
    weight = len(small) / len(chosen)
    kept = [(small[i], weight) for i in sorted(chosen)]
    kept += [(job, 1.0) for job in short if job[1] > FEW_TASKS]
    columns = list(zip(*(job for job, _ in kept), strict=True))
    document = {
        "source": "Google clusterdata-2011-2 (CC-BY 4.0), task_events parts 0 to 13 of 500",
        "command": "python benchmarks/fit_energy_jobs.py TRACE_DIR",
        "jobs": len(short),
        "window_s": round(events.end_s / 2 - TRACE_START_S),
        "arrival_gap_over_mean": [
            round(float(q), 4) for q in np.quantile(gaps_s / gaps_s.mean(), np.linspace(0, 1, 101))
        ],
        "weight": [round(w, 3) for _, w in kept],
        "tasks": list(columns[1]),
        "mean_s": [round(v, 1) for v in columns[2]],
        "cov": [round(v, 3) for v in columns[3]],
        "cpu": [float(f"{v:.4g}") for v in columns[4]],
        "memory": [float(f"{v:.4g}") for v in columns[5]],
    }
    write_whole(out, json.dumps(document) + "\n")
    click.echo(f"{len(kept)} rows for {len(short)} jobs into {out}", err=True)


if __name__ == "__main__":
    main()
