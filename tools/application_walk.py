"""Random whole applications, and when the simulator starts each of their tasks.

Run as a program this file writes the golden applications that bind the simulator's `Launcher` to the driver's
``OfferRound``: both run them whole, under Spark's scheduler there and under the simulator's engine here.

    python tools/application_walk.py
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import golden_file
import numpy as np
from enforcement_rounds import plan_of

from spark_sched.policies.base import Capabilities, ChangesWith
from spark_sched.predict import Forecast
from spark_sched.protocol.plan import Plan, PoolShare
from spark_sched.state import Snapshot
from spark_sched_lab.simulator import ClusterSpec, JobSpec, NodeSpec, Result, StageSpec, simulate

SEED = 20261128
APPLICATIONS = 400
CROWDED = 100
_WAITING_COST = "spark.sched.limits.idleWaitingCost"
VALID_FOR_MS = 3_600_000
OUT = Path(__file__).parents[1] / "protocol" / "golden" / "enforcement" / "applications.json.gz"


def application(seed: int, *, crowded: bool = False) -> dict[str, Any]:
    """Executors, pools, jobs with their stages and pauses, and plans, drawn from a seed.

    In a crowded one jobs hold slots in each pause, which costs more while tasks of others wait.

    There is one executor per resource profile: which of several equal ones a task gets is left to chance on
    both sides.
    """
    rng = random.Random(seed)
    profiles = rng.choice((1, 2, 2, 3))
    slots = [rng.randint(1, 5) for _ in range(profiles)]
    fair = rng.random() < 0.5
    pools = [_pool(rng, f"pool {number}") for number in range(rng.randint(2, 3))] if fair else []
    jobs = sorted((_job(rng, slots, pools) for _ in range(rng.randint(2, 6))), key=lambda job: job["at_ms"])
    settings = {**_settings(rng), _WAITING_COST: "1"}
    if crowded:
        settings |= _crowd(rng, jobs)
    for number, job in enumerate(jobs):
        job["key"] = f"mark-job {number}" if job["marked"] else f"spark-{number}"
    return {
        "seed": seed,
        "settings": settings,
        "executors": [{"executor": f"e{p}", "slots": n, "profile": p} for p, n in enumerate(slots)],
        "fair": fair,
        "pools": pools,
        "jobs": jobs,
        "plans": _plans(rng, jobs, fair),
    }


def _settings(rng: random.Random) -> dict[str, str]:
    return {
        "spark.sched.reservation.firstGap": rng.choice(("0s", "1s", "3s")),
        "spark.sched.reservation.gap": rng.choice(("2s", "10s")),
        "spark.sched.reservation.maxHold": rng.choice(("2s", "10min")),
        "spark.sched.reservation.deadline": rng.choice(("pareto", "fixed")),
        "spark.sched.reservation.isolation": rng.choice(("0.3", "0.9", "1.0")),
        "spark.sched.reservation.minPriority": rng.choice(("0", "1")),
        "spark.sched.reservation.lookahead": rng.choice(("job", "stage")),
        "spark.sched.reservation.preReserveThreshold": rng.choice(("0.0", "0.5", "1.0")),
        "spark.sched.limits.idleShare": rng.choice(("0.1", "0.4", "1")),
        "spark.sched.limits.idleBurst": rng.choice(("0s", "1s", "5s")),
        "spark.sched.copies.enabled": "false",
    }


def _crowd(rng: random.Random, jobs: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Pauses for all jobs, and the settings by which they hold slots in them."""
    for job in jobs:
        job["marked"] = True
        for stage in job["stages"]:
            stage["delay_ms"] = rng.randint(500, 4_000)
    return {
        "spark.sched.reservation.firstGap": "3s",
        "spark.sched.reservation.gap": "10s",
        "spark.sched.reservation.minPriority": "0",
        "spark.sched.limits.idleBurst": rng.choice(("500ms", "1s", "2s")),
        _WAITING_COST: rng.choice(("2", "4", "7.5")),
    }


def _pool(rng: random.Random, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "weight": rng.randint(1, 3),
        "min_share": rng.choice((0, 0, 1, 2)),
        "fair": rng.random() < 0.3,
    }


