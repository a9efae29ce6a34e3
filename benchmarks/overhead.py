#!/usr/bin/env python3
"""What the scheduler costs: tasks per second of 10,000 empty JVM tasks, against the stock scheduler.

    python benchmarks/overhead.py [--rounds N] [--policy NAME] [--mode on|shadow|off] [--json]

Two applications on the same inner master, ``local[4]`` by default, each in a process of its own:
stock, and spark_sched with everything on (reservations, copies, planner, one marked job). In each round both
run once, in random order; the ratio of their rates is formed inside the round. Beside it stands the same
ratio by processor time of driver and planner: other users of the processors disturb that less.

``--pilots N`` measures the gate of pilot tasks instead: a plan in force names N random pilots of the job
before it comes (``--policy slearn``: the policy itself does, in its own time).
"""

from __future__ import annotations

import time

import click
import numpy as np
from _common import application, interval, local_properties, publish, stderr, workspace

from spark_sched import bridge
from spark_sched.experiments.paired.application import Mark
from spark_sched.experiments.paired.statistics import paired_ratios, spread

GOAL = 0.95
SHADOW_GOAL = 0.99


@click.command()
@click.option("--rounds", default=15, show_default=True, help="Measured rounds.")
@click.option("--warm-up", default=4, show_default=True, help="Rounds before, not counted.")
@click.option("--tasks", default=10_000, show_default=True)
@click.option("--slots", default=4, show_default=True)
@click.option("--policy", default="reservation", show_default=True, help="Policy of the planner.")
@click.option("--mode", type=click.Choice(["on", "shadow", "off"]), default="on", show_default=True)
@click.option("--pilots", default=0, show_default=True, help="Pilot tasks named before; no planner then.")
@click.option("--minutes", default=0.0, help="Begin no further round after so long; 0: no limit.")
@click.option("--seed", default=0, show_default=True)
@click.option("--json", "json_output", is_flag=True)
def main(
    rounds: int,
    warm_up: int,
    tasks: int,
    slots: int,
    policy: str,
    mode: str,
    pilots: int,
    minutes: float,
    seed: int,
    json_output: bool,
) -> None:
    """Tasks per second with everything on, against the stock scheduler."""
    rng, began_s = np.random.default_rng(seed), time.monotonic()
    master = f"local[{slots}]"
    switches = {"spark.sched.mode": mode} | ({"spark.sched.planner.enabled": "false"} if pilots else {})
    goal = GOAL if mode == "on" else SHADOW_GOAL
    taken_s: dict[str, list[float]] = {"stock": [], "spark_sched": []}
    processor_s: dict[str, list[float]] = {"stock": [], "spark_sched": []}
    with workspace() as directory:
        # No event log: its writer would be most of what both measure.
        base = local_properties(directory) | {"spark.eventLog.enabled": "false"}
        attached = bridge.conf(master, {**base, "spark.sched.planner.policy": policy, **switches})
        with (
            application("stock", {**base, "spark.master": master}, directory) as stock,
            application("spark_sched", attached, directory) as ours,
        ):
            arms = {"stock": stock, "spark_sched": ours}
            for number in range(-warm_up, rounds):
                if number > 0 and minutes and time.monotonic() - began_s > 60.0 * minutes:
                    break
                for name in map(str, rng.permutation(list(arms))):
                    mark = Mark("empty", 10, 1.0) if name == "spark_sched" else None
                    done = arms[name].empty_tasks(tasks, mark, pilots if mark else 0)
                    if number >= 0:
                        taken_s[name].append(done.taken_s)
                        processor_s[name].append(done.processor_s)
                stderr.print(f"round {number + 1} of {rounds}", highlight=False)
    rates = {name: [tasks / s for s in seconds] for name, seconds in taken_s.items()}
    ratios = paired_ratios(rates["spark_sched"], rates["stock"])
    ratio = spread(ratios, rng)
    work = spread(paired_ratios(processor_s["stock"], processor_s["spark_sched"]), rng)
    document = {
        "benchmark": "overhead",
        "runs": len(ratios),
        "seed": seed,
        "policy": None if pilots else policy,
        "mode": mode,
        "pilots": pilots,
        "sizes": {"tasks": tasks, "slots": slots, "warm_up_rounds": warm_up},
        "tasks_per_s": {name: [round(r, 1) for r in values] for name, values in rates.items()},
        "median_tasks_per_s": {name: round(float(np.median(values)), 1) for name, values in rates.items()},
        "ratio": ratio.as_json(),
        "median_ratio": round(float(np.median(ratios)), 4),
        "processor_s": {name: [round(s, 3) for s in seconds] for name, seconds in processor_s.items()},
        "processor_time_ratio": work.as_json(),
        "goal": goal,
        "goal_met": ratio.mean >= goal,
    }
    medians = document["median_tasks_per_s"]
    speed = f"tasks/s, median: stock {medians['stock']:.0f}, spark_sched {medians['spark_sched']:.0f}"
    ratio_line = (
        f"mean ratio over {len(ratios)} rounds: {ratio.mean:.3f}{interval(ratio.as_json(), 3)}, "
        f"median {document['median_ratio']:.3f}; goal {goal}"
    )
    work_line = (
        f"tasks per second of processor time (driver and planner): {work.mean:.3f}"
        f"{interval(work.as_json(), 3)} times stock's"
    )
    publish(document, [speed, ratio_line, work_line], json_output)


if __name__ == "__main__":
    main()
