#!/usr/bin/env python3
"""Memory and threads of the driver while executors are lost, with this scheduler and with stock Spark.

    python benchmarks/executor_losses.py [--losses N] [--every N] [--policy NAME] [--json]

One application per arm on ``local-cluster[3,2,512]``, both at once, so that the machine is equally busy for
both. Threads run jobs of two stages without a pause, while one executor after the other is killed by SIGKILL,
each when the one before has been replaced. After every few losses the jobs pause, and the driver's live heap
after garbage collections and its threads are measured. Threads are counted by the name of their pool. The
first fifth of the measurements is left out of the slopes: pools and caches fill.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click
from _common import heap_mb, local_properties, publish, stderr, workspace
from pyspark import InheritableThread, SparkContext
from pyspark.sql import SparkSession
from scipy import stats

import spark_sched
from spark_sched import attach

_MASTER = "local-cluster[3,2,512]"
_EXECUTORS = 3
_TENANTS = 3
_WARM_UP = 0.2
_ARMS = ("stock", "ours")


def _threads(pid: int) -> Counter[str]:
    """The JVM's threads by pool: their names without numbers."""
    pools: Counter[str] = Counter()
    for entry in Path(f"/proc/{pid}/task").glob("*/comm"):
        try:
            pools[re.sub(r"[\d-]+", "#", entry.read_text().strip())] += 1
        except OSError:
            continue  # it ended while being looked at
    return pools


def _executor_pids(sc: SparkContext) -> list[int]:
    """Executors of the driver: Java processes below it."""
    found = []
    driver = int(sc._jvm.java.lang.ProcessHandle.current().pid())
    for children in Path(f"/proc/{driver}/task").glob("*/children"):
        try:
            pids = [int(pid) for pid in children.read_text().split()]
        except OSError:
            continue
        for pid in pids:
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            if b"CoarseGrainedExecutorBackend" in command:
                found.append(pid)
    return sorted(found)


def _until(condition: Callable[[], bool], what: str, within_s: float = 600.0) -> None:
    deadline_s = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline_s:
            raise click.ClickException(f"{what} within {within_s:g} s")
        time.sleep(0.05)


class Load:
    """Tenants that run jobs until they are told to pause."""

    def __init__(self, spark: SparkSession, marked: bool) -> None:
        self._spark = spark
        self._marked = marked
        self._go, self._over = threading.Event(), False
        self._busy = [threading.Event() for _ in range(_TENANTS)]
        self.jobs = 0
        self._threads = [InheritableThread(target=self._run, args=(n,)) for n in range(_TENANTS)]
        for thread in self._threads:
            thread.start()

    def resume(self) -> None:
        self._go.set()

    def pause(self) -> None:
        """Return when no job runs."""
        self._go.clear()
        _until(lambda: not any(each.is_set() for each in self._busy), "the jobs were to end")

    def stop(self) -> None:
        self._over = True
        self._go.set()
        for thread in self._threads:
            thread.join()

    def _run(self, tenant: int) -> None:
        while not self._over:
            self._go.wait()
            self._busy[tenant].set()
            if not self._over and self._go.is_set():
                if self._marked:
                    with spark_sched.job(self._spark, f"tenant-{tenant}", priority=tenant):
                        self._job()
                else:
                    self._job()
                self.jobs += 1
            self._busy[tenant].clear()

    def _job(self) -> None:
        # Tasks sleep in the JVM: no Python worker of a killed executor is left behind.
        rows = self._spark.range(0, 40, 1, 4).selectExpr(
            "id % 4 AS k", "java_method('java.lang.Thread', 'sleep', 5L) AS slept"
        )
        assert rows.groupBy("k").count().count() == 4


