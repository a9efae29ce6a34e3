#!/usr/bin/env python3
"""Fixed, Pareto and calibrated deadlines on real Spark, and the same draws in the simulator.

    python benchmarks/deadlines.py [--runs N] [--json]

Jobs of sleeping stages of 20 tasks, Pareto (α = 1.6) with a median of 0.4 s, one after the other. Each rule
for deadlines has an application of its own on `local[40]`; all applications run side by side, so that they
see the same noise. In the applications of the paper's rule and of the calibrated one a job with P = 0.4 and
one with P = 0.9 run at a time, each with slots of its own; with fixed deadlines P plays no part and one job
runs. Reported per rule and P, as `spark-sched reproduce slot-reservation deadlines` does for the simulator:
attained isolation, which is the share of stages, from a job's second on, whose holds lasted until the
barrier (equation 2), and the slot time held idle as a share of the time of the job's slots.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import numpy as np
from _common import application, interval, local_properties, publish, stderr, workspace

from benchmarks.papers.slot_reservation.deadlines import simulated_stages
from spark_sched import attach
from spark_sched_lab.runs.paired.application import Mark, StagesJob
from spark_sched_lab.runs.paired.statistics import spread

TASKS, SLOTS, ALPHA, MEDIAN_MS, LONGEST_MS = 20, 40, 1.6, 400.0, 8_000.0
LEVELS = (0.4, 0.9)
#: Settings and isolation levels by rule; the fixed times are to the median what 3 s and 10 s are to 1 s.
RULES: dict[str, tuple[dict[str, str], tuple[float, ...]]] = {
    "fixed, 1.2s": ({"deadline": "fixed", "maxHold": "1200ms"}, (1.0,)),
    "fixed, 4s": ({"deadline": "fixed", "maxHold": "4s"}, (1.0,)),
    "pareto": ({"deadline": "pareto"}, LEVELS),
    "calibrated": ({"deadline": "calibrated"}, LEVELS),
}
LIGHT_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass
class Watched:
    """The measures of one job, from its events.

    ``lost`` are the numbers, from 1, of the stages during which a hold expired; ``held_ms`` is slot time
    held idle.
    """

    name: str
    stages: int = 0
    running: bool = False
    lost: set[int] = field(default_factory=set)
    held_ms: int = 0
    open_ms: dict[str, list[int]] = field(default_factory=dict)

    def attained(self) -> list[float]:
        """1 for each stage from the second on whose holds lasted until the barrier, else 0."""
        return [float(number not in self.lost) for number in range(2, self.stages + 1)]


def watch(events: Iterable[Mapping[str, Any]]) -> dict[str, Watched]:
    """The marked jobs of an application by their names, from the events that it recorded."""
    jobs: dict[str, Watched] = {}
    for event in events:
        kind, key = event["type"], event.get("job", "")
        if kind == "job_started" and event["marked"]:
            jobs[key] = Watched(event["name"])
            continue
        job = jobs.get(key)
        if job is None:
            continue
        if kind == "stage_started":
            job.stages, job.running = job.stages + 1, True
        elif kind == "stage_ended":
            job.running = False
        elif kind == "slot_held":
            job.open_ms.setdefault(event["executor"], []).append(event["time_ms"])
        elif kind == "slot_freed" and job.open_ms.get(event["executor"]):
            job.held_ms += event["time_ms"] - job.open_ms[event["executor"]].pop(0)
            # Behind a barrier holds wait for the program's next action, which no deadline is made for.
            if event["reason"] == "expired" and job.running:
                job.lost.add(job.stages)
    return {job.name: job for job in jobs.values()}


def draw(seed: int, run: int, level: float, stages: int) -> list[list[int]]:
    """The stages' task times in ms: for a run and a level the same whatever the rule."""
    rng = np.random.default_rng([seed, run, round(100 * level)])
    times_ms = MEDIAN_MS * (2.0 * (1.0 - rng.random((stages, TASKS)))) ** (-1.0 / ALPHA)
    return [[int(ms) for ms in row] for row in np.minimum(times_ms, LONGEST_MS)]


def job_name(rule: str, level: float, run: int) -> str:
    """A name per run: history learned from one run must not help another."""
    return f"{rule} P={level:g} run {run}"


def settings_of(rule: str) -> dict[str, str]:
    """The rule's properties; copies are off, as in the simulated figure."""
    own = {f"spark.sched.reservation.{name}": value for name, value in RULES[rule][0].items()}
    return {"spark.sched.copies.enabled": "false", **own}


