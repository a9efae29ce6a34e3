"""Algorithm 1 of "Speculative Slot Reservation", transcribed from the paper, beside the ledger.

Chains of stages run on slots that other jobs' tasks leave one by one. The golden files bind the Scala ledger
to the Python one. Among jobs of equal priority the one that came first counts as higher
(`docs/adr/0038-order-among-equals.md`).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from spark_sched_lab.enforce.ledger import Ledger, Rule

OTHERS = "others"  # a job that reserves nothing
PRIORITIES = (5, 5, 10)


@dataclass
class Phase:
    """A stage, in the paper's words; ``next_tasks`` is n, None if not available."""

    tasks: int
    next_tasks: int | None
    final: bool
    finished: int = 0
    requested: int = 0  # additional slots that are still to be reserved


@dataclass
class PaperJob:
    priority: int
    threshold: float
    phase: Phase | None = None


@dataclass
class Paper:
    """Algorithm 1; the comments give its lines. The order of jobs and slots decides ties."""

    jobs: dict[str, PaperJob] = field(default_factory=dict)
    idle: list[bool] = field(default_factory=list)  # by slot
    reserved: dict[int, str] = field(default_factory=dict)  # slot to job

    def phase_starts(self, job: str, tasks: int, next_tasks: int | None, final: bool) -> None:
        self.jobs[job].phase = Phase(tasks, next_tasks, final)

    def task_starts(self, slot: int) -> None:
        self.idle[slot] = False
        self.reserved.pop(slot, None)

    def handle_task_completion(self, job: str, slot: int) -> None:
        j, phase = self.jobs[job], self.jobs[job].phase
        assert phase is not None
        self.idle[slot] = True
        phase.finished += 1
        m, n = phase.tasks, phase.next_tasks  # 5, 6
        if phase.final:  # 2
            self.release(slot)  # 3
        elif n is None or m == n:  # 7
            self.reserved[slot] = job  # 8
        elif m > n:  # 9
            if phase.finished <= m - n:  # 10
                self.release(slot)  # 11
            else:
                self.reserved[slot] = job  # 13
        else:
            self.reserved[slot] = job  # 15
            before = phase.finished - 1 > j.threshold * m
            # Once the barrier fell the tasks of the next phase ask themselves.
            if m > phase.finished > j.threshold * m and not before:  # 16
                phase.requested = n - m  # 17
                for other in range(len(self.idle)):
                    if self.idle[other] and other not in self.reserved:
                        self.release(other)

    def release(self, slot: int) -> None:
        """A slot that nobody reserves goes to a request: of the highest priority, of these to the first."""
        self.idle[slot] = True
        asking = [key for key, j in self.jobs.items() if j.phase is not None and j.phase.requested > 0]
        if asking:
            key = max(asking, key=lambda key: self.jobs[key].priority)
            phase = self.jobs[key].phase
            assert phase is not None
            phase.requested -= 1
            self.reserved[slot] = key

    def may_allocate(self, job: str, priority: int, slot: int) -> bool:
        """TRYALLOCATETASK; a job's own reservations are for its own tasks."""
        holder = self.reserved.get(slot)
        if holder is None or holder == job:
            return True
        if self.jobs[holder].priority == priority:
            order = list(self.jobs)
            return order.index(job) < order.index(holder)
        return self.jobs[holder].priority < priority  # 19


class _Silent:
    def slot_held(self, job: str, stage: str, executor: str, deadline_ms: int, now_ms: int) -> None: ...

    def slot_freed(self, job: str, executor: str, reason: str, now_ms: int) -> None: ...


@dataclass
class Chain:
    """A job of stages one after the other, as the cluster sees it."""

    widths: Sequence[int]
    recurring: bool  # its widths are known from earlier runs
    at: int = -1
    waiting: int = 0


