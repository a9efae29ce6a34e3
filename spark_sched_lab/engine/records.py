"""The engine's records of active jobs, stages and attempts, dropped when the job ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple, Protocol

from spark_sched.policies.key_order import Place
from spark_sched.protocol.plan import PilotSet
from spark_sched.state import DurationSums, JobMarks, JobView, RunningTask, StageView
from spark_sched_lab.enforce.overlay import Planned
from spark_sched_lab.enforce.pilots import PilotGate
from spark_sched_lab.enforce.rule import Rule
from spark_sched_lab.engine.sorted_entries import Entry
from spark_sched_lab.engine.workload import JobSpec, StageSpec

_NOTHING_HELD: MappingProxyType[str, int] = MappingProxyType({})
#: Rank of a job that the plan in force does not know: after all that it does know.
UNRANKED = 2**31 - 1


@dataclass(slots=True, eq=False, repr=False)
class Attempt:
    """One running attempt of a task. A dead one may still be in the event queue and is ignored."""

    task: int
    stage: StageRun
    index: int
    node: int
    start_ms: int
    copy: bool
    alive: bool = True
    twin: Attempt | None = None
    reserves: bool = False  # the ledger knows it as its own job's
    view: RunningTask | None = None

    def running_task(self, names: Sequence[str]) -> RunningTask:
        """As the snapshot shows it; made once, when a policy first looks."""
        view = self.view
        if view is None:
            evictions = self.stage.reruns.evictions.get(self.index, 0)
            view = self.view = RunningTask(
                self.task, self.index, names[self.node], self.start_ms, self.copy, evictions
            )
        return view


class StageEdges(NamedTuple):
    """Where a stage stands in its job's DAG, as far as the scheduler knows when the stage starts.

    Attributes:
        part: number of its part in the order of submission.
        next_tasks: tasks of all stages that read its output; None where that is unknown.
        last: it is the last one of its job.
        successors: the stages that read its output: name, tasks, whether they only wait for active stages.
    """

    part: int
    next_tasks: int | None
    last: bool
    successors: tuple[tuple[str, int, bool], ...]


class PreferredPlaces(Protocol):
    """Where the tasks of one stage prefer to run, task by task (`DelayScheduling`)."""

    def choose(self, pending: list[int], now_ms: int) -> int:
        """The node for the one of ``pending`` that launches next, which is moved to its end; or NONE."""

    def wake_ms(self, now_ms: int) -> int | None:
        """When to ask the stage again, which refused a slot; None: that is known, or no time is needed."""

    def forget(self) -> None:
        """The stage's waiting tasks changed without a choice."""

    def there_ms(self, task: int, node: int, duration_ms: int) -> int:
        """The time of a task on ``node`` that took ``duration_ms`` where it was seen."""


@dataclass(slots=True)
class StagePlaces:
    """Where the input of a stage is, how long its tasks wait to get there, and where they ran.

    Attributes:
        rack_at_ms: from then on its tasks accept ``local_racks``.
        any_at_ms: from then on they accept any node.
        local: nodes that have its input; None: any node is as good.
        local_racks: the racks of those.
        near: the same task by task; None: its tasks prefer no nodes of their own.
        refused: no free slot would do so far; it looks again when one opens, or when it accepts more.
        ran_on: nodes where its tasks ended, in that order; empty unless requested.
    """

    rack_at_ms: int
    any_at_ms: int
    local: dict[int, None] | None = None
    local_racks: frozenset[int] = frozenset()
    near: PreferredPlaces | None = None
    refused: bool = False
    ran_on: dict[int, None] = field(default_factory=dict)


@dataclass(slots=True)
class StageReruns:
    """Tasks of a stage that may run, or did run, more than once.

    Attributes:
        originals: running attempts that may get a copy, by index of the task; only while copies are possible.
        lost: tasks with an attempt that was evicted or lost.
        evictions: how often a task gave its slot to others, by index.
    """

    originals: dict[int, Attempt] = field(default_factory=dict)
    lost: set[int] = field(default_factory=set)
    evictions: dict[int, int] = field(default_factory=dict)


class StageRun:
    """One active stage: the tasks that wait, those that run, and what is known of the stage."""

    __slots__ = (
        "durations", "edges", "entry", "gate", "index", "job", "key", "pending", "places", "queued", "reruns",
        "running", "spec", "start_ms", "view",
    )  # fmt: skip

    def __init__(
        self, job: JobRun, index: int, spec: StageSpec, key: str, start_ms: int, edges: StageEdges
    ) -> None:
        self.job = job
        self.index = index
        self.spec = spec
        self.key = key
        self.start_ms = start_ms
        self.edges = edges
        self.places = StagePlaces(start_ms, start_ms)
        self.durations = DurationSums()
        self.reruns = StageReruns()
        # From the end, so that the next task is a pop.
        self.pending: list[int] = list(range(spec.tasks - 1, -1, -1))
        self.gate: PilotGate | None = None  # once a plan named pilots
        self.running: dict[int, Attempt] = {}
        self.queued = False
        self.entry: Entry | None = None  # among the stages that wait
        self.view: StageView | None = None

    # ---- as enforcement sees it ----

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

    @property
    def executor_profile(self) -> int:
        return self.spec.profile

    # ---- as snapshots show it ----

    @property
    def restartable(self) -> bool:
        return self.spec.restartable and self.job.spec.copies

    def stage_view(self, names: Sequence[str]) -> StageView:
        if self.view is None:
            self.view = StageView(
                stage=self.key,
                name=self.spec.name,
                index=self.index,
                tasks=self.spec.tasks,
                next_tasks=self.edges.next_tasks,
                last=self.edges.last,
                barrier=self.spec.gang,
                started_ms=self.start_ms,
                finished=self.durations.count,
                durations=self.durations.summary(),
                running=tuple([a.view or a.running_task(names) for a in self.running.values()]),
                restartable=self.restartable,
            )
        return self.view


