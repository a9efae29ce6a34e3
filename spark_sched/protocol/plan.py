"""A plan: the rules the driver applies to every event until the next plan (``protocol/plan.schema.json``)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

#: Version of the plan's layout. New optional fields do not change it.
SCHEMA = 1


@dataclass(frozen=True, slots=True)
class ReservationRule:
    """How one job holds slots ("Speculative Slot Reservation"); None means the configured default.

    Attributes:
        isolation: P in (0, 1], the probability that a stage ends before its reservations expire.
        alpha: Pareto shape of the task times, in [1.01, 100]: the prior of the driver's own estimate.
        t_m_ms: their scale in milliseconds, until the stage's own first task ends.
        prereserve_threshold: R in [0, 1], the finished fraction past which slots of others are taken.
        stage_tasks: tasks of the job's stages by index, each at least 1; empty when unknown.
        copies: whether copies of straggling tasks may run on held idle slots.
        gap_ms: how long slots stay held after an action, until the job's own pauses are learned.
    """

    isolation: float
    alpha: float | None
    t_m_ms: float | None
    prereserve_threshold: float
    stage_tasks: tuple[int, ...]
    copies: bool
    gap_ms: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "isolation": self.isolation,
            "alpha": self.alpha,
            "t_m_ms": self.t_m_ms,
            "prereserve_threshold": self.prereserve_threshold,
            "stage_tasks": list(self.stage_tasks),
            "copies": self.copies,
            "gap_ms": self.gap_ms,
        }


@dataclass(frozen=True, slots=True)
class PilotSet:
    """The tasks of one stage that run first (SLearn §5.1.2), to estimate the job's size.

    Until every one of them has ended or was lost (it failed, was killed, or its executor died), the other
    tasks of that stage start only on slots that no other job can use at that moment, in the order of the
    jobs' arrival. The gate opens at the moment the last pilot ends. A barrier stage has no gate: its tasks
    start all at once or not at all.

    Attributes:
        stage: index of the stage in its job, as in the snapshot.
        tasks: indices of tasks within the stage, rising, at least one, none twice.
    """

    stage: int
    tasks: tuple[int, ...]

    def to_json(self) -> dict[str, Any]:
        return {"stage": self.stage, "tasks": list(self.tasks)}


@dataclass(frozen=True, slots=True)
class PoolShare:
    """The weight and minimum share of a pool, as in Spark's FAIR mode.

    Attributes:
        name: jobs with the same pool name share the pool's slots.
        weight: number of slots that it gets for each slot of a pool of weight 1, above 0.
        min_share: number of slots that it gets before other pools get more, at least 0.
        fair: whether its jobs share its slots fairly, too; otherwise the earlier is first in the pool.
    """

    name: str
    weight: float = 1.0
    min_share: float = 0.0
    fair: bool = False

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "weight": self.weight, "min_share": self.min_share, "fair": self.fair}


@dataclass(frozen=True, slots=True)
class JobPlan:
    """One job's rules and the reason for them.

    Attributes:
        rank, priority: its place in the order of jobs.
        reservation: how it holds slots; None: it holds none.
        reason: for people.
        start_ms: its planned start on the driver's clock; None if the policy plans no start times.
        deferred: whether its waiting tasks must wait while this plan is in force.
        share: slots that its waiting tasks may take under this plan, by partition; None: any.
        evict: whether its running tasks are killed, without counting as failures, and wait again.
        victims: running attempts of jobs of lower priority, by number, that lose their slots to this job's
            waiting tasks: in this order, and only as many as these tasks need. Evicted tasks wait again.
        pilots: the tasks that run before the others of their stage; None: all may run.
        queue: its place in the plan's ``queue_weights``; None: ranks alone order it.
        pool: its held slots go to another pool if FAIR order puts that pool first; None: priority alone
            decides which job gets them.
        powerful: its tasks start on the fastest executors by the plan's ``slowness`` first (thesis §8.1.2).
    """

    job: str
    rank: int
    priority: int
    reservation: ReservationRule | None
    reason: str
    start_ms: int | None = None
    deferred: bool = False
    share: Mapping[int, int] | None = None
    evict: bool = False
    pilots: PilotSet | None = None
    queue: int | None = None
    pool: PoolShare | None = None
    victims: tuple[int, ...] = ()
    powerful: bool = False

    def at(self, rank: int) -> JobPlan:
        """The same at another rank."""
        return JobPlan(self.job, rank, *_after_rank(self))

    def to_json(self) -> dict[str, Any]:
        """The rules as a JSON object, without the fields that only policies with planned start times set."""
        return {
            "job": self.job,
            "rank": self.rank,
            "priority": self.priority,
            "reservation": self.reservation and self.reservation.to_json(),
            "reason": self.reason,
            **self.more_json(),
        }

    def more_json(self) -> dict[str, Any]:
        """The fields after the reason that are set."""
        return _given(
            start_ms=self.start_ms,
            deferred=self.deferred or None,
            share=None if self.share is None else {str(part): n for part, n in self.share.items()},
            evict=self.evict or None,
            pilots=self.pilots and self.pilots.to_json(),
            queue=self.queue,
            pool=self.pool and self.pool.to_json(),
            victims=list(self.victims) or None,
            powerful=self.powerful or None,
        )


#: Fields of a job's plan from the priority on, and those of them that only some plans set.
_AFTER_RANK = [each.name for each in fields(JobPlan)][2:]
_after_rank = attrgetter(*_AFTER_RANK)
_more_of = attrgetter(*_AFTER_RANK[3:])
_NO_MORE = tuple(each.default for each in fields(JobPlan)[5:])


@dataclass(frozen=True, slots=True)
class PlanQuality:
    """The known quality of a plan of start times.

    Attributes:
        status: ``optimal``, ``feasible``, ``none`` or ``refused`` (failed verification, starts nothing).
        value: expected utility of the planned starts minus the cost of preemptions.
        bound: proven upper bound of the value; None if the solver proved none.
        pending, options: number of jobs and options from which it chose.
        steps_ms: wall time of each step of the cycle, if the policy has a clock; not sent to the driver.
    """

    solver: str
    status: str
    value: float
    bound: float | None
    pending: int
    options: int
    steps_ms: Mapping[str, float] | None = None

    @property
    def gap(self) -> float | None:
        """(bound − value) / bound."""
        if self.bound is None:
            return None
        return 0.0 if self.bound <= 0.0 else max(0.0, (self.bound - self.value) / self.bound)

    def to_json(self) -> dict[str, Any]:
        return {
            "solver": self.solver,
            "status": self.status,
            "value": self.value,
            "bound": self.bound,
            "gap": self.gap,
            "pending": self.pending,
            "options": self.options,
        }


@dataclass(frozen=True, slots=True)
class EndQuantiles:
    """When a job is expected to start and to end, for people.

    Attributes:
        p10_ms, p50_ms, p90_ms: quantiles of its end on the driver's clock.
        deadline_probability: probability that it meets its deadline; None: it has none.
        start_ms: the same quantiles of its first launch; None: it has begun, or its start is unknown.
    """

    p10_ms: int
    p50_ms: int
    p90_ms: int
    deadline_probability: float | None
    start_ms: tuple[int, int, int] | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "end_ms": [self.p10_ms, self.p50_ms, self.p90_ms],
            **_given(
                deadline_probability=self.deadline_probability,
                start_ms=None if self.start_ms is None else list(self.start_ms),
            ),
        }


@dataclass(frozen=True, slots=True)
class QueuedBehind:
    """A job that waits and whose end is unknown: because nothing is known about it, or about a job before it.

    Attributes:
        jobs: number of jobs before it.
    """

    jobs: int

    def to_json(self) -> dict[str, Any]:
        return {"after_jobs": self.jobs}


#: What a plan tells people about when a job ends.
JobForecast: TypeAlias = EndQuantiles | QueuedBehind


@dataclass(frozen=True, slots=True)
class Plan:
    """Rules for all active jobs of one snapshot, ranks rising from 0.

    Attributes:
        snapshot: version of the last event that the plan takes into account.
        made_at_ms: the driver's clock; the rules hold until ``made_at_ms + valid_for_ms``.
        ordered: ranks order jobs of equal priority; otherwise arrival does, or Spark's FAIR order within a
            FAIR pool.
        number: assigned by the sender of the plan, rising from 1.
        new_jobs_wait: until the next plan, jobs that the plan does not contain may take only slots for which
            no job with a start waits.
        again_ms: when to plan again even if nothing happens until then, on the driver's clock.
        quality: of a plan of start times.
        queue_weights: weights (> 0) of the jobs' queues. A slot goes to the queue with the lowest number of
            running tasks divided by its weight, among equal queues to the one that was due first
            (protocol/README.md), and within the queue by rank. Empty: by rank alone. The ranks also follow
            the order of the queues by load at the time of the plan, for consumers that ignore the weights.
        solve_ms: wall time that the planner took; None: not measured.
        forecasts: expected ends by job, for people.
        slowness: a task's time on an executor over its time on an average one, above 0, for ``powerful``
            jobs; executors with the same value are equally good, and those without one have 1.
    """

    snapshot: int
    made_at_ms: int
    valid_for_ms: int
    policy: str
    ordered: bool
    jobs: tuple[JobPlan, ...]
    number: int = 1
    new_jobs_wait: bool = False
    again_ms: int | None = None
    quality: PlanQuality | None = None
    queue_weights: tuple[float, ...] = ()
    solve_ms: float | None = None
    forecasts: Mapping[str, JobForecast] | None = None
    slowness: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))

    def numbered(self, number: int) -> Plan:
        return replace(self, number=number)

    def to_json(self) -> dict[str, Any]:
        forecasts = {job: end.to_json() for job, end in (self.forecasts or {}).items()}
        return {
            **self._head(),
            "jobs": [job.to_json() for job in self.jobs],
            **self._tail(),
            **_given(forecasts=forecasts or None),
        }

    def to_text(self) -> str:
        """The plan as compact JSON text, the same bytes for the same plan."""
        return _text(self.to_json())

    def _head(self) -> dict[str, Any]:
        """The fields before the jobs."""
        return {
            "schema": SCHEMA,
            "plan": self.number,
            "snapshot": self.snapshot,
            "made_at_ms": self.made_at_ms,
            "valid_for_ms": self.valid_for_ms,
            "policy": self.policy,
            "ordered": self.ordered,
        }

    def _tail(self) -> dict[str, Any]:
        """The fields between the jobs and the forecasts."""
        return _given(
            new_jobs_wait=self.new_jobs_wait or None,
            again_ms=self.again_ms,
            quality=self.quality and self.quality.to_json(),
            queue_weights=list(self.queue_weights) or None,
            slowness=dict(self.slowness) or None,
            solve_ms=None if self.solve_ms is None else round(self.solve_ms, 1),
        )


class _JobText(NamedTuple):
    """The text of a job's rules, of which parts are used again: ``head`` ends where its rank stands, and
    ``rest`` begins behind it."""

    job: JobPlan
    text: str
    head: str
    rest: str
    reservation: str
    more: str


class PlanTexts:
    """The texts of plans that follow each other: a job's part is made again only if its rules changed, and of
    it only what changed.

    Attributes:
        made: number of parts that were not the same as in the plan before.
    """

    def __init__(self) -> None:
        self.made = 0
        self._jobs: dict[str, _JobText] = {}
        self._forecasts: tuple[Mapping[str, JobForecast] | None, str] = None, ""

    def of(self, plan: Plan) -> str:
        """What `Plan.to_text` returns."""
        known, entries = self._jobs, []
        for job in plan.jobs:
            entry = known.get(job.job)
            entries.append(entry if entry is not None and entry.job is job else self._entry(job, entry))
        self._jobs = {entry.job.job: entry for entry in entries}
        jobs = ",".join([entry.text for entry in entries])
        return f'{_text(plan._head())[:-1]},"jobs":[{jobs}]{_more(_text(plan._tail()))}{self._ends(plan)}}}'

    def _entry(self, job: JobPlan, known: _JobText | None) -> _JobText:
        head = f'{{"job":{_encode(job.job)},"rank":' if known is None else known.head
        if known is not None and _after_rank(job) == _after_rank(known.job):
            if job.rank == known.job.rank:
                return known._replace(job=job)
            self.made += 1
            return known._replace(job=job, text=f"{head}{job.rank}{known.rest}")
        self.made += 1
        if known is not None and job.reservation is known.job.reservation:
            reservation = known.reservation
        else:
            reservation = "null" if job.reservation is None else _encode(job.reservation.to_json())
        optional = _more_of(job)
        if optional == _NO_MORE:
            more = ""
        elif known is not None and optional == _more_of(known.job):
            more = known.more
        else:
            more = _more(_encode(job.more_json()))
        rest = (
            f',"priority":{job.priority},"reservation":{reservation},"reason":{_encode(job.reason)}{more}}}'
        )
        return _JobText(job, f"{head}{job.rank}{rest}", head, rest, reservation, more)

    def _ends(self, plan: Plan) -> str:
        if plan.forecasts is not self._forecasts[0]:
            ends = {job: end.to_json() for job, end in (plan.forecasts or {}).items()}
            self._forecasts = plan.forecasts, _more(_text(_given(forecasts=ends or None)))
        return self._forecasts[1]


def _more(text: str) -> str:
    """The fields of an object's text, to follow others."""
    return "," + text[1:-1] if text != "{}" else ""


_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def _text(fields: Mapping[str, Any]) -> str:
    return _encode(fields)


def _given(**optional: Any) -> dict[str, Any]:
    """The fields of a JSON object that have a value."""
    return {name: value for name, value in optional.items() if value is not None}