def run_live(runs: int, stages: int, seed: int) -> dict[tuple[str, float], list[tuple[Watched, float]]]:
    """Per rule and level the watched jobs with their JCT in ms."""
    found: dict[tuple[str, float], list[tuple[Watched, float]]] = {}
    with workspace() as directory, ExitStack() as stack:
        paths = {rule: directory / f"events-{number}.jsonl" for number, rule in enumerate(RULES)}
        arms = {}
        for rule, path in paths.items():
            given = {
                **local_properties(directory),
                **settings_of(rule),
                "spark.eventLog.enabled": "false",
                "spark.sched.events.path": str(path),
                "spark.driver.memory": "512m",
                "spark.driver.extraJavaOptions": LIGHT_JVM,
            }
            properties = dict(attach.conf(f"local[{SLOTS}]", given))
            arms[rule] = stack.enter_context(application(f"deadlines-{len(arms)}", properties, directory))
            arms[rule].stages([StagesJob([([20] * SLOTS, [20] * SLOTS)] * 2)])
            stderr.print(f"{rule} is warm", highlight=False)
        jct_ms: dict[str, float] = {}

        def measure(rule: str) -> None:
            for run in range(runs):
                levels = RULES[rule][1]
                jobs = [
                    StagesJob(
                        [(times, times) for times in draw(seed, run, level, stages)],
                        Mark(job_name(rule, level, run), 10, level, "never"),
                    )
                    for level in levels
                ]
                done = arms[rule].stages(jobs)
                for level, jct_s in zip(levels, done.jct_s, strict=True):
                    jct_ms[job_name(rule, level, run)] = 1_000.0 * jct_s
                stderr.print(f"{rule}, run {run + 1} of {runs}: {max(done.jct_s):.0f} s", highlight=False)

        with ThreadPoolExecutor(len(RULES)) as pool:
            list(pool.map(measure, RULES))
        for arm in arms.values():
            arm.stop()
        for rule, (_, levels) in RULES.items():
            watched = watch(_events(paths[rule]))
            for level in levels:
                names = [job_name(rule, level, run) for run in range(runs)]
                found[rule, level] = [(watched[name], jct_ms[name]) for name in names]
    return found


def _events(path: Path) -> Iterable[dict[str, Any]]:
    with path.open() as lines:
        for line in lines:
            yield json.loads(line)


@click.command()
@click.option("--runs", default=4, show_default=True, help="Jobs per rule and level.")
@click.option("--stages", default=21, show_default=True, help="Stages of a job.")
@click.option("--seed", default=0, show_default=True)
@click.option("--json", "json_output", is_flag=True)
def main(runs: int, stages: int, seed: int, json_output: bool) -> None:
    """Attained isolation against held-idle slot time, live and simulated."""
    live = run_live(runs, stages, seed)
    rng = np.random.default_rng(seed)
    rows = []
    for (rule, level), jobs in live.items():
        simulated = [
            simulated_stages(draw(seed, run, level, stages), settings_of(rule), isolation=level, seed=run)
            for run in range(runs)
        ]
        kept = [flag for watched, _ in jobs for flag in watched.attained()]
        lost, of, idle_ms, slot_ms = (
            sum(each[name] for each in simulated) for name in ("lost", "stages", "held_ms", "slot_ms")
        )
        live_idle_ms = sum(watched.held_ms for watched, _ in jobs)
        rows.append(
            {
                "deadline": rule,
                "isolation": None if rule.startswith("fixed") else level,
                "stages": len(kept),
                "attained_live": spread(kept, rng).as_json(),
                "attained_simulated": 1.0 - lost / of,
                "held_idle_live": live_idle_ms / sum(TASKS * jct_ms for _, jct_ms in jobs),
                "held_idle_simulated": idle_ms / slot_ms,
            }
        )
    document = {"benchmark": "deadlines", "runs": runs, "seed": seed, "rows": rows}
    lines = []
    for row in rows:
        at_level = "" if row["isolation"] is None else f", P = {row['isolation']:g}"
        attained = row["attained_live"]
        lines.append(
            f"{row['deadline']}{at_level}: attained {attained['mean']:.2f}{interval(attained, 2)} live, "
            f"{row['attained_simulated']:.2f} simulated; held idle {row['held_idle_live']:.2f} live, "
            f"{row['held_idle_simulated']:.2f} simulated; {row['stages']} stages"
        )
    publish(document, lines, json_output)


if __name__ == "__main__":
    main()
