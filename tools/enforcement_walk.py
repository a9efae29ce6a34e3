"""Random clusters, jobs and plans, and what rounds of offers decide under them.

Run as a program this file writes the generated golden sequences that bind the simulator's enforcement and the
driver's:

    python tools/enforcement_walk.py
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import golden_file
from enforcement_rounds import PATIENCE_MS, Rounds

SEED = 20191028
SEQUENCES = 2400
STEPS = 26
OUT = Path(__file__).parents[1] / "protocol" / "golden" / "enforcement" / "random.json.gz"


@dataclass
class Walk:
    """Draws steps, plays them and notes what they decide."""

    rng: random.Random
    rounds: Rounds = field(default_factory=Rounds)
    steps: list[dict[str, Any]] = field(default_factory=list)
    now_ms: int = 0
    jobs: int = 0
    stages: int = 0
    plans: int = 0

    def do(self, op: str, **arguments: Any) -> None:
        step: dict[str, Any] = {"op": op, **arguments}
        told = self.rounds.run(step)
        self.steps.append({**step, "expect": told} if told else step)

    def play(self, steps: int) -> list[dict[str, Any]]:
        for number in range(self.rng.randint(1, 3)):
            self.do("executor", executor=f"e{number}", slots=self.rng.randint(1, 4))
        for _ in range(self.rng.randint(2, 4)):
            self.job()
        while len(self.steps) < steps:
            self.now_ms += self.rng.choice((0, 10, 100, 300, 1000))
            self.rng.choice(_ACTIONS)(self)
        self.round()
        return self.steps

    def job(self) -> None:
        rng = self.rng
        self.jobs += 1
        isolation = rng.choice((0.0, 0.0, 1.0))
        self.do("job", job=f"j{self.jobs}", priority=rng.choice((0, 0, 0, 5)), isolation=isolation)
        self.stage(f"j{self.jobs}", 0)

    def stage(self, job: str, index: int) -> None:
        rng = self.rng
        self.stages += 1
        gang = rng.random() < 0.15
        self.do(
            "stage",
            job=job,
            stage=f"{self.stages}.0",
            index=index,
            tasks=rng.randint(1, 5),
            slots_per_task=rng.choice((1, 1, 1, 1, 2)),
            gang=gang,
            restartable=not gang and rng.random() < 0.9,
            next_tasks=rng.choice((None, 1, 3, 5)),
            now_ms=self.now_ms,
        )

    def next_stage(self) -> None:
        busy = {each.job.key for each in self.rounds.sets.values()}
        idle = [job for job in self.rounds.jobs if job not in busy]
        if idle:
            self.stage(self.rng.choice(idle), self.rng.randint(1, 2))
        else:
            self.job()

    def end_job(self) -> None:
        busy = {each.job.key for each in self.rounds.sets.values()}
        running = {task.set.job.key for task in self.rounds.running.values()}
        idle = [job for job in self.rounds.jobs if job not in busy | running]
        if idle:
            self.do("job_end", job=self.rng.choice(idle), now_ms=self.now_ms)

    def end(self) -> None:
        for _ in range(self.rng.randint(1, 3)):
            if self.rounds.running:
                task = self.rng.choice(list(self.rounds.running))
                self.do("end", task=task, success=self.rng.random() < 0.85, now_ms=self.now_ms)
        self.round()

    def round(self) -> None:
        self.do("round", now_ms=self.now_ms)

    def plan(self) -> None:
        rng, rounds = self.rng, self.rounds
        self.plans += 1
        kind = rng.choice(
            (
                "ranks", "ranks", "starts", "starts", "starts", "queues", "queues", "victims", "victims",
                "powerful", "powerful", "none",
            )
        )  # fmt: skip
        if kind == "none":
            self.do("plan", plan=None, now_ms=self.now_ms)
            return
        entries: list[dict[str, Any]] = []
        known = [job for job in rounds.jobs if rng.random() < 0.85]
        rng.shuffle(known)
        for rank, job in enumerate(known):
            entry: dict[str, Any] = {"job": job, "rank": rank, "priority": rng.choice((0, 0, 0, 3))}
            if rng.random() < 0.4:
                entry["reservation"] = {"isolation": 1.0, "prereserve_threshold": 0.5}
            if kind == "starts":
                entry.update(dict(self._start()))
            if kind == "victims" and rounds.tasks and rng.random() < 0.5:
                entry["priority"] = 3
                entry["victims"] = self._victims()
            if kind == "powerful" and rng.random() < 0.6:
                entry["powerful"] = True
            if kind == "queues":
                entry["queue"] = rng.randint(0, 2)
            if kind != "ranks" and rng.random() < 0.4:
                tasks = sorted({rng.randint(0, 5) for _ in range(rng.randint(1, 2))})
                entry["pilots"] = {"stage": rng.choice((0, 0, 1)), "tasks": tasks}
            entries.append(entry)
        plan: dict[str, Any] = {
            "schema": 1,
            "plan": self.plans,
            "snapshot": max(0, rounds.version - rng.choice((0, 0, 0, 2))),
            "made_at_ms": self.now_ms,
            "valid_for_ms": 10**6,
            "ordered": rng.random() < 0.8,
            "jobs": entries,
        }
        if kind != "ranks" and rng.random() < 0.5:
            plan["new_jobs_wait"] = True
        if kind == "powerful":
            plan["slowness"] = {
                e: rng.choice((0.5, 0.7, 1.0, 2.0)) for e in rounds.executors if rng.random() < 0.8
            }
        if kind == "queues":
            plan["queue_weights"] = [1.0, rng.choice((0.5, 0.1)), rng.choice((0.2, 0.004))]
        self.do("plan", plan=plan, now_ms=self.now_ms)

    def _victims(self) -> list[int]:
        """Attempts that run, and now and then one that is over."""
        found = [task for task in self.rounds.running if self.rng.random() < 0.7]
        if not found or self.rng.random() < 0.2:
            found.append(self.rng.randint(1, self.rounds.tasks))
        found = sorted(set(found))
        self.rng.shuffle(found)
        return found

    def _start(self) -> Iterator[tuple[str, Any]]:
        rng = self.rng
        drawn = rng.random()
        if drawn < 0.2:
            yield "deferred", True
        elif drawn < 0.4:
            yield "deferred", True
            yield "start_ms", self.now_ms + rng.choice((0, 100, 1000))
        elif drawn < 0.6:
            yield "share", {"0": rng.randint(1, 3), **({"1": 1} if rng.random() < 0.3 else {})}
        elif drawn < 0.7:
            yield "evict", True
            if rng.random() < 0.7:
                yield "deferred", True


_ACTIONS = (
    *[Walk.end] * 6,
    *[Walk.plan] * 4,
    *[Walk.round] * 2,
    Walk.next_stage,
    Walk.next_stage,
    Walk.end_job,
)


def document() -> dict[str, Any]:
    return {
        "about": "Generated by tools/enforcement_walk.py; what is expected is what the Python one did.",
        "patience_ms": PATIENCE_MS,
        "sequences": [
            {"seed": SEED + i, "steps": Walk(random.Random(SEED + i)).play(STEPS)} for i in range(SEQUENCES)
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the generated golden sequences of rounds of offers.")
    parser.parse_args()
    golden_file.write(OUT, document())


if __name__ == "__main__":
    main()
