"""The planner inside the simulator: the same policies, given the same snapshots, on the virtual clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from spark_sched.config import Settings, keys
from spark_sched.policies.base import ChangesWith, Policy
from spark_sched.policies.plan import Plan, PoolShare, ReservationRule
from spark_sched.predict import Predictor, forecasts
from spark_sched.sim.placement import Slots
from spark_sched.sim.records import JobRun
from spark_sched.sim.rule import CopyAge, DeadlineRule, Rule
from spark_sched.sim.workload import JobSpec
from spark_sched.state import EndedJob, ExecutorView, Snapshot

# What changed since the last plan, as bits. JOBS: one arrived or ended. NODES: one joined or left. GATES: the
# last pilot of a stage ended or was lost. EXPIRED: a hold ended without the start or end of a task.
ARRIVALS, JOBS, STAGES, TASKS, LAUNCHES, ROUNDS, NODES, GATES, EXPIRED = 1, 2, 4, 8, 16, 32, 64, 128, 256

#: By what a policy's plans depend on. Arrivals: it is shown each job once, so that a plan costs the same
#: however many jobs are there. Rounds: it also sees what was launched before the clock goes on, and which
#: holds expired; launches: it decides again after every launch.
_MASKS = {
    ChangesWith.ARRIVALS: ARRIVALS,
    ChangesWith.JOBS: ARRIVALS | JOBS | NODES,
    ChangesWith.STAGES: ARRIVALS | JOBS | STAGES | NODES,
    ChangesWith.GATES: ARRIVALS | JOBS | STAGES | GATES | NODES,
    ChangesWith.TASKS: ARRIVALS | JOBS | STAGES | TASKS | NODES,
    ChangesWith.ROUNDS: ARRIVALS | JOBS | STAGES | TASKS | ROUNDS | NODES | EXPIRED,
    ChangesWith.LAUNCHES: ARRIVALS | JOBS | STAGES | TASKS | LAUNCHES | NODES,
}


class Planner:
    """Asks a policy for a plan whenever something happened that its plans may depend on.

    Args:
        predictor: forecasts jobs for the policy; None: no forecasts.
        every_ms: plans are made only at multiples of this; 0: at once, as by an ideal planner.
    """

    def __init__(
        self, policy: Policy, predictor: Predictor | None, rng: np.random.Generator, every_ms: int = 0
    ) -> None:
        self.predictor = predictor
        self.every_ms = every_ms
        self.plans = 0
        self._rng = rng
        self.take(policy)

    def take(self, policy: Policy) -> None:
        """This policy decides from now on."""
        policy.capabilities.warm_up()
        self.policy = policy
        changes_with = policy.capabilities.changes(forecast=self.predictor is not None)
        self.mask = _MASKS[changes_with]
        #: The policy decides on each job once, when it arrives.
        self.one_by_one = changes_with is ChangesWith.ARRIVALS
        #: The policy's memory after its last plan.
        self.memory: Any = None

    def plan(
        self,
        jobs: Mapping[str, JobRun],
        slots: Slots,
        totals: list[int],
        version: int,
        now_ms: int,
        ended: Mapping[str, EndedJob],
    ) -> Plan:
        """A plan for the present state; ``totals``: the nodes' slots, ``ended``: jobs since the last plan."""
        executors = _Executors(slots, totals)
        names = slots.nodes.names
        snapshot = Snapshot(
            version=version,
            now_ms=now_ms,
            executors=executors,
            jobs=MappingProxyType(
                {
                    key: job.job_view(names)
                    for key, job in jobs.items()
                    # As `Snapshot.to_plan` live.
                    if not job.terms.on_hold or job.running_slots
                }
            ),
            ended=MappingProxyType(ended),
        )
        known = forecasts(self.predictor, snapshot)
        self.plans += 1
        plan, self.memory = self.policy.decide(snapshot, known, now_ms, self._rng, self.memory)
        executors.over()
        return plan.numbered(self.plans)


class _Executors(Mapping[str, ExecutorView]):
    """The snapshot's executors, made at the first access; the numbers are those of the snapshot's moment.

    Nothing is copied for a policy that never reads them, so that a plan's cost does not grow with the nodes.
    A policy that read them may keep the snapshot; they cannot be read for the first time after the plan.
    """

    def __init__(self, slots: Slots, totals: list[int]) -> None:
        self._names = slots.nodes.names
        self._number = slots.nodes.number
        self._totals = totals
        self._partition = slots.nodes.partition
        self._slots: Slots | None = slots
        self._free: list[int] | None = None
        self._held: list[int] = []

    def over(self) -> None:
        """The plan has been made: free slots may change from now on."""
        self._slots = None

    def partition_slots(self) -> dict[int, int]:
        """Slots by partition, without a loop over all executors."""
        slots = np.bincount(self._partition, weights=self._totals)
        return {q: int(count) for q, count in enumerate(slots.tolist())}

    def partition_of(self, name: str) -> int:
        """The partition of an executor; 0 for one that is not there."""
        return self._partition[self._number[name]] if name in self._number else 0

    def __getitem__(self, name: str) -> ExecutorView:
        node = self._number[name]
        if self._free is None:
            if self._slots is None:
                raise RuntimeError("a snapshot's executors are first read while the policy decides")
            self._free, self._held = self._slots.free.copy(), self._slots.held.copy()
        running = self._totals[node] - self._free[node]
        return ExecutorView(name, name, self._totals[node], running, self._held[node], self._partition[node])

    def __iter__(self) -> Iterator[str]:
        return (name for name, total in zip(self._names, self._totals, strict=True) if total)

    def __len__(self) -> int:
        return sum(total > 0 for total in self._totals)


