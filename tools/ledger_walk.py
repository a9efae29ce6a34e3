"""Random but plausible sequences of ledger operations.

The property tests draw them with Hypothesis' own random source; run as a program this file writes the
generated golden sequences that the Scala ledger is held to:

    python tools/ledger_walk.py
"""

from __future__ import annotations

import argparse
import random
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import golden_file
from ledger_rules import (
    BASE,
    CALIBRATED_RULES,
    IDLE_LIMITS,
    IDLE_RULES,
    RULES,
    WAITING_LIMITS,
    WAITING_RULES,
    rules,
)
from ledger_steps import Outcome, StepRunner, fields_of

from spark_sched_lab.enforce.ledger import UNBOUNDED, IdleLimits

SEED = 20180702
SEQUENCES = 220
STEPS = 70
OUT = Path(__file__).parents[1] / "protocol" / "golden"


@dataclass
class _Stage:
    job: str
    tasks: int
    pending: list[int]
    slots_per_task: int
    profile: int = 0
    done: set[int] = field(default_factory=set)


@dataclass
class Walk:
    """A cluster and its jobs as the ledger's caller sees them; each ``step`` does one thing and notes it."""

    rng: random.Random
    rules: dict[str, dict[str, Any]] = field(default_factory=lambda: RULES)
    limits: IdleLimits = UNBOUNDED
    #: Holds expire when they should and not when somebody happens to ask.
    punctual: bool = False
    #: Executors and stages are of two resource profiles, and next stages' tasks of several sizes.
    shapes: bool = False
    #: Stages start and end whole, so that jobs pause while tasks of others wait.
    crowded: bool = False
    runner: StepRunner = field(init=False)
    now_ms: int = 0
    steps: list[dict[str, Any]] = field(default_factory=list)
    slots: dict[str, int] = field(default_factory=dict)
    profiles: dict[str, int] = field(default_factory=dict)
    jobs: dict[str, int] = field(default_factory=dict)
    stages: dict[str, _Stage] = field(default_factory=dict)
    #: Every stage that ever started, and its job.
    started: dict[str, str] = field(default_factory=dict)
    running: dict[int, tuple[str, int, str, int]] = field(default_factory=dict)
    numbers: int = 0

    def __post_init__(self) -> None:
        self.runner = StepRunner(rules(self.rules), self.limits)
        for i in range(self.rng.randint(1, 4)):
            self.add_executor(f"e{i}")
        for _ in range(8 if self.crowded else 1):
            self.start_job()
        self.start_stage()

    def do(self, op: str, **arguments: Any) -> Outcome:
        step: dict[str, Any] = {"op": op, **arguments}
        outcome = self.runner.run(step)
        expect: dict[str, Any] = {}
        if op == "task_ended":
            expect = {"keep": outcome.answer, "reason": outcome.reason}
        elif op in _ANSWERS:
            expect = {"answer": outcome.answer}
        if op not in _SILENT:
            expect["told"] = outcome.calls
        if self.numbers % 10 == 0 and "now_ms" in arguments:
            expect["holds"] = self.runner.holds()
            expect["deadlines"] = self.runner.deadlines()
            if self.punctual:
                expect["idle_cost_ms"] = self.runner.ledger.idle_cost_ms(self.now_ms)
                expect["job_idle_costs_ms"] = {
                    job: self.runner.ledger.idle_cost_ms(self.now_ms, job) for job in self.jobs
                }
        self.steps.append({**step, "expect": expect} if expect else step)
        self.numbers += 1
        return outcome

    def step(self) -> None:
        now_ms = self.now_ms + self.rng.choice((0, 0, 1, 7, 50, 200, 300, 1000, 4000))
        if self.punctual:
            self.wake_until(now_ms)
        self.now_ms = now_ms
        actions = _CROWDED_ACTIONS if self.crowded else _IDLE_ACTIONS if self.punctual else _ACTIONS
        self.rng.choice(actions)(self)

    def wake_until(self, end_ms: int) -> None:
        while True:
            wake_ms = self.do("next_wake", now_ms=self.now_ms).answer
            if wake_ms is None or wake_ms > end_ms:
                return
            self.now_ms = max(self.now_ms, wake_ms)
            self.do("expire", now_ms=self.now_ms)

    def end(self) -> None:
        """All there is to compare once more, then the end of time: nothing may stay held."""
        counters = asdict(self.runner.ledger.counters)
        ledger = self.runner.ledger
        expect = {
            "held_idle_ms": ledger.held_idle_ms(self.now_ms),
            "job_held_idle_ms": {job: ledger.held_idle_ms(self.now_ms, job) for job in self.jobs},
            "job_predicted_idle_ms": {job: ledger.predicted_idle_ms(job) for job in self.jobs},
            "counters": counters,
        }
        self.steps.append({"op": "look", "now_ms": self.now_ms, "expect": expect})
        self.now_ms += 10**9
        self.do("expire", now_ms=self.now_ms)
        self.do("next_wake", now_ms=self.now_ms)

    # ---- what may happen ----

    def add_executor(self, name: str = "") -> None:
        name = name or f"e{self.rng.randint(0, 5)}"
        if name not in self.slots:
            self.slots[name] = self.rng.randint(1, 4)
            more = {"profile": self.rng.randint(0, 1)} if self.shapes else {}
            self.profiles[name] = more.get("profile", 0)
            self.do("executor_added", executor=name, slots=self.slots[name], **more)

    def lose_executor(self) -> None:
        if self.slots and self.rng.random() < 0.3:
            name = self._one(self.slots)
            op = self.rng.choice(("executor_removed", "executor_draining", "executor_excluded"))
            self.do(op, executor=name, now_ms=self.now_ms)
            if op == "executor_removed":
                del self.slots[name]
                for task, (stage, index, executor, _) in list(self.running.items()):
                    if executor == name:
                        del self.running[task]
                        self._again(stage, index)

    def observe(self) -> None:
        if self.slots:
            name = self._one(self.slots)
            free = max(0, self.free_slots(name) - self.rng.choice((0, 0, 0, 1)))
            self.do("observe_free", executor=name, free=free, now_ms=self.now_ms)

    def start_job(self) -> None:
        key = f"j{self.rng.randint(0, 4)}"
        self.jobs.setdefault(key, 0)
        self.do("job_started", job=key, marked=self.rng.random() < 0.5, rule=self._one(self.rules))

    def rank_job(self) -> None:
        if self.jobs:
            key = self._one(self.jobs)
            self.do("job_ranked", job=key, rank=self.rng.randint(0, 2), arrival=int(key[1:]))

    def change_rule(self) -> None:
        if self.jobs:
            self.do("rule_changed", job=self._one(self.jobs), rule=self._one(self.rules), now_ms=self.now_ms)

    def end_job(self) -> None:
        if self.jobs and self.rng.random() < 0.3:
            key = self._one(self.jobs)
            del self.jobs[key]
            self.stages = {name: p for name, p in self.stages.items() if p.job != key}
            self.do("job_ended", job=key, now_ms=self.now_ms)

    def start_stage(self) -> None:
        if not self.jobs or (len(self.stages) > 2 and self.rng.random() < 0.8):
            return
        job = self._one(self.jobs)
        name = f"{self.numbers}.0"
        tasks = self.rng.randint(1, 6)
        slots_per_task = self.rng.choice((1, 1, 1, 1, 1, 2, 3))
        profile = self.rng.choice((0, 0, 1)) if self.shapes else 0
        self.started[name] = job
        self.stages[name] = _Stage(job, tasks, list(range(tasks)), slots_per_task, profile)
        more: dict[str, Any] = {"slots_per_task": slots_per_task} if slots_per_task > 1 else {}
        if self.shapes:
            more["profile"] = profile
        if self.rng.random() < (0.9 if self.shapes else 0.5):
            more |= self._in_dag()
        elif self.rng.random() < 0.5:
            more["next_at_most"] = self.rng.randint(1, 9)
        if self.rng.random() < 0.4:
            more["writes"] = self.rng.choice("123")
        if self.rng.random() < 0.4:
            more["reads"] = self.rng.sample("123", self.rng.randint(1, 2))
        self.do(
            "stage_started",
            job=job,
            stage=name,
            index=self.jobs[job],
            tasks=tasks,
            next_tasks=self.rng.choice((None, None, 1, 2, 4, 6, 9)),
            last=self.rng.random() < 0.15,
            barrier=self.rng.random() < 0.1,
            now_ms=self.now_ms,
            **more,
        )
        self.jobs[job] += 1

    def _in_dag(self) -> dict[str, Any]:
        """A place in a DAG of few places, so that stages share those that read them."""
        vertices = self.rng.sample("ABCDE", self.rng.randint(1, 4))
        readers: list[list[Any]] = []
        for v in vertices[1:]:
            readers.append([v, self.rng.randint(1, 6), self.rng.random() < 0.7])
            if self.shapes and self.rng.random() < 0.9:
                size = self.rng.choice((1, 1, 2, 3))
                readers[-1].append(
                    [size, self.rng.randint(max(1, size - 1), size), self.rng.choice((0, 0, 1))]
                )
        return {"vertex": vertices[0], "successors": readers}

    def learn(self) -> None:
        if self.stages:
            stage = self._one(self.stages)
            if self.rng.random() < 0.2:
                self.do("last_learned", stage=stage, last=self.rng.random() < 0.6, now_ms=self.now_ms)
            else:
                slots = self.rng.choice((None, *range(1, 10)))
                found: dict[str, Any] = {"vertex": self.rng.choice("XYZ"), "slots": slots}
                if self.rng.random() < 0.5:
                    found["inputs"] = self._inputs(stage)
                self.do(
                    "next_learned", stage=stage, **found, ready=self.rng.random() < 0.8, now_ms=self.now_ms
                )

    def _inputs(self, stage: str) -> list[str]:
        """Stages of the same job, active or ended, in the DAG or not, whose outputs one reader reads."""
        job = self.stages[stage].job
        started = [name for name, owner in self.started.items() if owner == job]
        return self.rng.sample(started, self.rng.randint(1, min(3, len(started))))

    def end_stage(self) -> None:
        if self.stages and self.rng.random() < 0.2:
            name = self._one(self.stages)
            job = self.stages.pop(name).job
            self.do("stage_ended", stage=name, now_ms=self.now_ms)
            if self.rng.random() < 0.4:
                self.do("action_failed", job=job, now_ms=self.now_ms)

    def launch(self) -> None:
        waiting = {name: p for name, p in self.stages.items() if p.pending}
        free = {name: 1 for name in self.slots if self.free_slots(name) > 0}
        if waiting and free:
            name = self._one(waiting)
            executor = self._one(free)
            if waiting[name].profile != self.profiles[executor]:
                return
            # A task that needs more than an executor has left takes what is left: needs are rounded up.
            slots = waiting[name].slots_per_task
            wider = {"slots": slots} if slots > 1 else {}
            may = self.do("may_launch", job=waiting[name].job, executor=executor, already_taken=0, **wider)
            if may.answer:
                self._launch(name, waiting[name].pending.pop(0), executor, copy=False)

    def launch_all(self) -> None:
        for _ in range(12):
            self.launch()

    def end_running_stage(self) -> None:
        """All of a stage's tasks end well, if none of them waits."""
        running = {name: p for name, p in self.stages.items() if not p.pending}
        if running:
            name = self._one(running)
            for task, (stage, index, _, _) in list(self.running.items()):
                if stage == name and name in self.stages and index not in running[name].done:
                    self._end_task(task, success=True)

    def launch_copy(self) -> None:
        free = {name: 1 for name in self.slots if self.free_slots(name) > 0}
        full = {name: p for name, p in self.stages.items() if p.done and not p.pending}
        if full and free:
            name = self._one(full)
            executor = self._one(free)
            index = self.do("pick_copy", stage=name, executor=executor, now_ms=self.now_ms).answer
            if index is not None:
                self._launch(name, index, executor, copy=True)

    def end_task(self) -> None:
        if self.running:
            self._end_task(self._one(self.running), success=self.rng.random() < 0.9)

    def _end_task(self, task: int, success: bool) -> None:
        stage, index, _, _ = self.running.pop(task)
        self.do("task_ended", task=task, success=success, now_ms=self.now_ms)
        p = self.stages.get(stage)
        if p is not None:
            if success:
                p.done.add(index)
                if len(p.done) == p.tasks:
                    del self.stages[stage]
            else:
                self._again(stage, index)

    def undo_task(self) -> None:
        done = {name: p for name, p in self.stages.items() if p.done}
        if done and self.rng.random() < 0.3:
            name = self._one(done)
            index = self.rng.choice(sorted(done[name].done))
            done[name].done.discard(index)
            self.do("task_undone", stage=name, index=index, now_ms=self.now_ms)
            self._again(name, index)

    def do_elsewhere(self) -> None:
        if self.stages and self.rng.random() < 0.3:
            name = self._one(self.stages)
            p = self.stages[name]
            index = self.rng.choice([i for i in range(p.tasks) if i not in p.done])
            p.done.add(index)
            if index in p.pending:
                p.pending.remove(index)
            self.do("task_done_elsewhere", stage=name, index=index, now_ms=self.now_ms)
            if len(p.done) == p.tasks:
                del self.stages[name]

    def expire(self) -> None:
        self.do("expire", now_ms=self.now_ms)

    def ask(self) -> None:
        self.do("next_wake", now_ms=self.now_ms)
        self.do("any_copies_due", now_ms=self.now_ms)
        if self.stages:
            self.do("wants_copies", stage=self._one(self.stages), now_ms=self.now_ms)
        if self.slots:
            executor = self._one(self.slots)
            self.do(
                "may_launch",
                job=f"j{self.rng.randint(0, 5)}",
                executor=executor,
                already_taken=self.rng.randint(0, 2),
                slots=self.rng.choice((1, 1, 1, 2)),
            )

    # ---- bookkeeping ----

    def _one(self, options: dict[Any, Any]) -> Any:
        return self.rng.choice(list(options))

    def free_slots(self, executor: str) -> int:
        return self.slots[executor] - sum(n for _, _, e, n in self.running.values() if e == executor)

    def _launch(self, stage: str, index: int, executor: str, copy: bool) -> None:
        task = self.numbers
        taken = max(1, min(self.stages[stage].slots_per_task, self.free_slots(executor)))
        self.running[task] = (stage, index, executor, taken)
        self.do(
            "task_launched",
            task=task,
            stage=stage,
            index=index,
            executor=executor,
            copy=copy,
            now_ms=self.now_ms,
        )

    def _again(self, stage: str, index: int) -> None:
        p = self.stages.get(stage)
        twin = any(t[:2] == (stage, index) for t in self.running.values())
        if p is not None and index not in p.done and index not in p.pending and not twin:
            p.pending.append(index)


