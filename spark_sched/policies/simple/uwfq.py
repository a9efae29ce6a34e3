"""User weighted fair queueing (UWFQ): arXiv 2510.15485, "Balancing Fairness and Performance in Multi-User
Spark Workloads with Dynamic Scheduling".

Users share the cluster equally (or by weight), whatever number of jobs each has, and a user's jobs share that
user's part. This fluid system is only simulated, in virtual time. The real jobs run one after another, in the
order in which they would end in the fluid system. So each job ends about as early as under fair sharing, and
most end much earlier.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import fmean

import numpy as np

from spark_sched.config import values
from spark_sched.policies.base import Capabilities, ChangesWith, KeptEntries, PolicySettings, make_plan
from spark_sched.policies.key_order import Key, KeyOrder, Moment, OrderedJob, Place
from spark_sched.policies.options import Option, Options
from spark_sched.policies.simple.queue_parts import QueueParts
from spark_sched.policies.simple.virtual_time import Assumed, VirtualTime
from spark_sched.policies.sizes import estimated_work_slot_ms, exact_work_slot_ms, work_of_run_slot_ms
from spark_sched.predict import UNKNOWN, Forecast
from spark_sched.protocol.plan import Plan
from spark_sched.state import JobView, Snapshot

#: Before anything is known of any job, each counts as a job that takes all slots for so long.
_FIRST_GUESS_MS = 1_000.0

WEIGHTS = Option("weights", values.by_name(1e-9), "", "Weights of users, `ann=2,bob=1`; others have 1.")
GRACE_PERIOD = Option(
    "gracePeriod",
    values.time_ms(least_ms=0),
    "3s",
    "How long after a user's share of the virtual system was used up further work of a job that the user "
    "already had counts as if it had not been; `0s`: it counts as new work. It is measured with two users "
    "present and passes more slowly with more.",
)


@dataclass(slots=True)
class Fluids:
    """What the policy remembers.

    Attributes:
        systems: by the lowest queue; the only one has an empty name where queues do not divide the slots.
        typical: the work that a job counted for of which nothing was known; None: there was none.
    """

    systems: dict[str, VirtualTime] = field(default_factory=dict)
    typical: float | None = None

    def copy(self) -> Fluids:
        return Fluids({queue: each.copy() for queue, each in self.systems.items()}, self.typical)


class UwfqPolicy:
    """Jobs by their virtual deadline in the fluid system of `VirtualTime`.

    The paper assumes an exact forecast of a job's work when it arrives, as the simulator's oracle gives. Any
    other forecast may change. Then the job's work and its deadline are revised, and at last by the slot time
    that it took. Without a forecast, a job's work is the mean of the other jobs', else of the latest runs.

    Where the tenants' queues divide the slots by floors or weights, each has a fluid system of its own with
    the part of the slots that it gets beside the queues that have jobs. Then the users of one queue share
    that queue's part, whatever they have in others.

    All stages of a job have the job's deadline. So the grace period, which the authors' implementation grants
    to each later stage of a job, is needed here only for work that the forecast did not contain. All jobs
    without a user belong to one user. The paper's splitting of tasks by runtime is no matter of plans.
    """

    name = "uwfq"
    capabilities = Capabilities(
        changes_with=ChangesWith.STAGES,
        changes_unforecast=ChangesWith.JOBS,
        marks=frozenset(),
        key_order=True,
        exact_key_order=True,
    )
    options = Options((WEIGHTS, GRACE_PERIOD))

    def __init__(self, settings: PolicySettings) -> None:
        self._settings = settings
        self._weights = settings.options[WEIGHTS]
        self._grace_ms = settings.options[GRACE_PERIOD]
        self._queues = QueueParts(settings.queues)
        self._kept = KeptEntries()
        if self._queues.divide:
            # A job that comes to a queue changes how fast the fluid systems of the others run.
            self.capabilities = replace(self.capabilities, key_order=False)

    def decide(
        self,
        snapshot: Snapshot,
        forecasts: Mapping[str, Forecast],
        now_ms: int,
        rng: np.random.Generator,
        memory: Fluids | None,
    ) -> tuple[Plan, Fluids]:
        fluids = Fluids() if memory is None else memory.copy()
        jobs = self._jobs_by_queue(snapshot, fluids)
        works = _Works(snapshot, forecasts, fluids)
        for queue in sorted({*jobs, *fluids.systems}):
            slots = self._queues.slots_of(queue, jobs, snapshot.slots)
            virtual = fluids.systems.setdefault(queue, VirtualTime())
            self._follow(virtual, jobs.get(queue, []), works, slots, now_ms)
            if not jobs.get(queue) and virtual.idle:
                del fluids.systems[queue]
        deadlines = {number: at for each in fluids.systems.values() for number, at in each.deadlines.items()}
        plan = make_plan(
            self.name,
            self._settings,
            snapshot,
            now_ms,
            ordered=True,
            rank_by=lambda job: (deadlines[job.arrival], job.arrival),
            decide_job=lambda job: (0, None, f"virtual deadline {deadlines[job.arrival] / 1000.0:.1f} s"),
            kept=self._kept,
            basis=lambda job: (job.marks, deadlines[job.arrival]),
        )
        return plan, fluids

    def _jobs_by_queue(self, snapshot: Snapshot, fluids: Fluids) -> dict[str, list[JobView]]:
        """The active jobs. A job keeps its queue."""
        known = {number: queue for queue, each in fluids.systems.items() for number in each.deadlines}
        found: dict[str, list[JobView]] = {}
        for job in snapshot.jobs.values():
            queue = known.get(job.arrival)
            found.setdefault(self._queues.queue_of(job.marks) if queue is None else queue, []).append(job)
        return found

    def _follow(
        self, virtual: VirtualTime, jobs: list[JobView], works: _Works, slots: float, now_ms: int
    ) -> None:
        """Let a fluid system run until now, with the jobs that came and what is now known of the others."""
        # 1. Jobs come.
        new = [job for job in jobs if job.arrival not in virtual.deadlines]
        for job in sorted(new, key=lambda job: job.arrival):
            virtual.advance(min(job.started_ms, now_ms), slots)
            user = job.marks.user or ""
            work, is_exact = works.of(job)
            weight, estimate_of = self._weights.get(user, 1.0), None if is_exact else job.job
            virtual.arrive(job.arrival, user, weight, work, estimate_of=estimate_of)
        virtual.advance(now_ms, slots)
        # 2. Their works are estimated again, and those that have ended took what they took.
        if virtual.assumed:
            grace = self._grace_ms * slots / 2.0
            here = {job.arrival: job for job in jobs}
            again = {number: works.of(here[number])[0] for number in virtual.assumed if number in here}
            virtual.revise(again, grace)
            over = {
                number: works.taken(each) for number, each in virtual.assumed.items() if number not in here
            }
            virtual.revise(over, grace, final=True)
        virtual.forget({job.arrival for job in jobs})

    def key_order(self, memory: Fluids | None) -> KeyOrder:
        virtual = None if memory is None else memory.systems.get("")
        return _DeadlineOrder(VirtualTime() if virtual is None else virtual.copy(), self._weights)


class _Works:
    """The works of a snapshot's jobs."""

    def __init__(self, snapshot: Snapshot, forecasts: Mapping[str, Forecast], fluids: Fluids) -> None:
        self._snapshot = snapshot
        self._forecasts = forecasts
        self._fluids = fluids
        self._known: dict[str, tuple[float | None, bool]] = {}

    def of(self, job: JobView) -> tuple[float, bool]:
        """The work of a job in slot-ms, and whether that is exact."""
        work, is_exact = self._look_up(job)
        return self._typical if work is None else work, is_exact

    def taken(self, ended: Assumed) -> float:
        """The slot-ms that a job took that has ended."""
        known = self._snapshot.ended.get(ended.job)
        return ended.served if known is None or known.attained_ms is None else known.attained_ms

    def _look_up(self, job: JobView) -> tuple[float | None, bool]:
        found = self._known.get(job.job)
        if found is None:
            forecast = self._forecasts.get(job.job, UNKNOWN)
            exact = exact_work_slot_ms(forecast)
            found = (estimated_work_slot_ms(job, forecast), False) if exact is None else (exact, True)
            self._known[job.job] = found
        return found

    @cached_property
    def _typical(self) -> float:
        """The work of a job of which nothing is known."""
        works = [self._look_up(job)[0] for job in self._snapshot.jobs.values()]
        self._fluids.typical = _typical(
            works, self._forecasts.values(), self._fluids.typical, self._snapshot.slots
        )
        return self._fluids.typical


