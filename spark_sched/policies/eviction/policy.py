"""Priorities that preempt: waiting jobs take slots of running tasks of lower priority, at a price."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from spark_sched.config.values import choice, number, time_ms, whole
from spark_sched.policies.base import Capabilities, ChangesWith, PolicySettings
from spark_sched.policies.eviction.powerful import known_slowness, speed_levels
from spark_sched.policies.eviction.remaining import RemainingTimes
from spark_sched.policies.eviction.sticky import Sticky, StickySlots
from spark_sched.policies.eviction.tasks import Choice, SlotDemand, Terms, Victim, choose
from spark_sched.policies.options import Option, Options
from spark_sched.policies.plan import JobPlan, Plan
from spark_sched.policies.reservation.policy import ReservationPolicy
from spark_sched.predict import UNKNOWN, Forecast
from spark_sched.predict.tasks.pilots import TaskForecast
from spark_sched.state import JobView, RunningTask, Snapshot, StageView

_VICTIMS = Option(
    "victims",
    choice("MRS", "RND", "LRS"),
    "MRS",
    "Which tasks of the lowest running priority are evicted first: the most recently started ones, random "
    "ones, or the least recently started ones.",
)
_MOST_EVICTIONS = Option(
    "most_evictions",
    whole(0, 1_000_000),
    "5",
    "A task that was evicted this often is not evicted again; with 0 no task is evicted.",
)
_JOB_BUDGET = Option(
    "job_budget",
    time_ms(),
    "1h",
    "Slot time that one job may lose by evictions in total; after that its tasks are not evicted.",
)
_WORTH = Option(
    "worth",
    number(0.001, 1e9),
    "4",
    "Slot time of work that may be lost for each unit of slot time by which a waiting task starts earlier.",
)
_POWERFUL_PRIORITY = Option(
    "powerful_priority",
    whole(-(2**31), 2**31 - 1),
    "9",
    "Jobs of at least this priority start their tasks, and evict, on the fastest executors first, if task "
    "times show that executors differ in speed.",
)
_STICKY_SLOTS = Option(
    "sticky_slots",
    whole(0, 1_000_000),
    "0",
    "Number of slots that serve jobs which have waited for `sticky_wait`, in the order of their arrival, "
    "whatever their priority. Their tasks in these slots are not evicted.",
)
_STICKY_WAIT = Option(
    "sticky_wait",
    time_ms(),
    "1min",
    "How long none of a job's tasks must have run before the job may take sticky slots.",
)

#: Shortest and longest time until an eviction that was not worth its price is considered again.
_AGAIN_MS = (1_000, 60_000)
_HIGHEST = 2**31 - 1
#: Largest number of victims that a reason names.
_NAMED = 3


class _Named(NamedTuple):
    """A victim of the last plan: its job, and the job for which it is evicted."""

    job: str
    beneficiary: str


@dataclass(frozen=True, slots=True)
class _Memory:
    """Victims of the last plan by number, in their order, and sticky slots."""

    named: Mapping[int, _Named] = field(default_factory=lambda: MappingProxyType({}))
    sticky: Sticky = field(default_factory=Sticky)

    def at(self, snapshot: Snapshot) -> _Memory:
        """The memory without the victims that have ended."""
        running = {
            task.task for job in snapshot.jobs.values() for stage in job.stages for task in stage.running
        }
        return replace(self, named={task: each for task, each in self.named.items() if task in running})


class PriorityEvictionsPolicy:
    """Jobs are ordered by priority and hold slots as under ``reservation``. In addition, waiting tasks take
    the slots of running tasks of lower priority (thesis, chapters 6 and 7).

    Victims have the lowest running priority; among these the option ``victims`` chooses. No task is evicted
    more often than ``most_evictions``. An eviction must be worth its price: the work that the victim loses is
    compared with the time by which the waiting task starts earlier. The remaining time of a task is predicted
    from its siblings and from history; a task that is nearly done is a victim only if no other is suitable.

    ``sticky_slots`` of the slots serve jobs that have waited long (HYBRID, chapter 9).
    """

    name = "priority-evictions"
    capabilities = Capabilities(
        changes_with=ChangesWith.TASKS,
        task_times=True,
        places=True,
        evicts_tasks=True,
        marks=frozenset({"priority", "isolation"}),
    )
    options = Options(
        (_VICTIMS, _MOST_EVICTIONS, _JOB_BUDGET, _WORTH, _POWERFUL_PRIORITY, _STICKY_SLOTS, _STICKY_WAIT)
    )

    def __init__(self, settings: PolicySettings) -> None:
        self._reservation = ReservationPolicy(settings)
        options = settings.options
        self._victims = options[_VICTIMS]
        self._most_evictions = options[_MOST_EVICTIONS]
        self._budget_ms = options[_JOB_BUDGET]
        self._worth = options[_WORTH]
        self._powerful_priority = options[_POWERFUL_PRIORITY]
        self._sticky = StickySlots(options[_STICKY_SLOTS], options[_STICKY_WAIT])

    def decide(
        self,
        snapshot: Snapshot,
        forecasts: Mapping[str, Forecast],
        now_ms: int,
        rng: np.random.Generator,
        memory: _Memory | None,
    ) -> tuple[Plan, _Memory]:
        plan, _ = self._reservation.decide(snapshot, forecasts, now_ms, rng, None)
        known = (memory or _Memory()).at(snapshot)
        sticky = self._sticky.at(known.sticky, snapshot, now_ms)
        known = replace(known, sticky=sticky)
        plan = self._with_fast_executors(replace(plan, policy=self.name), snapshot, forecasts)
        plan = _with_sticky_slots(plan, snapshot, sticky)
        waiting = [stage for stage in _waiting(snapshot) if _has_lower(stage.job, snapshot)]
        if not waiting:
            return plan, replace(known, named=MappingProxyType({}))
        running = list(_running(snapshot, forecasts, now_ms))
        candidates = self._ordered([each for each in running if self._evictable(each, sticky)], rng)
        choice = choose(
            [self._demand(stage, snapshot, known) for stage in waiting],
            [each.victim for each in candidates],
            (each.victim.remaining_ms for each in running for _ in range(each.victim.slots)),
            Terms(self._worth, {job.job: self._budget_ms - job.evicted_ms for job in snapshot.jobs.values()}),
        )
        plan = self._with_victims(plan, snapshot, waiting, choice, now_ms)
        return plan, replace(known, named=_named(waiting, choice))

    def _with_fast_executors(self, plan: Plan, snapshot: Snapshot, forecasts: Mapping[str, Forecast]) -> Plan:
        """The plan in which jobs of high priority take the fastest executors first (thesis §8.1.2)."""
        powerful = {
            job.job for job in snapshot.jobs.values() if job.marks.priority >= self._powerful_priority
        }
        slowness = known_slowness(forecasts.values()) if powerful else {}
        levels = speed_levels(slowness, snapshot.executors) if slowness else {}
        if not levels:
            return plan

        def entry_of(entry: JobPlan) -> JobPlan:
            if entry.job not in powerful:
                return entry
            return replace(
                entry, powerful=True, reason=f"{entry.reason}; starts on the fastest executors first"
            )

        return replace(plan, jobs=tuple(map(entry_of, plan.jobs)), slowness=levels)

    def _demand(self, waiting: _WaitingStage, snapshot: Snapshot, known: _Memory) -> SlotDemand:
        job, stage, tasks = waiting
        refused: dict[str, int] = {}
        for other in snapshot.jobs.values():
            if other is not job and other.marks.priority >= job.marks.priority:
                for executor, slots in other.held.items():
                    refused[executor] = refused.get(executor, 0) + slots
        free = {
            key: executor.slots - executor.running_slots - refused.get(key, 0)
            for key, executor in snapshot.executors.items()
            if executor.slots - executor.running_slots > refused.get(key, 0)
        }
        powerful = job.marks.priority >= self._powerful_priority
        named = [task for task, each in known.named.items() if each.beneficiary == job.job]
        return SlotDemand(
            job.job, job.marks.priority, tasks, stage.slots_per_task, free, stage.barrier, named, powerful
        )

    def _evictable(self, running: _Running, sticky: Sticky) -> bool:
        task = running.task
        return (
            running.stage.restartable
            and task.evictions < self._most_evictions
            and task.task not in sticky.tasks
        )

    def _ordered(self, running: list[_Running], rng: np.random.Generator) -> list[_Running]:
        """By priority, the lowest first, and there by the rule for victims."""
        by_start = sorted(running, key=lambda each: (each.task.launched_ms, each.task.task))
        if self._victims == "MRS":
            by_start.reverse()
        elif self._victims == "RND":
            by_start = [by_start[at] for at in rng.permutation(len(by_start)).tolist()]
        return sorted(by_start, key=lambda each: each.victim.priority)

    def _with_victims(
        self, plan: Plan, snapshot: Snapshot, waiting: list[_WaitingStage], choice: Choice, now_ms: int
    ) -> Plan:
        """The plan with its victims and reasons. It asks for a new plan at the time at which a waiting task
        would have had its slot without evictions."""
        takes: dict[str, list[Victim]] = {}
        waits: dict[str, int] = {}
        loses: dict[str, int] = {}
        for stage, victims, tasks in zip(waiting, choice.victims, choice.waiting, strict=True):
            takes.setdefault(stage.job.job, []).extend(victims)
            waits[stage.job.job] = waits.get(stage.job.job, 0) + tasks
            for victim in victims:
                loses[victim.job] = loses.get(victim.job, 0) + 1

        def entry_of(entry: JobPlan) -> JobPlan:
            victims, key = takes.get(entry.job, []), entry.job
            reasons = [entry.reason]
            if victims:
                reasons.append(_taken(victims, snapshot))
            if waits.get(key):
                reasons.append(f"no victim is worth its price for {_tasks(waits[key])}")
            if loses.get(key):
                reasons.append(f"{_tasks(loses[key])} evicted for jobs of higher priority")
            named = tuple(victim.task for victim in victims)
            return replace(entry, reason="; ".join(reasons), victims=named)

        again_ms = plan.again_ms
        if any(choice.waiting):
            low_ms, high_ms = _AGAIN_MS
            look_ms = now_ms + int(min(high_ms, max(low_ms, choice.first_end_ms)))
            again_ms = look_ms if again_ms is None else min(again_ms, look_ms)
        return replace(plan, jobs=tuple(map(entry_of, plan.jobs)), again_ms=again_ms)


class _WaitingStage(NamedTuple):
    job: JobView
    stage: StageView
    tasks: int


class _Running(NamedTuple):
    """A running attempt, and what it is as a victim."""

    stage: StageView
    task: RunningTask
    victim: Victim


def _waiting(snapshot: Snapshot) -> list[_WaitingStage]:
    """Stages with waiting tasks, in the order in which jobs get slots, without those of jobs on hold."""
    found = []
    jobs = (job for job in snapshot.jobs.values() if not job.on_hold)
    for job in sorted(jobs, key=lambda job: (-job.marks.priority, job.arrival)):
        for stage in job.stages:
            if (tasks := stage.waiting) > 0:
                found.append(_WaitingStage(job, stage, tasks))
    return found


def _has_lower(job: JobView, snapshot: Snapshot) -> bool:
    return any(
        other.running_slots and other.marks.priority < job.marks.priority for other in snapshot.jobs.values()
    )


def _running(snapshot: Snapshot, forecasts: Mapping[str, Forecast], now_ms: int) -> Iterator[_Running]:
    for job in snapshot.jobs.values():
        forecast = forecasts.get(job.job, UNKNOWN)
        slowness = forecast.slowness if isinstance(forecast, TaskForecast) else {}
        for stage in job.stages:
            left = RemainingTimes(forecast, stage.index) if stage.running else None
            for task in stage.running:
                assert left is not None
                elapsed_ms = float(max(0, now_ms - task.launched_ms))
                victim = Victim(
                    task.task, job.job, job.marks.priority, task.executor, stage.slots_per_task, elapsed_ms,
                    left.after(elapsed_ms), slowness.get(task.executor, 1.0),
                )  # fmt: skip
                yield _Running(stage, task, victim)


def _with_sticky_slots(plan: Plan, snapshot: Snapshot, sticky: Sticky) -> Plan:
    """The plan in which jobs with sticky slots take these slots, and no others, before all other jobs."""
    highest = max((job.marks.priority for job in snapshot.jobs.values()), default=0)
    partitions = Counter(executor.partition for executor in snapshot.executors.values())
    partition = max(partitions, key=lambda each: (partitions[each], -each), default=0)

    def entry_of(entry: JobPlan) -> JobPlan:
        slots = sticky.granted.get(entry.job)
        if slots is None:
            return entry
        reason = f"{entry.reason}; may take {slots} sticky slots after its wait"
        priority = min(highest + 1, _HIGHEST)
        return replace(entry, priority=priority, share={partition: slots}, reason=reason)

    return replace(plan, jobs=tuple(map(entry_of, plan.jobs)), again_ms=sticky.again_ms)


def _named(waiting: list[_WaitingStage], choice: Choice) -> Mapping[int, _Named]:
    return MappingProxyType(
        {
            victim.task: _Named(victim.job, stage.job.job)
            for stage, victims in zip(waiting, choice.victims, strict=True)
            for victim in victims
        }
    )


def _taken(victims: list[Victim], snapshot: Snapshot) -> str:
    def said(victim: Victim) -> str:
        return (
            f"task {victim.task} of {snapshot.jobs[victim.job].marks.name or victim.job} "
            f"({victim.elapsed_ms / 1000.0:.1f} s lost, {victim.remaining_ms / 1000.0:.1f} s expected still)"
        )

    more = f" and {len(victims) - _NAMED} more" if len(victims) > _NAMED else ""
    return f"takes the slots of {', '.join(map(said, victims[:_NAMED]))}{more}"


def _tasks(count: int) -> str:
    return "1 task" if count == 1 else f"{count} tasks"
