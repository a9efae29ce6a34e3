#!/usr/bin/env python3
"""What scrapes, killed planners and switched policies cost the jobs of a live application.

    python benchmarks/disturbances.py [--rounds N] [--scrapes N] [--stock] [--json]

One application on ``local[8]``. A run is three marked jobs at a time, each of three stages of sleeping JVM
tasks. In each round there is one run of each kind, in random order, each with a planner that is up:

- ``calm``
- ``scraped``: the metrics are read ``--scrapes`` times a second, and the status document once a second
- ``killed``: the planner is killed by SIGKILL
- ``switched``: the policy is switched to ``fair``; the planner is replaced then

The makespan of a run over the calm one's of its round is the ratio. ``--stock`` measures the first two on
Spark's own scheduler: what scrapes of Spark's own metrics cost.
"""

from __future__ import annotations

import http.client
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import click
import numpy as np
from _common import METRICS, interval, local_properties, publish, stderr, workspace
from pyspark import InheritableThread
from pyspark.sql import SparkSession

import spark_sched
from spark_sched import attach, steer
from spark_sched_lab.runs.paired.statistics import paired_ratios, spread

_JOBS, _STAGES, _TASKS, _TASK_MS = 3, 3, 32, 60
_GOAL = 1.02
_PATIENCE_S = 300.0
_ONCE_S = 3_600.0
_STATUS = "/sched/api/v1/status"


class Disturbance:
    """Does something again and again while the block runs. ``done`` counts how often.

    What goes wrong is raised at the end of the block: what was not disturbed must not count as disturbed.
    """

    def __init__(self, once: Callable[[], None], every_s: float) -> None:
        self._once, self._every_s = once, every_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._repeat, daemon=True)
        self.done = 0
        self._error: Exception | None = None

    def _repeat(self) -> None:
        due_s = time.monotonic()
        try:
            while not self._over.wait(max(0.0, due_s - time.monotonic())):
                self._once()
                self.done += 1
                due_s += self._every_s
        except Exception as error:
            self._error = error

    def __enter__(self) -> Disturbance:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        if self._error is not None:
            raise self._error


