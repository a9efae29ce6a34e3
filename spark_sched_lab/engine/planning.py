"""The planner inside the simulator: the same policies, given the same snapshots, on the virtual clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from spark_sched.policies.base import ChangesWith, Policy
from spark_sched.policies.key_order import KeyOrder, KeyOrdered
from spark_sched.predict import UNKNOWN, Forecast, Predictor, forecasts
from spark_sched.protocol.plan import JobPlan, Plan
from spark_sched.state import EndedJob, ExecutorView, JobView, Snapshot
from spark_sched_lab.cluster.placement import Slots
from spark_sched_lab.enforce.overlay import Planned
from spark_sched_lab.engine.oracle import Oracle
from spark_sched_lab.engine.records import JobRun
from spark_sched_lab.engine.rules import Rules

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
        can = policy.capabilities
        # Exact forecasts change no more than missing ones.
        forecast = self.predictor is not None and not (can.exact_key_order and self._exact)
        changes_with = can.changes(forecast=forecast)
        self.mask = _MASKS[changes_with]
        #: The policy decides on each job once, when it arrives.
        self.one_by_one = changes_with is ChangesWith.ARRIVALS
        #: The policy's memory after its last plan.
        self.memory: Any = None

    @property
    def _exact(self) -> bool:
        """Forecasts know the work of a job exactly from its arrival on."""
        return isinstance(self.predictor, Oracle)

    def key_order(self) -> KeyOrder | None:
        """The order that the policy's plans at once would give, after its last one; None: it has none."""
        policy = self.policy
        if self.every_ms or self.one_by_one or not policy.capabilities.key_order:
            return None
        if policy.capabilities.exact_key_order and not self._exact:
            return None
        assert isinstance(policy, KeyOrdered), f"{policy.name} declares a key_order and has none"
        return policy.key_order(self.memory)

    def forecast(self, job: JobView) -> Forecast:
        """The forecast of one active job."""
        return UNKNOWN if self.predictor is None else self.predictor.forecast(job)

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


def put_in_force(
    entries: Iterable[JobPlan],
    jobs: Mapping[str, JobRun],
    rules: Rules,
    *,
    ordered: bool,
    by_arrival: bool,
) -> Iterator[JobRun]:
    """Give jobs the plan's priorities, ranks, rules and shares. Returns the jobs whose order or rule has
    changed.

    Args:
        entries: of the plan of these jobs alone.
        ordered: the plan's ranks are in force.
        by_arrival: whether the plan contains only new jobs, so that a job's rank is its arrival.
    """
    for entry in entries:
        job = jobs[entry.job]
        terms = job.terms
        terms.share = None if entry.share is None else dict(entry.share)
        terms.powerful = entry.powerful
        rank = (job.arrival if by_arrival else entry.rank) if ordered else 0
        wanted = Planned(entry.priority, entry.reservation, entry.pool)
        place = (rank, entry.priority, entry.queue)
        news = terms.changed or terms.planned != wanted
        if news or (job.rank, job.priority, job.queue) != place:
            job.rank, job.priority, job.queue = place
            if news:
                terms.planned, terms.changed = wanted, False
                job.rule = rules.in_force(terms)
            yield job
