#!/usr/bin/env python3
"""Evictions on real Spark: how soon an urgent job has its slots, what that wastes, what sticky slots save.

    python benchmarks/evictions_live.py [--runs N] [--json]

One warm local application per arm: stock Spark (FIFO), the policy ``priority-evictions``, and the same with
sticky slots. All tasks sleep in the JVM, where a killed task ends at once. A killed Python
task keeps its slot for up to ``spark.python.task.killTimeout`` (2 s) more.

- **Latency.** A job of low priority takes all slots with long tasks; two seconds later an urgent job comes
  with a task per slot. Latency is the time from the submission of its Spark job to the launch of its last
  task, by Spark's event log. Wasted is the slot time that its evictions lost.
- **Starvation.** Each second an urgent job comes with a task of 0.8 s per slot. Six jobs of low priority with
  two tasks of 1 s each come in the first ten seconds. Their completion times are compared with and without
  an eighth of the slots sticky for jobs that have waited for two seconds. With eight slots the low priority
  asks for half of the sticky slot's time, and the stream for 91 % of the other slots' time. With more work
  of low priority than the sticky slots have time for, jobs wait for the stream's end in both arms.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
from _common import application, interval, local_properties, publish, stderr, workspace
from _live import LIGHT_JVM, PLAN_EVERY_MS, live_options, run_round, warm_up

from spark_sched import attach
from spark_sched_lab.runs.paired.application import ArmApplication, Mark, StagesJob, StagesResult
from spark_sched_lab.runs.paired.statistics import paired_ratios, spread

STOCK, PLAIN, STICKY = "fifo", "evictions", "evictions-sticky"
#: The group of a round's first job (`ArmApplication.stages`).
_FIRST = "foreground"
_OPTION = "spark.sched.policy.priority-evictions"
LONG_MS, URGENT_MS = 15_000, 1_000
URGENT_AFTER_S = 2.0
#: Jobs of the starvation part: urgent ones that come one a second, and those of low priority.
URGENT_JOBS, STREAM_MS, LOW_JOBS, LOW_MS = 24, 800, 6, 1_000


def job(name: str, priority: int, times_ms: list[int], delay_s: float) -> StagesJob:
    return StagesJob([(times_ms, times_ms)], Mark(name, priority, 0.9), None, delay_s)


def latency_round(slots: int) -> list[StagesJob]:
    """The urgent job is the first, so that the event log can tell it."""
    return [
        job("urgent", 10, [URGENT_MS] * slots, URGENT_AFTER_S),
        job("long", 0, [LONG_MS] * slots, 0.0),
    ]


def starvation_round(slots: int, rng: np.random.Generator) -> list[StagesJob]:
    urgent = [
        job("stream", 10, [int(STREAM_MS * rng.uniform(0.9, 1.1)) for _ in range(slots)], float(second))
        for second in range(URGENT_JOBS)
    ]
    low = [job(f"low-{n}", 0, [LOW_MS] * 2, 1.0 + float(rng.uniform(0.0, 8.0))) for n in range(LOW_JOBS)]
    return [*urgent, *low]


def slots_after_s(log: Path, since_ms: int, tasks: int) -> float:
    """Seconds from the submission of the round's first Spark job until ``tasks`` of its tasks started."""
    stages: set[int] = set()
    submitted_ms = 0
    launched_ms: list[int] = []
    with log.open(encoding="utf-8") as lines:
        for line in lines:
            if '"SparkListenerJobStart"' in line:
                event = json.loads(line)
                group = event.get("Properties", {}).get("spark.jobGroup.id")
                if group == _FIRST and event["Submission Time"] >= since_ms and not stages:
                    submitted_ms, stages = event["Submission Time"], set(event["Stage IDs"])
            elif '"SparkListenerTaskStart"' in line:
                event = json.loads(line)
                if event["Stage ID"] in stages:
                    launched_ms.append(event["Task Info"]["Launch Time"])
    return (sorted(launched_ms)[tasks - 1] - submitted_ms) / 1000.0


