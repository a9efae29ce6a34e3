#!/usr/bin/env python3
"""Does P mean P on real Spark? The share of stages that end before the job's holds expire.

    python benchmarks/attained_isolation.py [--level P]… [--jobs N] [--stages N] [--json]

Jobs of sleeping stages run side by side on a local master, some at each isolation level, with a slot for
every task: there is no contention, so that all tasks of a stage start at once, as in the paper's analysis.
Task times are Pareto distributed. A stage attains its level if none of its job's holds expires while it runs,
by the recorded events.
The first stages of each job, from which its deadlines are calibrated, are reported apart.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import click
import numpy as np
from _common import application, local_properties, publish, stderr, workspace
from scipy.stats import binomtest

from spark_sched import attach
from spark_sched_lab.runs.paired.application import Mark, StagesJob

TASKS = 8
ALPHA, MIN_TASK_MS, MAX_TASK_MS = 1.6, 300, 20_000
FIRST = 5  # stages of a job that are reported apart


def stages_in_time(events: Iterable[Mapping[str, Any]]) -> dict[str, list[bool]]:
    """Of each job, by name: whether each of its completed stages ended before holds expired."""
    names: dict[str, str] = {}
    running: dict[str, tuple[str, bool]] = {}  # by stage: its job and whether a hold expired
    found: dict[str, list[bool]] = defaultdict(list)
    for event in events:
        if event["type"] == "job_started":
            names[event["job"]] = event["name"]
        elif event["type"] == "stage_started":
            running[event["stage"]] = (event["job"], False)
        elif event["type"] == "slot_freed" and event["reason"] == "expired":
            for stage, (job, _) in running.items():
                if job == event["job"]:
                    running[stage] = (job, True)
        elif event["type"] == "stage_ended" and event["stage"] in running:
            job, expired = running.pop(event["stage"])
            if event["completed"]:
                found[names[job]].append(not expired)
    return found


def run(levels: tuple[float, ...], jobs: int, stages: int, seed: int) -> dict[str, list[bool]]:
    """What became of each job's stages; jobs are named ``LEVEL NUMBER``."""
    rng = np.random.default_rng(seed)
    slots = TASKS * jobs * len(levels)
    work = []
    for level in levels:
        for number in range(jobs):
            times_ms = np.minimum(MAX_TASK_MS, MIN_TASK_MS * (1 + rng.pareto(ALPHA, (stages, TASKS))))
            sleeps = [[int(ms) for ms in row] for row in times_ms]
            mark = Mark(f"{level} {number}", 10, level, "never")
            work.append(StagesJob([(ms, ms) for ms in sleeps], mark, delay_s=0.1 * number))
    with workspace() as directory:
        recorded = directory / "events"
        properties = attach.conf(
            f"local[{slots}]",
            {**local_properties(directory), "spark.sched.events.path": str(recorded)},
        )
        with application("attained", properties, directory) as arm:
            arm.stages([StagesJob([([50] * slots, [50] * slots)] * 3)])
            arm.stages(work)
            arm.stop()
        lines = recorded.read_text().splitlines()
        return stages_in_time(json.loads(line) for line in lines)


@click.command()
@click.option("--level", "levels", type=float, multiple=True, default=(0.4, 0.9), show_default=True)
@click.option("--jobs", default=3, show_default=True, help="Jobs per level, side by side.")
@click.option("--stages", default=40, show_default=True, help="Stages of each job.")
@click.option("--seed", default=0, show_default=True)
@click.option("--json", "json_output", is_flag=True)
def main(levels: tuple[float, ...], jobs: int, stages: int, seed: int, json_output: bool) -> None:
    """The attained share of stages beside the isolation level P."""
    at = ", ".join(map(str, levels))
    stderr.print(f"{jobs} jobs of {stages} stages at each of P = {at}", highlight=False)
    done = run(levels, jobs, stages, seed)
    rows = []
    for level in levels:
        own = [done[name] for name in done if name.split(" ")[0] == str(level)]
        later = [kept for job in own for kept in job[FIRST:]]
        first = [kept for job in own for kept in job[:FIRST]]
        interval = binomtest(sum(later), len(later)).proportion_ci(method="wilson")
        rows.append(
            {
                "isolation": level,
                "stages": len(later),
                "attained": round(float(np.mean(later)), 4),
                "ci95": [round(interval.low, 4), round(interval.high, 4)],
                "attained_first_stages": round(float(np.mean(first)), 4),
            }
        )
    document = {"benchmark": "attained_isolation", "runs": jobs, "seed": seed, "rows": rows}
    lines = [
        f"P = {row['isolation']}: {row['attained']:.3f} of {row['stages']} stages ended in time (95 %: "
        f"{row['ci95'][0]:.3f} to {row['ci95'][1]:.3f}); of each job's first {FIRST}: "
        f"{row['attained_first_stages']:.3f}"
        for row in rows
    ]
    publish(document, lines, json_output)


if __name__ == "__main__":
    main()
