"""Forecasts of starts and ends of jobs that wait for each other: how often p10 to p90 holds, and P(deadline).

Recurring programs come to a simulated cluster at loads of 0.7 to 2, so that some or many of them wait. A load
above 1 is a rush: it ends with the run, and then the queue drains. Every forecast is made by the live
planner's code (`build_live`, `Outlook`), which begins without a history. Of each job count the forecast at
its submission, at its first task, and half-way between submission and end; jobs count from `--skip` on. With
`--uncorrected` the same is done without the correction by earlier ends, which takes as long again.

    python benchmarks/queue_ends.py [--seeds 201] [--loads 0.7,1.4,2] [--jobs 100] [--policies fifo,fair]
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import click
import numpy as np
from _common import publish, stderr
from _recurring import stages_in_a_row
from rich.progress import track

from spark_sched.config import validate
from spark_sched.planner.outlook import Outlook
from spark_sched.policies import ChangesWith, EndQuantiles, Plan, Policy, PolicySettings, create
from spark_sched.predict import Forecast
from spark_sched.predict.build import build_live
from spark_sched.protocol.events import Event
from spark_sched.state import JobView, Snapshot, Summary
from spark_sched_lab.simulator import ClusterSpec, JobSpec, simulate, uniform_nodes

SLOTS = 16
PLAN_EVERY_MS = 4_000
ARMS = ("corrected", "uncorrected")


@dataclass
class Seen:
    """A forecast in force from ``at_ms`` on: by arm, None where there was no number."""

    at_ms: int
    begun: bool
    given: tuple[EndQuantiles | None, ...]


@dataclass
class Planner:
    """The live planner's predictor and two outlooks."""

    uncorrected: bool = False
    now_ms: float = 0.0
    seen: dict[str, list[Seen]] = field(default_factory=lambda: defaultdict(list))
    most_waiting: int = 0

    def __post_init__(self) -> None:
        self.predictor, _ = build_live(validate({}), task_times=False, runs=None, past=None)
        kinds = (True, False) if self.uncorrected else (True,)
        self.outlooks = [Outlook(lambda: self.now_ms, correct=kind) for kind in kinds]

    def observe(self, event: Event) -> None:
        self.predictor.observe(event)

    def learn(self, summary: Summary) -> None:
        self.predictor.learn(summary)
        for outlook in self.outlooks:
            outlook.learn(summary)

    def reset(self) -> None:
        self.predictor.reset()

    def forecast(self, job: JobView) -> Forecast:
        return self.predictor.forecast(job)

    def look(self, snapshot: Snapshot, known: Mapping[str, Forecast], plan: Plan, now_ms: int) -> None:
        self.now_ms = float(now_ms)
        ends = []
        for outlook in self.outlooks:
            outlook.see(snapshot)
            ends.append(outlook.ends(snapshot, known, plan, now_ms))
        begun = self.outlooks[0].begun
        self.most_waiting = max(self.most_waiting, sum(job not in begun for job in snapshot.jobs))
        for job in snapshot.jobs:
            found = [each.get(job) for each in ends]
            given = [each if isinstance(each, EndQuantiles) else None for each in found]
            self.seen[job].append(Seen(now_ms, job in begun, tuple(given)))


class Watched:
    """A policy whose plans get forecasts, as in the planner's loop."""

    def __init__(self, policy: Policy, planner: Planner) -> None:
        self._policy, self._planner = policy, planner
        self.name = policy.name
        # The simulator would show a policy of the order of arrival only the jobs that are new.
        changes = max(policy.capabilities.changes_with, ChangesWith.TASKS)
        self.capabilities = replace(policy.capabilities, changes_with=changes, changes_unforecast=None)

    def decide(
        self, snapshot: Snapshot, forecasts: Mapping[str, Forecast], now_ms: int,
        rng: np.random.Generator, memory: Any,
    ) -> tuple[Plan, Any]:  # fmt: skip
        plan, memory = self._policy.decide(snapshot, forecasts, now_ms, rng, memory)
        self._planner.look(snapshot, forecasts, plan, now_ms)
        return plan, memory


