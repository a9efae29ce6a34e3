"""User weighted fair queueing (UWFQ): arXiv 2510.15485, "Balancing Fairness and Performance in Multi-User
Spark Workloads with Dynamic Scheduling".

Users share the cluster equally (or by weight), whatever number of jobs each has, and a user's jobs share that
user's part. This fluid system is only simulated, in virtual time. The real jobs run one after another, in the
order in which they would end in the fluid system. So each job ends about as early as under fair sharing, and
most end much earlier.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from statistics import fmean

import numpy as np

from spark_sched.config import values
from spark_sched.policies.base import Capabilities, ChangesWith, KeptEntries, PolicySettings, make_plan
from spark_sched.policies.key_order import Key, KeyOrder, Moment, OrderedJob, Place
from spark_sched.policies.options import Option, Options
from spark_sched.policies.simple.virtual_time import VirtualTime
from spark_sched.policies.sizes import estimated_work_slot_ms, exact_work_slot_ms, work_of_run_slot_ms
from spark_sched.predict import UNKNOWN, Forecast
from spark_sched.protocol.plan import Plan
from spark_sched.state import Snapshot

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


class UwfqPolicy:
    """Jobs by their virtual deadline in the fluid system of `VirtualTime`.

    The paper assumes an exact forecast of a job's work when it arrives, as the simulator's oracle gives. Any
    other forecast may change. Then the job's work and its deadline are revised, and at last by the slot time
    that it took. Without a forecast, a job's work is the mean of the other jobs', else of the latest runs.

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
        self._kept = KeptEntries()

    def decide(
        self,
        snapshot: Snapshot,
        forecasts: Mapping[str, Forecast],
        now_ms: int,
        rng: np.random.Generator,
        memory: VirtualTime | None,
    ) -> tuple[Plan, VirtualTime]:
        virtual = VirtualTime() if memory is None else memory.copy()
        slots = snapshot.slots
        jobs = snapshot.jobs.values()
        new = [job for job in jobs if job.arrival not in virtual.deadlines]
        if new or virtual.assumed:
            known = {job.job: forecasts.get(job.job, UNKNOWN) for job in jobs}
            exact = {key: exact_work_slot_ms(forecast) for key, forecast in known.items()}
            work = {
                job.job: estimated_work_slot_ms(job, known[job.job]) if size is None else size
                for job, size in zip(jobs, exact.values(), strict=True)
            }
            typical = virtual.typical = _typical(work.values(), known.values(), virtual, slots)
            # 1. Jobs come.
            for job in sorted(new, key=lambda job: job.arrival):
                virtual.advance(min(job.started_ms, now_ms), slots)
                user, size = job.marks.user or "", work[job.job]
                virtual.arrive(
                    job.arrival,
                    user,
                    self._weights.get(user, 1.0),
                    typical if size is None else size,
                    estimate_of=job.job if exact[job.job] is None else None,
                )
            virtual.advance(now_ms, slots)
            # 2. What is now known of those that were there, and what those took that have ended.
            grace = self._grace_ms * slots / 2.0
            virtual.revise(
                {
                    number: typical if (size := work[each.job]) is None else size
                    for number, each in virtual.assumed.items()
                    if each.job in work
                },
                grace,
            )
            ended = {
                number: each.served if (took := _attained(snapshot, each.job)) is None else took
                for number, each in virtual.assumed.items()
                if each.job not in work
            }
            virtual.revise(ended, grace, final=True)
        virtual.advance(now_ms, slots)
        virtual.forget({job.arrival for job in jobs})
        deadlines = virtual.deadlines
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
        return plan, virtual

    def key_order(self, memory: VirtualTime | None) -> KeyOrder:
        return _DeadlineOrder(VirtualTime() if memory is None else memory.copy(), self._weights)


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
                    size = _typical(works, (), virtual, moment.slots)
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

    def memory(self) -> VirtualTime:
        return self._virtual.copy()


def _typical(
    works: Iterable[float | None], forecasts: Iterable[Forecast], virtual: VirtualTime, slots: int
) -> float:
    """The work of a job of which nothing is known."""
    known = [work for work in works if work is not None]
    if known:
        return fmean(known)
    if virtual.typical is not None:
        return virtual.typical
    runs = next((forecast.other_runs for forecast in forecasts if forecast.other_runs), ())
    return fmean(map(work_of_run_slot_ms, runs)) if runs else _FIRST_GUESS_MS * max(1, slots)


def _attained(snapshot: Snapshot, job: str) -> float | None:
    """Slot-ms that a job took that has ended; None: not known."""
    ended = snapshot.ended.get(job)
    return None if ended is None else ended.attained_ms