_ANSWERS = {"may_launch", "wants_copies", "any_copies_due", "pick_copy", "expire", "next_wake"}
_SILENT = {
    "executor_added",
    "may_launch",
    "wants_copies",
    "any_copies_due",
    "pick_copy",
    "next_wake",
    "job_started",
    "job_ranked",
}
_ACTIONS = (
    *[Walk.launch] * 12,
    *[Walk.end_task] * 8,
    *[Walk.start_stage] * 3,
    *[Walk.launch_copy] * 3,
    *[Walk.ask] * 1,
    *[Walk.learn] * 2,
    Walk.rank_job,
    Walk.expire,
    Walk.observe,
    Walk.start_job,
    Walk.change_rule,
    Walk.end_stage,
    Walk.end_job,
    Walk.undo_task,
    Walk.do_elsewhere,
    Walk.add_executor,
    Walk.lose_executor,
)
# A hold needs tasks that end, and a pause a stage that does.
_IDLE_ACTIONS = (*[Walk.launch] * 12, *[Walk.end_task] * 14, *[Walk.start_stage] * 4, *_ACTIONS[-11:])
_CROWDED_ACTIONS = (
    *[Walk.launch_all] * 10,
    *[Walk.end_running_stage] * 14,
    *[Walk.start_stage] * 20,
    *[Walk.end_task] * 3,
    *_ACTIONS[-11:],
)