def workload(seed: int, jobs: int, load: float) -> list[JobSpec]:
    """Recurring programs whose runs differ by a lognormal factor, at this load; half have a deadline."""
    rng = np.random.default_rng([seed, round(100 * load)])
    programs = []
    for number in range(12):
        count, spread = int(rng.integers(1, 6)), float(rng.uniform(0.1, 0.4))
        median_ms = 1000.0 * float(np.exp(rng.normal(np.log(6.0), 0.6)))
        programs.append((f"program-{number}", rng.integers(2, 25, count), median_ms, spread))
    mean_work = np.mean([widths.sum() * ms * np.exp(0.5 * s * s) * 1.05 for _, widths, ms, s in programs])
    gap_ms = float(mean_work) / SLOTS / load
    found, at_ms = [], 0.0
    for number in range(jobs):
        name, widths, median_ms, spread = programs[int(rng.integers(len(programs)))]
        run_ms = median_ms * float(np.exp(spread * rng.normal()))
        stages = stages_in_a_row(rng, widths.tolist(), run_ms)
        # Deadlines that are met about as often as missed at this load.
        deadline = None
        if rng.random() < 0.5:
            queue = max(1.0, load) ** 2 * (1.0 + max(0.0, load - 1.0) * number / 4.0)
            deadline = int(at_ms + median_ms * len(widths) * queue * np.exp(rng.normal(1.0, 0.8)))
        priority = int(rng.choice((1, 1, 1, 5)))
        found.append(
            JobSpec(
                f"j{number}", int(at_ms), stages, name, f"user-{number % 3}", None, priority, deadline,
                marked=True,
            )
        )  # fmt: skip
        at_ms += gap_ms * float(rng.exponential())
    return found


