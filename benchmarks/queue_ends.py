"""Forecasts of starts and ends of jobs that wait for each other: how often p10 to p90 holds, and P(deadline).

Programs come to a simulated cluster at loads of 0.7 to 2, so that some or many of their runs wait. Most
programs recur; `--first-seen` is the share of jobs whose name comes once. A load above 1 is a rush: it ends
with the run, and then the queue drains. Every run is made with and without tenants' queues (floors, weights,
a ceiling, and a number of running jobs). Every forecast is made by the live planner's code (`build_live`,
`Outlook`), which begins without a history. Of each job count the forecast at its submission, at its first
task, when half of the time has passed that the forecast at its submission gave (p50), and half-way between
submission and end, which only hindsight knows. Jobs count from `--skip` on. With `--uncorrected` the same is
done without the correction by earlier ends, which takes as long again.

    python benchmarks/queue_ends.py [--seeds 201] [--loads 0.7,1,1.4,2] [--jobs 100] [--policies fifo,fair]
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from _common import publish, stderr
from _recurring import stages_in_a_row
from rich.progress import track

from spark_sched.config import validate
from spark_sched.config.queues import Amount, PlacementRule, QueueSpec, QueueTree
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
MOMENTS = ("submission", "first task", "half of the forecast", "half-way")
#: Of the three users the first is promised slots, the second may have half of them.
TREE = QueueTree(
    (
        QueueSpec("promised", floor=Amount(percent=25.0), weight=2.0),
        QueueSpec("limited", ceiling=Amount(percent=50.0)),
        QueueSpec("admitted", max_running_jobs=4),
    ),
    tuple(
        PlacementRule(queue, user=f"user-{at}")
        for at, queue in enumerate(("promised", "limited", "admitted"))
    ),
    "limited",
)


@dataclass
class Seen:
    """A forecast in force from ``at_ms`` on: by arm, None where there was no number."""

    at_ms: int
    begun: bool
    given: tuple[EndQuantiles | None, ...]


@dataclass
class Planner:
    """The live planner's predictor and two outlooks."""

    tree: QueueTree | None = None
    uncorrected: bool = False
    now_ms: float = 0.0
    seen: dict[str, list[Seen]] = field(default_factory=lambda: defaultdict(list))
    most_waiting: int = 0

    def __post_init__(self) -> None:
        self.predictor, _ = build_live(validate({}), task_times=False, runs=None, past=None)
        kinds = (True, False) if self.uncorrected else (True,)
        self.outlooks = [Outlook(lambda: self.now_ms, correct=kind, tree=self.tree) for kind in kinds]

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


def workload(seed: int, jobs: int, load: float, first_seen: float) -> list[JobSpec]:
    """Programs whose runs differ by a lognormal factor, at this load; half have a deadline."""
    rng = np.random.default_rng([seed, round(100 * load)])

    def program(name: str) -> tuple[str, Any, float, float]:
        count, spread = int(rng.integers(1, 6)), float(rng.uniform(0.1, 0.4))
        median_ms = 1000.0 * float(np.exp(rng.normal(np.log(6.0), 0.6)))
        return name, rng.integers(2, 25, count), median_ms, spread

    programs = [program(f"program-{number}") for number in range(12)]
    mean_work = np.mean([widths.sum() * ms * np.exp(0.5 * s * s) * 1.05 for _, widths, ms, s in programs])
    gap_ms = float(mean_work) / SLOTS / load
    found, at_ms = [], 0.0
    for number in range(jobs):
        if first_seen and rng.random() < first_seen:
            name, widths, median_ms, spread = program(f"once-{number}")
        else:
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


@dataclass(frozen=True, slots=True)
class Case:
    """What a run was made of."""

    policy: str
    load: float
    queues: bool
    seed: int


@dataclass(frozen=True, slots=True)
class Score:
    """A forecast of one job and what happened. Sides: -1 earlier than p10, 1 later than p90, 0 between.

    Attributes:
        recurs: whether the job's program comes more than once.
        waited: whether it had no task yet.
        end: side of its end; None: the forecast had no number.
        start: side of its start; None: no number, or it had begun.
        chance: of its deadline; None: it has none, or that was over.
    """

    case: Case
    job: str
    arm: str
    moment: str
    recurs: bool
    waited: bool
    end: int | None
    start: int | None
    chance: float | None
    met: bool


