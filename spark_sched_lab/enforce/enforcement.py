"""Enforcement of the plan in force: which jobs may start, in which order, and which ones take spare slots.

The twin of ``schedcore.plan.StartGate`` and ``schedcore.enforce.Enforcement`` in the JVM bridge: the same
operations and results. ``protocol/golden/enforcement`` and ``tests/contract/test_enforcement_golden.py``
compare the two: change both together.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import NamedTuple, Protocol

from spark_sched.protocol.plan import JobPlan, Plan
from spark_sched_lab.enforce.queue_shares import Standing
from spark_sched_lab.enforce.queues import QueueTurns, Turn


class Start(Enum):
    """The permission of a job's waiting tasks under the plan in force."""

    NOW = auto()  # take any slot that their place in the order gives them
    SPARE = auto()  # take slots that no job with a start waits for
    PLANNED = auto()  # start no tasks yet; slots are kept for them from jobs that may only take spare slots
    UNPLANNED = auto()  # the same until a plan contains the job; slots are kept for them from SPARE jobs
    EVICTED = auto()  # start no tasks before the next plan, and no slots are kept for them


class Verdict(Enum):
    """The permission of a task set for a slot, as text for people."""

    OPEN = "open"
    OWN_HOLD = "own hold"
    OVERRIDES = "override"
    PILOT = "pilot"
    LEFT_OVER = "spare"
    HELD = "held for another job"
    BEHIND_PILOTS = "pilots first"
    NOTHING_SPARE = "nothing spare"
    STARTS_LATER = "its start has not come"
    WAS_EVICTED = "evicted"
    NOT_ADMITTED = "waits in the admission queue"
    AT_CEILING = "its queue is at its ceiling"
    OTHERS_TURN = "it is another queue's turn"

    @property
    def may(self) -> bool:
        """Whether it may take the slot."""
        return self in _MAY


_MAY = frozenset({Verdict.OPEN, Verdict.OWN_HOLD, Verdict.OVERRIDES, Verdict.PILOT, Verdict.LEFT_OVER})


class WaitingJob(Protocol):
    """The facts about a job that enforcement needs."""

    @property
    def key(self) -> str: ...

    @property
    def priority(self) -> int: ...

    @property
    def arrival(self) -> int:
        """Its place in the order of arrival."""
        ...

    @property
    def rank(self) -> int:
        """Its place under the plan in force."""
        ...

    @property
    def queue(self) -> int | None:
        """Its queue under the plan in force."""
        ...


class WaitingSet(Protocol):
    """The facts about a task set that enforcement needs."""

    @property
    def job(self) -> WaitingJob: ...

    @property
    def pilots_first(self) -> bool:
        """Whether only its pilots may start; the others wait behind them."""
        ...

    @property
    def pilots_wait(self) -> bool:
        """Whether a pilot has not been launched."""
        ...

    @property
    def waiting_slots(self) -> int:
        """Slots that its waiting tasks would take; only those of the pilots while others wait for these."""
        ...

    @property
    def slots_at_once(self) -> int:
        """Slots without which none of its tasks starts."""
        ...

    @property
    def slots_per_task(self) -> int: ...

    @property
    def executor_profile(self) -> int:
        """Resource profile of the executors that it may use."""
        ...


class QueueGate(Protocol):
    """The tenants' queues (`spark_sched_lab.enforce.queue_usage`) as enforcement sees them."""

    def refusal(self, waiting: WaitingSet) -> Verdict | None:
        """Why the task set may take no slot, as far as its queue decides; None: it may."""
        ...

    def claims(self) -> Callable[[WaitingSet], int]:
        """Counts the slots that task sets may take beside each other, of those that they wait for."""
        ...

    def below_floor(self, waiting: WaitingSet) -> bool:
        """Whether a queue of its path has fewer slots than its floor."""
        ...

    def standing(self, waiting: WaitingSet) -> Standing:
        """The place of its queue in the order of offers, lower first; the same for all where no queue has a
        floor or a weight."""
        ...

    def parts(
        self, waiting: Iterable[WaitingSet], open_slots: Mapping[int, int]
    ) -> Callable[[WaitingSet], bool] | None:
        """Divides the open slots among the queues of these task sets. Returns whether the queue of a task set
        has none left of its part; None: nobody needs such a limit."""
        ...


def _waiting_slots(waiting: WaitingSet) -> int:
    return waiting.waiting_slots