@dataclass
class Scores:
    """By arm and moment: where ends and starts fell, and chances with what happened."""

    ends: dict[tuple[str, str], list[int]] = field(default_factory=lambda: defaultdict(list))
    waiting: dict[tuple[str, str], list[int]] = field(default_factory=lambda: defaultdict(list))
    starts: dict[tuple[str, str], list[int]] = field(default_factory=lambda: defaultdict(list))
    chances: dict[tuple[str, str], list[tuple[float, bool]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    no_number: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    jobs: int = 0

    def add(self, seen: Sequence[Seen], submit_ms: float, begun_ms: float | None, end_ms: float,
            deadline_ms: float | None) -> None:  # fmt: skip
        """One job that ended."""
        seen = [each for each in seen if each.at_ms < end_ms]
        if not seen:
            return
        self.jobs += 1
        half_ms = submit_ms + (end_ms - submit_ms) / 2.0
        chosen = {
            "submission": seen[0],
            "first task": next((each for each in seen if each.begun), None),
            "half-way": next((each for each in reversed(seen) if each.at_ms <= half_ms), None),
        }
        for moment, each in chosen.items():
            if each is None:
                continue
            for arm, given in zip(ARMS, each.given, strict=False):
                if given is None:
                    self.no_number[moment] += arm == ARMS[0]
                    continue
                side = -1 if end_ms < given.p10_ms else int(end_ms > given.p90_ms)
                self.ends[arm, moment].append(side)
                if not each.begun:
                    self.waiting[arm, moment].append(side)
                if given.start_ms is not None and begun_ms is not None and not each.begun:
                    low, _, high = given.start_ms
                    self.starts[arm, moment].append(-1 if begun_ms < low else int(begun_ms > high))
                late = deadline_ms is None or each.at_ms >= deadline_ms
                if given.deadline_probability is not None and deadline_ms is not None and not late:
                    self.chances[arm, moment].append((given.deadline_probability, end_ms <= deadline_ms))


def simulated(
    scores: Scores,
    seeds: Sequence[int],
    loads: Sequence[float],
    policies: Sequence[str],
    jobs: int,
    skip: int,
    uncorrected: bool,
) -> list[dict[str, Any]]:
    """Every seed and load under every policy, each with a new history."""
    runs = [(policy, load, seed) for policy in policies for load in loads for seed in seeds]
    rows = []
    for policy, load, seed in track(runs, "simulated runs", console=stderr, transient=True):
        planner = Planner(uncorrected)
        result = simulate(
            ClusterSpec(uniform_nodes(4, SLOTS // 4)),
            workload(seed, jobs, load),
            Watched(create(policy, PolicySettings.from_config(validate({}))), planner),
            predictor=planner,
            plan_every_ms=PLAN_EVERY_MS,
            seed=seed,
            keep_tasks=False,
        )
        first = {job: next((s.at_ms for s in seen if s.begun), None) for job, seen in planner.seen.items()}
        for row in result.rows():
            if int(row["job"][1:]) >= skip and row["end_ms"] is not None:
                # A job that came and ended between two plans had no forecast.
                scores.add(
                    planner.seen.get(row["job"], ()), row["submit_ms"], first.get(row["job"]), row["end_ms"],
                    row["deadline_ms"],
                )  # fmt: skip
        rows.append({"policy": policy, "load": load, "seed": seed, "most_waiting": planner.most_waiting})
    return rows


def coverage(sides: Sequence[int]) -> dict[str, float]:
    found = np.array(sides)
    return {
        "forecasts": found.size,
        "inside": float(np.mean(found == 0)),
        "earlier": float(np.mean(found < 0)),
        "later": float(np.mean(found > 0)),
    }


def reliability(pairs: Sequence[tuple[float, bool]]) -> list[dict[str, float]]:
    """By tenths of the chance: forecasts, their mean, and the share that met their deadlines."""
    given, met = np.array(pairs, dtype=float).T
    tenth = np.minimum(9, (given * 10.0).astype(int))
    return [
        {"from": at / 10, "forecasts": int((tenth == at).sum()), "given": float(given[tenth == at].mean()),
         "met": float(met[tenth == at].mean())}
        for at in range(10)
        if (tenth == at).any()
    ]  # fmt: skip


def numbers(_context: click.Context, _parameter: click.Parameter, text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


@click.command()
@click.option("--seeds", default="201", callback=numbers, help="Seeds of the workloads.")
@click.option("--loads", default="0.7,1.4,2", callback=numbers, help="Work that comes per slot and time.")
@click.option("--policies", default="fifo,priority,reservation,fair", help="Policies.")
@click.option("--jobs", default=100, help="Jobs of each run.")
@click.option("--skip", default=40, help="Jobs of each run that do not count.")
@click.option("--uncorrected", is_flag=True, help="Also without the correction by earlier ends.")
@click.option("--json", "json_output", is_flag=True, help="Print one JSON document.")
def main(
    seeds: list[float],
    loads: list[float],
    policies: str,
    jobs: int,
    skip: int,
    uncorrected: bool,
    json_output: bool,
) -> None:
    scores = Scores()
    runs = simulated(
        scores, [int(seed) for seed in seeds], loads, policies.split(","), jobs, skip, uncorrected
    )
    document: dict[str, Any] = {
        "jobs": scores.jobs,
        "runs": len(runs),
        "runs_by_load": runs,
        "no_number": dict(scores.no_number),
        "coverage": [],
        "reliability": [],
    }
    lines = [f"{scores.jobs} jobs of {len(runs)} runs, at most {max(r['most_waiting'] for r in runs)} waited"]
    kinds = (("ends", scores.ends), ("ends, while it waits", scores.waiting), ("starts", scores.starts))
    for kind, found in kinds:
        for (arm, moment), sides in sorted(found.items()):
            row = {"kind": kind, "arm": arm, "moment": moment, **coverage(sides)}
            document["coverage"].append(row)
            lines.append(
                f"{kind}, {arm}, {moment}: {row['inside']:.1%} of {row['forecasts']} inside "
                f"({row['earlier']:.1%} earlier, {row['later']:.1%} later)"
            )
    for (arm, moment), pairs in sorted(scores.chances.items()):
        rows = reliability(pairs)
        document["reliability"].append({"arm": arm, "moment": moment, "rows": rows})
        cells = "; ".join(f"{r['given']:.2f} → {r['met']:.2f} ({r['forecasts']})" for r in rows)
        lines.append(f"P(deadline), {arm}, {moment}: {cells}")
    publish(document, lines, json_output)


if __name__ == "__main__":
    main()