def scored(case: Case, planner: Planner, row: Mapping[str, Any]) -> Iterable[Score]:
    """The forecasts of one job that ended; none of a job that came and ended between two plans."""
    end_ms, deadline_ms = row["end_ms"], row["deadline_ms"]
    seen = [each for each in planner.seen.get(row["job"], ()) if each.at_ms < end_ms]
    if not seen:
        return
    half_ms = row["submit_ms"] + (end_ms - row["submit_ms"]) / 2.0
    begun_ms = row["first_launch_ms"]
    first = next((each.p50_ms for each in seen[0].given if each is not None), None)
    half_forecast_ms = float("inf") if first is None else (row["submit_ms"] + first) / 2.0
    chosen = (
        seen[0],
        next((each for each in seen if each.begun), None),
        next((each for each in seen if each.at_ms >= half_forecast_ms), None),
        next((each for each in reversed(seen) if each.at_ms <= half_ms), None),
    )
    for moment, each in zip(MOMENTS, chosen, strict=True):
        for arm, given in zip(ARMS, each.given if each is not None else (), strict=False):
            assert each is not None
            end, start, chance = None, None, None
            if given is not None:
                end = side(end_ms, given.p10_ms, given.p90_ms)
                if given.start_ms is not None and not each.begun:
                    start = side(begun_ms, given.start_ms[0], given.start_ms[2])
                if deadline_ms is not None and each.at_ms < deadline_ms:
                    chance = given.deadline_probability
            recurs = not row["name"].startswith("once-")
            met = deadline_ms is not None and end_ms <= deadline_ms
            yield Score(case, row["job"], arm, moment, recurs, not each.begun, end, start, chance, met)


def side(at_ms: float, low_ms: float, high_ms: float) -> int:
    return -1 if at_ms < low_ms else int(at_ms > high_ms)