class OfferRank(NamedTuple):
    """Lower is first: by the standing of the tenants' queue, by priority, by the turn of the plan's queue, by
    the job's place in that, then by its arrival."""

    standing: Standing
    priority: int
    turn: Turn
    place: int
    arrival: int


class StartGate:
    """Start times, shares and new jobs of the plan in force, as answers to "may this job's tasks start now?".

    Args:
        patience_ms: how long a job that no plan contains may be kept waiting for slots that others want.

    Attributes:
        active: whether any job may have to wait.
    """

    __slots__ = (
        "_jobs", "_launches", "_new_jobs_wait", "_patience_ms", "_start_times_ms", "_unknown_since_ms",
        "active",
    )  # fmt: skip

    def __init__(self, patience_ms: int) -> None:
        self._patience_ms = patience_ms
        self._jobs: dict[str, JobPlan] = {}
        self._new_jobs_wait = False
        self._start_times_ms: list[int] = []  # rising
        # Slots taken after the snapshot of the plan in force, as versions of the events that reported them.
        self._launches: dict[str, deque[int]] = {}
        # Jobs that asked while no plan contained them, and when each first asked.
        self._unknown_since_ms: dict[str, int] = {}
        self.active = False

    def put(self, plan: Plan | None) -> None:
        """Put this plan in force; None: no plan."""
        self.active = plan is not None and (
            plan.new_jobs_wait or any(job.deferred or job.evict or job.share is not None for job in plan.jobs)
        )
        if plan is None or not self.active:
            self._jobs = {}
            self._new_jobs_wait = False
            self._start_times_ms = []
            self._launches.clear()
            self._unknown_since_ms.clear()
            return
        self._jobs = {job.job: job for job in plan.jobs}
        self._new_jobs_wait = plan.new_jobs_wait
        self._start_times_ms = sorted(
            job.start_ms for job in plan.jobs if job.deferred and job.start_ms is not None
        )
        for job, versions in list(self._launches.items()):
            while versions and versions[0] <= plan.snapshot:
                versions.popleft()
            if not versions:
                del self._launches[job]
        for job in [job for job in self._unknown_since_ms if job in self._jobs]:
            del self._unknown_since_ms[job]

    def job_ended(self, job: str) -> None:
        """Forget the ended job."""
        self._launches.pop(job, None)
        self._unknown_since_ms.pop(job, None)

    def of(self, job: str, now_ms: int) -> Start:
        """The permission of the job's waiting tasks at this time."""
        if not self.active:
            return Start.NOW
        entry = self._jobs.get(job)
        if entry is None:
            if not self._new_jobs_wait:
                return Start.NOW
            since_ms = self._unknown_since_ms.setdefault(job, now_ms)
            return Start.UNPLANNED if now_ms - since_ms < self._patience_ms else Start.NOW
        if entry.evict:
            return Start.EVICTED
        if entry.deferred:
            if entry.start_ms is None:
                return Start.SPARE
            return Start.NOW if now_ms >= entry.start_ms else Start.PLANNED
        if entry.share is None or len(self._launches.get(job, ())) < sum(entry.share.values()):
            return Start.NOW
        return Start.SPARE

    def next_start_ms(self, now_ms: int) -> int | None:
        """The next time at which a waiting job may start, because nothing else triggers a round then."""
        at = bisect_right(self._start_times_ms, now_ms)
        later = self._start_times_ms[at : at + 1]
        later += [since + self._patience_ms for since in self._unknown_since_ms.values()]
        return min((at_ms for at_ms in later if at_ms > now_ms), default=None)

    def launched(self, job: str, version: int, slots: int = 1) -> None:
        """A task of the job takes slots; ``version`` is the number of its event."""
        if self.active:
            self._launches.setdefault(job, deque()).extend([version] * slots)


