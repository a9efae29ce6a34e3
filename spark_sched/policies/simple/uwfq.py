"""User weighted fair queueing (UWFQ): arXiv 2510.15485, "Balancing Fairness and Performance in Multi-User
Spark Workloads with Dynamic Scheduling".

Users share the cluster equally (or by weight), whatever number of jobs each has, and a user's jobs share that
user's part. This fluid system is only simulated, in virtual time. The real jobs run one after another, in the
order in which they would end in the fluid system. So each job ends about as early as under fair sharing, and
most end much earlier.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from spark_sched.config import values
from spark_sched.policies.base import Capabilities, ChangesWith, KeptEntries, PolicySettings, make_plan
from spark_sched.policies.key_order import Key, KeyOrder, Moment, OrderedJob, Place
from spark_sched.policies.options import Option, Options
from spark_sched.policies.sizes import expected_work_slot_ms
from spark_sched.predict import UNKNOWN, Forecast
from spark_sched.protocol.plan import Plan
from spark_sched.state import Snapshot

#: Largest number of ended jobs of one user that are kept while they still run in the fluid system.
_ENDED_KEPT = 1_000


@dataclass(slots=True)
class _User:
    """A user with jobs left in the virtual system."""

    weight: float
    start: float  # global virtual time at which the work of the jobs below begins
    time: float = 0.0  # user virtual time: service that each of its jobs has had, in slot-ms
    #: (deadline in user virtual time, number, work), sorted.
    jobs: list[tuple[float, int, float]] = field(default_factory=list)

    def drop_ended(self, keep: set[int]) -> None:
        """Drop the oldest ended jobs beyond `_ENDED_KEPT`, but none of ``keep``."""
        excess = len(self.jobs) - len(keep) - _ENDED_KEPT
        if excess > 0:
            ended = sorted(number for _, number, _ in self.jobs if number not in keep)
            gone = set(ended[:excess])
            self.jobs = [job for job in self.jobs if job[1] not in gone]

    def deadline_of(self, number: int) -> float | None:
        """The deadline of a job in user virtual time; None: it has ended in the virtual system."""
        return max((deadline for deadline, each, _ in self.jobs if each == number), default=None)

    def end(self) -> float:
        """Global virtual time at which its last job ends."""
        return self.start + sum(work for _, _, work in self.jobs) / self.weight


@dataclass
class VirtualTime:
    """The two-level fluid system: slots to users by weight, each user's to its jobs in equal parts.

    Global virtual time grows by slots / (sum of present users' weights) per ms, in slot-ms of service per
    unit of weight. All work is in slot-ms, all times in ms.
    """

    deadlines: dict[int, float] = field(default_factory=dict)
    _now_ms: float = 0.0
    _time: float = 0.0
    _users: dict[str, _User] = field(default_factory=dict)

    def advance(self, now_ms: float, slots: int) -> None:
        """Let the fluid system run until ``now_ms`` on ``slots`` slots."""
        while self._users and self._now_ms < now_ms and slots > 0:
            speed = slots / sum(user.weight for user in self._users.values())
            # Virtual time runs at one speed until the next user leaves.
            first = min(self._users, key=lambda name: self._users[name].end())
            left_ms = max(0.0, self._users[first].end() - self._time) / speed
            step_ms = min(left_ms, now_ms - self._now_ms)
            for user in self._users.values():
                self._serve(user, speed * user.weight * step_ms)
            self._time += speed * step_ms
            self._now_ms += step_ms
            if step_ms == left_ms:
                del self._users[first]
        self._now_ms = max(self._now_ms, now_ms)

    def arrive(self, number: int, user: str, weight: float, work: float) -> None:
        """Add job ``number`` of ``user``; only deadlines of that user's jobs change."""
        owner = self._users.get(user)
        if owner is None:
            owner = self._users[user] = _User(weight, self._time)
        insort(owner.jobs, (owner.time + work, number, work))
        # A job's deadline: the user's jobs one after another, in the order in which they end in its share.
        at = owner.start
        for _, each, size in owner.jobs:
            at += size / owner.weight
            self.deadlines[each] = at

    def copy(self) -> VirtualTime:
        users = {name: replace(user, jobs=list(user.jobs)) for name, user in self._users.items()}
        return replace(self, deadlines=dict(self.deadlines), _users=users)

    def forget(self, keep: set[int]) -> None:
        """Drop the deadlines of jobs that have really ended.

        If work is overestimated, such jobs accumulate in the fluid system. So only the latest `_ENDED_KEPT`
        of each user are kept.
        """
        for user in self._users.values():
            user.drop_ended(keep)
        self.deadlines = {number: at for number, at in self.deadlines.items() if number in keep}

    def drop_ended(self, keep: set[int]) -> None:
        """As `forget`, where most deadlines stay."""
        for user in self._users.values():
            user.drop_ended(keep)
        if len(self.deadlines) > len(keep):
            self.deadlines = {number: at for number, at in self.deadlines.items() if number in keep}

    def user(self, name: str) -> _User | None:
        """A user with jobs left in the virtual system."""
        return self._users.get(name)

    @staticmethod
    def _serve(user: _User, service: float) -> None:
        """Give ``service`` slot-ms to the user's jobs in equal parts; jobs that have all they need leave."""
        while user.jobs:
            deadline, _, work = user.jobs[0]
            needed = (deadline - user.time) * len(user.jobs)
            if needed > service:
                user.time += service / len(user.jobs)
                return
            service -= needed
            user.time = deadline
            user.start += work / user.weight
            del user.jobs[0]


WEIGHTS = Option("weights", values.by_name(1e-9), "", "Weights of users, `ann=2,bob=1`; others have 1.")


class UwfqPolicy:
    """Jobs by their virtual deadline in the fluid system of `VirtualTime`.

    A job's work is forecast when it arrives (the paper assumes an exact forecast, as the simulator's oracle
    gives). Without a forecast it is the mean work of the other jobs. All jobs without a user belong to one
    user. The paper's grace period for returning users and its splitting of tasks by runtime are not
    implemented.
    """

    name = "uwfq"
    capabilities = Capabilities(changes_with=ChangesWith.JOBS, marks=frozenset(), key_order=True)
    options = Options((WEIGHTS,))

    def __init__(self, settings: PolicySettings) -> None:
        self._settings = settings
        self._weights = settings.options[WEIGHTS]
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
        if new:
            work = {job.job: expected_work_slot_ms(job, forecasts.get(job.job, UNKNOWN)) for job in jobs}
            known = [size for size in work.values() if size is not None]
            typical = sum(known) / len(known) if known else 1.0
            for job in sorted(new, key=lambda job: job.arrival):
                virtual.advance(min(job.started_ms, now_ms), slots)
                user = job.marks.user or ""
                size = work[job.job]
                weight = self._weights.get(user, 1.0)
                virtual.arrive(job.arrival, user, weight, typical if size is None else size)
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
    """Jobs by virtual deadline. A lane is a user: its jobs keep the order in which they end in the fluid
    system, and only another job of the user changes their deadlines.
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
        typical: float | None = None
        for job in changed:
            if job.job in self._places:
                continue
            user, number = job.marks.user or "", job.arrival
            keep.add(number)
            if number not in virtual.deadlines:
                virtual.advance(min(job.started_ms, moment.now_ms), moment.slots)
                size = _size(job, moment)
                if size is None:
                    size = typical = _typical(moment) if typical is None else typical
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


def _size(job: OrderedJob, moment: Moment) -> float | None:
    return expected_work_slot_ms(moment.view(job), moment.forecast(job))


def _typical(moment: Moment) -> float:
    """The mean work of the jobs whose work is known."""
    sizes = [_size(job, moment) for job in moment.all_jobs()]
    known = [size for size in sizes if size is not None]
    return sum(known) / len(known) if known else 1.0
