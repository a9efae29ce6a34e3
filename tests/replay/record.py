"""Records event logs of real applications on a local standalone cluster, for replays to be checked against.

    python -m tests.replay.record OUT [--seeds 1 2 3] [--schedulers stock-fifo stock-fair reserved las]

One application per scheduler and seed, each with the same mix for a seed: jobs of sleeping tasks in one to
three Spark jobs (some with a shuffle between two stages) with think time between them, of several priorities
and widths, SQL jobs, and the demo's PageRank and KMeans between them. ``stock-*`` is Spark's own scheduler
with job groups; ``reserved`` the attached one with marks, and any other name the same under the policy of
that name. Each log is a zstd file ``<scheduler>-<seed>.zstd``.

With ``--cached`` the applications run KMeans and PageRank over cached RDDs instead (`tests.replay.cached`),
on four executors of two hosts: ``alone`` one after the other, where each Spark job is a job, or ``contended``
at once and beside jobs of sleeping tasks. The logs are ``cached-<which of them>-<scheduler>-<seed>.zstd``.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_sched import attach
from spark_sched_lab.runs.clusters import LocalCluster
from tests.replay.cached import PROGRAMS, CachedInput

ROOT = Path(__file__).parents[2]
SCHEDULERS = ("stock-fifo", "stock-fair", "reserved")
WORKERS, SLOTS_PER_WORKER = 2, 4
#: Executors of applications with cached data: each host has two.
CACHED_EXECUTORS, CACHED_CORES = 4, 2
PRIORITIES = (0, 0, 0, 5, 10)
PRIORITY_OF_DEMO = 10


def is_attached(scheduler: str) -> bool:
    return not scheduler.startswith("stock-")


def plan(seed: int, jobs: int) -> list[dict[str, Any]]:
    """The mix of one seed: what each job waits for, asks for and runs; times in seconds."""
    rng = random.Random(seed)
    at_s, found = 0.0, []
    for number in range(jobs):
        actions = []
        for _ in range(rng.randint(1, 3)):
            mean_s = rng.uniform(0.3, 1.6)
            stages = [
                [round(mean_s * rng.lognormvariate(-0.1, 0.45), 3) for _ in range(rng.randint(2, 14))]
                for _ in range(rng.choice((1, 1, 2)))
            ]
            actions.append({"stages": stages, "think_s": round(rng.uniform(0.0, 0.4), 3)})
        found.append(
            {
                "name": f"job-{number}",
                "arrival_s": round(at_s, 3),
                "priority": rng.choice(PRIORITIES),
                "kind": rng.choice(("rdd", "rdd", "sql")),
                "actions": actions,
            }
        )
        at_s += rng.expovariate(1 / 2.2)
    return found


# ---- in the application ----


def run_action(spark: Any, kind: str, stages: list[list[float]]) -> None:
    """One Spark action: its stages' tasks sleep as long as the plan says."""
    sc = spark.sparkContext
    if kind == "sql" and len(stages) == 1:
        from spark_sched_lab.runs.workloads.submit import sleeping_tasks

        sleeping_tasks(spark, tuple(round(1000 * s) for s in stages[0])).collect()
        return

    def sleeping(times_s: list[float]) -> Callable[[int, Any], Any]:
        def body(partition: int, rows: Any) -> Any:
            pairs = list(rows)
            time.sleep(times_s[partition])
            return iter(pairs or [(partition, 1)])

        return body

    rdd = sc.parallelize([], len(stages[0])).mapPartitionsWithIndex(sleeping(stages[0]))
    for times_s in stages[1:]:
        rdd = rdd.partitionBy(len(times_s)).mapPartitionsWithIndex(sleeping(times_s))
    rdd.count()


def run_application(spec: dict[str, Any]) -> None:
    """The whole mix in this process's own application."""
    from pyspark import InheritableThread
    from pyspark.sql import SparkSession

    from spark_sched.api import job as session
    from spark_sched_lab.runs.workloads.foreground import WORKLOADS, ForegroundSize
    from spark_sched_lab.runs.workloads.storage import SlowStorage

    spark = SparkSession.builder.config(map=spec["properties"]).getOrCreate()
    sc = spark.sparkContext
    sc.setLogLevel("ERROR")
    slots = WORKERS * SLOTS_PER_WORKER
    while len(sc._jsc.sc().statusTracker().getExecutorInfos()) < 1 + spec["executors"]:
        time.sleep(0.1)
    sc.setJobGroup("warm-up", "warm-up")
    for _ in range(2):
        run_action(spark, "rdd", [[0.3] * slots, [0.1] * slots])
        run_action(spark, "sql", [[0.1] * slots])
    attached = is_attached(spec["scheduler"])
    if spec["cached"] == "alone":
        # Without a group each Spark job is a job.
        for number, program in enumerate(PROGRAMS.values()):
            sc.setLocalProperty("spark.jobGroup.id", None)
            sc.setLocalProperty("spark.job.description", None)
            program(sc, cached_input(spec["seed"], number, "alone"), 5)
        spark.stop()
        return
    started_s = time.monotonic()
    failures: list[str] = []

    def as_job(job: dict[str, Any], work: Callable[[], None]) -> None:
        time.sleep(max(0.0, started_s + job["arrival_s"] - time.monotonic()))
        sc.setLocalProperty("spark.scheduler.pool", "high" if job["priority"] else None)
        try:
            if attached and job["priority"]:
                with session.job(spark, job["name"], priority=job["priority"]):
                    work()
            else:
                sc.setJobGroup(job["name"], job["name"])
                work()
        except Exception as error:
            failures.append(f"{job['name']}: {error}")

    def synthetic(job: dict[str, Any]) -> Callable[[], None]:
        def work() -> None:
            for action in job["actions"]:
                run_action(spark, job["kind"], action["stages"])
                time.sleep(action["think_s"])

        return work

    def demo(name: str) -> Callable[[], None]:
        if spec["cached"]:
            source = cached_input(spec["seed"], len(name), "contended")
            return lambda: void(PROGRAMS[name](sc, source, 4))
        size = ForegroundSize(SlowStorage(6, 0.5, 0.9, seed=spec["seed"]), passes=4)
        return lambda: void(WORKLOADS[name](sc, size))

    def void(_: object) -> None:
        return None

    last_s = max(job["arrival_s"] for job in spec["jobs"])
    demos = [
        {"name": name, "arrival_s": last_s * part, "priority": PRIORITY_OF_DEMO}
        for name, part in zip(spec["demos"], (0.15, 0.55, 0.8), strict=False)
    ]
    threads = [InheritableThread(as_job, args=(job, synthetic(job))) for job in spec["jobs"]]
    threads += [InheritableThread(as_job, args=(job, demo(job["name"]))) for job in demos]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spark.stop()
    if failures:
        raise SystemExit("\n".join(failures))