def measure_arm(stock: bool, policy: str, losses: int, every: int) -> dict[str, Any]:
    """One application. Returns its measurements."""
    with workspace() as directory:
        properties = {
            **local_properties(directory),
            "spark.task.maxFailures": "1000",
            "spark.stage.maxConsecutiveAttempts": "1000",
            "spark.deploy.maxExecutorRetries": "-1",
            "spark.sql.shuffle.partitions": "4",
            "spark.ui.retainedJobs": "50",
            "spark.ui.retainedStages": "50",
            "spark.ui.retainedTasks": "200",
            "spark.sql.ui.retainedExecutions": "10",
            "spark.ui.retainedDeadExecutors": "5",
            "spark.driver.memory": "1g",
            "spark.executor.memory": "512m",
        }
        builder = SparkSession.builder.appName("executor losses")
        if stock:
            builder = builder.master(_MASTER)
        else:
            properties |= {"spark.sched.planner.policy": policy}
            properties = attach.conf(_MASTER, properties)
        spark = builder.config(map=properties).getOrCreate()
        sc = spark.sparkContext
        pid = int(sc._jvm.java.lang.ProcessHandle.current().pid())
        load = Load(spark, marked=not stock)
        rows: list[dict[str, Any]] = []
        for loss in range(losses + 1):
            if loss % every == 0:
                load.pause()
                _until(lambda: len(_executor_pids(sc)) == _EXECUTORS, "all executors were to be there")
                pools = _threads(pid)
                rows.append(
                    {
                        "losses": loss,
                        "jobs": load.jobs,
                        "heap_mb": round(heap_mb(sc), 1),
                        "threads": sum(pools.values()),
                        "pools": dict(pools.most_common(12)),
                    }
                )
                arm = "stock" if stock else "ours"
                line = f"{arm}, {loss} lost: {rows[-1]['heap_mb']} MB, {rows[-1]['threads']} threads"
                stderr.print(line, highlight=False)
                load.resume()
            if loss < losses:
                before = load.jobs
                _until(lambda: len(_executor_pids(sc)) == _EXECUTORS, "all executors were to be there")
                _until(lambda before=before: load.jobs > before, "a job was to end")
                os.kill(_executor_pids(sc)[loss % _EXECUTORS], signal.SIGKILL)
        load.stop()
        spark.stop()
    return {"rows": rows, **{key: _slope(rows, key) for key in ("heap_mb", "threads")}}


def _slope(rows: list[dict[str, Any]], key: str) -> dict[str, float]:
    """Growth per 100 losses, with its 95 % interval."""
    kept = rows[int(len(rows) * _WARM_UP) :]
    found = stats.linregress([row["losses"] for row in kept], [row[key] for row in kept])
    half = found.stderr * stats.t.ppf(0.975, max(1, len(kept) - 2))
    return {
        "per_100": round(100 * found.slope, 2),
        "low": round(100 * (found.slope - half), 2),
        "high": round(100 * (found.slope + half), 2),
    }


def _in_a_process(arm: str, policy: str, losses: int, every: int) -> dict[str, Any]:
    """An arm in a process of its own, since a JVM keeps what its first application loaded."""
    command = [sys.executable, __file__, "--arm", arm, "--policy", policy]
    command += ["--losses", str(losses), "--every", str(every)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@click.command(help=__doc__)
@click.option("--losses", default=60, show_default=True, type=click.IntRange(min=10))
@click.option("--every", default=6, show_default=True, type=click.IntRange(min=1))
@click.option("--policy", default="reservation", show_default=True)
@click.option("--arm", type=click.Choice(_ARMS), help="Run this arm alone, in this process.")
@click.option("--json", "json_output", is_flag=True)
def main(losses: int, every: int, policy: str, arm: str | None, json_output: bool) -> None:
    if arm is not None:
        click.echo(json.dumps(measure_arm(arm == "stock", policy, losses, every)))
        return
    with ThreadPoolExecutor() as pool:
        running = {name: pool.submit(_in_a_process, name, policy, losses, every) for name in _ARMS}
    arms = {name: each.result() for name, each in running.items()}
    lines = []
    for name, found in arms.items():
        first, last = found["rows"][0], found["rows"][-1]
        heap, threads = found["heap_mb"], found["threads"]
        lines.append(
            f"{name}: heap {first['heap_mb']} to {last['heap_mb']} MB, {heap['per_100']:+} MB per 100 losses "
            f"(95 %: {heap['low']:+} to {heap['high']:+}); threads {first['threads']} to {last['threads']}, "
            f"{threads['per_100']:+} per 100 ({threads['low']:+} to {threads['high']:+}); {last['jobs']} jobs"
        )
    document = {"losses": losses, "policy": policy, "runs": 1, "arms": arms}
    publish(document, lines, json_output)


if __name__ == "__main__":
    main()