class Cluster:
    """Both side by side; each slot is an executor of its own, so that slots can be told apart."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.paper, self.ledger = rng, Paper(), Ledger(_Silent())
        self.running: dict[int, tuple[str, int]] = {}  # task: its job and slot
        self.tasks = 0
        for slot in range(rng.randint(1, 12)):
            self.paper.idle.append(True)
            self.ledger.executor_added(str(slot), 1)
        self.ledger.job_started(OTHERS, False, Rule(isolation=0.0))
        self.ledger.stage_started(OTHERS, OTHERS, 0, 10**6, None, False, False, 0)
        for slot in range(len(self.paper.idle)):
            if rng.random() < 0.7:
                self.launch(OTHERS, OTHERS, slot)
        self.chains: dict[str, Chain] = {}
        for number in range(rng.randint(1, 3)):
            self.start_chain(f"chain {number}")

    def start_chain(self, job: str) -> None:
        rng = self.rng
        chain = Chain([rng.randint(1, 6) for _ in range(rng.randint(1, 5))], rng.random() < 0.3)
        rule = Rule(
            priority=rng.choice(PRIORITIES),
            isolation=1.0,
            pre_reserve_threshold=rng.choice((0.0, 0.3, 0.5, 0.9, 1.0)),
            max_hold_ms=10**9,
            gap_ms=10**9,
            copies=False,
            stage_tasks=tuple(chain.widths) if chain.recurring else (),
        )
        self.chains[job] = chain
        self.paper.jobs[job] = PaperJob(rule.priority, rule.pre_reserve_threshold)
        self.ledger.job_started(job, False, rule)
        self.start_stage(job)

    def start_stage(self, job: str) -> None:
        chain = self.chains[job]
        chain.at += 1
        tasks, *later = chain.widths[chain.at :]
        chain.waiting = tasks
        in_dag = later[0] if later and self.rng.random() < 0.6 else None
        known = later[0] if later and chain.recurring else in_dag
        if known is None and later:
            # m slots are reserved. Of a narrower phase, which leaves some over, the algorithm says nothing.
            chain.widths = [*chain.widths[: chain.at + 1], max(tasks, later[0]), *later[1:]]
        self.paper.phase_starts(job, tasks, known, not later)
        last = not later and not chain.recurring
        self.ledger.stage_started(job, self.stage(job), chain.at, tasks, in_dag, last, False, 0)

    def stage(self, job: str) -> str:
        return job if job == OTHERS else f"{job}, {self.chains[job].at}"

    def launch(self, job: str, stage: str, slot: int) -> None:
        self.tasks += 1
        self.running[self.tasks] = (job, slot)
        if job != OTHERS:
            self.chains[job].waiting -= 1
        self.paper.task_starts(slot)
        self.ledger.task_launched(self.tasks, stage, self.tasks, str(slot), False, 0)

    def step(self) -> None:
        if self.rng.random() < 0.5 or not self.running:
            self.start_task()
        else:
            self.end_task()
        self.compare()
        self.use_reservations()
        self.compare()

    def start_task(self) -> None:
        """On a slot that nobody reserved: the algorithm does not say what becomes of a reservation that
        another job's task overrides."""
        job = self.rng.choice([OTHERS, *(key for key, chain in self.chains.items() if chain.waiting)])
        free = [slot for slot, idle in enumerate(self.paper.idle) if idle and slot not in self.paper.reserved]
        if free:
            self.launch(job, self.stage(job), self.rng.choice(free))

    def use_reservations(self) -> None:
        """A task that waits starts at once on a slot that its job reserved."""
        for job, chain in self.chains.items():
            own = [slot for slot, holder in self.paper.reserved.items() if holder == job]
            for slot in own[: chain.waiting]:
                self.launch(job, self.stage(job), slot)

    def end_task(self) -> None:
        task = self.rng.choice(list(self.running))
        job, slot = self.running.pop(task)
        if job == OTHERS:
            self.paper.release(slot)
            self.ledger.task_ended(task, True, 0)
            return
        self.paper.handle_task_completion(job, slot)
        self.ledger.task_ended(task, True, 0)
        phase = self.paper.jobs[job].phase
        assert phase is not None
        if phase.finished == phase.tasks:
            self.compare()
            if phase.final:
                del self.chains[job], self.paper.jobs[job]
                self.ledger.job_ended(job, 0)
            else:
                self.start_stage(job)

    def compare(self) -> None:
        paper, ledger = self.paper, self.ledger
        assert {int(slot): job for job, slot, _, _ in ledger.holds()} == paper.reserved
        priorities = {OTHERS: 0} | {key: j.priority for key, j in paper.jobs.items()}
        for slot, idle in enumerate(paper.idle):
            for job, priority in priorities.items():
                if idle:
                    assert ledger.may_launch(job, str(slot)) is paper.may_allocate(job, priority, slot)


@given(seed=st.integers(0, 10**9))
def test_the_ledger_reserves_what_algorithm_1_reserves(seed: int) -> None:
    for number in range(8):
        cluster = Cluster(random.Random(seed + number))
        steps = 0
        while cluster.chains and steps < 400:
            cluster.step()
            steps += 1
