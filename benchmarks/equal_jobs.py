#!/usr/bin/env python3
"""Jobs of equal priority, and jobs of five priorities, that all come at once: who waits for whom?

    python benchmarks/equal_jobs.py [--case equal|levels] [--simulated] [--runs N] [--json]

A job is a loop of actions whose tasks sleep, each behind the barrier of the one before, and takes 5 to 7 s
alone on four slots. ``equal``: ten marked jobs of one priority under the policies ``reservation`` (the
default) and ``fifo``, and under stock Spark. ``levels``: forty shorter ones, eight in each of five
priorities, under ``reservation`` and stock Spark's FIFO and FAIR modes (with a pool for each priority, as if
each were a user's, and with a pool for each job). Every arm gets the same jobs in the same order, and the
arms of a run follow each other in random order. What a job takes over what it takes alone is its slowdown;
live the first jobs of a run are measured alone, and the others' times alone follow from the simulator's.

``--simulated`` runs the same jobs in the simulator, in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import click
import numpy as np
from _common import interval, publish, stderr, workspace
from _live import PLAN_EVERY_MS, STOCK_PREFIX, local_arms, warm_up

from spark_sched.config import validate
from spark_sched.policies.base import Policy, PolicySettings
from spark_sched_lab.runs.paired.application import ArmApplication, Mark, StagesJob
from spark_sched_lab.runs.paired.statistics import paired_ratios, spread
from spark_sched_lab.simulator import ClusterSpec, JobSpec, StageSpec, simulate, uniform_nodes
from spark_sched_lab.whatif.policies import StockFair, StockFifo

SLOTS = 4
#: Between two jobs' submissions: they come in this order.
APART_S = 0.1
#: Between two actions of a job, in the simulator: what Spark and the driver's program take.
BETWEEN_MS = 30


@dataclass(frozen=True)
class Case:
    """Jobs that come at once.

    Attributes:
        arms: policies, and with the prefix ``stock-`` modes of stock Spark; the first is the one in question.
        typical_ms: median of the tasks' times.
    """

    arms: tuple[str, ...]
    jobs: int
    levels: int
    actions: int
    typical_ms: float

    def one_run(self, rng: np.random.Generator) -> list[StagesJob]:
        jobs = []
        priorities = rng.permutation(np.arange(self.jobs) % self.levels)
        for number in range(self.jobs):
            stages = []
            for _ in range(self.actions):
                times_ms = self.typical_ms * rng.lognormal(0.0, 0.3, int(rng.integers(4, 9)))
                ms = [int(each) for each in times_ms]
                stages.append((ms, ms))
            mark = Mark(f"job-{number}", 1 + int(priorities[number]), None, "never", None, "benchmark")
            jobs.append(StagesJob(stages, mark, None, APART_S * number))
        return jobs


CASES = {
    "equal": Case(("reservation", "fifo", "stock-fifo"), 10, 1, 6, 500.0),
    "levels": Case(("reservation", "stock-fifo", "stock-fair", "stock-fair-jobs"), 40, 5, 4, 250.0),
}


def simulated(jobs: Sequence[StagesJob], arm: str) -> list[float]:
    """JCTs in seconds, in the order of the jobs."""
    specs = []
    for number, job in enumerate(jobs):
        stages = tuple(
            StageSpec(tuple(ms), (at - 1,) if at else (), BETWEEN_MS if at else 0, part=at)
            for at, (ms, _) in enumerate(job.stages)
        )
        assert job.mark is not None
        specs.append(
            JobSpec(
                str(number),
                round(1000 * job.delay_s),
                stages,
                name=job.mark.name,
                priority=job.mark.priority,
                copies=False,
                marked=True,
                dag_known="next stage",
            )
        )
    settings = PolicySettings.from_config(validate({}))
    policy: str | Policy = arm
    if arm == "stock-fifo":
        policy = StockFifo(settings)
    elif arm.startswith("stock-fair"):
        policy = StockFair(settings, {str(n): pool_of(job, arm) for n, job in enumerate(jobs)}, {}, {})
    every_ms = 0 if arm.startswith(STOCK_PREFIX) else PLAN_EVERY_MS
    cluster = ClusterSpec(uniform_nodes(1, SLOTS))
    result = simulate(cluster, specs, policy, plan_every_ms=every_ms, keep_tasks=False)
    rows = sorted(result.rows(), key=lambda row: int(row["job"]))
    return [row["jct_ms"] / 1000.0 for row in rows]


def pool_of(job: StagesJob, arm: str) -> str:
    assert job.mark is not None
    return job.mark.name if arm.endswith("-jobs") else f"priority-{job.mark.priority}"


def alone(job: StagesJob) -> StagesJob:
    return replace(job, delay_s=0.0)


def live(arm: str, running: Mapping[str, ArmApplication], jobs: Sequence[StagesJob]) -> list[float]:
    """JCTs in seconds, in the order of the jobs."""
    fair = arm.startswith("stock-fair")
    given = [replace(job, pool=pool_of(job, arm)) if fair else job for job in jobs]
    return list(running[arm].stages(given).jct_s)


def simulated_run(case: Case, jobs: list[StagesJob]) -> dict[str, list[float]]:
    """JCTs by arm, and those alone."""
    found = {arm: simulated(jobs, arm) for arm in case.arms}
    return {"alone": [simulated([alone(job)], case.arms[0])[0] for job in jobs], **found}


def measures(found: dict[str, list[float]], arms: Sequence[str]) -> dict[str, dict[str, float]]:
    """Of one run: mean JCT and slowdown, and the slowdown of the job that came first."""
    base = np.array(found["alone"])
    return {
        arm: {
            "mean_jct_s": float(np.mean(found[arm])),
            "mean_slowdown": float(np.mean(found[arm] / base)),
            "first_slowdown": float(found[arm][0] / base[0]),
        }
        for arm in arms
    }


@click.command()
@click.option("--case", "chosen", type=click.Choice(tuple(CASES)), default="equal", show_default=True)
@click.option("--runs", default=3, show_default=True, help="Paired runs.")
@click.option("--alone-jobs", default=3, show_default=True, help="Jobs of a run that run alone, live.")
@click.option("--simulated", "in_simulator", is_flag=True, help="The simulator's side alone.")
@click.option("--seed", default=0, show_default=True)
@click.option("--json", "json_output", is_flag=True)
def main(chosen: str, runs: int, alone_jobs: int, in_simulator: bool, seed: int, json_output: bool) -> None:
    """JCTs and slowdowns of jobs that come at once, by policy."""
    case = CASES[chosen]
    rng = np.random.default_rng(seed)

    def jobs_of(run: int) -> list[StagesJob]:
        return case.one_run(np.random.default_rng([seed, run]))

    rows = []
    if in_simulator:
        rows = [simulated_run(case, jobs_of(run)) for run in range(runs)]
    else:
        with workspace() as directory, local_arms(case.arms, SLOTS, directory) as running:
            stock = [arm for arm in case.arms if arm.startswith(STOCK_PREFIX)]
            short = StagesJob([([50] * SLOTS, [50] * SLOTS)] * 3, Mark("warm", 1, None))
            warm_up(running, [short], stock=stock)
            for run in range(runs):
                jobs = jobs_of(run)
                found = {}
                for arm in map(str, rng.permutation(case.arms)):
                    found[arm] = live(arm, running, jobs)
                # Jobs differ little: those of which it was measured tell what the others take alone.
                took_s = [live(case.arms[0], running, [alone(job)])[0] for job in jobs[:alone_jobs]]
                ideal_s = [simulated([alone(job)], case.arms[0])[0] for job in jobs]
                more = float(np.mean(np.divide(took_s, ideal_s[:alone_jobs])))
                found["alone"] = [*took_s, *(s * more for s in ideal_s[alone_jobs:])]
                rows.append(found)
                means = ", ".join(f"{arm} {np.mean(found[arm]):.1f} s" for arm in (*case.arms, "alone"))
                stderr.print(f"run {run + 1} of {runs}: mean {means}", highlight=False)
    by_arm = {arm: [measures(found, case.arms)[arm] for found in rows] for arm in case.arms}
    document: dict[str, Any] = {
        "benchmark": "equal_jobs",
        "case": chosen,
        "simulated": in_simulator,
        "runs": len(rows),
        "seed": seed,
        "sizes": {"slots": SLOTS, "jobs": case.jobs, "priorities": case.levels, "actions": case.actions},
        "arms": {
            arm: {
                name: spread([each[name] for each in by_arm[arm]], rng).as_json() for name in by_arm[arm][0]
            }
            for arm in case.arms
        },
        "over_reservation": {
            arm: {
                name: spread(
                    paired_ratios(
                        [each[name] for each in by_arm[arm]], [each[name] for each in by_arm[case.arms[0]]]
                    ),
                    rng,
                ).as_json()
                for name in ("mean_jct_s", "mean_slowdown")
            }
            for arm in case.arms[1:]
        },
        "jct_s": [{arm: [round(s, 2) for s in found[arm]] for arm in found} for found in rows],
    }
    lines = []
    for arm in case.arms:
        at = document["arms"][arm]
        line = (
            f"{arm}: mean JCT {at['mean_jct_s']['mean']:.1f} s{interval(at['mean_jct_s'])}, mean slowdown "
            f"{at['mean_slowdown']['mean']:.2f}, of the first job {at['first_slowdown']['mean']:.2f}"
        )
        if arm != case.arms[0]:
            over = document["over_reservation"][arm]["mean_jct_s"]
            line += f"; mean JCT {over['mean']:.3f} times reservation's{interval(over, 3)}"
        lines.append(line)
    publish(document, lines, json_output)


if __name__ == "__main__":
    main()
