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
from spark_sched.policies.budget import OUT_OF_TIME
from spark_sched.policies.eviction.candidates import Candidates, Victim
from spark_sched.policies.eviction.powerful import known_slowness, speed_levels
from spark_sched.policies.eviction.running import Running, running_attempts
from spark_sched.policies.eviction.sticky import Sticky, StickySlots
from spark_sched.policies.eviction.tasks import Choice, SlotDemand, Terms, choose
from spark_sched.policies.options import Option, Options
from spark_sched.policies.reservation.policy import ReservationPolicy
from spark_sched.predict import Forecast
from spark_sched.protocol.plan import JobPlan, Plan
from spark_sched.state import JobView, Snapshot, StageView

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
        if not self.named:
            return self
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
        self._budget = settings.budget
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
        deadline = self._budget.begin()
        plan, _ = self._reservation.decide(snapshot, forecasts, now_ms, rng, None)
        known = (memory or _Memory()).at(snapshot)
        sticky = self._sticky.at(known.sticky, snapshot, now_ms)
        known = replace(known, sticky=sticky)
        plan = self._with_fast_executors(replace(plan, policy=self.name), snapshot, forecasts)
        plan = _with_sticky_slots(plan, snapshot, sticky)
        lowest = min((j.marks.priority for j in snapshot.jobs.values() if j.running_slots), default=_HIGHEST)
        waiting = [stage for stage in _waiting(snapshot) if stage.job.marks.priority > lowest]
        if not waiting:
            return plan, replace(known, named=MappingProxyType({}))
        running = running_attempts(snapshot, forecasts, now_ms)
        choice = choose(
            self._demands(waiting, snapshot, known),
            self._candidates(running, sticky, rng),
            running.remaining_slots_ms,
            Terms(self._worth, {job.job: self._budget_ms - job.evicted_ms for job in snapshot.jobs.values()}),
            deadline,
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

    def _demands(
        self, waiting: list[_WaitingStage], snapshot: Snapshot, known: _Memory
    ) -> Iterator[SlotDemand]:
        """One demand for each waiting stage."""
        named: dict[str, list[int]] = {}
        for task, each in known.named.items():
            named.setdefault(each.beneficiary, []).append(task)
        free = _FreeSlots(snapshot)
        for job, stage, tasks in waiting:
            priority = job.marks.priority
            yield SlotDemand(
                job.job, priority, tasks, stage.slots_per_task, free.of(job), stage.barrier,
                named.get(job.job, ()), priority >= self._powerful_priority,
            )  # fmt: skip

    def _candidates(self, running: Running, sticky: Sticky, rng: np.random.Generator) -> Candidates:
        """Attempts that may be evicted, by priority, the lowest first, and there by the rule for victims."""
        evictable = running.restartable & (running.evictions < self._most_evictions)
        if sticky.tasks:
            evictable &= ~np.isin(running.attempts.task, list(sticky.tasks))
        found, launched_ms = running.attempts.at(evictable), running.launched_ms[evictable]
        order = np.lexsort((found.task, launched_ms))
        if self._victims == "MRS":
            order = order[::-1]
        elif self._victims == "RND":
            order = order[rng.permutation(len(order))]
        return found.at(order[np.argsort(found.priority[order], kind="stable")])

    def _with_victims(
        self, plan: Plan, snapshot: Snapshot, waiting: list[_WaitingStage], choice: Choice, now_ms: int
    ) -> Plan:
        """The plan with its victims and reasons. It asks for a new plan at the time at which a waiting task
        would have had its slot without evictions."""
        takes: dict[str, list[Victim]] = {}
        waits: dict[str, int] = {}
        unseen: dict[str, int] = {}
        loses: dict[str, int] = {}
        served = zip(waiting, choice.victims, choice.waiting, choice.unseen, strict=True)
        for stage, victims, tasks, out_of_time in served:
            takes.setdefault(stage.job.job, []).extend(victims)
            waits[stage.job.job] = waits.get(stage.job.job, 0) + tasks - out_of_time
            unseen[stage.job.job] = unseen.get(stage.job.job, 0) + out_of_time
            for victim in victims:
                loses[victim.job] = loses.get(victim.job, 0) + 1

        def entry_of(entry: JobPlan) -> JobPlan:
            key = entry.job
            if key not in takes and key not in loses:
                return entry
            victims = takes.get(key, [])
            reasons = [entry.reason]
            if victims:
                reasons.append(_taken(victims, snapshot))
            if waits.get(key):
                reasons.append(f"no victim is worth its price for {_tasks(waits[key])}")
            if unseen.get(key):
                reasons.append(f"{OUT_OF_TIME} victims for {_tasks(unseen[key])} were looked for")
            if loses.get(key):
                reasons.append(f"{_tasks(loses[key])} evicted for jobs of higher priority")
            if len(reasons) == 1:
                return entry
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


class _FreeSlots:
    """Slots that jobs may take without an eviction: none that are held for jobs of their own or higher
    priority. Jobs are asked for in the order of their priority, the highest first."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._all = {
            key: executor.slots - executor.running_slots
            for key, executor in snapshot.executors.items()
            if executor.slots > executor.running_slots
        }
        holders = (job for job in snapshot.jobs.values() if job.held)
        self._holders = sorted(holders, key=lambda job: job.marks.priority)
        self._refused: dict[str, int] = {}
        self._others = self._without(self._refused)

    def of(self, job: JobView) -> dict[str, int]:
        """By executor; one mapping for all jobs that may take the same slots."""
        higher = False
        while self._holders and self._holders[-1].marks.priority >= job.marks.priority:
            for executor, slots in self._holders.pop().held.items():
                self._refused[executor] = self._refused.get(executor, 0) + slots
            higher = True
        if higher:
            self._others = self._without(self._refused)
        if not job.held:
            return self._others
        own = {executor: slots - job.held.get(executor, 0) for executor, slots in self._refused.items()}
        return self._without(own)

    def _without(self, refused: Mapping[str, int]) -> dict[str, int]:
        return {
            key: slots - refused.get(key, 0)
            for key, slots in self._all.items()
            if slots > refused.get(key, 0)
        }


def _waiting(snapshot: Snapshot) -> list[_WaitingStage]:
    """Stages with waiting tasks, in the order in which jobs get slots, without those of jobs on hold."""
    found = []
    jobs = (job for job in snapshot.jobs.values() if not job.on_hold)
    for job in sorted(jobs, key=lambda job: (-job.marks.priority, job.arrival)):
        for stage in job.stages:
            if (tasks := stage.waiting) > 0:
                found.append(_WaitingStage(job, stage, tasks))
    return found


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
