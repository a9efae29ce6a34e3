"""The interface of policies, and the settings that they may read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import partial
from operator import is_
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np

from spark_sched.arrays import Ints
from spark_sched.config import Settings, keys
from spark_sched.config.queues import QueueTree
from spark_sched.policies.budget import Budget
from spark_sched.policies.options import Options, OptionValues
from spark_sched.predict import Forecast
from spark_sched.protocol.plan import JobPlan, Plan, PoolShare, ReservationRule
from spark_sched.state import JobView, Snapshot


class ChangesWith(IntEnum):
    """The changes that a policy's plans can depend on; each member includes those before it.

    Members:
        ARRIVALS: a job's rules follow from its own marks, and its rank among equals from its arrival, so the
            policy needs to see each job only once.
        JOBS: which jobs exist, and the cluster's slots.
        STAGES: how stages begin and end.
        GATES: when the last pilot of a stage ended or was lost.
        TASKS: when single tasks start and end.
        ROUNDS: which tasks were launched, before the clock advances, and which holds expired (simulator).
        LAUNCHES: every single launch. A live planner plans as for ``TASKS``.
    """

    ARRIVALS = 1
    JOBS = 2
    STAGES = 3
    GATES = 4
    TASKS = 5
    ROUNDS = 6
    LAUNCHES = 7


def _nothing() -> None:
    """The warm-up of most policies: nothing."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The inputs that a policy needs and the rules that its plans may use, for the planner and the simulator.

    Attributes:
        changes_with: a new plan is made only after such a change. The default is correct for any policy; a
            smaller value saves plans.
        changes_unforecast: the same while there are no forecasts; None: as ``changes_with``.
        task_times: it needs `spark_sched.predict.tasks.pilots.TaskForecast`.
        places: its plans limit jobs to slots of some executors (`JobPlan.share`).
        start_times: its plans defer jobs (`JobPlan.deferred`, `JobPlan.start_ms`).
        preempts: its plans evict running jobs (`JobPlan.evict`).
        evicts_tasks: its plans evict single tasks (`JobPlan.victims`).
        pilots: its plans run some tasks of a stage first (`JobPlan.pilots`).
        new_jobs_wait: jobs that its last plan does not contain take only idle slots that nobody else wants
            (`Plan.new_jobs_wait`).
        marks: which of the marks ``priority``, ``isolation`` and ``deadline`` it reads; a comparison whose
            arm sets a mark that it does not read is rejected. A policy that reads isolation holds slots.
        by_spark_job: stages of equal rank get slots in the order of their Spark jobs, as on stock Spark;
            otherwise in the order of their jobs' arrival (simulator).
        tunes_isolation: it chooses the isolation level of jobs that set none.
        key_order: its plans sort jobs by a key and give all jobs priority 0, and it also gives that order as
            a `spark_sched.policies.key_order.KeyOrder`, which the simulator updates job by job in place of
            making plans.
        exact_key_order: that order holds only where forecasts know each job's work exactly when it arrives,
            as those of the simulator's oracle do.
        warm_up: called once before the first plan: loads or compiles what ``decide`` runs.
    """

    changes_with: ChangesWith = ChangesWith.TASKS
    changes_unforecast: ChangesWith | None = None
    task_times: bool = False
    places: bool = False
    start_times: bool = False
    preempts: bool = False
    evicts_tasks: bool = False
    pilots: bool = False
    new_jobs_wait: bool = False
    marks: frozenset[str] = frozenset({"priority", "isolation", "deadline"})
    by_spark_job: bool = False
    tunes_isolation: bool = False
    key_order: bool = False
    exact_key_order: bool = False
    warm_up: Callable[[], None] = _nothing

    def changes(self, *, forecast: bool) -> ChangesWith:
        """What its plans depend on, with or without forecasts."""
        if forecast or self.changes_unforecast is None:
            return self.changes_with
        return self.changes_unforecast


@dataclass(frozen=True, slots=True)
class PolicySettings:
    """The application's settings that policies read; ``docs/reference/configuration.md`` explains them.

    Attributes:
        queues: the tenants' queues at the start; None: there are none.
        policy_options: all ``spark.sched.policy.*`` settings that were given.
        options: the checked options of the policy that is created; their defaults if the settings are made by
            hand.
        budget: time for one decision; unlimited in the simulator.
    """

    reservation_enabled: bool
    isolation: float
    min_priority: int
    prereserve_threshold: float
    copies_enabled: bool
    plan_validity_ms: int
    first_gap_ms: int
    solver: str = "prices"
    queues: QueueTree | None = None
    policy_options: Mapping[str, str] = field(default_factory=dict)
    options: OptionValues = field(default_factory=OptionValues)
    budget: Budget = field(default_factory=Budget)

    @classmethod
    def from_config(cls, settings: Settings) -> PolicySettings:
        return cls(
            reservation_enabled=settings[keys.RESERVATION_ENABLED],
            isolation=settings[keys.RESERVATION_ISOLATION],
            min_priority=settings[keys.RESERVATION_MIN_PRIORITY],
            prereserve_threshold=settings[keys.RESERVATION_PRE_RESERVE_THRESHOLD],
            copies_enabled=settings[keys.COPIES_ENABLED],
            plan_validity_ms=settings[keys.PLANNER_PLAN_VALIDITY],
            first_gap_ms=settings[keys.RESERVATION_FIRST_GAP],
            solver=settings[keys.PLANNER_SOLVER],
            queues=settings[keys.QUEUES],
            policy_options=settings.policy_options,
        )


@runtime_checkable
class LastingMemory(Protocol):
    """A policy that keeps a part of its memory beyond its planner, in the history if there is one."""

    def lasting(self, memory: Any) -> Mapping[str, Any]:
        """That part of a memory, as JSON has it; of bounded size."""
        ...

    def restored(self, lasting: Mapping[str, Any]) -> Any:
        """The memory of a planner's first plan. Raises ValueError, TypeError, KeyError or AttributeError for
        anything else than what `lasting` returned."""
        ...


@runtime_checkable
class StartChooser(Protocol):
    """A policy that chooses the starts of jobs from a window (3Sigma §4.3.2)."""

    def starts_ms(self, memory: Any, version: int) -> Ints:
        """The starts to choose from, in ms from the time of the plan, for a snapshot of that version."""
        ...


class Policy(Protocol):
    """Makes plans. It is created once with its settings; ``decide`` is a function of its arguments alone.

    The same snapshot, forecasts, time, generator state and memory give the same plan and memory. The plan
    contains every active job of the snapshot exactly once, and no other jobs. A policy may draw from ``rng``
    and must use no other randomness and no clock. The one exception is `PolicySettings.budget`: a live
    planner that is silent for too long is restarted, so a policy whose work grows quickly considers fewer
    candidates when the time for one decision is over, and says so in its reasons.

    A policy's memory is a value of its own type that the caller keeps: None before the first plan, then the
    memory that the last decision returned. A policy never changes a memory and keeps no state, so that one
    policy serves several planners, and an admission query leaves no trace.

    Attributes:
        name: in plans and messages.
        capabilities: the inputs it needs and the rules its plans may use.
    """

    @property
    def name(self) -> str: ...

    @property
    def capabilities(self) -> Capabilities: ...

    def decide(
        self,
        snapshot: Snapshot,
        forecasts: Mapping[str, Forecast],
        now_ms: int,
        rng: np.random.Generator,
        memory: Any,
    ) -> tuple[Plan, Any]: ...


@runtime_checkable
class PolicyKind(Protocol):
    """An entry of the registry: a class of policies, or a variant of one."""

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def options(self) -> Options: ...

    def __call__(self, settings: PolicySettings) -> Policy: ...


def dated_plan(
    policy: str,
    settings: PolicySettings,
    snapshot: Snapshot,
    now_ms: int,
    jobs: Iterable[JobPlan],
    *,
    ordered: bool = True,
    **more: Any,
) -> Plan:
    """The plan made from this snapshot at this time, valid for as long as the settings say.

    ``more`` are further fields of `Plan`.
    """
    return Plan(
        snapshot=snapshot.version,
        made_at_ms=now_ms,
        valid_for_ms=settings.plan_validity_ms,
        policy=policy,
        ordered=ordered,
        jobs=tuple(jobs),
        **more,
    )


#: A job's priority in force, its reservation rule and the reason.
JobDecision: TypeAlias = tuple[int, ReservationRule | None, str]
#: The sort key of jobs, the smallest first, and the decision on each job.
Ranking: TypeAlias = tuple[Callable[[JobView], Any], Callable[[JobView], JobDecision]]


class KeptEntries:
    """The jobs' entries in a policy's last plan: one is made again only if what it follows from changed.

    It is a cache and no memory: plans are the same without it, whoever else uses the policy. Entries of jobs
    that did not change are the same objects, which are found equal and written as text without a look inside.
    """

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[str, tuple[tuple[object, ...], JobPlan]] = {}

    def of(
        self,
        ranked: Iterable[JobView],
        basis: Callable[[JobView], tuple[object, ...] | None],
        make: Callable[[JobView, int], JobPlan],
    ) -> list[JobPlan]:
        """The entries of these jobs in their order.

        Args:
            basis: the objects that a job's entry follows from beside its rank, which are immutable and are
                compared by identity; None: others, too, so that the entry is made again.
            make: the entry of a job at a rank.
        """
        last, kept, found = self._last, {}, []
        for rank, job in enumerate(ranked):
            key, follows_from = job.job, basis(job)
            known = last.get(key)
            if known is None or follows_from is None or not all(map(is_, known[0], follows_from)):
                entry = make(job, rank)
            else:
                entry = known[1]
                if entry.rank != rank:
                    entry = entry.at(rank)
            if follows_from is not None:
                kept[key] = follows_from, entry
            found.append(entry)
        self._last = kept
        return found


def make_plan(
    policy: str,
    settings: PolicySettings,
    snapshot: Snapshot,
    now_ms: int,
    *,
    ordered: bool,
    rank_by: Callable[[JobView], Any],
    decide_job: Callable[[JobView], JobDecision],
    pool_of: Callable[[JobView], PoolShare | None] = lambda _: None,
    kept: KeptEntries | None = None,
    basis: Callable[[JobView], tuple[object, ...] | None] | None = None,
) -> Plan:
    """The plan of a policy that sorts jobs by a key and decides on each job independently of the others.

    ``kept`` and ``basis``: as `KeptEntries.of` uses them; None: all entries are made again.
    """
    ranked: Iterable[JobView] = sorted(snapshot.jobs.values(), key=rank_by)

    def make(job: JobView, rank: int) -> JobPlan:
        priority, rule, reason = decide_job(job)
        return JobPlan(job.job, rank, priority, rule, reason, pool=pool_of(job))

    if kept is None or basis is None:
        jobs = [make(job, rank) for rank, job in enumerate(ranked)]
    else:
        jobs = kept.of(ranked, basis, make)
    return dated_plan(policy, settings, snapshot, now_ms, jobs, ordered=ordered)


class RankingPolicy(ABC):
    """A policy without memory: it sorts jobs by a key and decides on each job independently of the others.

    Attributes:
        ordered: its ranks order jobs of equal priority (`Plan.ordered`).
    """

    name: ClassVar[str]
    capabilities: ClassVar[Capabilities]
    options: ClassVar[Options] = Options()
    ordered: ClassVar[bool] = True

    def __init__(self, settings: PolicySettings) -> None:
        self._settings = settings
        self._kept = KeptEntries()

    @abstractmethod
    def ranking(self, snapshot: Snapshot, forecasts: Mapping[str, Forecast]) -> Ranking:
        """How to sort these jobs, and the decision on each."""

    def basis(self, job: JobView, forecasts: Mapping[str, Forecast]) -> tuple[object, ...] | None:
        """The objects that the decision on the job and its pool follow from, beside the settings; None: also
        from others, so that each decision is made again."""
        return None

    def decide(
        self,
        snapshot: Snapshot,
        forecasts: Mapping[str, Forecast],
        now_ms: int,
        rng: np.random.Generator,
        memory: None,
    ) -> tuple[Plan, None]:
        rank_by, decide_job = self.ranking(snapshot, forecasts)
        plan = make_plan(
            self.name,
            self._settings,
            snapshot,
            now_ms,
            ordered=self.ordered,
            rank_by=rank_by,
            decide_job=decide_job,
            pool_of=self.pool_of,
            kept=self._kept,
            basis=partial(self.basis, forecasts=forecasts),
        )
        return plan, None

    def pool_of(self, job: JobView) -> PoolShare | None:
        """The pool that the job's slots count against; None: only its priority protects its held slots."""
        return None
