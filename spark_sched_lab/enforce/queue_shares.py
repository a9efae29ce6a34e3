"""Floors and weights of tenants' queues: which queue's jobs are offered slots first.

The twin of ``schedcore.enforce.QueueShares``: the same operations and results. ``protocol/golden/queues`` and
``tests/contract/test_queue_usage_golden.py`` compare the two: change both together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from spark_sched.config.queues import QueueSpec
from spark_sched_lab.enforce.day_use import DayUse

#: A queue's place in the order of offers, the least one first: whether a queue of its path is below its
#: floor, then from the top down whether this one is and its slots over its floor, else over its weight.
Standing: TypeAlias = tuple[float, ...]


@dataclass(slots=True, eq=False)
class QueueUse:
    """What the jobs of one queue, and of those below it, have now.

    Attributes:
        running: slots of their attempts.
        held: slots that they hold idle.
        peak: the most that both together ever were.
        jobs: jobs that are admitted.
        waiting: jobs in the admission queue.
        holders: jobs that hold slots, in the order in which they began to.
        refused: how often a job was refused since too many waited, or since it waited for too long.
        day: the slot time of the last 24 hours; counted where the queue has a limit of it.
    """

    spec: QueueSpec
    running: int = 0
    held: int = 0
    peak: int = 0
    jobs: int = 0
    waiting: int = 0
    holders: dict[QueuedJob, None] = field(default_factory=dict)
    refused: int = 0
    day: DayUse = field(default_factory=DayUse)

    def used_up(self) -> bool:
        """Whether it has had its slot time of the last 24 hours."""
        most_ms = self.spec.day_slot_ms
        return most_ms is not None and self.day.slot_ms >= most_ms

    def full(self) -> bool:
        """Whether it admits no further job."""
        most = self.spec.max_running_jobs
        return (most is not None and self.jobs >= most) or self.used_up()

    def used(self) -> int:
        return self.running + self.held

    def continues(self, was: QueueUse) -> None:
        """The queue had this before its tree was changed."""
        self.peak, self.refused = was.peak, was.refused
        if was.spec.day_slot_ms is not None:
            self.day = was.day

    def enters(self, entry: QueuedJob, waits: bool) -> None:
        """A job is in the queue after its tree was changed."""
        self.running += entry.running
        self.held += entry.held
        self.peak = max(self.peak, self.used())
        if entry.held > 0:
            self.holders[entry] = None
        self.jobs += entry.admitted
        self.waiting += waits
        self.refused += entry.refused


@dataclass(slots=True, eq=False)
class QueuedJob:
    """A job in its queue.

    Attributes:
        path: its queue and the ancestors, from the top down; empty: there are no queues.
        since_ms: when it came.
        admitted: whether its tasks may start.
        refused: it is to be cancelled: it neither runs nor waits.
        held: slots that it holds idle.
        running: slots of its attempts.
    """

    key: str
    path: tuple[QueueUse, ...]
    priority: int
    arrival: int
    since_ms: int
    admitted: bool = False
    refused: bool = False
    held: int = 0
    running: int = 0

    @property
    def queue(self) -> str:
        """The path of its queue; empty: there are none."""
        return self.path[-1].spec.path if self.path else ""

    @property
    def due_ms(self) -> int | None:
        """When it has waited for too long; None: never."""
        waits = [use.spec.wait_timeout_ms for use in self.path if use.spec.wait_timeout_ms is not None]
        return self.since_ms + min(waits) if waits else None


#: A queue and its ancestors, from the top down.
Path: TypeAlias = tuple[QueueUse, ...]


class Wanted(NamedTuple):
    """What a task set wants of a round.

    Attributes:
        profile: resource profile of the executors that it may use.
        at_once: slots without which none of its tasks starts.
        slots: that all its waiting tasks would take.
    """

    queue: str
    profile: int
    at_once: int
    slots: int


class QueueShares:
    """Weighted fair shares with floors, as in YARN and YuniKorn.

    A job of a queue below its floor comes before all jobs whose queues have theirs. Beside that queues are
    compared from the top down: those below their floors by the part of it that they have, the others by their
    slots over their weights. Priorities order the jobs of one queue.

    Attributes:
        slots: of the application.
    """

    def __init__(self, paths: Mapping[str, Path]) -> None:
        self._paths = paths
        self.slots = 0

    def floor(self, use: QueueUse) -> int:
        """Slots that the queue is promised now: not more than it may have."""
        floor, ceiling = use.spec.floor, use.spec.ceiling
        promised = 0 if floor is None else floor.at_most(self.slots)
        return promised if ceiling is None else min(promised, ceiling.of(self.slots))

    def below(self, queue: str) -> bool:
        """Whether the queue, or one above it, has fewer slots than its floor."""
        return any(use.used() < self.floor(use) for use in self._paths[queue])

    def standing(self, queue: str, given: Mapping[str, int] | None = None) -> Standing:
        """The queue's place in the order of offers. ``given`` are slots by queue to be added to its own."""
        levels: list[float] = [1.0]
        for use in self._paths[queue]:
            used = use.used() if given is None else use.used() + given.get(use.spec.path, 0)
            floor = self.floor(use)
            if used < floor:
                levels[0] = 0.0
                levels += (0.0, used / floor)
            else:
                levels += (1.0, used / (use.spec.weight or 1.0))
        return tuple(levels)

    def parts(self, wanted: Iterable[Wanted], open_slots: Mapping[int, int]) -> dict[str, int]:
        """The most slots that each queue that wants some is to have after a round: the open slots are divided
        one by one, each to the queue that comes first then.

        Empty where only one queue wants slots: it needs no limit.

        Args:
            wanted: by the task sets, in the order in which those of one queue are offered slots.
            open_slots: free ones that nobody holds, by resource profile.
        """
        waiting: dict[str, list[Wanted]] = {}
        for each in wanted:
            waiting.setdefault(each.queue, []).append(each)
        if len(waiting) < 2:
            return {}
        left, given = dict(open_slots), dict[str, int]()
        queues = list(waiting)
        standings = {queue: self.standing(queue) for queue in queues}
        while waiting and any(slots > 0 for slots in left.values()):
            queue = min(waiting, key=standings.__getitem__)
            first = waiting[queue][0]
            slots = first.at_once
            if (
                slots > first.slots
                or slots > left.get(first.profile, 0)
                or not self._fits(queue, slots, given)
            ):
                del waiting[queue][0]
                if not waiting[queue]:
                    del waiting[queue]
                continue
            left[first.profile] -= slots
            waiting[queue][0] = first._replace(slots=first.slots - slots)
            path = self._paths[queue]
            for use in path:
                given[use.spec.path] = given.get(use.spec.path, 0) + slots
            for other in waiting:
                if self._paths[other][0] is path[0]:
                    standings[other] = self.standing(other, given)
        return {queue: self._paths[queue][-1].used() + given.get(queue, 0) for queue in queues}

    def _fits(self, queue: str, slots: int, given: Mapping[str, int]) -> bool:
        return all(
            use.spec.ceiling is None
            or use.used() + given.get(use.spec.path, 0) + slots <= use.spec.ceiling.of(self.slots)
            for use in self._paths[queue]
        )

    def ceded(
        self, holder: str, asker: str, slots: int, asks: int, taken: int = 0, *, at_once: bool = False
    ) -> int:
        """How many of the ``slots`` that a job of queue ``holder`` holds a job of queue ``asker`` may take.

        Between queues, their order decides and not that of jobs: as many as the asker's queue lacks of its
        floor, or as it comes first with where the two paths part, but no slot that the holder's queue has
        below its own floor.

        Args:
            asks: that it may take by the order of jobs, which decides in one queue.
            taken: slots promised to it that do not count as used yet.
            at_once: one of the two waits for slots that it needs all at once. Taken one by one, by the slots
                that both have at the moment, they would never be together: floors decide, and then the order
                of jobs.
        """
        theirs, mine = self._paths[holder], self._paths[asker]
        if theirs is mine:
            return asks
        return self._given(theirs, mine, slots, taken, {}, asks if at_once else None)

    def cedes(
        self, holder: str, asker: str, slots: int, taken: int, moved: Sequence[tuple[str, int]]
    ) -> bool:
        """Whether slots of a running task of queue ``holder`` may go to a job of queue ``asker``.

        Args:
            slots: of the task.
            taken: open slots, which that job takes first.
            moved: queues of other tasks whose slots go to that job before, with their slots.
        """
        theirs, mine = self._paths[holder], self._paths[asker]
        if theirs is mine:
            return True
        more = Counter[str]()
        for queue, count in moved:
            more.subtract({use.spec.path: count for use in self._paths[queue]})
            more.update({use.spec.path: count for use in mine})
        return self._given(theirs, mine, slots, taken, more) == slots

    def _given(
        self,
        theirs: Path,
        mine: Path,
        slots: int,
        taken: int,
        more: Mapping[str, int],
        asks: int | None = None,
    ) -> int:
        """How many of ``slots`` of the first queue may go to the second one, where the queues have ``more``
        slots than their own, and ``taken`` are promised to the second one. ``asks``: those that may go by the
        order of jobs; None: weights decide."""

        def used(use: QueueUse) -> int:
            return use.used() + more.get(use.spec.path, 0)

        apart = sum(a is b for a, b in zip(theirs, mine, strict=False))
        spare = min(used(use) - self.floor(use) for use in theirs[apart:])
        lacks = max(self.floor(use) - used(use) for use in mine[apart:]) - taken
        most = max(0, min(slots, spare))
        if asks is not None:
            return min(most, max(asks, lacks))
        # Where the paths part: with each slot the second one still has less for its weight than the first one
        # had before, so that none goes back.
        first, second = theirs[apart], mine[apart]
        weights = first.spec.weight or 1.0, second.spec.weight or 1.0
        has, gets = used(first), used(second) + taken
        given = 0
        while given < most and (gets + given + 1) / weights[1] < (has - given) / weights[0]:
            given += 1
        return max(min(most, lacks), given)
