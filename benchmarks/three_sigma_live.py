#!/usr/bin/env python3
"""Deadlines under 3Sigma on real Spark: ten recurring jobs of varying runtime beside best-effort load.

    python benchmarks/three_sigma_live.py [--runs N] [--json]

One standalone cluster, one warm application per scheduler: stock Spark in FIFO and in FAIR mode (a pool for
each job), and spark_sched under ``prio`` and ``3sigma``. In each run all of them get the same jobs at the
same times, in random order. Each of the ten SLO jobs comes once: some tasks that sleep. Its runtime is drawn
around the job's own median; its deadline lies 20 to 80 % of the runtime, and an allowance for what Spark
itself takes, behind the earliest possible end. Best-effort jobs come in between. The SLO jobs alone are more
than the slots can do: the scheduler chooses who is to miss (``--horizon 22``: two thirds of what they can).

3Sigma's history is what the same distributions gave for runs before (``--history`` of each job).

Beside what was missed live stands what the simulator misses with the same jobs, policies and history (3Sigma,
table 2); there nothing but tasks takes time. ``--simulated`` runs that side alone, in seconds.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from _common import interval, publish, stderr, workspace
from _live import PLAN_EVERY_MS, STOCK, arms, live_options, paired_runs, warm_up

from spark_sched.history.store import History
from spark_sched.predict import JobAttributes, RuntimeHistory, lesson
from spark_sched_lab.runs.paired.application import Mark, StagesJob, StagesResult
from spark_sched_lab.runs.paired.statistics import spread
from spark_sched_lab.simulator import ClusterSpec, JobSpec, StageSpec, simulate, uniform_nodes

USER = "benchmark"
ARMS = ("fifo", "fair", "prio", "3sigma")
SPREAD = 0.4  # of the logarithm of a recurring job's runtimes
SLACKS = (0.2, 0.4, 0.6, 0.8)
SLO_JOBS, BEST_EFFORT = 10, 10
#: Spark's own time for an undisturbed job, on a shared machine.
ALLOWANCE_S = 1.5
#: Runtimes are seconds here, not minutes.
WINDOW = {"spark.sched.policy.3sigma.firstStep": "1s", "spark.sched.policy.3sigma.window": "10min"}


@dataclass(frozen=True)
class Recurring:
    """A recurring job: its name, its slots, and the median of its runtimes in s."""

    name: str
    tasks: int
    median_s: float

    def runtime_s(self, rng: np.random.Generator) -> float:
        return float(self.median_s * np.exp(SPREAD * rng.standard_normal()))


def recurring(rng: np.random.Generator) -> list[Recurring]:
    """Ten SLO jobs and one kind of best-effort job, the last."""
    jobs = [
        Recurring(f"slo-{n}", int(rng.choice([2, 3, 4, 6])), float(median_s))
        for n, median_s in enumerate(rng.permutation(np.linspace(1.5, 5.0, SLO_JOBS)))
    ]
    return [*jobs, Recurring("best-effort", 4, 4.0)]


def one_run(kinds: list[Recurring], horizon_s: float, rng: np.random.Generator) -> list[StagesJob]:
    """The SLO jobs in the order of ``kinds``, then the best-effort ones."""
    jobs = []
    best_effort = kinds[-1]
    for kind in [*kinds[:-1], *[best_effort] * BEST_EFFORT]:
        runtime_s = kind.runtime_s(rng)
        ms = [int(1000 * runtime_s * share) for share in [1.0, *rng.uniform(0.7, 1.0, kind.tasks - 1)]]
        deadline = None
        if kind is not best_effort:
            deadline = runtime_s * (1.0 + float(rng.choice(SLACKS))) + ALLOWANCE_S
        # Without isolation it holds no slots, on which alone copies run. `never` would also forbid evictions.
        mark = Mark(kind.name, 0, 0.0, "auto", deadline, USER)
        jobs.append(StagesJob([(ms, ms)], mark, None, float(rng.uniform(0.0, horizon_s))))
    return jobs


def write_history(path: Path, kinds: list[Recurring], runs: int, rng: np.random.Generator) -> None:
    """What a planner would have learned from earlier runs."""
    history = History(str(path), logging.getLogger("benchmark"))
    predictor = history.runtimes.load()
    for number in range(runs):
        for kind in kinds:
            at_s = 1_700_000_000.0 + 3_600.0 * number
            job = JobAttributes(at_s, USER, kind.name, priority=0, slots=kind.tasks)
            submission = predictor.submit(job)
            found = lesson(submission, kind.runtime_s(rng) + 0.3, predictor.predict(submission))
            history.runtimes.save(predictor, [found])
            history.seal()
    history.close()


def simulated_missed(jobs: list[StagesJob], arm: str, cores: int, history: Path) -> int:
    """Deadlines that the simulator misses with these jobs."""
    specs = []
    for number, job in enumerate(jobs):
        assert job.mark is not None
        at_ms, deadline_s = round(1000 * job.delay_s), job.mark.deadline
        specs.append(
            JobSpec(
                f"job-{number}",
                at_ms,
                tuple(StageSpec(tuple(ms)) for ms, _ in job.stages),
                name=job.mark.name,
                user=USER,
                deadline_ms=None if deadline_s is None else at_ms + round(1000 * deadline_s),
            )
        )
    specs.sort(key=lambda spec: spec.submit_ms)
    with tempfile.TemporaryDirectory() as folder:
        # It learns as it goes; the next run is to know no more than this one.
        store = History(shutil.copy(history, folder), logging.getLogger("benchmark"))
        result = simulate(
            ClusterSpec(uniform_nodes(1, cores)),
            specs,
            arm,
            settings=WINDOW if arm == "3sigma" else None,
            predictor=RuntimeHistory(store=store.runtimes),
            plan_every_ms=0 if arm in STOCK else PLAN_EVERY_MS,
            keep_tasks=False,
        )
        store.close()
    return sum(
        row["deadline_ms"] is not None and (row["end_ms"] is None or row["end_ms"] > row["deadline_ms"])
        for row in result.rows()
    )


def measured(done: StagesResult, jobs: list[StagesJob]) -> dict[str, Any]:
    slo, best_effort = [], []
    for jct_s, job in zip(done.jct_s, jobs, strict=True):
        if job.mark is not None and job.mark.deadline is not None:
            slo.append((jct_s, job.mark.deadline))
        else:
            best_effort.append(jct_s)
    return {
        "missed": sum(jct_s > deadline for jct_s, deadline in slo),
        "of": len(slo),
        "late_s": [round(jct_s - deadline, 2) for jct_s, deadline in slo],
        "best_effort_s": float(np.mean(best_effort)),
        "plans": done.counters.get("plans_accepted", 0),
        "evictions": done.counters.get("evictions", 0),
        "fallbacks": done.counters.get("plan_fallbacks", 0),
    }


@click.command()
@live_options(runs=10)
@click.option("--horizon", default=10.0, show_default=True, help="Seconds within which a run's jobs come.")
@click.option("--simulated", is_flag=True, help="The simulator's side alone.")
@click.option("--history", default=20, show_default=True, help="Earlier runs of each job that 3Sigma knows.")
def main(
    runs: int,
    cores: int,
    horizon: float,
    simulated: bool,
    history: int,
    minutes: float,
    together: bool,
    seed: int,
    json_output: bool,
) -> None:
    """Deadlines missed under FIFO, FAIR, Prio and 3Sigma on a standalone cluster."""
    rng = np.random.default_rng(seed)
    kinds = recurring(np.random.default_rng(0))
    rows: dict[str, list[dict[str, Any]]] = {arm: [] for arm in ARMS}
    missed: dict[str, list[float]] = {arm: [] for arm in ARMS}

    def jobs_of(run: int) -> list[StagesJob]:
        return one_run(kinds, horizon, np.random.default_rng([seed, run]))

    with workspace() as directory:
        before = directory / "before.db"
        write_history(before, kinds, history, rng)
        if not simulated:
            store = shutil.copy(before, directory / "history.db")
            settings = {"3sigma": {"spark.sched.history.path": str(store), **WINDOW}}
            with arms(ARMS, cores, directory, settings) as running:
                warm = one_run(kinds, 3.0, np.random.default_rng([seed, 1 << 20]))
                warm_up(running, warm)
                for run, jobs, done in paired_runs(
                    running, jobs_of, rng, runs=runs, minutes=minutes, together=together
                ):
                    for name in ARMS:
                        rows[name].append(measured(done[name], jobs))
                    now = ", ".join(f"{name} {rows[name][-1]['missed']}" for name in ARMS)
                    stderr.print(f"run {run + 1} of {runs}: deadlines missed: {now}", highlight=False)
        for run in range(runs if simulated else len(rows["3sigma"])):
            for name in ARMS:
                share = simulated_missed(jobs_of(run), name, cores, before) / SLO_JOBS
                missed[name].append(100.0 * share)
    document: dict[str, Any] = {
        "benchmark": "three_sigma_live",
        "runs": len(missed["3sigma"]),
        "seed": seed,
        "sizes": {
            "slots": cores, "slo_jobs": SLO_JOBS, "best_effort_jobs": BEST_EFFORT, "horizon_s": horizon,
            "history_runs": history, "allowance_s": ALLOWANCE_S, "together": together,
        },
        "simulated_missed_percent": {name: spread(missed[name], rng).as_json() for name in ARMS},
        "simulated_missed_percent_less_under_3sigma": _less(missed, rng),
        "rows": rows,
    }  # fmt: skip
    lines = []
    if not simulated:
        shares = {name: [100.0 * row["missed"] / row["of"] for row in rows[name]] for name in ARMS}
        best_effort_s = {name: [row["best_effort_s"] for row in rows[name]] for name in ARMS}
        document |= {
            "missed_percent": {name: spread(shares[name], rng).as_json() for name in ARMS},
            "missed_percent_less_under_3sigma": _less(shares, rng),
            "best_effort_s": {name: spread(best_effort_s[name], rng).as_json() for name in ARMS},
        }
        for name in ARMS:
            late = f", best-effort jobs take {document['best_effort_s'][name]['mean']:.1f} s"
            lines.append(f"live, {name}: {_told(document, '', name)}{late}")
    lines += [f"simulated, {name}: {_told(document, 'simulated_', name)}" for name in ARMS]
    publish(document, lines, json_output)


def _less(percent: dict[str, list[float]], rng: np.random.Generator) -> dict[str, Any]:
    """How many points fewer 3Sigma misses than each of the others."""
    return {
        name: spread(np.subtract(percent[name], percent["3sigma"]).tolist(), rng).as_json()
        for name in ARMS
        if name != "3sigma"
    }


def _told(document: dict[str, Any], side: str, name: str) -> str:
    missed = document[f"{side}missed_percent"][name]
    line = f"{missed['mean']:.1f} % of deadlines missed{interval(missed)}"
    if name != "3sigma":
        less = document[f"{side}missed_percent_less_under_3sigma"][name]
        line += f"; 3sigma misses {less['mean']:.1f} points fewer{interval(less)}"
    return line


if __name__ == "__main__":
    main()