def sequence(rng: random.Random, steps: int, **more: Any) -> Walk:
    walk = Walk(rng, **more)
    while len(walk.steps) < steps:
        walk.step()
    walk.end()
    return walk


def document(
    first_seed: int, sequences: int, named: dict[str, dict[str, Any]], *, steps: int = STEPS, **more: Any
) -> dict[str, Any]:
    limits = {"idle_limits": asdict(more["limits"])} if "limits" in more else {}
    return {
        "about": "Generated by tools/ledger_walk.py; what is expected is what the Python ledger did.",
        **limits,
        "base_rule": fields_of(BASE),
        "rules": named,
        "sequences": [
            {
                "title": f"random sequence {i}",
                "source": f"seed {first_seed + i}",
                "steps": sequence(random.Random(first_seed + i), steps, rules=named, **more).steps,
            }
            for i in range(sequences)
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Write the generated golden sequences of ledger operations.")
    parser.parse_args()
    golden_file.write(OUT / "random.json.gz", document(SEED, SEQUENCES, RULES))
    golden_file.write(
        OUT / "random-idle.json.gz",
        document(SEED + SEQUENCES, 120, IDLE_RULES, limits=IDLE_LIMITS, punctual=True),
    )
    golden_file.write(
        OUT / "random-waiting.json.gz",
        document(
            SEED + SEQUENCES + 370, 120, WAITING_RULES, limits=WAITING_LIMITS, punctual=True, crowded=True
        ),
    )
    golden_file.write(
        OUT / "random-calibrated.json.gz",
        document(SEED + SEQUENCES + 120, 100, CALIBRATED_RULES, steps=160, punctual=True),
    )
    golden_file.write(
        OUT / "random-shapes.json.gz", document(SEED + SEQUENCES + 220, 150, RULES, shapes=True)
    )


if __name__ == "__main__":
    main()
