"""Tenants' queues in the simulator: `QueueUsage` with the engine's jobs, the ledger's holds and the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from spark_sched.config.queues import QueueTree
from spark_sched_lab.enforce.enforcement import Verdict, WaitingSet
from spark_sched_lab.enforce.floor_preemption import FloorVictim
from spark_sched_lab.enforce.queue_shares import Standing, Wanted
from spark_sched_lab.enforce.queue_usage import UNLIMITED, IsSafe, QueueUsage
from spark_sched_lab.engine.agenda import Instant
from spark_sched_lab.engine.records import Attempt, JobRun
from spark_sched_lab.engine.workload import JobSpec


class HeldSlots(Protocol):
    """What the queues need of the held slots (`spark_sched_lab.engine.reservations.Reservations`)."""

    tenants: TenantQueues | None
    stand_ins: dict[str, str | None]
    stand_ins_at_once: set[str]

    def is_safe(self, job: JobRun, now_ms: int, holder: str) -> bool: ...

    def give_up(self, job: str, now_ms: int) -> None: ...

    def queues_changed(self) -> None: ...


def _at_once(waiting: WaitingSet) -> int:
    """Slots without which no task of the task set starts."""
    return max(waiting.slots_at_once, waiting.slots_per_task)


@dataclass(slots=True, eq=False)
class TenantQueues:
    """Calls the usage of the queues.

    Attributes:
        jobs: active ones, by key.
        floor_evictions: attempts that were evicted for queues below their floors, or would have been, by
            queue.
    """

    tree: QueueTree
    instant: Instant
    reservations: HeldSlots
    jobs: dict[str, JobRun]
    floor_evictions: dict[str, int] = field(default_factory=dict)
    usage: QueueUsage = field(init=False)

    def __post_init__(self) -> None:
        self.usage = QueueUsage(self.tree)
        self.reservations.tenants = self

    # ---- jobs ----

    def limited(self, spec: JobSpec) -> tuple[str, int]:
        """The job's queue, and its priority as the queue limits it."""
        queue = self.tree.place(spec.user or "", spec.name or spec.key, spec.job_class or "")
        return queue, min(spec.priority, self.tree.max_priority(queue, spec.user or ""))

    def changed(self, tree: QueueTree) -> None:
        """Another tree is in force: jobs whose queue is gone are in those that its rules say."""

        def place(key: str) -> str:
            spec = self.jobs[key].spec
            return tree.place(spec.user or "", spec.name or spec.key, spec.job_class or "")

        self.usage.changed(tree, place)
        self.tree = tree
        for key, job in self.jobs.items():
            job.terms.queue = self.usage.queue_of(key)
        self.reservations.queues_changed()

    # ---- slots ----

    def is_safe(self, job: JobRun) -> IsSafe:
        """Whether a job's held slots are safe from this one."""
        return partial(self.reservations.is_safe, job, self.instant.now_ms)

    def room(self, job: JobRun) -> int:
        return self.usage.room(job.key, self.is_safe(job))

    def refusal(self, waiting: WaitingSet) -> Verdict | None:
        job = self.jobs[waiting.job.key]
        if self.room(job) >= _at_once(waiting):
            return None
        return Verdict.AT_CEILING if self.usage.admitted(job.key) else Verdict.NOT_ADMITTED

    def claims(self) -> Callable[[WaitingSet], int]:
        claimed: dict[str, int] = {}

        def claim(waiting: WaitingSet) -> int:
            job = self.jobs[waiting.job.key]
            slots = waiting.waiting_slots
            return self.usage.claim(job.key, slots, claimed, self.is_safe(job))

        return claim

    def below_floor(self, waiting: WaitingSet) -> bool:
        shares, queue = self.usage.shares, self.usage.queue_of(waiting.job.key)
        return shares is not None and queue is not None and shares.below(queue)

    def standing(self, waiting: WaitingSet) -> Standing:
        shares, queue = self.usage.shares, self.usage.queue_of(waiting.job.key)
        return () if shares is None or queue is None else shares.standing(queue)

    def parts(
        self, waiting: Iterable[WaitingSet], open_slots: Mapping[int, int]
    ) -> Callable[[WaitingSet], bool] | None:
        usage, shares = self.usage, self.usage.shares
        if shares is None:
            return None
        wanted = []
        for each in waiting:
            queue = usage.queue_of(each.job.key)
            if queue is not None:
                # What its job holds adds nothing to what its queue has.
                slots = each.waiting_slots - sum(self.jobs[each.job.key].held.values())
                wanted.append(Wanted(queue, each.executor_profile, _at_once(each), slots))
        most = shares.parts(wanted, open_slots)

        def had_its_part(each: WaitingSet) -> bool:
            queue = usage.queue_of(each.job.key)
            return queue in most and usage.uses[queue].used() + _at_once(each) > most[queue]

        return had_its_part if most else None

    def ceded(self, holder: str, asker: str, slots: int, asks: int, taken: int) -> int:
        """As `QueueShares.ceded`, of jobs or those that stand in for jobs."""
        theirs, mine = self._queue_of(holder), self._queue_of(asker)
        if self.usage.shares is None or theirs is None or mine is None:
            return asks
        at_once = self._needs_at_once(holder) or self._needs_at_once(asker)
        return self.usage.shares.ceded(theirs, mine, slots, asks, taken, at_once=at_once)

    def cedes(self, holder: str, asker: str, taken: int, moved: Iterable[str]) -> bool:
        """Whether the slot of a running task of a job may go to another job, after ``taken`` open ones and
        those of tasks of ``moved`` jobs; as `QueueShares.cedes`."""
        usage = self.usage
        theirs, mine = usage.queue_of(holder), usage.queue_of(asker)
        if usage.shares is None or theirs is None or mine is None:
            return True
        queues = [usage.queue_of(job) for job in moved]
        return usage.shares.cedes(
            theirs, mine, 1, taken, [(queue, 1) for queue in queues if queue is not None]
        )

    def _needs_at_once(self, job: str) -> bool:
        if job in self.reservations.stand_ins:
            return job in self.reservations.stand_ins_at_once
        run = self.jobs.get(job)
        return run is not None and run.needs_at_once

    def _queue_of(self, job: str) -> str | None:
        return self.reservations.stand_ins.get(job) or self.usage.queue_of(job)

    def launched(self, job: JobRun, held_there: int, now_ms: int) -> None:
        """A task of the job takes a slot of a node where it holds ``held_there``: held slots of its queues
        are given up for a further one."""
        if held_there == 0:
            for key in self.usage.gives_up(job.key, 1, self.is_safe(job)):
                self.reservations.give_up(key, now_ms)
        self.usage.launched(job.key, 1, min(1, held_there))

    def next_wake_ms(self) -> int | None:
        """When a job will have waited for too long, a queue have been below its floor for too long, or one
        have slot time of 24 hours again."""
        preemption = self.usage.preemption
        wakes_ms = (
            self.usage.next_due_ms(),
            self.usage.next_freed_ms(),
            None if preemption is None else preemption.next_ms(),
        )
        return min((at_ms for at_ms in wakes_ms if at_ms is not None), default=None)

    def to_evict(self) -> list[Attempt]:
        """The attempts to evict now for queues that stay below their floors."""
        usage, rule = self.usage, self.tree.preemption
        if usage.preemption is None:
            return []
        now_ms = self.instant.now_ms
        wanted: dict[tuple[str, int], int] = {}
        running: dict[int, tuple[Attempt, FloorVictim]] = {}
        for job in self.jobs.values():
            queue = usage.queue_of(job.key)
            if queue is None:
                continue
            room = self.room(job)
            for stage in job.stages.values():
                profile = stage.executor_profile
                if stage.queued and not stage.spec.gang:
                    waiting = min(stage.waiting_slots, room)
                    wanted[queue, profile] = wanted.get((queue, profile), 0) + waiting
                for task, a in stage.running.items():
                    evictions = stage.reruns.evictions.get(a.index, 0)
                    victim = FloorVictim(task, queue, profile, 1, a.start_ms, stage.restartable, evictions)
                    running[task] = (a, victim)
        found = usage.preemption.look(wanted, [victim for _, victim in running.values()], now_ms)
        for each in found:
            self.floor_evictions[each.queue] = self.floor_evictions.get(each.queue, 0) + 1
        return [running[each.task][0] for each in found] if rule.mode == "on" else []

    # ---- results ----

    def rows(self) -> list[dict[str, Any]]:
        """What each queue had in this run."""
        return [
            {
                "queue": path,
                "ceiling_slots": None if self.usage.ceiling(path) == UNLIMITED else self.usage.ceiling(path),
                "peak_slots": use.peak,
                "refused": use.refused,
                "floor_evictions": self.floor_evictions.get(path, 0),
            }
            for path, use in self.usage.uses.items()
        ]
