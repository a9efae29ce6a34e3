"""Shared by the benchmarks: one application in a separate process, and results with their basis."""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
from pyspark import SparkContext
from rich.console import Console

from spark_sched_lab.reports.machine import basis, basis_line
from spark_sched_lab.runs.paired.application import ArmApplication

stderr = Console(stderr=True)
#: Spark properties for metrics as Prometheus reads them (docs/how-to/watch-a-live-application.md).
METRICS = {
    "spark.metrics.conf.*.sink.prometheusServlet.class": "org.apache.spark.metrics.sink.PrometheusServlet",
    "spark.metrics.conf.*.sink.prometheusServlet.path": "/metrics/prometheus",
    "spark.metrics.namespace": "spark",
}


@contextlib.contextmanager
def workspace() -> Iterator[Path]:
    """A directory for logs and events that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="spark-sched-benchmark-") as name:
        directory = Path(name)
        (directory / "event-logs").mkdir()
        yield directory


@contextlib.contextmanager
def application(name: str, properties: dict[str, str], directory: Path) -> Iterator[ArmApplication]:
    """A Spark application in a process of its own, killed at the end whatever happens."""
    arm = ArmApplication(name, properties, directory)
    try:
        arm.launch()
        arm.wait_ready()
        yield arm
    finally:
        arm.kill()


def local_properties(directory: Path) -> dict[str, str]:
    """Spark properties for a quiet local application with a plain event log."""
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (directory / "event-logs").as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }


def publish(document: dict[str, Any], lines: list[str], json_output: bool) -> None:
    """Print a benchmark's sentences with its basis, or the JSON document alone."""
    full = {**document, "command": " ".join(["python", *sys.argv]), **basis()}
    if json_output:
        click.echo(json.dumps(full, indent=1))
        return
    for line in lines:
        click.echo(line)
    click.echo(f"basis: {document['runs']} runs; {basis_line(full)}")


def interval(found: Mapping[str, Any], digits: int = 1) -> str:
    """``" (95 %: low to high)"``, empty where there is none."""
    if found["low"] is None:
        return ""
    return f" (95 %: {found['low']:.{digits}f} to {found['high']:.{digits}f})"


def heap_mb(sc: SparkContext) -> float:
    """The driver's heap in use, once it does not shrink any more: cleaners work after a collection."""
    jvm: Any = sc._jvm.java.lang
    least = float("inf")
    for _ in range(8):
        jvm.System.gc()
        time.sleep(0.2)
        runtime = jvm.Runtime.getRuntime()
        used = (runtime.totalMemory() - runtime.freeMemory()) / 1e6
        if used > 0.99 * least:
            break
        least = used
    return min(least, used)