def _job(rng: random.Random, slots: Sequence[int], pools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    profile = rng.randrange(len(slots))
    return {
        "at_ms": rng.randint(0, 6_000),
        "marked": rng.random() < 0.8,
        "priority": rng.choice((0, 0, 1, 3)),
        "isolation": rng.choice((None, 0.5, 1.0)),
        "pool": rng.choice(pools)["name"] if pools else None,
        # Spark offers a gang its tasks' slots together, the simulator one by one: in FAIR order that differs.
        "stages": [_stage(rng, slots, profile, 0.0 if pools else 0.2) for _ in range(rng.randint(1, 4))],
    }


def _stage(rng: random.Random, slots: Sequence[int], usual: int, gangs: float) -> dict[str, Any]:
    profile = usual if rng.random() < 0.8 else rng.randrange(len(slots))
    gang = rng.random() < gangs
    tasks = rng.randint(1, slots[profile] if gang else 6)
    return {
        "delay_ms": rng.choice((0, rng.randint(1, 4_000))),
        "profile": profile,
        "gang": gang,
        "durations_ms": [rng.randint(50, 4_000) for _ in range(tasks)],
    }


def _plans(rng: random.Random, jobs: Sequence[Mapping[str, Any]], fair: bool) -> list[dict[str, Any]]:
    found = []
    for at_ms in sorted(rng.sample(range(10, 20_000), rng.choice((0, 1, 2, 4)))):
        known = [job for job in jobs if job["at_ms"] < at_ms]
        rng.shuffle(known)
        entries = [_entry(rng, job, rank, at_ms, fair) for rank, job in enumerate(known)]
        found.append({"at_ms": at_ms, "ordered": rng.random() < 0.7, "jobs": entries})
    return found


def _entry(rng: random.Random, job: Mapping[str, Any], rank: int, at_ms: int, fair: bool) -> dict[str, Any]:
    entry: dict[str, Any] = {"job": job["key"], "rank": rank, "priority": rng.choice((0, 0, 1, 3))}
    drawn = rng.random()
    deferred = not fair and drawn < 0.3 and not any(stage["gang"] for stage in job["stages"])
    # The simulator's ledger learns of a job that held nothing so far at its next stage. The driver gives a
    # job without a start no slot that the job itself holds.
    if job["isolation"] is not None and not deferred and rng.random() < 0.7:
        entry["reservation"] = {
            "isolation": rng.choice((0.5, 1.0)),
            "prereserve_threshold": rng.choice((0.0, 0.5, 1.0)),
            "copies": rng.random() < 0.5,
            "stage_tasks": [rng.randint(1, 5) for _ in range(rng.randint(0, 2))],
        }
    # The driver gives spare slots to a gang without a start, the simulator lets it wait for one.
    if deferred:
        entry["deferred"] = True
        if rng.random() < 0.5:
            entry["start_ms"] = at_ms + rng.randint(1, 3_000)
    elif drawn > 0.8:
        entry["pilots"] = {"stage": rng.choice((0, 1)), "tasks": [rng.randint(0, 2)]}
    elif not fair and drawn > 0.65:
        entry["pool"] = {"name": f"planned {rng.randint(0, 1)}", "weight": rng.randint(1, 3), "min_share": 0}
    return entry


class Script:
    """A policy whose plans are written down."""

    name = "script"
    capabilities = Capabilities(changes_with=ChangesWith.JOBS, start_times=True, pilots=True)

    def __init__(self, plans: Sequence[Mapping[str, Any]]) -> None:
        self._plans = plans

    def decide(
        self,
        snapshot: Snapshot,
        forecasts: Mapping[str, Forecast],
        now_ms: int,
        rng: np.random.Generator,
        memory: None,
    ) -> tuple[Plan, None]:
        made = [plan for plan in self._plans if plan["at_ms"] <= now_ms]
        again_ms = next((plan["at_ms"] for plan in self._plans if plan["at_ms"] > now_ms), None)
        newest = made[-1] if made else {"at_ms": now_ms, "ordered": False, "jobs": []}
        entries = [entry for entry in newest["jobs"] if entry["job"] in snapshot.jobs]
        head = {"snapshot": snapshot.version, "made_at_ms": newest["at_ms"], "valid_for_ms": VALID_FOR_MS}
        plan = plan_of({**newest, **head, "jobs": entries})
        return replace(plan, again_ms=again_ms), None


def run(written: Mapping[str, Any]) -> Result:
    """The application in the simulator."""
    pools = {pool["name"]: PoolShare(**pool) for pool in written["pools"]}
    jobs = [
        JobSpec(
            key=job["key"],
            submit_ms=job["at_ms"],
            stages=tuple(_stage_spec(stage, number) for number, stage in enumerate(job["stages"])),
            priority=job["priority"],
            isolation=job["isolation"],
            marked=job["marked"],
            dag_known="nothing",
            pool=None if job["pool"] is None else pools[job["pool"]],
        )
        for job in written["jobs"]
    ]
    nodes = (
        NodeSpec(each["executor"], each["slots"], profile=each["profile"]) for each in written["executors"]
    )
    return simulate(
        ClusterSpec(tuple(nodes)),
        jobs,
        Script(written["plans"]),
        settings=written["settings"],
        plan_every_ms=1,
        check=True,
    )


def _stage_spec(stage: Mapping[str, Any], number: int) -> StageSpec:
    return StageSpec(
        stage["durations_ms"],
        parents=(number - 1,) if number else (),
        delay_ms=stage["delay_ms"] if number else 0,
        gang=stage["gang"],
        restartable=not stage["gang"],
        profile=stage["profile"],
    )


def launches(result: Result) -> list[list[int]]:
    """When each task started: ms, job, stage, task, and the executor by number."""
    columns = ("start_ms", "job", "stage", "task", "node")
    return sorted(map(list, zip(*(result.tasks[name] for name in columns), strict=True)))


def document() -> dict[str, Any]:
    written = [
        application(SEED + number, crowded=number >= APPLICATIONS) for number in range(APPLICATIONS + CROWDED)
    ]
    return {
        "about": "Generated by tools/application_walk.py; what is expected is what the simulator did.",
        "applications": [{**each, "expect": launches(run(each))} for each in written],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the golden applications.")
    parser.parse_args()
    golden_file.write(OUT, document())


if __name__ == "__main__":
    main()
