"""Calibration of the ends forecast for jobs: the interval p10 to p90, and P(deadline).

Every forecast is made by the live planner's code (`RuntimeHistory`, `Outlook`) in the simulator, whose jobs
are of two kinds:

recorded  the six logs of tests/replay/logs and, with `--logs`, event logs of others, replayed as what-if
          replays them, one after the other with one history, as a shared history has it;
simulated recurring programs: lognormal runs around a program's own median, one to four stages, lognormal gaps
          between arrivals, loads of 0.6 to 0.95, half of the jobs with a deadline.

Of each job count the forecast at its submission, the one at its first task, and the one in force at a random
moment of its life; jobs of a new name, too, once any job has ended. Simulated jobs count from `--skip` on.
`admission` is what `spark_sched.admission` answers just before the submission. `uncorrected` is what history
and plan say without the correction learned from earlier ends.

    python benchmarks/eta.py [--seeds 101,102,103] [--jobs 110] [--policies fair,priority] [--logs DIR]
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click
import numpy as np
from _common import publish, stderr
from _recurring import stages_in_a_row

from spark_sched.config import validate
from spark_sched.errors import BadInputError
from spark_sched.planner.admission import Asked, answer
from spark_sched.planner.outlook import Outlook
from spark_sched.policies import EndQuantiles, Plan, Policy, PolicySettings, QueuedBehind, create
from spark_sched.predict import Forecast, RuntimeHistory
from spark_sched.protocol.events import Event
from spark_sched.state import JobView, Snapshot, Summary
from spark_sched_lab.simulator import ClusterSpec, JobSpec, simulate, uniform_nodes
from spark_sched_lab.whatif import logs_under, read_log
from spark_sched_lab.whatif.replayed import build_model

REPLAYS = Path(__file__).parents[1] / "tests" / "replay" / "logs"
MOMENTS = ("submission", "first task", "random moment")
BINS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
SLOTS = 16


@dataclass
class Planner:
    """History and the two outlooks of a planner that outlives applications."""

    history: RuntimeHistory = field(default_factory=RuntimeHistory)
    now_ms: float = 0.0
    seen: dict[str, list[tuple[int, bool, EndQuantiles, EndQuantiles]]] = field(default_factory=dict)
    admitted: dict[str, list[float | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.plain = Outlook(lambda: self.now_ms, correct=False)
        self.corrected = Outlook(lambda: self.now_ms)

    # As a predictor:
    def observe(self, event: Event) -> None:
        self.history.observe(event)

    def learn(self, summary: Summary) -> None:
        self.history.learn(summary)
        self.corrected.learn(summary)

    def reset(self) -> None:
        self.history.reset()

    def forecast(self, job: JobView) -> Forecast:
        return self.history.forecast(job)

    def new_application(self) -> None:
        self.history.reset()
        self.plain.clear()
        self.corrected.clear()
        self.seen, self.admitted = {}, {}


class Watched:
    """A policy whose plans carry forecasts of ends, as the planner's loop adds them."""

    def __init__(self, policy: Policy, planner: Planner) -> None:
        self._policy, self._planner = policy, planner
        self.name, self.capabilities = policy.name, policy.capabilities

    def decide(
        self,
        snapshot: Snapshot,
        forecasts: Mapping[str, Forecast],
        now_ms: int,
        rng: np.random.Generator,
        memory: Any,
    ) -> tuple[Plan, Any]:
        planner = self._planner
        for key in snapshot.jobs.keys() - planner.admitted.keys():
            planner.admitted[key] = self._asked(snapshot, key, forecasts, now_ms, memory)
        plan, memory = self._policy.decide(snapshot, forecasts, now_ms, rng, memory)
        planner.now_ms = float(now_ms)
        ends = []
        for outlook in (planner.plain, planner.corrected):
            outlook.see(snapshot)
            ends.append(outlook.ends(snapshot, forecasts, plan, now_ms))
        for job, corrected in ends[1].items():
            if isinstance(corrected, QueuedBehind):
                continue  # no end to compare
            begun = job in planner.corrected.begun
            planner.seen.setdefault(job, []).append((now_ms, begun, ends[0][job], corrected))
        return plan, memory

    def _asked(
        self, snapshot: Snapshot, key: str, forecasts: Mapping[str, Forecast], now_ms: int, memory: Any
    ) -> list[float | None]:
        """The chances answered just before a job came, of both outlooks."""
        view = snapshot.jobs[key]
        marks = view.marks
        if marks.deadline_ms is None or marks.deadline_ms <= now_ms:
            return []
        others = MappingProxyType({job: each for job, each in snapshot.jobs.items() if job != key})
        tasks = max((stage.tasks for stage in view.stages), default=1)
        asked = Asked(
            marks.name or "", tasks, marks.deadline_ms - now_ms, marks.user, marks.job_class, marks.priority
        )
        before, history = replace(snapshot, jobs=others), self._planner.history
        return [
            answer(self._policy, history, outlook, before, forecasts, now_ms, memory, asked)["probability"]
            for outlook in (self._planner.plain, self._planner.corrected)
        ]