def cached_input(seed: int, number: int, kind: str) -> CachedInput:
    if kind == "alone":
        return CachedInput(30, (1.0, 6.0), (0.4, 1.9), seed=10 * seed + number)
    return CachedInput(20, (0.5, 3.0), (0.3, 1.2), seed=10 * seed + number)


# ---- outside ----


def record(
    cluster: LocalCluster,
    out: Path,
    scheduler: str,
    seed: int,
    *,
    jobs: int = 14,
    demos: tuple[str, ...] = ("pagerank", "kmeans"),
    cached: str = "",
) -> Path:
    """Runs one application on the cluster and returns its event log. Raises RuntimeError if it failed."""
    name = f"cached-{cached}-{scheduler}-{seed}" if cached else f"{scheduler}-{seed}"
    java = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    with tempfile.TemporaryDirectory() as folder:
        properties = {
            **cluster.spark_conf(),
            "spark.app.name": name,
            "spark.executor.memory": "600m",
            "spark.executor.cores": str(CACHED_CORES if cached else SLOTS_PER_WORKER),
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": Path(folder).as_uri(),
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.compress": "true",
            "spark.eventLog.compression.codec": "zstd",
            # Plans and metrics of SQL are most of a log, and nothing here reads them.
            "spark.eventLog.includeTaskMetricsAccumulators": "false",
            "spark.scheduler.mode": "FAIR" if scheduler == "stock-fair" else "FIFO",
            "spark.python.daemon.module": "spark_sched_lab.runs.workloads.warm_daemon",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.extraJavaOptions": java,
            "spark.executor.extraJavaOptions": java,
            "spark.executorEnv.PYTHONPATH": str(ROOT),
        }
        if is_attached(scheduler):
            properties = attach.conf(properties.pop("spark.master"), properties)
        if is_attached(scheduler) and scheduler != "reserved":
            properties["spark.sched.planner.policy"] = scheduler
        spec = {
            "scheduler": scheduler,
            "cached": cached,
            "executors": CACHED_EXECUTORS if cached else WORKERS,
            "seed": seed,
            "jobs": plan(seed, jobs),
            "demos": demos,
            "properties": properties,
        }
        done = subprocess.run(
            [sys.executable, "-m", "tests.replay.record", "--application"],
            input=json.dumps(spec),
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{name} failed:\n{done.stderr[-4000:]}")
        (log,) = Path(folder).iterdir()
        out.mkdir(parents=True, exist_ok=True)
        kept = out / f"{name}.zstd"
        tidy(log, kept)
    return kept


#: What the environment event says of the machine, and any path on it: nothing that a replay reads.
_MACHINE = ("System Properties", "Classpath Entries", "Hadoop Properties", "JVM Information")
_PATH = re.compile(r"(?<![\w.])(?:file:)?/(?:[\w.+@-]+/)+([\w.+@-]*)")


def tidy(log: Path, kept: Path) -> None:
    """Writes the log packed tightly and without this machine's paths, to be kept beside the tests."""
    lines = []
    with pa.input_stream(str(log), compression="zstd") as stream:
        for text in stream.read().decode().splitlines():
            event = json.loads(text)
            for name in _MACHINE:
                if name in event:
                    event[name] = {}
            for name in ("Spark Properties", "Properties"):
                # It names the folder of the checkout.
                (event.get(name) or {}).pop("spark.executorEnv.PYTHONPATH", None)
            lines.append(_PATH.sub(r"/\1", json.dumps(event, separators=(",", ":"))))
    whole = ("\n".join(lines) + "\n").encode()
    kept.write_bytes(pa.Codec("zstd", compression_level=19).compress(whole, asbytes=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--schedulers", nargs="+", default=list(SCHEDULERS))
    parser.add_argument("--jobs", type=int, default=14)
    parser.add_argument("--demos", nargs="*", default=["pagerank", "kmeans"])
    parser.add_argument("--cached", nargs="+", choices=["alone", "contended"], default=[""])
    parser.add_argument("--application", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.application:
        run_application(json.load(sys.stdin))
        return
    attach.build()
    with LocalCluster(WORKERS, SLOTS_PER_WORKER, "1300m") as cluster:
        for seed in given.seeds:
            for scheduler, cached in product(given.schedulers, given.cached):
                begun_s = time.monotonic()
                demos = tuple(given.demos)
                log = record(cluster, given.out, scheduler, seed, jobs=given.jobs, demos=demos, cached=cached)
                print(f"{log}: {log.stat().st_size} bytes, {time.monotonic() - begun_s:.0f} s", flush=True)


if __name__ == "__main__":
    main()