def sticky_of(slots: int) -> int:
    return max(1, slots // 8)


@contextlib.contextmanager
def applications(slots: int, directory: Path) -> Iterator[dict[str, ArmApplication]]:
    """An application for each arm, with ``slots`` slots."""
    base = {**local_properties(directory), "spark.driver.memory": "512m", "spark.sql.shuffle.partitions": "4"}
    base["spark.driver.extraJavaOptions"] = LIGHT_JVM
    policy = {
        "spark.sched.planner.policy": "priority-evictions",
        "spark.sched.planner.interval": f"{PLAN_EVERY_MS}ms",
    }
    sticky = {f"{_OPTION}.sticky_slots": str(sticky_of(slots)), f"{_OPTION}.sticky_wait": "2s"}
    master = f"local[{slots}]"
    given = {
        STOCK: {**base, "spark.master": master},
        PLAIN: dict(attach.conf(master, {**base, **policy})),
        STICKY: dict(attach.conf(master, {**base, **policy, **sticky})),
    }
    with contextlib.ExitStack() as stack:
        yield {n: stack.enter_context(application(n, each, directory)) for n, each in given.items()}


def log_of(arm: ArmApplication, directory: Path) -> Path:
    return next((directory / "event-logs").glob(f"{arm.application}*"))


def p99(values: list[float]) -> float:
    return float(np.percentile(values, 99))


def summary(
    latency_s: dict[str, list[float]],
    wasted_s: list[float],
    low_s: dict[str, list[list[float]]],
    stream_s: dict[str, list[float]],
    rng: np.random.Generator,
) -> dict[str, Any]:
    last = {name: [max(run) for run in runs] for name, runs in low_s.items()}
    return {
        "latency_s": {name: {**spread(v, rng).as_json(), "max": max(v)} for name, v in latency_s.items()},
        "wasted_s_per_urgent_job": spread(wasted_s, rng).as_json(),
        "low_p99_jct_s": {name: p99([x for run in runs for x in run]) for name, runs in low_s.items()},
        "low_mean_jct_s": {n: float(np.mean([x for r in runs for x in r])) for n, runs in low_s.items()},
        "longest_low_ratio": spread(paired_ratios(last[STICKY], last[PLAIN]), rng).as_json(),
        "stream_mean_jct_s": {name: float(np.mean(v)) for name, v in stream_s.items()},
        "runs_s": {"latency": latency_s, "wasted": wasted_s, "low": low_s},
    }


def sentences(found: dict[str, Any]) -> list[str]:
    latency, wasted = found["latency_s"], found["wasted_s_per_urgent_job"]
    lines = [
        f"{name}: urgent jobs have slots after {latency[name]['mean']:.2f} s{interval(latency[name], 2)}, "
        f"{latency[name]['max']:.2f} s at most"
        for name in (STOCK, PLAIN)
    ]
    lines.append(f"wasted per urgent job: {wasted['mean']:.1f} slot-s{interval(wasted)}")
    for name, p in found["low_p99_jct_s"].items():
        lines.append(
            f"{name}: low priority p99 {p:.1f} s, mean {found['low_mean_jct_s'][name]:.1f} s; "
            f"urgent jobs {found['stream_mean_jct_s'][name]:.2f} s on average"
        )
    ratio = found["longest_low_ratio"]
    lines.append(f"longest job of low priority, sticky over not: {ratio['mean']:.2f}{interval(ratio, 2)}")
    return lines


@click.command()
@live_options(runs=5)
def main(runs: int, cores: int, minutes: float, together: bool, seed: int, json_output: bool) -> None:
    """Latency of urgent jobs under evictions, wasted work, and sticky slots, in local applications."""
    del minutes  # a round takes a minute: --runs says enough
    rng = np.random.default_rng(seed)
    latency_s: dict[str, list[float]] = {STOCK: [], PLAIN: []}
    wasted_s: list[float] = []
    low_s: dict[str, list[list[float]]] = {PLAIN: [], STICKY: []}
    stream_s: dict[str, list[float]] = {PLAIN: [], STICKY: []}
    with workspace() as directory, applications(cores, directory) as running:
        warm_up(running, [job("warm", 0, [200] * cores, 0.0)] * 2)
        for run in range(runs):

            def done(names: list[str], jobs: list[StagesJob]) -> dict[str, StagesResult]:
                order = [str(name) for name in rng.permutation(names)]
                return run_round(running, order, jobs, together=together)

            found = done([STOCK, PLAIN], latency_round(cores))
            for name in (STOCK, PLAIN):
                log = log_of(running[name], directory)
                latency_s[name].append(slots_after_s(log, found[name].started_ms, cores))
            wasted_s.append(found[PLAIN].counters["evictions_lost_slot_ms"] / 1000.0)
            jobs = starvation_round(cores, np.random.default_rng([seed, run]))
            found = done([PLAIN, STICKY], jobs)
            for name in (PLAIN, STICKY):
                low_s[name].append(list(found[name].jct_s[URGENT_JOBS:]))
                stream_s[name].append(float(np.mean(found[name].jct_s[:URGENT_JOBS])))
            stderr.print(
                f"run {run + 1} of {runs}: slots after {latency_s[STOCK][-1]:.2f} s ({STOCK}) and "
                f"{latency_s[PLAIN][-1]:.2f} s; longest low job {max(low_s[PLAIN][-1]):.1f} s, "
                f"with sticky slots {max(low_s[STICKY][-1]):.1f} s",
                highlight=False,
            )
    measured = summary(latency_s, wasted_s, low_s, stream_s, rng)
    sizes = {"slots": cores, "sticky_slots": sticky_of(cores), "together": together}
    document = {"benchmark": "evictions_live", "runs": runs, "seed": seed, "sizes": sizes, **measured}
    publish(document, sentences(measured), json_output)


if __name__ == "__main__":
    main()
