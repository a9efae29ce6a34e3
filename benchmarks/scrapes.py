#!/usr/bin/env python3
"""What a scrape of the metrics costs the driver, compared with stock Spark.

    python benchmarks/scrapes.py [--rounds N] [--scrapes N] [--json]

Two applications on ``local[8]``, stock and spark_sched, each after three marked jobs. In each round both are
scraped ``--scrapes`` times in a row, in random order. The processor time of a driver per scrape is that of
its process over the series; what spark_sched adds is the difference within a round. The same follows for the
status document, which stock Spark does not have.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import numpy as np
from _common import METRICS, interval, local_properties, publish, stderr, workspace

from spark_sched_lab.runs.paired.statistics import spread

_MASTER = "local[8]"
_TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
_PATHS = {"scrape": "/metrics/prometheus/", "document": "/sched/api/v1/status"}


@dataclass
class Driver:
    """A driver that waits: its process and a connection to its UI."""

    pid: int
    connection: http.client.HTTPConnection
    answer: str = ""

    def per_read_ms(self, path: str, times: int) -> float:
        """Processor time that the driver takes for one of that many reads."""
        before_s = self._processor_s()
        for _ in range(times):
            self.connection.request("GET", path)
            answer = self.connection.getresponse()
            self.answer = answer.read().decode()
            if answer.status != 200:
                raise click.ClickException(f"{path}: status {answer.status}")
        return 1e3 * (self._processor_s() - before_s) / times

    def _processor_s(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * _TICK_S


def wait_as(scheduler: str, directory: Path) -> None:
    """Be the application: run some jobs, say where the driver is, wait until standard input ends."""
    from pyspark.sql import SparkSession

    import spark_sched
    from spark_sched import attach

    properties = local_properties(directory) | {
        "spark.eventLog.enabled": "false",
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        **METRICS,
    }
    stock = scheduler == "stock"
    given = {**properties, "spark.master": _MASTER} if stock else attach.conf(_MASTER, properties)
    builder = SparkSession.builder
    for name, value in given.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    while not stock and not spark_sched.status(spark).planner.alive:
        time.sleep(0.2)
    sleep = "java_method('java.lang.Thread', 'sleep', 60L)"
    rows: Any = spark.range(0, 32, 1, 32).selectExpr(sleep)._jdf.javaRDD()
    for number in range(3):
        with spark_sched.job(spark, f"report-{number}", priority=number):
            for _ in range(3):
                rows.count()
    jvm: Any = spark.sparkContext._jvm
    click.echo(
        json.dumps({"pid": jvm.java.lang.ProcessHandle.current().pid(), "url": spark.sparkContext.uiWebUrl})
    )
    sys.stdin.read()
    spark.stop()


@contextlib.contextmanager
def driver(scheduler: str, directory: Path) -> Iterator[Driver]:
    command = [sys.executable, __file__, "--as", scheduler, "--directory", str(directory)]
    with (directory / f"{scheduler}.log").open("w") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            raise click.ClickException(
                f"the application of {scheduler} ended: {(directory / log.name).read_text()}"
            )
        found = json.loads(line)
        yield Driver(found["pid"], http.client.HTTPConnection(urlsplit(found["url"]).netloc, timeout=60))
    finally:
        process.stdin.close()
        process.wait()


@click.command()
@click.option("--rounds", default=60, show_default=True)
@click.option("--scrapes", default=100, show_default=True, help="Of each driver in a round.")
@click.option("--warm-up", default=1_500, show_default=True, help="Scrapes before, for the JVM to compile.")
@click.option("--seed", default=0, show_default=True)
@click.option("--json", "json_output", is_flag=True)
@click.option("--as", "scheduler", hidden=True)
@click.option("--directory", type=click.Path(path_type=Path), hidden=True)
def main(
    rounds: int,
    scrapes: int,
    warm_up: int,
    seed: int,
    json_output: bool,
    scheduler: str | None,
    directory: Path | None,
) -> None:
    """Processor time of the driver per scrape of its metrics, on stock Spark and on spark_sched."""
    if scheduler is not None and directory is not None:
        wait_as(scheduler, directory)
        return
    rng = np.random.default_rng(seed)
    taken_ms: dict[str, list[float]] = {"stock": [], "spark_sched": []}
    lines = {}
    with workspace() as folder, driver("stock", folder) as stock, driver("spark_sched", folder) as ours:
        drivers = {"stock": stock, "spark_sched": ours}
        for each in drivers.values():
            each.per_read_ms(_PATHS["scrape"], warm_up)
        for number in range(rounds):
            for name in map(str, rng.permutation(list(drivers))):
                taken_ms[name].append(drivers[name].per_read_ms(_PATHS["scrape"], scrapes))
            stderr.print(f"round {number + 1} of {rounds}", highlight=False)
        lines = {name: each.answer.count("\n") for name, each in drivers.items()}
        ours.per_read_ms(_PATHS["document"], 3 * scrapes)
        document_ms = ours.per_read_ms(_PATHS["document"], 3 * scrapes)
    added = spread([b - a for a, b in zip(taken_ms["stock"], taken_ms["spark_sched"], strict=True)], rng)
    medians = {name: float(np.median(values)) for name, values in taken_ms.items()}
    document = {
        "benchmark": "scrapes",
        "runs": rounds,
        "seed": seed,
        "sizes": {"scrapes": scrapes, "warm_up": warm_up},
        "lines": lines,
        "median_ms": medians,
        "added_ms": added.as_json(),
        "status_document_ms": document_ms,
    }
    said = [
        f"{name}: {lines[name]} lines, {medians[name]:.2f} ms of processor time a scrape (median)"
        for name in taken_ms
    ]
    said.append(f"added by spark_sched: {added.mean:.2f} ms{interval(added.as_json(), 2)}")
    publish(document, [*said, f"status document: {document_ms:.2f} ms"], json_output)


if __name__ == "__main__":
    main()