def own_rule(settings: Settings) -> Callable[[JobSpec], Rule]:
    """The rule of a job that no plan contains: the configuration's, overridden by the job's marks.

    As the JVM's ``Registry.rule``: a job below ``minPriority`` holds no slots unless it sets an isolation
    level.
    """
    enabled = settings[keys.RESERVATION_ENABLED]
    isolation = settings[keys.RESERVATION_ISOLATION]
    min_priority = settings[keys.RESERVATION_MIN_PRIORITY]
    defaults = Rule(
        pre_reserve_threshold=settings[keys.RESERVATION_PRE_RESERVE_THRESHOLD],
        shape=settings[keys.RESERVATION_ALPHA],
        shape_weight=settings[keys.RESERVATION_ALPHA_WEIGHT],
        max_hold_ms=settings[keys.RESERVATION_MAX_HOLD],
        deadline=cast(DeadlineRule, settings[keys.RESERVATION_DEADLINE]),
        gap_ms=settings[keys.RESERVATION_GAP],
        copies=settings[keys.COPIES_ENABLED],
        copy_age=CopyAge(settings[keys.COPIES_MIN_TASK_TIME], settings[keys.COPIES_MIN_SLOWDOWN]),
        whole_job=settings[keys.RESERVATION_LOOKAHEAD] == "job",
    )
    made: dict[tuple[int, float, bool], Rule] = {}

    def rule(spec: JobSpec) -> Rule:
        level = spec.isolation
        if level is None:
            level = isolation if spec.priority >= min_priority else 0.0
        key = (spec.priority, level if enabled else 0.0, defaults.copies and spec.copies)
        if key not in made:
            made[key] = replace(defaults, priority=key[0], isolation=key[1], copies=key[2])
        return made[key]

    return rule


def planned_rule(
    own: Rule,
    priority: int,
    reservation: ReservationRule | None,
    pool: PoolShare | None = None,
    *,
    enabled: bool,
) -> Rule:
    """The job's own rule, overridden by the plan's, as the JVM's ``JobPlan.over``."""
    if reservation is None or not enabled:
        if own.isolation == 0.0 and own.priority == priority and own.pool == pool:
            return own  # Most rules of most plans: a copy of each would take longer than the rest.
        return replace(own, priority=priority, isolation=0.0, pool=pool)
    return replace(
        own,
        priority=priority,
        isolation=reservation.isolation,
        shape=own.shape if reservation.alpha is None else reservation.alpha,
        scale_ms=own.scale_ms if reservation.t_m_ms is None else reservation.t_m_ms,
        pre_reserve_threshold=reservation.prereserve_threshold,
        copies=own.copies and reservation.copies,
        stage_tasks=reservation.stage_tasks,
        pool=pool,
    )


def put_in_force(
    plan: Plan, jobs: Mapping[str, JobRun], *, ordered: bool, by_arrival: bool, enabled: bool
) -> Iterator[JobRun]:
    """Give jobs the plan's priorities, ranks, rules and shares. Returns the jobs whose order or rule has
    changed.

    Args:
        plan: of these jobs alone.
        ordered: the plan's ranks are in force.
        by_arrival: whether the plan contains only new jobs, so that a job's rank is its arrival.
        enabled: jobs may hold slots at all (``spark.sched.reservation.enabled``).
    """
    for entry in plan.jobs:
        job = jobs[entry.job]
        terms = job.terms
        terms.share = None if entry.share is None else dict(entry.share)
        terms.powerful = entry.powerful
        rank = (job.arrival if by_arrival else entry.rank) if ordered else 0
        wanted = (entry.priority, entry.reservation, entry.pool)
        place = (rank, entry.priority, entry.queue)
        if (job.rank, job.priority, job.queue) != place or terms.planned != wanted:
            job.rank, job.priority, job.queue = place
            if terms.planned != wanted:
                terms.planned = wanted
                job.rule = planned_rule(terms.own_rule, *wanted, enabled=enabled and not terms.on_hold)
            yield job