def makespan_s(spark: SparkSession) -> float:
    """Of marked jobs that run at the same time."""
    sleep = f"java_method('java.lang.Thread', 'sleep', {_TASK_MS}L)"
    rows: Any = spark.range(0, _TASKS, 1, _TASKS).selectExpr(sleep)._jdf.javaRDD()

    ended = []

    def run(number: int) -> None:
        with spark_sched.job(spark, f"report-{number}", priority=number):
            for _ in range(_STAGES):
                rows.count()
        ended.append(number)

    threads = [InheritableThread(target=run, args=(number,)) for number in range(_JOBS)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken_s = time.perf_counter() - begun
    if len(ended) < _JOBS:
        raise click.ClickException(f"only jobs {sorted(ended)} of {_JOBS} ended well")
    return taken_s


def await_plan(spark: SparkSession, after: int) -> None:
    """Wait until a planner is up and more than ``after`` plans were accepted: its start takes a processor."""
    until_s = time.monotonic() + _PATIENCE_S
    while not ((now := spark_sched.status(spark).planner).alive and now.plans_accepted > after):
        if time.monotonic() > until_s:
            raise click.ClickException(f"no plan came within {_PATIENCE_S:g} s")
        time.sleep(0.1)


def accepted(spark: SparkSession) -> int:
    return spark_sched.status(spark).planner.plans_accepted


def scraper(spark: SparkSession, per_s: float, attached: bool) -> Callable[[], None]:
    """Reads the metrics, and now and then the status document, over one connection."""
    connection = http.client.HTTPConnection(urlsplit(spark.sparkContext.uiWebUrl).netloc, timeout=60)
    number = 0

    def once() -> None:
        nonlocal number
        paths = ["/metrics/prometheus/"] + ([_STATUS] if attached and number % per_s == 0 else [])
        for path in paths:
            connection.request("GET", path)
            answer = connection.getresponse()
            if not answer.read() or answer.status != 200:
                raise click.ClickException(f"{path}: status {answer.status}")
        number += 1

    return once


def killer(spark: SparkSession) -> Callable[[], None]:
    def once() -> None:
        pid = spark_sched.status(spark).planner.pid
        if pid is None:
            raise click.ClickException("there is no planner to kill")
        os.kill(pid, signal.SIGKILL)

    return once


def switcher(spark: SparkSession, names: tuple[str, str]) -> Callable[[], None]:
    def once() -> None:
        now = spark_sched.status(spark).policy
        steer.policy(spark, names[names.index(now) - 1])

    return once


@click.command()
@click.option("--rounds", default=20, show_default=True, help="Measured rounds.")
@click.option("--warm-up", default=2, show_default=True, help="Rounds before, not counted.")
@click.option("--scrapes", default=100, show_default=True, help="Scrapes per second.")
@click.option("--stock", is_flag=True, help="Spark's own scheduler, with scrapes only.")
@click.option("--seed", default=0, show_default=True)
@click.option("--json", "json_output", is_flag=True)
def main(rounds: int, warm_up: int, scrapes: int, stock: bool, seed: int, json_output: bool) -> None:
    """Makespans beside scrapes, killed planners and switched policies, over those of calm runs."""
    rng = np.random.default_rng(seed)
    names = ("reservation", "fair")
    kinds = ("calm", "scraped") if stock else ("calm", "scraped", "killed", "switched")
    taken_s: dict[str, list[float]] = {kind: [] for kind in kinds}
    done = dict.fromkeys(kinds, 0)
    with workspace() as directory:
        properties = local_properties(directory) | {
            "spark.eventLog.enabled": "false",
            "spark.ui.enabled": "true",
            "spark.ui.port": "0",
            "spark.sched.planner.policy": names[0],
            "spark.sched.planner.restartBackoff": "100ms",
            **METRICS,
        }
        master = "local[8]"
        given = {**properties, "spark.master": master} if stock else attach.conf(master, properties)
        builder = SparkSession.builder
        for name, value in given.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        plans = 0
        try:
            disturbances = {
                "calm": lambda: Disturbance(lambda: None, _ONCE_S),
                "scraped": lambda: Disturbance(scraper(spark, scrapes, attached=not stock), 1.0 / scrapes),
                "killed": lambda: Disturbance(killer(spark), _ONCE_S),
                "switched": lambda: Disturbance(switcher(spark, names), _ONCE_S),
            }
            for number in range(-warm_up, rounds):
                for kind in map(str, rng.permutation(kinds)):
                    if not stock:
                        await_plan(spark, after=plans)
                    begun = time.monotonic()
                    with disturbances[kind]() as disturbance:
                        taken = makespan_s(spark)
                    if number >= 0:
                        taken_s[kind].append(taken)
                        done[kind] += disturbance.done
                    if kind == "switched":
                        steer.policy(spark, names[0])
                    if kind in ("killed", "switched"):
                        plans = accepted(spark)
                    if kind == "scraped" and disturbance.done < 0.8 * scrapes * (time.monotonic() - begun):
                        stderr.print(f"only {disturbance.done} scrapes in {taken:.1f} s", highlight=False)
                stderr.print(f"round {number + 1} of {rounds}", highlight=False)
        finally:
            spark.stop()
    ratios = {
        kind: spread(paired_ratios(taken_s[kind], taken_s["calm"]), rng) for kind in taken_s if kind != "calm"
    }
    document = {
        "benchmark": "disturbances",
        "runs": rounds,
        "seed": seed,
        "scheduler": "stock" if stock else "spark_sched",
        "sizes": sizes(scrapes),
        "makespan_s": {kind: [round(s, 3) for s in values] for kind, values in taken_s.items()},
        "disturbances": done,
        "ratio": {kind: ratio.as_json() for kind, ratio in ratios.items()},
        "goal": _GOAL,
        "goal_met": all(ratio.mean <= _GOAL for ratio in ratios.values()),
    }
    lines = [
        f"{kind}: {ratio.mean:.3f}{interval(ratio.as_json(), 3)} times the calm makespan; {done[kind]} times"
        for kind, ratio in ratios.items()
    ]
    publish(document, [*lines, f"goal {_GOAL}"], json_output)


def sizes(scrapes: int) -> dict[str, int]:
    """The work of one run, for the document."""
    return {
        "jobs": _JOBS,
        "stages": _STAGES,
        "tasks": _TASKS,
        "task_ms": _TASK_MS,
        "scrapes_per_s": scrapes,
    }


if __name__ == "__main__":
    main()