@dataclass
class Scores:
    """Where ends fell, by arm, kind of job and moment; chances given and what happened, by arm and moment."""

    below: dict[tuple[str, str, str], list[int]] = field(default_factory=lambda: defaultdict(list))
    chances: dict[tuple[str, str], list[tuple[float, bool]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    jobs: set[tuple[str, str]] = field(default_factory=set)

    def add(self, kind: str, run: str, planner: Planner, row: Mapping[str, Any], moment: float) -> None:
        """One job: its forecasts against its end; ``moment``: of its life, in [0, 1]."""
        seen, end = planner.seen.get(row["job"], []), row["end_ms"]
        seen = [each for each in seen if end is not None and each[0] < end]
        if not seen:
            return
        self.jobs.add((run, row["job"]))
        for arm, probability in zip(
            ("uncorrected", "corrected"), planner.admitted.get(row["job"], ()), strict=False
        ):
            if probability is not None:
                self.chances[arm, "admission"].append((probability, end <= row["deadline_ms"]))
        at = row["submit_ms"] + moment * (end - row["submit_ms"])
        chosen = {
            "submission": None if seen[0][1] else seen[0],
            "first task": next((each for each in seen if each[1]), None),
            "random moment": next((each for each in reversed(seen) if each[0] <= at), None),
        }
        for name, each in chosen.items():
            if each is None:
                continue
            for arm, forecast in (("uncorrected", each[2]), ("corrected", each[3])):
                side = -1 if end < forecast.p10_ms else int(end > forecast.p90_ms)
                self.below[arm, kind, name].append(side)
                if forecast.deadline_probability is not None and each[0] < row["deadline_ms"]:
                    met = end <= row["deadline_ms"]
                    self.chances[arm, name].append((forecast.deadline_probability, met))


def workload(seed: int, jobs: int) -> list[JobSpec]:
    """Recurring programs with noise; nothing here is taken from a recording."""
    rng = np.random.default_rng(seed)
    programs = []
    for number in range(12):
        count, spread = int(rng.integers(1, 5)), float(rng.uniform(0.1, 0.5))
        median_ms = 1000.0 * float(np.exp(rng.normal(np.log(10.0), 0.7)))
        programs.append((f"program-{number}", rng.integers(1, 17, count), median_ms, spread))
    share = np.array([1.0 / (n + 1) for n in range(len(programs))])
    share /= share.sum()
    mean_work = sum(p * w.sum() * m for p, (_, w, m, _) in zip(share, programs, strict=True))
    gap_ms = mean_work / SLOTS / float(rng.uniform(0.6, 0.95))
    found, at_ms = [], 0.0
    for number in range(jobs):
        name, widths, median_ms, spread = programs[int(rng.choice(len(programs), p=share))]
        run_ms = median_ms * float(np.exp(spread * rng.normal()))
        stages = stages_in_a_row(rng, widths.tolist(), run_ms)
        deadline = None
        if rng.random() < 0.5:
            deadline = int(at_ms + median_ms * len(widths) * np.exp(rng.uniform(0.1, 2.0)))
        priority = int(rng.choice((0, 0, 5)))
        found.append(
            JobSpec(f"j{number}", int(at_ms), stages, name, f"user-{number % 3}", None, priority, deadline)
        )
        at_ms += gap_ms * float(np.exp(rng.normal() - 0.5))
    return found


def simulated(scores: Scores, seeds: Sequence[int], policies: Sequence[str], jobs: int, skip: int) -> None:
    """Every seed under every policy, each with a new history."""
    for policy in policies:
        settings = PolicySettings.from_config(validate({}))
        for seed in seeds:
            planner = Planner()
            result = simulate(
                ClusterSpec(uniform_nodes(4, SLOTS // 4)),
                workload(seed, jobs),
                Watched(create(policy, settings), planner),
                predictor=planner,
                plan_every_ms=1_000,
                seed=seed,
                keep_tasks=False,
            )
            moments = np.random.default_rng(seed + 1_000_000)
            for row in sorted(result.rows(), key=lambda row: int(row["job"][1:])):
                moment = float(moments.random())
                if int(row["job"][1:]) >= skip:
                    scores.add("simulated", f"{policy} {seed}", planner, row, moment)


def recorded(scores: Scores, logs: Sequence[Path]) -> None:
    """Logs one after the other, under the reservation policy."""
    planner = Planner()
    settings = PolicySettings.from_config(validate({}))
    moments = np.random.default_rng(7)
    for log in logs:
        try:
            model = build_model(read_log(log))
            planner.new_application()
            result = simulate(
                model.cluster,
                model.jobs,
                Watched(create("reservation", settings), planner),
                predictor=planner,
                plan_every_ms=200,
                seed=1,
                keep_tasks=False,
            )
        except BadInputError as error:
            stderr.print(f"{log.name}: {error}")
            continue
        for row in result.rows():
            scores.add("recorded", log.name, planner, row, float(moments.random()))


def coverage(sides: Sequence[int]) -> dict[str, float]:
    found = np.array(sides)
    return {
        "forecasts": found.size,
        "inside": float(np.mean(found == 0)),
        "earlier": float(np.mean(found < 0)),
        "later": float(np.mean(found > 0)),
    }


def reliability(pairs: Sequence[tuple[float, bool]]) -> list[dict[str, Any]]:
    """By classes of the chance given: how many, its mean, and the share that met their deadlines."""
    rows = []
    for low, high in pairwise(BINS):
        inside = [(p, met) for p, met in pairs if low <= p < high or (high == 1.0 and p == 1.0)]
        if inside:
            given, met = np.array(inside, dtype=float).T
            rows.append(
                {"from": low, "to": high, "forecasts": len(inside), "given": given.mean(), "met": met.mean()}
            )
    return rows


def numbers(_context: click.Context, _parameter: click.Parameter, text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


@click.command()
@click.option("--seeds", default="101,102,103", callback=numbers, help="Seeds of the simulated workloads.")
@click.option("--jobs", default=110, help="Jobs of each simulated run.")
@click.option("--skip", default=40, help="Jobs of each simulated run that do not count.")
@click.option("--policies", default="fair,priority", help="Policies of the simulated runs.")
@click.option("--logs", type=click.Path(exists=True, path_type=Path), help="A folder of more event logs.")
@click.option("--json", "json_output", is_flag=True, help="Print one JSON document.")
def main(seeds: list[int], jobs: int, skip: int, policies: str, logs: Path | None, json_output: bool) -> None:
    scores = Scores()
    simulated(scores, seeds, policies.split(","), jobs, skip)
    recorded(scores, [*sorted(REPLAYS.glob("*.zstd")), *([] if logs is None else sorted(logs_under(logs)))])
    lines: list[str] = []
    document: dict[str, Any] = {"runs": len(scores.jobs), "coverage": [], "reliability": []}
    for (arm, kind, moment), sides in sorted(scores.below.items()):
        row = {"arm": arm, "kind": kind, "moment": moment, **coverage(sides)}
        document["coverage"].append(row)
        lines.append(
            f"{arm}, {kind}, {moment}: {row['inside']:.1%} of {row['forecasts']} inside "
            f"({row['earlier']:.1%} earlier, {row['later']:.1%} later)"
        )
    for (arm, moment), pairs in sorted(scores.chances.items()):
        given, met = np.array(pairs, dtype=float).T
        rows = reliability(pairs)
        brier = float(np.mean((given - met) ** 2))
        document["reliability"].append({"arm": arm, "moment": moment, "brier": brier, "rows": rows})
        cells = "; ".join(f"{r['given']:.2f} → {r['met']:.2f} ({r['forecasts']})" for r in rows)
        lines.append(f"P(deadline), {arm}, {moment}: {cells}; Brier {brier:.3f}")
    publish(document, lines, json_output)


if __name__ == "__main__":
    main()
