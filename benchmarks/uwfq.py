#!/usr/bin/env python3
"""UWFQ and its runtime partitioning beside FIFO, fair sharing between jobs, and between users and their jobs.

    python benchmarks/uwfq.py [--case power|large|macro] [--runs N] [--json]

The cases are of the kinds that arXiv 2510.15485 measures on Spark with 32 slots (the authors' results are in
github.com/kazemaksOG/spark-benchmark-tool, ``results/tables``), in the simulator:

* ``power``: two users send twenty jobs of 25 s of slot time every 30 s, four times. Two others send twelve
  such jobs each, as a Poisson process of eight a minute (``2_power_2_small_users``).
* ``large``: two users run four jobs of 111 s one after another. Two others send six of 25 s each, fifteen a
  minute (``2_large_2_small_users``).
* ``macro``: 220 jobs of 25 users within 500 s. The authors take them from Google's trace. Here the users'
  shares of the jobs follow Zipf's law, and slot times are lognormal (sigma 1.6), together 0.95 of what 32
  slots can do in that time.

A job reads its input in 32 tasks, whose times are lognormal (sigma 0.5), and sums up in one task of 20 ms.
Under adaptive execution these are two Spark jobs. With partitioning (P), tasks run for 0.5 s on average and
take 5 ms more each. Response times are in s. DVR is the authors' measure of unfairness: of the jobs that
end later than under fair sharing between users and their jobs (the arm ``user fair``, with the same
partitioning), how much later they end, in parts of their response time there. Every arm gets the same jobs.
Work is forecast exactly, as in the paper.

``fair`` divides slots equally among jobs. ``spark fair`` is Spark's FAIR mode without pools, which the
authors set for their arm "FAIR": all jobs are in the default pool, where Spark jobs run in the order of
submission. ``job uwfq`` is UWFQ with a user for each job (the authors' "CFQ").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import click
import numpy as np
from _common import interval, publish, stderr

from spark_sched.config import validate
from spark_sched.policies import Policy, PolicySettings, create
from spark_sched.policies.base import Capabilities, ChangesWith, Ranking, RankingPolicy
from spark_sched.predict import Forecast
from spark_sched.state import JobView, Snapshot
from spark_sched_lab.engine.partitioning import RuntimePartitioning
from spark_sched_lab.engine.workload import NextJob
from spark_sched_lab.runs.paired.statistics import spread
from spark_sched_lab.simulator import ClusterSpec, JobSpec, StageSpec, simulate, uniform_nodes
from spark_sched_lab.whatif.policies import StockFifo

SLOTS = 32
#: Slot time of jobs in s. The authors ran 184 small ones in 144 s on 32 slots; the large ones are as their
#: partitioner says.
SMALL_S, LARGE_S = 25.0, 111.0
SKEW = 0.5
PARTITIONING = RuntimePartitioning(500, overhead_ms=5)
#: What the authors measured, means of three runs: mean response time, that of the users with few jobs (in
#: ``macro`` of the shorter 80 % of responses, of their ``hetero_macro``), and DVR.
PAPER = {
    "power": {
        "spark fair": (44.08, 40.81, 3.25),
        "user fair": (43.11, 5.14, None),
        "fifo": (29.36, 31.14, 3.89),
        "job uwfq": (32.59, 34.29, 3.69),
        "uwfq": (29.44, 4.50, 0.23),
        "spark fair, P": (44.24, 39.02, 2.81),
        "user fair, P": (40.94, 5.10, None),
        "fifo, P": (31.62, 32.99, 3.05),
        "job uwfq, P": (32.76, 35.01, 3.31),
        "uwfq, P": (29.27, 3.61, 0.18),
    },
    "large": {
        "spark fair": (7.75, 4.66, 0.13),
        "user fair": (7.72, 4.93, None),
        "fifo": (7.97, 5.21, 0.16),
        "job uwfq": (7.50, 4.00, 0.37),
        "uwfq": (7.25, 3.88, 0.16),
        "spark fair, P": (6.20, 4.30, 0.13),
        "user fair, P": (7.07, 5.80, None),
        "fifo, P": (8.52, 8.56, 0.72),
        "job uwfq, P": (5.22, 2.70, 0.06),
        "uwfq, P": (5.36, 2.83, 0.10),
    },
    "macro": {
        "spark fair": (55.43, 40.03, 10.65),
        "user fair": (18.99, 5.57, None),
        "job uwfq": (10.44, 2.81, 0.44),
        "uwfq": (11.56, 2.91, 0.48),
        "spark fair, P": (53.27, 37.97, 11.54),
        "user fair, P": (18.73, 5.29, None),
        "job uwfq, P": (10.34, 2.31, 0.60),
        "uwfq, P": (11.64, 2.37, 0.60),
    },
}


class UserFair(RankingPolicy):
    """Users get equal shares, and so do the jobs of a user: pools of users in FAIR mode that are fair inside,
    the authors' "UJF"."""

    name = "user-fair"
    capabilities = Capabilities(changes_with=ChangesWith.LAUNCHES, marks=frozenset())

    def ranking(self, snapshot: Snapshot, forecasts: Mapping[str, Forecast]) -> Ranking:
        running: dict[str, int] = {}
        for job in snapshot.jobs.values():
            user = job.marks.user or ""
            running[user] = running.get(user, 0) + job.running_slots

        def rank_by(job: JobView) -> tuple[int, int, int]:
            return running[job.marks.user or ""], job.running_slots, job.arrival

        return rank_by, lambda _: (0, None, "fewest slots")