class Enforcement:
    """A round of launches under the plan in force, as ``schedcore.enforce.Enforcement``.

    A round is `begin`, then `planned` for each task set in the order of its `rank`, then, where
    `spare_wanted`, the same between `begin_spare` and `end_spare`: leftover slots go to task sets that may
    take only spare ones.
    """

    __slots__ = (
        "_for_new", "_found_none", "_gate", "_had_its_part", "_now_ms", "_spare", "_starts", "_turns",
        "gives_spare", "spare_wanted", "turned_away",
    )  # fmt: skip

    def __init__(self, starts: StartGate, queues: QueueTurns, gate: QueueGate | None = None) -> None:
        self._starts = starts
        self._gate = gate  # None: the application has no queues of tenants
        self._turns = queues
        self._now_ms = 0
        # By resource profile, as executors of one profile run no task of another.
        self._spare = Counter[int]()
        # Spare slots that jobs want that no plan contains: other jobs without a start come after these.
        self._for_new = Counter[int]()
        # Task sets that found no spare slot in this round.
        self._found_none: dict[WaitingSet, None] = {}
        self._had_its_part: Callable[[WaitingSet], bool] | None = None
        self.gives_spare = False
        self.spare_wanted = False
        self.turned_away = False

    def begin(self, now_ms: int) -> None:
        """A round begins."""
        self._now_ms = now_ms
        self._found_none.clear()
        self.gives_spare = False
        self.spare_wanted = False
        self._had_its_part = None

    def divide(self, open_slots: Mapping[int, int], waiting: Iterable[WaitingSet]) -> None:
        """From now on each queue takes no more than its part of the open slots, which no job holds.

        Args:
            open_slots: by resource profile.
            waiting: all task sets, in the order in which those of one queue are offered slots.
        """
        self.turned_away = False
        self._had_its_part = None
        if self._gate is not None:
            willing = [each for each in waiting if self.planned(each).may]
            self._had_its_part = self._gate.parts(willing, open_slots)

    def end_parts(self) -> bool:
        """What is left is anybody's. Returns whether a task set was refused a slot since its queue had had
        its part."""
        self._had_its_part = None
        return self.turned_away

    def begin_spare(self, open_slots: Mapping[int, int], waiting: Iterable[WaitingSet]) -> None:
        """Start giving spare slots: those that are neither held nor waited for by task sets with a
        start.

        Args:
            open_slots: free slots that no job holds, by resource profile.
            waiting: all task sets.
        """
        self._spare, self._for_new = self._spares(open_slots, waiting)
        self.gives_spare = True

    def end_spare(self) -> None:
        """No more spare slots are given in this round."""
        self.gives_spare = False
        self._spare, self._for_new = Counter(), Counter()

    def _spares(
        self, open_slots: Mapping[int, int], waiting: Iterable[WaitingSet]
    ) -> tuple[Counter[int], Counter[int]]:
        """The number of open slots that no job with a start waits for, negative if there are too few; and the
        number for which jobs wait that no plan contains. Both by resource profile."""
        spare, for_new = Counter(open_slots), Counter[int]()
        claimed = _waiting_slots if self._gate is None else self._gate.claims()
        for each in waiting:
            start = self.start(each.job.key)
            if start is Start.NOW or start is Start.PLANNED:
                spare[each.executor_profile] -= claimed(each)
            elif start is Start.UNPLANNED:
                for_new[each.executor_profile] += claimed(each)
        return spare, for_new

    def start(self, job: str) -> Start:
        """The permission of the job's waiting tasks in this round."""
        return self._starts.of(job, self._now_ms)

    def planned(self, waiting: WaitingSet) -> Verdict:
        """The verdict by the job's queue and the plan's starts and pilots. Slots held for other jobs are
        checked elsewhere."""
        refusal = None if self._gate is None else self._gate.refusal(waiting)
        if refusal is not None:
            return refusal
        verdict = self._by_plan(waiting)
        if verdict.may and self._had_its_part is not None and self._had_its_part(waiting):
            self.turned_away = True
            return Verdict.OTHERS_TURN
        return verdict

    def _by_plan(self, waiting: WaitingSet) -> Verdict:
        start = self._starts.of(waiting.job.key, self._now_ms)
        if start is Start.NOW:
            if not waiting.pilots_first:
                return Verdict.OPEN
            if self.gives_spare:
                return Verdict.LEFT_OVER
            self.spare_wanted = True
            return Verdict.PILOT if waiting.pilots_wait else Verdict.BEHIND_PILOTS
        if start is not Start.EVICTED and self._gate is not None and self._gate.below_floor(waiting):
            return Verdict.OPEN  # A plan divides what its queue gets, and may not keep it below its floor.
        if start is Start.SPARE or start is Start.UNPLANNED:
            self.spare_wanted = True
            if self.gives_spare and _suffices(waiting, start, self._spare, self._for_new):
                self._found_none.pop(waiting, None)
                return Verdict.LEFT_OVER
            self._found_none[waiting] = None
            return Verdict.NOTHING_SPARE if start is Start.SPARE else Verdict.STARTS_LATER
        return Verdict.STARTS_LATER if start is Start.PLANNED else Verdict.WAS_EVICTED

    def launched(self, waiting: WaitingSet) -> None:
        """A task of the task set took its slots."""
        start = self.start(waiting.job.key) if self.gives_spare else None
        if start is Start.SPARE or start is Start.UNPLANNED:
            self._spare[waiting.executor_profile] -= waiting.slots_per_task
        if start is Start.UNPLANNED:
            self._for_new[waiting.executor_profile] -= waiting.slots_per_task

    def spares_again(self, open_slots: Mapping[int, int], waiting: Iterable[WaitingSet]) -> bool:
        """Whether a task set that found no spare slot in this round would find one now: a launch ends holds
        that its job no longer needs, and nothing else offers these slots again."""
        found_none = [each for each in self._found_none if each.waiting_slots > 0 and self._may_grow(each)]
        if not found_none:
            return False
        spare, for_new = self._spares(open_slots, waiting)
        return any(_suffices(each, self.start(each.job.key), spare, for_new) for each in found_none)

    def _may_grow(self, waiting: WaitingSet) -> bool:
        return self._gate is None or self._gate.refusal(waiting) is None

    def rank(self, waiting: WaitingSet) -> OfferRank:
        """Its place among the task sets that are offered slots."""
        job = waiting.job
        standing = () if self._gate is None else self._gate.standing(waiting)
        if self.gives_spare:
            # Those that may take only spare slots come last, in the order of their arrival.
            last = waiting.pilots_first or self.start(job.key) is Start.SPARE
            return OfferRank(standing, -job.priority, (float(last), 0, 0), job.arrival, job.arrival)
        turn = self._turns.of(job.queue if job.queue is not None and self._turns.weights else -1)
        return OfferRank(standing, -job.priority, turn, job.rank, job.arrival)


