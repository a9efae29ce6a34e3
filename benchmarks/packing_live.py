#!/usr/bin/env python3
"""Packing on real Spark: executors that dynamic allocation releases at a low load, and what the jobs pay.

    python benchmarks/packing_live.py [--runs N] [--json]

One standalone cluster on loopback hosts and two warm applications with dynamic allocation: stock Spark and
spark_sched with ``spark.sched.placement=pack``. In each run both get the same jobs at the same times, side by
side. A wide job brings all executors up; then jobs of one to three sleeping tasks come at random, so that
30 % of all slots are busy on average. Executors are counted in the event logs from 20 s on to the last
possible arrival, and their hosts' energy follows from the thesis' server type A.

Jobs have one stage: Spark keeps executors with shuffle files, whichever way tasks are placed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click
import numpy as np
from _common import interval, local_properties, publish, stderr, workspace
from _live import LIGHT_JVM, launched

from spark_sched import attach
from spark_sched_lab.runs.clusters import LocalCluster
from spark_sched_lab.runs.paired.application import ArmApplication, StagesJob, StagesResult
from spark_sched_lab.runs.paired.statistics import paired_ratios, spread
from spark_sched_lab.traces import read_trace
from spark_sched_lab.usage import Presence, Usage, account_energy, read_profile, usage_of_event_log

ARMS = ("stock", "pack")
#: Seconds from the wide job's start until executors are counted, and until the other jobs begin to come. Idle
#: executors must not reach their timeout in between, or both applications would release theirs.
LEAD_S, FIRST_S = 20.0, 5.0
PROFILE = Path(__file__).parents[1] / "conf" / "energy" / "thesis.toml"


def one_run(slots: int, load: float, horizon_s: float, rng: np.random.Generator) -> list[StagesJob]:
    """A wide job, jobs of 1 to 3 tasks of 2 to 4 s each at random times, and a short one when they are over.

    The last one is not measured: an executor without an end counts until the event log's last event.
    """
    wide = [3_000] * slots
    jobs = [StagesJob([(wide, wide)])]
    end_s = LEAD_S + horizon_s
    for _ in range(round(load * slots * (end_s - FIRST_S) / (2.0 * 3.0))):
        ms = [int(rng.uniform(2_000, 4_000))] * int(rng.integers(1, 4))
        jobs.append(StagesJob([(ms, ms)], delay_s=float(rng.uniform(FIRST_S, end_s))))
    short = [100]
    return [*jobs, StagesJob([(short, short)], delay_s=end_s)]


def jct_of(run: StagesResult) -> float:
    """Mean completion time in seconds of the jobs that are measured."""
    return float(np.mean(run.jct_s[1:-1]))


@contextlib.contextmanager
def applications(
    executors: int, cores: int, idle_s: int, headroom: float | None, directory: Path
) -> Iterator[dict[str, ArmApplication]]:
    """Both applications on one cluster, each with as many executors as there are hosts at most."""
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(LocalCluster(executors, len(ARMS) * cores, "2g"))
        base = {
            **local_properties(directory),
            "spark.executor.cores": str(cores),
            "spark.executor.memory": "512m",
            "spark.driver.memory": "512m",
            "spark.driver.extraJavaOptions": LIGHT_JVM,
            "spark.executor.extraJavaOptions": LIGHT_JVM,
            "spark.dynamicAllocation.enabled": "true",
            "spark.dynamicAllocation.shuffleTracking.enabled": "true",
            "spark.dynamicAllocation.initialExecutors": str(executors),
            "spark.dynamicAllocation.minExecutors": "1",
            "spark.dynamicAllocation.maxExecutors": str(executors),
            "spark.dynamicAllocation.executorIdleTimeout": f"{idle_s}s",
        }
        found = {}
        for name in ARMS:
            if name == "stock":
                given = {**base, "spark.master": cluster.master_url}
            else:
                more = {"spark.sched.placement": "pack"}
                if headroom is not None:
                    more["spark.sched.placement.headroom"] = str(headroom)
                given = dict(attach.conf(cluster.master_url, {**base, **more}))
            found[name] = given
        yield launched(found, directory, stack)


def between(usage: Usage, start_ms: float, end_ms: float) -> Usage:
    """The executors and attempts of a span of time."""
    clipped = [
        Presence(p.executor, p.slots, max(p.start_ms, int(start_ms)), min(p.end_ms, int(end_ms)), p.host)
        for p in usage.executors
        if p.start_ms < end_ms and p.end_ms > start_ms
    ]
    return Usage(clipped, usage.owners, usage.attempts)


def measured(log: Path, runs: list[StagesResult], horizon_s: float) -> list[dict[str, float]]:
    """Mean executors, executors removed and the hosts' energy of each run, from the event log."""
    trace = read_trace(log, "spark_eventlog")
    usage, profile = usage_of_event_log(trace), read_profile(PROFILE)
    origin_ms = trace.meta.origin_epoch_ms or 0
    found = []
    for run in runs:
        start_ms = run.started_ms - origin_ms + 1000 * LEAD_S
        end_ms = start_ms + 1000 * horizon_s
        part = between(usage, start_ms, end_ms)
        executors = sum(p.end_ms - p.start_ms for p in part.executors) / (1000 * horizon_s)
        removed = sum(start_ms < p.end_ms < end_ms for p in usage.executors)
        energy_j = account_energy([part], profile).energy_j
        found.append({"executors": executors, "removed": float(removed), "energy_kj": energy_j / 1000})
    return found