def job(key: str, at_ms: int, user: str, work_s: float, rng: np.random.Generator, **more: Any) -> JobSpec:
    shares = rng.lognormal(0.0, SKEW, SLOTS)
    reads_ms = np.maximum(1, np.round(1000.0 * work_s * shares / shares.sum())).astype(int).tolist()
    return JobSpec(
        key, at_ms, (StageSpec(reads_ms), StageSpec([20], parents=(0,), part=1)), user=user, **more
    )


def poisson(user: str, jobs: int, a_minute: float, rng: np.random.Generator) -> list[JobSpec]:
    arrivals_ms = np.cumsum(rng.exponential(60_000.0 / a_minute, jobs)).astype(int).tolist()
    return [job(f"{user}-{n}", at_ms, user, SMALL_S, rng) for n, at_ms in enumerate(arrivals_ms)]


def power(rng: np.random.Generator) -> list[JobSpec]:
    found = [
        job(f"power{user}-{turn}-{n}", 30_000 * turn + 100 * user, f"power{user}", SMALL_S, rng)
        for turn in range(4)
        for user in (1, 2)
        for n in range(20)
    ]
    return found + poisson("small1", 12, 8.0, rng) + poisson("small2", 12, 8.0, rng)


def large(rng: np.random.Generator) -> list[JobSpec]:
    found = []
    for number in (1, 2):
        user = f"large{number}"
        next_one: tuple[NextJob, ...] = ()
        for turn in reversed(range(4)):
            next_one = (NextJob(1, job(f"{user}-{turn}", 100 * number, user, LARGE_S, rng, then=next_one)),)
        found.append(next_one[0].job)
    return found + poisson("small1", 6, 15.0, rng) + poisson("small2", 6, 15.0, rng)


def macro(
    rng: np.random.Generator, users: int = 25, jobs: int = 220, within_s: float = 500.0
) -> list[JobSpec]:
    parts = 1.0 / np.arange(1, users + 1)
    works_s = rng.lognormal(0.0, 1.6, jobs)
    works_s *= 0.95 * SLOTS * within_s / works_s.sum()
    arrivals_ms = (1000.0 * np.sort(rng.uniform(0.0, within_s, jobs))).astype(int).tolist()
    names = rng.choice(users, jobs, p=parts / parts.sum()).tolist()
    return [
        job(f"{n}", at_ms, f"u{name}", work_s, rng)
        for n, (at_ms, name, work_s) in enumerate(zip(arrivals_ms, names, works_s.tolist(), strict=True))
    ]


CASES: dict[str, Callable[[np.random.Generator], list[JobSpec]]] = {
    "power": power,
    "large": large,
    "macro": macro,
}


def policies() -> dict[str, Policy]:
    settings = PolicySettings.from_config(validate({}))
    named = {"fair": "fair", "fifo": "fifo", "job uwfq": "uwfq", "uwfq": "uwfq"}
    made: dict[str, Policy] = {arm: create(name, settings) for arm, name in named.items()}
    return {"user fair": UserFair(settings), "spark fair": StockFifo(settings), **made}