def _suffices(waiting: WaitingSet, start: Start, spare: Counter[int], for_new: Counter[int]) -> bool:
    """Whether a task of the task set may have spare slots: of a job without any start, if new jobs leave
    them."""
    profile = waiting.executor_profile
    if start is Start.UNPLANNED:
        return spare[profile] >= waiting.slots_at_once
    return start is Start.SPARE and spare[profile] - for_new[profile] >= waiting.slots_at_once


def by_speed(executors: Iterable[str], slowness: Mapping[str, float]) -> list[list[str]]:
    """Executors in the order in which powerful jobs take them (thesis §8.1.2): in lists of equal slowness,
    the fastest first; empty where all are equal.

    Args:
        executors: all that are there, in any order, which each list keeps.
        slowness: of the plan in force; absent: 1.
    """
    levels: dict[float, list[str]] = {}
    for executor in executors:
        levels.setdefault(slowness.get(executor, 1.0), []).append(executor)
    return [levels[each] for each in sorted(levels)] if len(levels) > 1 else []


def victims(running: Iterable[tuple[int, bool]]) -> list[int]:
    """The running tasks of an evicted job to kill, from its running tasks and whether each may run again."""
    return [task for task, restartable in running if restartable]


class RunningAttempt(NamedTuple):
    """The facts that enforcement needs about a running attempt that a plan names as a victim."""

    priority: int
    restartable: bool
    slots: int
    executor_profile: int = 0


def preempted(
    named: Iterable[int],
    priority: int,
    waiting_slots: Mapping[int, int],
    running: Callable[[int], RunningAttempt | None],
    gives: Callable[[int, Sequence[int]], bool] = lambda _task, _going: True,
) -> list[int]:
    """The attempts to kill now, of those that a plan names as victims for a job.

    Args:
        named: numbers of attempts, in the order of their eviction.
        priority: of the job, in force; only attempts of lower priority are evicted.
        waiting_slots: slots for which its tasks wait, by resource profile; no more slots are taken than that.
        running: finds an attempt by its number; None: it no longer runs.
        gives: whether the job would keep the slots of an attempt after those of others that go: its queue may
            have to give them back.
    """
    chosen: list[int] = []
    left = Counter(waiting_slots)
    for task in named:
        attempt = running(task)
        if attempt is None or task in chosen or not attempt.restartable or attempt.priority >= priority:
            continue
        if left[attempt.executor_profile] > 0 and gives(task, chosen):
            left[attempt.executor_profile] -= attempt.slots
            chosen.append(task)
    return chosen
