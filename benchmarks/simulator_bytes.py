"""A digest of the results of each policy on random workloads, to compare two versions of the simulator.

    python benchmarks/simulator_bytes.py [--seeds 3] [--policy NAME]… > FILE

A change that must not change results prints the same lines before and after: run it in a checkout of either
version and compare the files. The workloads have jobs of several stages, users, classes, priorities,
isolation levels, deadlines, gangs, tasks that prefer nodes and operators' changes; the clusters have
distances, several partitions, and nodes that join, leave and die.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from spark_sched.config import validate
from spark_sched.policies import PolicySettings, available, create
from spark_sched_lab.engine.workload import MarkChange, SchedulingChange
from spark_sched_lab.simulator import ClusterSpec, JobSpec, Locality, NodeSpec, StageSpec, simulate

#: Predictors and times between plans of the runs; an ideal planner plans at once.
VARIANTS: tuple[tuple[str, int], ...] = (("none", 0), ("oracle", 0), ("history", 0), ("none", 1_000))


def stages_of(rng: random.Random, nodes: list[str], kind: str) -> Iterator[StageSpec]:
    count = rng.choice((1, 1, 2, 3))
    for number in range(count):
        tasks = rng.choice((1, 2, 5, 12))
        stage = StageSpec(
            [max(1, round(rng.expovariate(1 / 4_000))) for _ in range(tasks)],
            parents=(number - 1,) if number and rng.random() < 0.8 else (),
            delay_ms=rng.choice((0, 0, 300)),
            name=rng.choice(("map", "reduce", "")),
            part=number if rng.random() < 0.5 else 0,
        )
        if kind == "gangs" and tasks < 6 and rng.random() < 0.3:
            stage = replace(stage, gang=True, restartable=rng.random() < 0.5)
        elif kind == "near" and rng.random() < 0.6:
            near = [frozenset(rng.sample(nodes, rng.choice((0, 1, 2)))) for _ in range(tasks)]
            stage = replace(stage, near=near, near_wait_ms=1_500)
        yield stage


def jobs_of(seed: int, nodes: list[str], kind: str, count: int = 60) -> list[JobSpec]:
    rng = random.Random(f"{seed} {kind}")
    jobs, at_ms = [], 0
    for number in range(count):
        at_ms += round(rng.expovariate(1 / 900)) * rng.choice((0, 1, 1, 3))
        job = JobSpec(
            f"job-{number}",
            at_ms,
            tuple(stages_of(rng, nodes, kind)),
            name=rng.choice(("etl", "report", "")),
            user=rng.choice((None, "ann", "bob")),
            job_class=rng.choice((None, "short", "long")),
            tail_ms=rng.choice((0, 0, 700)),
            copies=rng.random() < 0.9,
        )
        if kind != "plain":
            job = replace(
                job,
                priority=rng.choice((0, 0, 5, 10)),
                isolation=rng.choice((None, 0.0, 0.5, 1.0)) if kind in ("marks", "near") else 0.0,
                deadline_ms=at_ms + rng.randrange(5_000, 90_000) if rng.random() < 0.5 else None,
            )
        if kind == "changes" and rng.random() < 0.4:
            after_ms = rng.randrange(0, 6_000)
            changes = (
                MarkChange(after_ms, rng.choice((0, 5)), isolation=0.0, on_hold=rng.random() < 0.6),
                MarkChange(after_ms + rng.randrange(0, 9_000), 0, isolation=0.0),
            )
            job = replace(job, changes=changes)
        jobs.append(job)
    return jobs


def cluster_of(seed: int, kind: str) -> ClusterSpec:
    rng = random.Random(f"cluster {seed} {kind}")
    nodes = [
        NodeSpec(f"n{number}", rng.choice((1, 2, 3)), partition=number % 2, rack=number % 3)
        for number in range(5)
    ]
    if kind == "nodes":
        nodes[1] = replace(nodes[1], from_ms=8_000)
        nodes[2] = replace(nodes[2], until_ms=20_000)
        nodes[3] = replace(nodes[3], until_ms=15_000, dies=True)
    far = kind == "distance"
    return ClusterSpec(tuple(nodes), locality=Locality(wait_ms=1_000, slowdown=2.0) if far else None)


def changes_of(seed: int, policy: str) -> tuple[SchedulingChange, ...]:
    """Another policy from 12 s on, and the first one again from 30 s on."""
    others = [name for name in ("fifo", "las", "fair", "uwfq", "reservation") if name != policy]
    settings = PolicySettings.from_config(validate({}))
    return (
        SchedulingChange(12_000, policy=create(others[seed % len(others)], settings)),
        SchedulingChange(30_000, policy=create(policy, settings)),
    )


def digest(kind: str, policy: str, seed: int, predictor: str, every_ms: int, **settings: str) -> str:
    """Of all rows and sums of one run."""
    cluster = cluster_of(seed, kind)
    jobs = jobs_of(seed, [node.name for node in cluster.nodes], kind)
    more: dict[str, Any] = {"changes": changes_of(seed, policy)} if kind == "switches" else {}
    try:
        result = simulate(
            cluster, jobs, policy, settings=settings, predictor=predictor, plan_every_ms=every_ms, seed=seed,
            **more,
        )  # fmt: skip
    except LookupError as error:  # a fault of either version is a result, too
        return repr(error)
    text = json.dumps([result.jobs, result.tasks, result.totals], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


_FAIR = "spark.sched.policy.fair"
OPTIONS: dict[str, list[dict[str, str]]] = {
    "fair": [
        {},
        {f"{_FAIR}.poolBy": "user", f"{_FAIR}.weights": "ann=2"},
        {f"{_FAIR}.poolBy": "class", f"{_FAIR}.minShares": "short=3"},
    ]
}
KINDS = ("plain", "marks", "gangs", "near", "changes", "nodes", "distance", "switches")


def runs(policies: list[str], seeds: int) -> Iterator[str]:
    """A line for each run."""
    for policy in policies:
        for settings in OPTIONS.get(policy, [{}]):
            for kind in KINDS:
                for predictor, every_ms in VARIANTS:
                    for seed in range(seeds):
                        found = digest(kind, policy, seed, predictor, every_ms, **settings)
                        shown = ",".join(settings.values())
                        yield f"{policy} {shown} {kind} {predictor} {every_ms} {seed} {found}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--policy", action="append", help="default: all")
    given = parser.parse_args()
    for line in runs(given.policy or list(available()), given.seeds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
