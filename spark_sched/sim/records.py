"""What the engine keeps of live jobs, stages and attempts; gone when the job is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import MappingProxyType
from typing import TypeAlias

from spark_sched.policies.plan import PilotSet, PoolShare, ReservationRule
from spark_sched.sim.near import Near
from spark_sched.sim.pilots import PilotGate
from spark_sched.sim.rule import Rule
from spark_sched.sim.workload import JobSpec, StageSpec
from spark_sched.state import DurationSummary, JobView, RunningTask, StageView, marks_of

__all__ = ["UNRANKED", "Attempt", "JobRun", "StageRun"]

#: Rank of a job that the plan in force does not know: after all that it does know.
UNRANKED = 2**31 - 1

SortKey: TypeAlias = tuple[int, int, int, int, int]


class Attempt:
    """One running attempt of a task. A dead one may still stand in the event queue and is passed over."""

    __slots__ = ("alive", "copy", "index", "node", "reserves", "stage", "start_ms", "task", "twin", "view")

    def __init__(self, task: int, stage: StageRun, index: int, node: int, start_ms: int, copy: bool) -> None:
        self.task = task
        self.stage = stage
        self.index = index
        self.node = node
        self.start_ms = start_ms
        self.copy = copy
        self.alive = True
        self.twin: Attempt | None = None
        self.reserves = False  # the ledger knows it as its own job's
        self.view: RunningTask | None = None

    def running_task(self, names: Sequence[str]) -> RunningTask:
        """As the snapshot shows it; made once, when a policy first looks."""
        view = self.view
        if view is None:
            view = self.view = RunningTask(self.task, self.index, names[self.node], self.start_ms, self.copy)
        return view


class StageRun:
    """One active stage: the tasks that wait, those that run, and what the finished ones took."""

    __slots__ = (
        "any_at_ms", "behind", "copied", "evicted", "finished", "gate", "index", "job", "key", "last",
        "local", "local_racks", "min_ms", "near", "next_tasks", "originals", "part", "pending", "queued",
        "rack_at_ms", "ran_on", "running", "sort_key", "spec", "start_ms", "successors", "sum_log_ms",
        "view", "waiting",
    )  # fmt: skip

    def __init__(
        self,
        job: JobRun,
        index: int,
        spec: StageSpec,
        key: str,
        start_ms: int,
        next_tasks: int | None,
        last: bool,
        part: int,
    ) -> None:
        self.job = job
        self.index = index
        self.spec = spec
        self.key = key
        self.start_ms = start_ms
        self.next_tasks = next_tasks
        self.successors: tuple[tuple[str, int, bool], ...] = ()
        self.last = last
        self.part = part  # number of its part in the order of submission
        # From the end, so that the next task is a pop.
        self.pending: list[int] = list(range(spec.tasks - 1, -1, -1))
        self.behind: list[int] = []  # tasks that wait behind a gate, from the end too
        self.gate: PilotGate | None = None  # once a plan named pilots
        self.evicted: set[int] = set()  # tasks of which an attempt was lost
        self.running: dict[int, Attempt] = {}
        self.originals: dict[int, Attempt] = {}  # only while copies are possible
        self.copied: set[int] = set()
        self.finished = 0
        self.min_ms: int | None = None
        self.sum_log_ms = 0.0
        self.local: dict[int, None] | None = None
        self.local_racks: frozenset[int] = frozenset()
        self.rack_at_ms = start_ms
        self.any_at_ms = start_ms
        self.near: Near | None = None
        self.waiting = False
        self.queued = False
        self.ran_on: dict[int, None] = {}
        self.sort_key: SortKey = (0, 0, 0, 0, 0)
        self.view: StageView | None = None

    def refresh_key(self) -> None:
        job = self.job
        queue = -1 if job.queue is None else job.queue
        self.sort_key = (-job.priority, queue, job.rank, self.part, self.index)

    def add_duration(self, duration_ms: int) -> None:
        self.finished += 1
        self.sum_log_ms += math.log(duration_ms)
        if self.min_ms is None or duration_ms < self.min_ms:
            self.min_ms = duration_ms

    # ---- as enforcement sees it ----

    @property
    def job_key(self) -> str:
        return self.job.key

    @property
    def job_priority(self) -> int:
        return self.job.priority

    @property
    def job_arrival(self) -> int:
        return self.job.arrival

    @property
    def job_rank(self) -> int:
        return self.job.rank

    @property
    def job_queue(self) -> int:
        return -1 if self.job.queue is None else self.job.queue

    @property
    def pilots_first(self) -> bool:
        return self.gate is not None and self.gate.closed

    @property
    def pilots_wait(self) -> bool:
        return bool(self.pending)

    @property
    def waiting_slots(self) -> int:
        return len(self.pending)

    @property
    def slots_at_once(self) -> int:
        return len(self.pending) if self.spec.gang else 1

    @property
    def slots_per_task(self) -> int:
        return 1

    # ---- as snapshots show it ----

    @property
    def restartable(self) -> bool:
        return self.spec.restartable and self.job.spec.copies

    def durations(self) -> DurationSummary:
        return DurationSummary(self.finished, self.min_ms, self.sum_log_ms)

    def stage_view(self, names: Sequence[str]) -> StageView:
        if self.view is None:
            self.view = StageView(
                stage=self.key,
                name=self.spec.name,
                index=self.index,
                tasks=self.spec.tasks,
                next_tasks=self.next_tasks,
                last=self.last,
                barrier=self.spec.gang,
                started_ms=self.start_ms,
                finished=self.finished,
                durations=self.durations(),
                running=tuple([attempt.running_task(names) for attempt in self.running.values()]),
                restartable=self.restartable,
            )
        return self.view


class JobRun:
    """One active job with the rules in force for it and its sums so far."""

    __slots__ = (
        "arrival",
        "copies",
        "copies_won",
        "evictions",
        "first_launch_ms",
        "held",
        "key",
        "nonlocal_tasks",
        "outputs",
        "own_rule",
        "parents_left",
        "parts",
        "pilots",
        "planned",
        "priority",
        "queue",
        "rank",
        "rule",
        "running_slots",
        "share",
        "spec",
        "stages",
        "stages_left",
        "start_ms",
        "starts",
        "view",
        "wasted_ms",
        "work_ms",
    )  # fmt: skip

    def __init__(self, spec: JobSpec, arrival: int, own_rule: Rule, now_ms: int) -> None:
        self.spec = spec
        self.key = spec.key
        self.arrival = arrival
        self.own_rule = own_rule
        self.rule = own_rule
        self.priority = own_rule.priority
        self.rank = UNRANKED
        self.planned: tuple[int, ReservationRule | None, PoolShare | None] | None = None
        self.pilots: PilotSet | None = None
        self.queue: int | None = None
        self.share: dict[int, int] | None = None  # slots that it may still take, by partition
        self.start_ms = now_ms
        self.parts: dict[int, int] = {}
        self.stages: dict[str, StageRun] = {}
        self.stages_left = len(spec.stages)
        self.parents_left = [len(set(stage.parents)) for stage in spec.stages]
        self.held: dict[str, int] = {}
        self.outputs: dict[int, dict[int, None]] = {}  # nodes with the output of stages that ended
        self.running_slots = 0
        self.first_launch_ms = -1
        self.starts = 0
        self.copies = 0
        self.copies_won = 0
        self.evictions = 0
        self.nonlocal_tasks = 0
        self.work_ms = 0
        self.wasted_ms = 0
        self.view: JobView | None = None

    def job_view(self, names: Sequence[str]) -> JobView:
        """The job as a snapshot shows it; ``names`` are the nodes'."""
        if self.view is None:
            self.view = JobView(
                self.key,
                *marks_of(self.spec),
                started_ms=self.start_ms,
                arrival=self.arrival,
                stages=tuple([stage.stage_view(names) for stage in self.stages.values()]),
                held=MappingProxyType(dict(self.held)),
                running_slots=self.running_slots,
                preferred=self.spec.preferred,
                elsewhere_factor=self.spec.elsewhere_factor,
            )
        return self.view