@dataclass(slots=True)
class JobTerms:
    """The rules of a job beside its place in the order: its own, the plan's and an operator's.

    Attributes:
        marks: its owner's, and an operator's changes of them.
        own_rule: of its reservations, by its marks and the configuration.
        planned: what the plan lays over that; None: no plan knows the job.
        changed: an operator changed the marks after that plan was made.
        pilots: tasks of one of its stages that run before the others.
        share: slots that it may still take, by partition; None: any.
        powerful: its tasks take open slots of the fastest nodes first.
        on_hold: an operator lets none of its tasks start.
        queue: the tenants' queue that it is in; None: there are none.
    """

    marks: JobMarks
    own_rule: Rule
    planned: Planned | None = None
    changed: bool = False
    pilots: PilotSet | None = None
    share: dict[int, int] | None = None
    powerful: bool = False
    on_hold: bool = False
    queue: str | None = None


class JobProgress:
    """How far a job is through the DAG of its stages.

    Attributes:
        parts: number, in the order of submission, of each part that has begun.
        stages_left: stages that have not ended.
        parents_left: for each stage how many of its parents have not ended.
        outputs: nodes with the output of stages that ended; only where distance matters.
    """

    __slots__ = ("outputs", "parents_left", "parts", "stages_left")

    def __init__(self, stages: Sequence[StageSpec]) -> None:
        self.parts: dict[int, int] = {}
        self.stages_left = len(stages)
        self.parents_left = [len(set(stage.parents)) for stage in stages]
        self.outputs: dict[int, dict[int, None]] = {}


@dataclass(slots=True)
class JobSums:
    """A job's sums so far, as its row of the results shows them; -1 as first launch: none yet."""

    first_launch_ms: int = -1
    starts: int = 0
    copies: int = 0
    copies_won: int = 0
    evictions: int = 0
    nonlocal_tasks: int = 0
    work_ms: int = 0
    wasted_ms: int = 0
    evicted_ms: int = 0  # of that, by evictions for other jobs' waiting tasks
    held_idle_ms: int = 0  # as of its end
    predicted_idle_ms: int = 0


class JobRun:
    """One active job: its place in the order, what holds for it, its stages and its slots."""

    __slots__ = (
        "arrival", "held", "key", "place", "priority", "progress", "queue", "rank", "rule", "running_slots",
        "spec", "stages", "sums", "terms", "view",
    )  # fmt: skip

    def __init__(self, spec: JobSpec, arrival: int, own_rule: Rule) -> None:
        self.spec = spec
        self.key = spec.key
        self.arrival = arrival
        self.terms = JobTerms(JobMarks.of(spec), own_rule)
        self.rule = own_rule  # in force
        self.priority = own_rule.priority
        self.rank = UNRANKED
        self.queue: int | None = None
        self.place: Place | None = None  # by the policy's `KeyOrder`, where that orders jobs
        self.progress = JobProgress(spec.stages)
        self.sums = JobSums()
        self.stages: dict[str, StageRun] = {}
        self.held: dict[str, int] = {}
        self.running_slots = 0
        self.view: JobView | None = None

    # ---- as a `KeyOrder` sees it ----

    @property
    def job(self) -> str:
        return self.key

    @property
    def marks(self) -> JobMarks:
        return self.terms.marks

    @property
    def started_ms(self) -> int:
        return self.spec.submit_ms

    @property
    def held_slots(self) -> int:
        return sum(self.held.values()) if self.held else 0

    @property
    def needs_at_once(self) -> bool:
        """Whether a gang of the job waits or has just begun: until its tasks are launched, which they are one
        after the other, its claims stay as they are."""
        return any(stage.spec.gang and stage.durations.count == 0 for stage in self.stages.values())

    # ---- as snapshots show it ----

    def job_view(self, names: Sequence[str]) -> JobView:
        """The job as a snapshot shows it; ``names`` are the nodes'."""
        if self.view is None:
            self.view = JobView(
                self.key,
                self.terms.marks,
                started_ms=self.started_ms,
                arrival=self.arrival,
                stages=tuple([stage.stage_view(names) for stage in self.stages.values()]),
                held=MappingProxyType(dict(self.held)) if self.held else _NOTHING_HELD,
                running_slots=self.running_slots,
                preferred=self.spec.preferred,
                evicted_ms=float(self.sums.evicted_ms),
                on_hold=self.terms.on_hold,
            )
        return self.view
