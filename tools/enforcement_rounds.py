"""Steps written as data, played on the simulator's enforcement and ledger; the Scala suite
has the same player."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_sched.config import validate
from spark_sched.protocol.plan import JobPlan, PilotSet, Plan, PoolShare, ReservationRule
from spark_sched_lab.enforce.enforcement import (
    Enforcement,
    RunningAttempt,
    StartGate,
    Verdict,
    by_speed,
    preempted,
    victims,
)
from spark_sched_lab.enforce.ledger import Ledger, Rule
from spark_sched_lab.enforce.overlay import Overlay, Planned
from spark_sched_lab.enforce.pilots import PilotGate
from spark_sched_lab.enforce.queues import QueueTurns

PATIENCE_MS = 400
UNRANKED = 2**31 - 1
_OVERLAY = Overlay(validate({}))
BASE = Rule(max_hold_ms=60_000, gap_ms=2_000, copies=False, whole_job=False)


class TaskSet:
    """One stage as enforcement sees it."""

    def __init__(self, rounds: Rounds, step: Mapping[str, Any]) -> None:
        self._rounds = rounds
        self.stage: str = step["stage"]
        self.job: _Job = rounds.jobs[step["job"]]
        self.index: int = step["index"]
        self.tasks: int = step["tasks"]
        self.slots_per_task: int = step["slots_per_task"]
        self.gang: bool = step["gang"]
        self.restartable: bool = step["restartable"]
        self.pending = list(range(self.tasks))
        self.done: set[int] = set()
        self.running = 0
        self.gate = PilotGate(self.tasks)

    @property
    def pilots_first(self) -> bool:
        return not self.gang and self.gate.closed

    @property
    def idle_pilots(self) -> list[int]:
        return [index for index in self.gate.waiting if index in self.pending]

    @property
    def pilots_wait(self) -> bool:
        return bool(self.idle_pilots)

    @property
    def waits_as_gang(self) -> bool:
        return self.gang and self.running == 0 and len(self.done) < self.tasks

    @property
    def waiting_slots(self) -> int:
        waiting = self.idle_pilots if self.pilots_first else self.pending
        return self.slots_per_task * len(waiting)

    @property
    def slots_at_once(self) -> int:
        return self.slots_per_task * self.tasks if self.waits_as_gang else 1

    @property
    def executor_profile(self) -> int:
        return 0


@dataclass
class _Job:
    key: str
    arrival: int
    own_rule: Rule
    rule: Rule
    rank: int = 0
    queue: int | None = None
    running_slots: int = 0

    @property
    def priority(self) -> int:
        return self.rule.priority


@dataclass
class _Task:
    number: int
    set: TaskSet
    index: int
    executor: str
    start_ms: int


class Rounds:
    """Executors, jobs, a plan in force, and rounds of offers in the order in which Spark makes them."""

    def __init__(self) -> None:
        self.ledger = Ledger(self)
        self.starts = StartGate(PATIENCE_MS)
        self.queues = QueueTurns()
        self.enforcement = Enforcement(self.starts, self.queues)
        self.plan: Plan | None = None
        self.executors: dict[str, int] = {}
        self.jobs: dict[str, _Job] = {}
        self.sets: dict[str, TaskSet] = {}
        self.running: dict[int, _Task] = {}
        self.version = 0
        self.tasks = 0
        self.told: list[list[Any]] = []

    def slot_held(self, job: str, stage: str, executor: str, deadline_ms: int, now_ms: int) -> None:
        pass

    def slot_freed(self, job: str, executor: str, reason: str, now_ms: int) -> None:
        pass

    def run(self, step: Mapping[str, Any]) -> list[list[Any]]:
        """Does one step. Returns what was decided, in order."""
        self.told = []
        getattr(self, "_" + step["op"])(step)
        assert self.ledger.violations() == []
        return self.told

    # ---- what happens ----

    def _executor(self, step: Mapping[str, Any]) -> None:
        self.executors[step["executor"]] = step["slots"]
        self.ledger.executor_added(step["executor"], step["slots"])

    def _job(self, step: Mapping[str, Any]) -> None:
        rule = Rule(
            **{
                **{name: getattr(BASE, name) for name in BASE.__slots__},
                "priority": step["priority"],
                "isolation": step["isolation"],
            }
        )
        job = self.jobs[step["job"]] = _Job(step["job"], len(self.jobs) + 1, rule, rule)
        self._place(job)
        self.ledger.job_started(job.key, False, job.rule)
        self.ledger.job_ranked(job.key, job.rank, job.arrival)

    def _stage(self, step: Mapping[str, Any]) -> None:
        made = self.sets[step["stage"]] = TaskSet(self, step)
        self.ledger.stage_started(
            made.job.key, made.stage, made.index, made.tasks, step["next_tasks"], False, made.gang,
            step["now_ms"], made.slots_per_task, made.restartable,
        )  # fmt: skip
        self._put_pilots(made)

    def _plan(self, step: Mapping[str, Any]) -> None:
        self.plan = None if step["plan"] is None else plan_of(step["plan"])
        self.starts.put(self.plan)
        for job in self.jobs.values():
            self._place(job)
            self.ledger.rule_changed(job.key, job.rule, step["now_ms"])
            self.ledger.job_ranked(job.key, job.rank, job.arrival)
        self.queues.put(() if self.plan is None else self.plan.queue_weights, self.jobs.values())  # type: ignore[arg-type]
        for each in self.sets.values():
            self._put_pilots(each)
        for entry in self._entries():
            if entry.evict:
                theirs = [t for t in self.running.values() if t.set.job.key == entry.job]
                for task in victims((t.number, t.set.restartable) for t in theirs):
                    self.told.append(["evict", task])
                    self._over(task, False, step["now_ms"])

        for entry in sorted(self._entries(), key=lambda entry: entry.rank):
            if entry.victims:
                theirs = [each for each in self.sets.values() if each.job.key == entry.job]
                waiting_slots = sum(each.waiting_slots for each in theirs)
                for task in preempted(entry.victims, entry.priority, {0: waiting_slots}, self._attempt):
                    self.told.append(["evict", task])
                    self._over(task, False, step["now_ms"])

    def _attempt(self, number: int) -> RunningAttempt | None:
        task = self.running.get(number)
        if task is None:
            return None
        return RunningAttempt(task.set.job.priority, task.set.restartable, task.set.slots_per_task)

    def _end(self, step: Mapping[str, Any]) -> None:
        self._over(step["task"], step["success"], step["now_ms"])

    def _job_end(self, step: Mapping[str, Any]) -> None:
        self.starts.job_ended(step["job"])
        self.ledger.job_ended(step["job"], step["now_ms"])
        del self.jobs[step["job"]]

    def _over(self, number: int, success: bool, now_ms: int) -> None:
        task = self.running.pop(number)
        each, job = task.set, task.set.job
        self.version += 1
        each.running -= 1
        job.running_slots -= each.slots_per_task
        if job.queue is not None and self.queues.weights:
            for _ in range(each.slots_per_task):
                self.queues.stopped(job.queue, now_ms - task.start_ms, now_ms)
        self.ledger.task_ended(number, success, now_ms)
        each.gate.ended(task.index)
        if success:
            each.done.add(task.index)
            if len(each.done) == each.tasks:
                del self.sets[each.stage]
        else:
            each.pending = sorted([*each.pending, task.index])

    def _place(self, job: _Job) -> None:
        entry = self._entry(job.key)
        weights = () if self.plan is None else self.plan.queue_weights
        if entry is None:
            job.rule, job.queue = job.own_rule, None
            job.rank = UNRANKED if self.plan is not None and self.plan.ordered else 0
        else:
            job.rule = _OVERLAY.in_force(job.own_rule, planned_of(entry))
            job.queue = entry.queue if weights else None
            job.rank = entry.rank if self.plan is not None and self.plan.ordered else 0

    def _entries(self) -> tuple[JobPlan, ...]:
        return () if self.plan is None else self.plan.jobs

    def _entry(self, job: str) -> JobPlan | None:
        return next((entry for entry in self._entries() if entry.job == job), None)

    def _put_pilots(self, each: TaskSet) -> None:
        entry = self._entry(each.job.key)
        pilots = None if entry is None else entry.pilots
        each.gate.put(pilots.tasks if pilots is not None and pilots.stage == each.index else ())

    # ---- a round ----

    def _round(self, step: Mapping[str, Any]) -> None:
        now_ms = step["now_ms"]
        self.ledger.expire(now_ms)
        self.enforcement.begin(now_ms)
        self._pass(now_ms)
        if self.enforcement.spare_wanted:
            self.enforcement.begin_spare({0: self.open_slots()}, self.sets.values())
            self._pass(now_ms)
            self.enforcement.end_spare()
        if self.enforcement.spares_again({0: self.open_slots()}, self.sets.values()):
            self.told.append(["again"])

    def _pass(self, now_ms: int) -> None:
        for each in sorted(self.sets.values(), key=self.enforcement.rank):
            if each.waits_as_gang and not self._fits(each):
                continue
            for executor, slots in self._offers(each):
                while min(slots, self.free(executor)) >= each.slots_per_task and each.pending:
                    verdict = self._decide(each, executor)
                    if not verdict.may:
                        self._refuse(each, verdict)
                        break
                    self._launch(each, self._next(each), executor, verdict, now_ms)
                    slots -= each.slots_per_task

    def _offers(self, each: TaskSet) -> list[tuple[str, int]]:
        """Executors in the order in which the task set is offered their slots, with how many at most."""
        entry = self._entry(each.job.key)
        levels = [] if self.plan is None else by_speed(self.executors, self.plan.slowness)
        if not levels or entry is None or not entry.powerful or each.waits_as_gang:
            found = sorted(self.executors, key=lambda e: self.ledger.held_on(e) == 0)
            return [(executor, self.executors[executor]) for executor in found]
        own = [(executor, self._held_by(executor, each.job.key)) for executor in self.executors]
        return [(e, n) for e, n in own if n] + [(e, self.executors[e]) for level in levels for e in level]

    def _next(self, each: TaskSet) -> int:
        only_pilots = each.pilots_first and not self.enforcement.gives_spare
        return each.idle_pilots[0] if only_pilots else each.pending[0]

    def _fits(self, gang: TaskSet) -> bool:
        verdict = self.enforcement.planned(gang)
        if not verdict.may:
            self._refuse(gang, verdict)
            return False
        room = 0
        for executor in self.executors:
            open_slots = self.free(executor) - self.ledger.refused_on(executor, gang.job.key)
            room += max(0, open_slots) // gang.slots_per_task
        if room < gang.tasks:
            self.told.append(["refuse", gang.stage, "too few slots for all its tasks"])
        return room >= gang.tasks

    def _decide(self, each: TaskSet, executor: str) -> Verdict:
        verdict = self.enforcement.planned(each)
        if not verdict.may:
            return verdict
        if not self.ledger.may_launch(each.job.key, executor, 0, each.slots_per_task):
            return Verdict.HELD
        if verdict is not Verdict.OPEN:
            return verdict
        held = self.ledger.held_on(executor)
        if self._held_by(executor, each.job.key):
            return Verdict.OWN_HOLD
        return Verdict.OPEN if held == 0 or self.free(executor) > held else Verdict.OVERRIDES

    def _refuse(self, each: TaskSet, verdict: Verdict) -> None:
        # Once for all executors.
        decision = ["refuse", each.stage, verdict.value]
        if decision not in self.told:
            self.told.append(decision)

    def _launch(self, each: TaskSet, index: int, executor: str, verdict: Verdict, now_ms: int) -> None:
        self.tasks += 1
        self.version += 1
        self.running[self.tasks] = _Task(self.tasks, each, index, executor, now_ms)
        each.pending.remove(index)
        each.running += 1
        each.job.running_slots += each.slots_per_task
        if each.job.queue is not None:
            for _ in range(each.slots_per_task):
                self.queues.started(each.job.queue)
        self.enforcement.launched(each)
        self.ledger.task_launched(self.tasks, each.stage, index, executor, False, now_ms)
        self.starts.launched(each.job.key, self.version, each.slots_per_task)
        self.told.append(["launch", each.stage, index, executor, verdict.value])

    # ---- the ledger's numbers ----

    def free(self, executor: str) -> int:
        taken = sum(t.set.slots_per_task for t in self.running.values() if t.executor == executor)
        return self.executors[executor] - taken

    def open_slots(self) -> int:
        return sum(max(0, self.free(e) - self.ledger.held_on(e)) for e in self.executors)

    def _held_by(self, executor: str, job: str) -> int:
        return sum(n for j, e, n, _ in self.ledger.holds() if (j, e) == (job, executor))


def plan_of(data: Mapping[str, Any]) -> Plan:
    """The plan that a step carries as the protocol's JSON."""
    return Plan(
        snapshot=data["snapshot"],
        made_at_ms=data["made_at_ms"],
        valid_for_ms=data["valid_for_ms"],
        policy="",
        ordered=data["ordered"],
        jobs=tuple(entry_of(entry) for entry in data["jobs"]),
        new_jobs_wait=data.get("new_jobs_wait", False),
        queue_weights=tuple(data.get("queue_weights", ())),
        slowness=data.get("slowness", {}),
    )