def simulated(
    case: Case, jobs: int, skip: int, first_seen: float, uncorrected: bool
) -> tuple[list[Score], int]:
    """One run with a new history: its scores, and how many jobs waited at most."""
    tree = TREE if case.queues else None
    planner = Planner(tree, uncorrected)
    result = simulate(
        ClusterSpec(uniform_nodes(4, SLOTS // 4)),
        workload(case.seed, jobs, case.load, first_seen),
        Watched(create(case.policy, PolicySettings.from_config(validate({}))), planner),
        settings={} if tree is None else {"spark.sched.queues": tree.to_json()},
        predictor=planner,
        plan_every_ms=PLAN_EVERY_MS,
        seed=case.seed,
        keep_tasks=False,
    )
    scores: list[Score] = []
    for row in result.rows():
        if int(row["job"][1:]) >= skip and row["end_ms"] is not None:
            scores += scored(case, planner, row)
    return scores, planner.most_waiting


def coverage(sides: Sequence[int]) -> dict[str, float]:
    found = np.array(sides)
    return {
        "forecasts": found.size,
        "inside": float(np.mean(found == 0)),
        "earlier": float(np.mean(found < 0)),
        "later": float(np.mean(found > 0)),
    }


def reliability(scores: Iterable[Score]) -> list[dict[str, float]]:
    """By tenths of the chance: forecasts, their mean, and the share that met their deadlines."""
    pairs = [(each.chance, each.met) for each in scores if each.chance is not None]
    if not pairs:
        return []
    given, met = np.array(pairs, dtype=float).T
    tenth = np.minimum(9, (given * 10.0).astype(int))
    return [
        {"from": at / 10, "forecasts": int((tenth == at).sum()), "given": float(given[tenth == at].mean()),
         "met": float(met[tenth == at].mean())}
        for at in range(10)
        if (tenth == at).any()
    ]  # fmt: skip


#: The groups of forecasts that are listed beside all of them.
GROUPS: tuple[tuple[str, Callable[[Score], object]], ...] = (
    ("policy", lambda each: each.case.policy),
    ("load", lambda each: each.case.load),
    ("queues", lambda each: "with queues" if each.case.queues else "no queues"),
    ("name", lambda each: "recurs" if each.recurs else "first seen"),
)


def tables(scores: Sequence[Score]) -> list[dict[str, Any]]:
    """Coverage by kind of forecast, arm, moment, and group."""
    rows = []
    kinds: tuple[tuple[str, Callable[[Score], int | None]], ...] = (
        ("ends", lambda each: each.end),
        ("ends, while it waits", lambda each: each.end if each.waited else None),
        ("starts", lambda each: each.start),
    )
    for kind, of in kinds:
        groups: dict[tuple[str, str, str, str], list[int]] = defaultdict(list)
        for each in scores:
            what = of(each)
            if what is not None:
                groups["all", "", each.arm, each.moment].append(what)
                for name, key in GROUPS:
                    groups[name, str(key(each)), each.arm, each.moment].append(what)
        rows += [
            {"kind": kind, "by": by, "of": value, "arm": arm, "moment": moment, **coverage(sides)}
            for (by, value, arm, moment), sides in sorted(groups.items())
        ]
    return rows


def plot(document: Mapping[str, Any], file: Path) -> None:
    """P(deadline) as forecast and as observed, by moment."""
    from spark_sched_lab.reports.plots import curves_svg

    curves = {
        each["moment"]: [(row["given"], row["met"]) for row in each["rows"]]
        for each in document["reliability"]
        if each["arm"] == ARMS[0] and not each["waits"]
    }
    curves["ideal"] = [(0.0, 0.0), (1.0, 1.0)]
    file.write_text(curves_svg(curves, "forecast P(deadline)", "share that met it"))


def numbers(_context: click.Context, _parameter: click.Parameter, text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


@click.command()
@click.option("--seeds", default="201", callback=numbers, help="Seeds of the workloads.")
@click.option("--loads", default="0.7,1,1.4,2", callback=numbers, help="Work that comes per slot and time.")
@click.option("--policies", default="fifo,priority,reservation,fair", help="Policies.")
@click.option(
    "--queues", type=click.Choice(["without", "with", "both"]), default="both", help="Tenants' queues."
)
@click.option("--first-seen", default=0.15, help="Share of jobs whose name comes once.")
@click.option("--jobs", default=100, help="Jobs of each run.")
@click.option("--skip", default=40, help="Jobs of each run that do not count.")
@click.option("--uncorrected", is_flag=True, help="Also without the correction by earlier ends.")
@click.option("--plot", "plot_file", type=click.Path(path_type=Path), help="SVG file for P(deadline).")
@click.option("--json", "json_output", is_flag=True, help="Print one JSON document.")
def main(
    seeds: list[float], loads: list[float], policies: str, queues: str, first_seen: float, jobs: int,
    skip: int, uncorrected: bool, plot_file: Path | None, json_output: bool,
) -> None:  # fmt: skip
    """Measure forecasts of jobs that wait for each other."""
    trees = {"without": (False,), "with": (True,), "both": (False, True)}[queues]
    cases = [
        Case(policy, load, tree, int(seed))
        for policy in policies.split(",")
        for tree in trees
        for load in loads
        for seed in seeds
    ]
    scores: list[Score] = []
    runs = []
    for case in track(cases, "simulated runs", console=stderr, transient=True):
        found, waiting = simulated(case, jobs, skip, first_seen, uncorrected)
        scores += found
        runs.append(
            {"policy": case.policy, "load": case.load, "queues": case.queues, "seed": case.seed,
             "most_waiting": waiting}
        )  # fmt: skip
    scored_jobs = len({(each.case, each.job) for each in scores})
    document: dict[str, Any] = {
        "jobs": scored_jobs,
        "runs": len(runs),
        "cases": runs,
        "no_number": {
            moment: sum(each.end is None and each.moment == moment and each.arm == ARMS[0] for each in scores)
            for moment in MOMENTS
        },
        "coverage": tables(scores),
        "reliability": [
            {"arm": arm, "moment": moment, "waits": waits, "rows": reliability(
                each for each in scores
                if each.arm == arm and each.moment == moment and (each.waited or not waits)
            )}
            for arm in ARMS[: 1 + uncorrected]
            for moment in MOMENTS
            for waits in (False, True)
            if not (waits and moment == MOMENTS[1])
        ],
    }  # fmt: skip
    if plot_file is not None:
        plot(document, plot_file)
    publish(document, lines(document), json_output)


def lines(document: Mapping[str, Any]) -> list[str]:
    most = max(each["most_waiting"] for each in document["cases"])
    found = [f"{document['jobs']} jobs of {document['runs']} runs, at most {most} waited"]
    found.append("without a number: " + ", ".join(f"{m} {n}" for m, n in document["no_number"].items()))
    found += [
        f"{row['kind']}, {row['of'] or 'all'}, {row['arm']}, {row['moment']}: {row['inside']:.1%} of "
        f"{row['forecasts']} inside ({row['earlier']:.1%} earlier, {row['later']:.1%} later)"
        for row in document["coverage"]
    ]
    for each in document["reliability"]:
        cells = "; ".join(f"{r['given']:.2f} → {r['met']:.2f} ({r['forecasts']})" for r in each["rows"])
        waits = ", while it waits" if each["waits"] else ""
        found.append(f"P(deadline), {each['arm']}, {each['moment']}{waits}: {cells}")
    return found


if __name__ == "__main__":
    main()
