#!/usr/bin/env python3
"""What the scheduler costs: tasks per second of 10,000 empty JVM tasks, against the stock scheduler.

    python benchmarks/overhead.py [--rounds N] [--policy NAME] [--mode on|shadow|off] [--task-ms N] [--json]

Two applications on the same inner master, ``local[4]`` by default, each in a process of its own:
stock, and spark_sched with everything on (reservations, copies, planner, one marked job). In each round both
run once, in random order; the ratio of their rates is formed inside the round. Beside it stands the same
ratio by processor time of driver and planner: other users of the processors disturb that less.

``--pilots N`` measures the gate of pilot tasks instead: a plan in force names N random pilots of the job
before it comes (``--policy slearn``: the policy itself does, in its own time).

``--task-ms N`` gives the tasks a length: they sleep for so long, in stages of 64 one after the other. Empty
tasks show the scheduler's own time; these show what a job loses in an application that has run 30,000 empty
ones before. ``--pairs N`` starts both applications N times.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from typing import Any

import click
import numpy as np
from _common import application, interval, local_properties, publish, stderr, workspace

from spark_sched import attach
from spark_sched_lab.runs.paired.application import ArmApplication, Mark, StagesJob
from spark_sched_lab.runs.paired.statistics import paired_ratios, spread

GOAL = 0.95
SHADOW_GOAL = 0.99
_STAGE_TASKS = 64


def job_of_tasks(
    arm: ArmApplication, tasks: int, task_ms: int, mark: Mark | None, pilots: int
) -> tuple[float, float | None]:
    """How long one job takes, in s, and the processor time of driver and planner, where it is read."""
    if not task_ms:
        done = arm.empty_tasks(tasks, mark, pilots)
        return done.taken_s, done.processor_s
    sizes = [min(_STAGE_TASKS, tasks - first) for first in range(0, tasks, _STAGE_TASKS)]
    job = StagesJob([([task_ms] * size, [task_ms] * size) for size in sizes], mark)
    return arm.stages([job]).jct_s[0], None


@click.command()
@click.option("--rounds", default=15, show_default=True, help="Measured rounds of each pair.")
@click.option("--pairs", default=1, show_default=True, help="Pairs of applications, one after the other.")
@click.option("--warm-up", default=4, show_default=True, help="Rounds before, not counted.")
@click.option("--tasks", default=10_000, show_default=True)
@click.option("--task-ms", default=0, show_default=True, help="Length of a task in ms; 0: empty tasks.")
@click.option("--slots", default=4, show_default=True)
@click.option("--policy", default="reservation", show_default=True, help="Policy of the planner.")
@click.option("--mode", type=click.Choice(["on", "shadow", "off"]), default="on", show_default=True)
@click.option("--pilots", default=0, show_default=True, help="Pilot tasks named before; no planner then.")
@click.option("--minutes", default=0.0, help="Begin no further round after so long; 0: no limit.")
@click.option("--seed", default=0, show_default=True)
@click.option("--json", "json_output", is_flag=True)
def main(
    rounds: int,
    pairs: int,
    warm_up: int,
    tasks: int,
    task_ms: int,
    slots: int,
    policy: str,
    mode: str,
    pilots: int,
    minutes: float,
    seed: int,
    json_output: bool,
) -> None:
    """Tasks per second with everything on, against the stock scheduler."""
    if task_ms and pilots:
        raise click.UsageError("--pilots are of empty tasks: leave --task-ms out")
    rng = np.random.default_rng(seed)
    until_s = time.monotonic() + 60.0 * minutes if minutes else math.inf
    master = f"local[{slots}]"
    switches = {"spark.sched.mode": mode} | ({"spark.sched.planner.enabled": "false"} if pilots else {})
    goal = GOAL if mode == "on" else SHADOW_GOAL
    taken_s: dict[str, list[float]] = {"stock": [], "spark_sched": []}
    processor_s: dict[str, list[float]] = {"stock": [], "spark_sched": []}
    means: list[float] = []
    with workspace() as directory:
        # No event log: its writer would be most of what both measure.
        base = local_properties(directory) | {"spark.eventLog.enabled": "false"}
        attached = attach.conf(master, {**base, "spark.sched.planner.policy": policy, **switches})

        def run(name: str, arm: ArmApplication, measured: bool) -> None:
            mark = Mark("empty", 10, 1.0) if name == "spark_sched" else None
            taken, used = job_of_tasks(arm, tasks, task_ms, mark, pilots if mark else 0)
            if measured:
                taken_s[name].append(taken)
                if used is not None:
                    processor_s[name].append(used)

        for _ in range(pairs):
            begun = len(taken_s["stock"])
            with (
                application("stock", {**base, "spark.master": master}, directory) as stock,
                application("spark_sched", attached, directory) as ours,
            ):
                arms = {"stock": stock, "spark_sched": ours}
                if task_ms:
                    compile_scheduler(arms.values())
                for number in rounds_until(until_s, warm_up, rounds):
                    for name in map(str, rng.permutation(list(arms))):
                        run(name, arms[name], measured=number >= 0)
            means.append(
                float(np.mean(paired_ratios(taken_s["stock"][begun:], taken_s["spark_sched"][begun:])))
            )
    rates = {name: [tasks / s for s in seconds] for name, seconds in taken_s.items()}
    ratios = paired_ratios(rates["spark_sched"], rates["stock"])
    # Applications differ by chance for as long as they live, so several pairs count as one value each.
    ratio = spread(means if pairs > 1 else ratios, rng)
    work = None if task_ms else spread(paired_ratios(processor_s["stock"], processor_s["spark_sched"]), rng)
    document = {
        "benchmark": "overhead",
        "runs": len(ratios),
        "seed": seed,
        "policy": None if pilots else policy,
        "mode": mode,
        "pilots": pilots,
        "sizes": {"tasks": tasks, "task_ms": task_ms, "slots": slots, "warm_up_rounds": warm_up},
        "tasks_per_s": {name: [round(r, 1) for r in values] for name, values in rates.items()},
        "median_tasks_per_s": {name: round(float(np.median(values)), 1) for name, values in rates.items()},
        "ratio": ratio.as_json(),
        "ratio_of_each_pair": [round(mean, 4) for mean in means],
        "median_ratio": round(float(np.median(ratios)), 4),
        "processor_s": {name: [round(s, 3) for s in seconds] for name, seconds in processor_s.items()},
        "processor_time_ratio": work and work.as_json(),
        "goal": goal,
        "goal_met": ratio.mean >= goal,
    }
    publish(document, sentences(document), json_output)


def compile_scheduler(arms: Iterable[ArmApplication]) -> None:
    """Run many empty tasks: a few long ones would be scheduled by code that the JVM has not compiled yet."""
    for arm in arms:
        for _ in range(3):
            arm.empty_tasks(10_000, Mark("empty", 10, 1.0))


def rounds_until(until_s: float, warm_up: int, rounds: int) -> Iterator[int]:
    """Numbers of rounds, below 0 before the measured ones; one measured round is run whatever the time."""
    for number in range(-warm_up, rounds):
        if number > 0 and time.monotonic() > until_s:
            return
        yield number
        stderr.print(f"round {number + 1} of {rounds}", highlight=False)


def sentences(document: dict[str, Any]) -> list[str]:
    medians, ratio, work = (document[key] for key in ("median_tasks_per_s", "ratio", "processor_time_ratio"))
    pairs = len(document["ratio_of_each_pair"])
    of_pairs = f" of {pairs} pairs of applications" if pairs > 1 else ""
    lines = [
        f"tasks/s, median: stock {medians['stock']:.0f}, spark_sched {medians['spark_sched']:.0f}",
        f"mean ratio over {document['runs']} rounds{of_pairs}: {ratio['mean']:.3f}{interval(ratio, 3)}",
        f"median {document['median_ratio']:.3f}; goal {document['goal']}",
    ]
    if work is not None:
        lines.append(
            f"tasks per second of processor time (driver and planner): {work['mean']:.3f}"
            f"{interval(work, 3)} times stock's"
        )
    return lines


if __name__ == "__main__":
    main()