def planned_of(entry: JobPlan) -> Planned:
    """What an entry of a plan says of its job's rule."""
    return Planned(entry.priority, entry.reservation, entry.pool)


def entry_of(data: Mapping[str, Any]) -> JobPlan:
    """One job's entry in a plan as the protocol's JSON."""
    pilots, share, pool = data.get("pilots"), data.get("share"), data.get("pool")
    return JobPlan(
        data["job"],
        data["rank"],
        data["priority"],
        _reservation_of(data.get("reservation")),
        "",
        start_ms=data.get("start_ms"),
        deferred=data.get("deferred", False),
        share=None if share is None else {int(partition): slots for partition, slots in share.items()},
        evict=data.get("evict", False),
        pilots=None if pilots is None else PilotSet(pilots["stage"], tuple(pilots["tasks"])),
        queue=data.get("queue"),
        victims=tuple(data.get("victims", ())),
        powerful=data.get("powerful", False),
        pool=None if pool is None else PoolShare(**pool),
    )


def _reservation_of(rule: Mapping[str, Any] | None) -> ReservationRule | None:
    if rule is None:
        return None
    return ReservationRule(
        rule["isolation"],
        rule.get("alpha"),
        rule.get("t_m_ms"),
        rule.get("prereserve_threshold", 0.5),
        tuple(rule.get("stage_tasks", ())),
        rule.get("copies", True),
        rule.get("gap_ms"),
    )