class _DeadlineOrder(KeyOrder):
    """Jobs by virtual deadline, where their works are exact. A lane is a user: its jobs keep the order in
    which they end in the fluid system, and only another job of the user changes their deadlines.
    """

    def __init__(self, virtual: VirtualTime, weights: Mapping[str, float]) -> None:
        self._virtual = virtual
        self._weights = weights
        self._places: dict[str, Place] = {}
        self._keep: set[int] = set()
        # By user: one that comes back begins another stay, whose jobs end after those of the stays before.
        self._stays: dict[str, int] = {}

    def update(
        self, changed: Sequence[OrderedJob], gone: Iterable[str], moment: Moment
    ) -> Iterable[Hashable]:
        virtual, keep, moved = self._virtual, self._keep, dict[Hashable, None]()
        for key in gone:
            place = self._places.pop(key, None)
            if place is not None:
                number = place.key[-1]
                keep.discard(number)
                virtual.deadlines.pop(number, None)
        for job in changed:
            if job.job in self._places:
                continue
            user, number = job.marks.user or "", job.arrival
            keep.add(number)
            if number not in virtual.deadlines:
                virtual.advance(min(job.started_ms, moment.now_ms), moment.slots)
                size = exact_work_slot_ms(moment.forecast(job))
                if size is None:  # Not exact after all: as `decide` on its first plan.
                    works = (exact_work_slot_ms(moment.forecast(each)) for each in moment.all_jobs())
                    size = _typical(works, (), None, moment.slots)
                if virtual.user(user) is None:
                    self._stays[user] = self._stays.get(user, 0) + 1
                virtual.arrive(number, user, self._weights.get(user, 1.0), size)
                moved[user] = None
            owner = virtual.user(user)
            at = None if owner is None else owner.deadline_of(number)
            # A job that the first plan knew may have ended in the fluid system before the others.
            stay = -1 if at is None else self._stays.get(user, 0)
            place = Place(user, (stay, virtual.deadlines[number] if at is None else at, number))
            self._places[job.job] = place
        virtual.advance(moment.now_ms, moment.slots)
        virtual.drop_ended(keep)
        return moved

    def place(self, job: str) -> Place:
        return self._places[job]

    def value(self, place: Place, now_ms: int) -> Key:
        number = place.key[-1]
        return self._virtual.deadlines[number], number

    def memory(self) -> Fluids:
        return Fluids({"": self._virtual.copy()})


def _typical(
    works: Iterable[float | None], forecasts: Iterable[Forecast], before: float | None, slots: int
) -> float:
    """The work of a job of which nothing is known: the mean of the others, else what it was ``before``."""
    known = [work for work in works if work is not None]
    if known:
        return fmean(known)
    if before is not None:
        return before
    runs = next((forecast.other_runs for forecast in forecasts if forecast.other_runs), ())
    return fmean(map(work_of_run_slot_ms, runs)) if runs else _FIRST_GUESS_MS * max(1, slots)