def report(
    done: Mapping[str, list[StagesResult]],
    found: Mapping[str, list[dict[str, float]]],
    executors: int,
    rng: np.random.Generator,
) -> tuple[dict[str, Any], list[str]]:
    """The document's figures, and sentences."""
    jct = {name: [jct_of(run) for run in done[name]] for name in ARMS}
    released = {name: [executors - each["executors"] for each in found[name]] for name in ARMS}
    energy = {name: [each["energy_kj"] for each in found[name]] for name in ARMS}
    document: dict[str, Any] = {
        "jct_over_stock": spread(paired_ratios(jct["pack"], jct["stock"]), rng).as_json(),
        "energy_over_stock": spread(paired_ratios(energy["pack"], energy["stock"]), rng).as_json(),
        "released": {name: spread(released[name], rng).as_json() for name in ARMS},
        "runs_of_arms": {
            name: [{**each, "jct_s": j} for each, j in zip(found[name], jct[name], strict=True)]
            for name in ARMS
        },
    }
    lines = []
    for name in ARMS:
        gone, removed = document["released"][name], np.mean([each["removed"] for each in found[name]])
        lines.append(
            f"{name}: {gone['mean']:.2f} of {executors} executors released on average{interval(gone, 2)}, "
            f"{removed:.1f} removals a run, mean JCT {np.mean(jct[name]):.2f} s"
        )
    for what, key in (("JCT", "jct_over_stock"), ("energy of the hosts", "energy_over_stock")):
        ratio = document[key]
        lines.append(f"{what}, pack over stock: {ratio['mean']:.3f}{interval(ratio, 3)}")
    return document, lines


@click.command()
@click.option("--runs", default=4, show_default=True, help="Paired runs.")
@click.option("--executors", default=6, show_default=True, help="Hosts, and executors of each application.")
@click.option("--cores", default=8, show_default=True, help="Slots of an executor; its tasks sleep.")
@click.option("--load", default=0.3, show_default=True, help="Share of the slots that is busy on average.")
@click.option("--horizon", "horizon_s", default=90.0, show_default=True, help="Seconds measured in a run.")
@click.option("--idle", "idle_s", default=15, show_default=True, help="Dynamic allocation's idle timeout.")
@click.option("--headroom", type=float, help="spark.sched.placement.headroom; default: its own.")
@click.option("--seed", default=0, show_default=True)
@click.option("--json", "json_output", is_flag=True)
def main(
    runs: int,
    executors: int,
    cores: int,
    load: float,
    horizon_s: float,
    idle_s: int,
    headroom: float | None,
    seed: int,
    json_output: bool,
) -> None:
    """Executors released with packing and by stock Spark."""
    done: dict[str, list[StagesResult]] = {name: [] for name in ARMS}
    with workspace() as directory:
        with (
            applications(executors, cores, idle_s, headroom, directory) as running,
            ThreadPoolExecutor(len(ARMS)) as pool,
        ):
            warm = one_run(executors * cores, load, 5.0, np.random.default_rng([seed, 1 << 20]))
            list(pool.map(lambda arm: arm.stages(warm), running.values()))
            for run in range(runs):
                jobs = one_run(executors * cores, load, horizon_s, np.random.default_rng([seed, run]))
                results = pool.map(lambda name, jobs=jobs: running[name].stages(jobs), ARMS)
                for name, result in zip(ARMS, results, strict=True):
                    done[name].append(result)
                line = ", ".join(f"{name} {jct_of(done[name][-1]):.2f} s" for name in ARMS)
                stderr.print(f"run {run + 1} of {runs}: mean completion time {line}", highlight=False)
            logs = {}
            for name, arm in running.items():
                logs[name] = directory / "event-logs" / arm.application
                arm.stop()
        found = {name: measured(logs[name], done[name], horizon_s) for name in ARMS}
    figures, lines = report(done, found, executors, np.random.default_rng(seed))
    sizes: dict[str, Any] = {"executors": executors, "cores": cores, "load": load, "horizon_s": horizon_s}
    sizes |= {"idle_s": idle_s, "headroom": headroom}
    publish(
        {"benchmark": "packing_live", "runs": runs, "seed": seed, "sizes": sizes, **figures},
        lines,
        json_output,
    )


if __name__ == "__main__":
    main()
