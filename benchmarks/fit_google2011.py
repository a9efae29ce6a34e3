#!/usr/bin/env python3
"""Fit the background workload's distributions to the Google 2011 cluster trace.

    python benchmarks/fit_google2011.py TRACE_DIR [--out spark_sched_lab/runs/workloads/data/google2011.json]
    [--json]

TRACE_DIR holds ``task_events/part-?????-of-00500.csv.gz`` of clusterdata-2011-2, byte for byte. What is kept
is small: quantiles of the number of tasks per job, of task durations given the class of that number, of the
spread of durations inside a job, and of the gaps between job arrivals. No trace row is copied.

Which jobs count:

* submitted after the trace's first 600 s (time 0 and 600 s stand for "existed before");
* submitted in the first half of the read, contiguous window, so that a task of up to half the window's length
  is seen to its end (later jobs would bring in their short tasks only);
* with at least one task that finished (event 4); durations are from the last schedule to that finish.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import numpy as np
from _google2011 import TRACE_START_S, task_events

from spark_sched.files import write_whole

CLASSES = (("1", 1, 1), ("2-10", 2, 10), ("11-100", 11, 100), ("101+", 101, 10**9))
COUNT_QUANTILES = 201
QUANTILES = 51
DEFAULT_OUT = Path(__file__).parents[1] / "spark_sched" / "workloads" / "data" / "google2011.json"


def quantiles(values: list[float], points: int, digits: int) -> list[float]:
    return [round(float(q), digits) for q in np.quantile(values, np.linspace(0, 1, points))]


@click.command()
@click.argument("trace_dir", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), default=DEFAULT_OUT, show_default=True
)
@click.option("--json", "json_output", is_flag=True, help="Print the fitted document too.")
def main(trace_dir: Path, out: Path, json_output: bool) -> None:
    """Fit the background workload to the Google 2011 trace in TRACE_DIR."""
    events = task_events(trace_dir)
    half_s = events.end_s / 2
    jobs = events.seen_whole()
    counts = {job: len(events.tasks[job]) for job in jobs}
    arrivals_s = sorted(events.submitted[job] for job in jobs)
    gaps_s = np.diff(arrivals_s)
    document: dict[str, Any] = {
        "source": "Google clusterdata-2011-2 (CC-BY 4.0), task_events parts 0 to 13 of 500",
        "command": "python benchmarks/fit_google2011.py TRACE_DIR",
        "selection": "jobs submitted after 600 s, in the first half of the window, with a finished task",
        "jobs": len(jobs),
        "jobs_per_hour": round(len(jobs) / ((half_s - TRACE_START_S) / 3600), 1),
        # Gaps are kept relative to their mean: a sample of 100 jobs per hour is a thinned arrival process.
        "arrival_gap_over_mean": quantiles([float(g) for g in gaps_s / gaps_s.mean()], QUANTILES, 4),
        "task_count": [int(q) for q in quantiles([float(c) for c in counts.values()], COUNT_QUANTILES, 0)],
        "classes": [],
    }
    for name, low, high in CLASSES:
        members = [events.durations_s[job] for job in jobs if low <= counts[job] <= high]
        means_s = [float(np.mean(d)) for d in members]
        spreads = [float(np.std(d) / np.mean(d)) for d in members if len(d) > 1 and np.mean(d) > 0]
        document["classes"].append(
            {
                "tasks": name,
                "min_tasks": low,
                "max_tasks": high,
                "jobs": len(members),
                "job_mean_duration_s": quantiles(means_s, QUANTILES, 2),
                "within_job_cov": quantiles(spreads, QUANTILES, 3) if spreads else [0.0] * QUANTILES,
            }
        )
    text = json.dumps(document, indent=1) + "\n"
    write_whole(out, text)
    click.echo(f"{len(jobs)} jobs fitted into {out}", err=True)
    if json_output:
        click.echo(text, nl=False)


if __name__ == "__main__":
    main()