def times_ms(jobs: list[JobSpec], policy: Policy) -> dict[str, tuple[int, int]]:
    """Submission and end of each job."""
    result = simulate(ClusterSpec(uniform_nodes(8, 4)), jobs, policy, predictor="oracle")
    columns = (result.jobs[name] for name in ("job", "submit_ms", "end_ms"))
    return {key: (submit_ms, end_ms) for key, submit_ms, end_ms in zip(*columns, strict=True)}


def alone(each: JobSpec) -> JobSpec:
    """The job with a user of its own, and so those that follow it."""
    then = tuple(following._replace(job=alone(following.job)) for following in each.then)
    return replace(each, user=each.key, then=then)


def measures(case: str, found: Mapping[str, tuple[int, int]], base: Mapping[str, tuple[int, int]]) -> Any:
    took_s = {key: (end - submit) / 1000.0 for key, (submit, end) in found.items()}
    if case == "macro":
        few = sorted(took_s.values())[: int(0.8 * len(took_s))]
    else:
        few = [s for key, s in took_s.items() if key.startswith("small")]
    later = [(end - base[key][1]) / max(1, base[key][1] - base[key][0]) for key, (_, end) in found.items()]
    violations = [each for each in later if each > 0.0]
    return {
        "mean_s": float(np.mean(list(took_s.values()))),
        "few_s": float(np.mean(few)),
        "dvr": float(np.mean(violations)) if violations else 0.0,
        "violations": len(violations),
    }


def one_run(case: str, rng: np.random.Generator) -> dict[str, Any]:
    jobs = sorted(CASES[case](rng), key=lambda each: each.submit_ms)
    found = {}
    for suffix, given in (("", jobs), (", P", list(PARTITIONING.jobs(jobs)))):
        own_users = list(map(alone, given))
        ends = {
            arm: times_ms(own_users if arm == "job uwfq" else given, policy)
            for arm, policy in policies().items()
        }
        for arm, each in ends.items():
            found[arm + suffix] = measures(case, each, ends["user fair"])
    return found


@click.command()
@click.option("--case", "case", type=click.Choice(tuple(CASES)), default="power", show_default=True)
@click.option("--runs", default=5, show_default=True)
@click.option("--seed", default=0, show_default=True)
@click.option("--json", "json_output", is_flag=True)
def main(case: str, runs: int, seed: int, json_output: bool) -> None:
    """Response times and fairness of UWFQ beside those of the paper."""
    rows = []
    for run in range(runs):
        rows.append(one_run(case, np.random.default_rng([seed, run])))
        stderr.print(f"run {run + 1} of {runs}", highlight=False)
    rng = np.random.default_rng(seed)
    arms = {
        arm: {name: spread([row[arm][name] for row in rows], rng).as_json() for name in rows[0][arm]}
        for arm in rows[0]
    }
    document = {
        "benchmark": "uwfq",
        "case": case,
        "simulated": True,
        "runs": runs,
        "seed": seed,
        "sizes": {"slots": SLOTS, "jobs": len(CASES[case](np.random.default_rng(seed)))},
        "arms": arms,
        "paper": {
            arm: dict(zip(("mean_s", "few_s", "dvr"), values, strict=True))
            for arm, values in PAPER[case].items()
        },
    }
    which = "shorter 80 %" if case == "macro" else "users with few jobs"
    lines = []
    for arm, at in arms.items():
        line = f"{arm}: mean {at['mean_s']['mean']:.1f} s{interval(at['mean_s'])}"
        line += f", {which} {at['few_s']['mean']:.2f} s{interval(at['few_s'], 2)}"
        line += f", DVR {at['dvr']['mean']:.2f} of {at['violations']['mean']:.0f} jobs"
        if arm in PAPER[case]:
            mean_s, few_s, dvr = PAPER[case][arm]
            line += f"; paper {mean_s:.1f} s, {few_s:.2f} s" + ("" if dvr is None else f", DVR {dvr:.2f}")
        lines.append(line)
    publish(document, lines, json_output)


if __name__ == "__main__":
    main()
