"""Which running tasks lose their slots to waiting tasks of jobs of higher priority, and at what price.

A pure function of demands and candidates; `spark_sched.policies.eviction.policy` makes them from a snapshot.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from spark_sched.arrays import Floats
from spark_sched.policies.budget import Deadline
from spark_sched.policies.eviction.candidates import Candidates, Victim
from spark_sched.policies.eviction.free_slots import FreeSlots
from spark_sched.policies.eviction.prices import NEVER, Kind, Prices

_UNLIMITED = Deadline()


@dataclass(frozen=True, slots=True)
class SlotDemand:
    """Tasks of one stage that wait.

    Attributes:
        job, priority: whose they are.
        tasks, slots: how many, and slots that each takes of one executor.
        free: slots that they may take without an eviction, by executor. Demands that follow each other and
            may take the same slots share one mapping, which is then read only once.
        together: whether they start all at once or not at all.
        named: victims of the previous plan for this job that still run; their work counts as already lost.
        powerful: among victims of one priority those on the fastest executors go first (WASP, thesis §8.1.2).
    """

    job: str
    priority: int
    tasks: int
    slots: int
    free: Mapping[str, int]
    together: bool = False
    named: Sequence[int] = ()
    powerful: bool = False


@dataclass(frozen=True, slots=True)
class Terms:
    """``worth``: slot time that may be lost for each unit of slot time that waiting tasks gain. ``left_ms``:
    slot time that each job may still lose by evictions; a job that is missing may lose none."""

    worth: float
    left_ms: Mapping[str, float]


@dataclass(slots=True)
class Choice:
    """Victims of each demand in the order of their eviction, the number of tasks of each demand that still
    wait, and when the first running task is expected to end, in ms from now. ``unseen``: of the tasks that
    still wait, those for which no victim was looked for, because the time was over."""

    victims: list[list[Victim]] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    first_end_ms: float = NEVER
    unseen: list[int] = field(default_factory=list)


def choose(
    demands: Iterable[SlotDemand],
    candidates: Candidates,
    running_ms: Sequence[float] | Floats,
    terms: Terms,
    deadline: Deadline = _UNLIMITED,
) -> Choice:
    """Victims for waiting tasks.

    1. Demands are served in the given order. A waiting task takes free slots, else the slots of victims that
       are already named, else those of the first candidates of one executor whose eviction is worth its
       price.
    2. Candidates are tried by priority, the lowest first, and else in the given order, those that are nearly
       done after all others. For powerful demands, candidates of equal priority on the fastest executors come
       first.
    3. An eviction is worth its price if ``worth`` times the wait that it saves exceeds the work lost. Without
       it the task would wait until enough running tasks have ended for it and all tasks before it, or until
       the candidates themselves end, if that is sooner.

    The time that it takes grows with the candidates and with the number of victims, and hardly with the
    number of demands times the candidates: prices are in a tree by the candidates' order.

    Args:
        demands: jobs of higher priority first.
        candidates: in the order of the victim rule.
        running_ms: expected remaining times of the slots of all running attempts, one for each slot.
        terms: the price, and the slot time that jobs may still lose.
        deadline: when no more victims are looked for.
    """
    choosing = _Choosing(candidates.in_order(), running_ms, terms, deadline)
    choice = Choice(first_end_ms=choosing.ends_ms[0] if choosing.ends_ms else NEVER)
    for demand in demands:
        victims, waiting, unseen = choosing.serve(demand)
        choice.victims.append(victims)
        choice.waiting.append(waiting)
        choice.unseen.append(unseen)
    return choice


class _Choosing:
    def __init__(
        self, candidates: Candidates, running_ms: Sequence[float] | Floats, terms: Terms, deadline: Deadline
    ) -> None:
        left_ms = [terms.left_ms.get(job, 0.0) for job in candidates.jobs]
        self._prices = Prices(candidates, left_ms, terms.worth)
        self._deadline = deadline
        self.ends_ms: list[float] = np.sort(np.asarray(running_ms, np.float64)).tolist()
        self._numbers: dict[int, int] | None = None  # of candidates, by task
        self._taken: dict[str, int] = {}  # free slots that demands before took, by executor
        self._free = FreeSlots({}, self._taken)
        self._before = 0  # slots that demands before wait for

    def serve(self, demand: SlotDemand) -> tuple[list[Victim], int, int]:
        """Its victims, how many of its tasks go on waiting, and for how many no victim was looked for."""
        free, prices = self._slots_for(demand), self._prices
        prices.remember()
        undo = (list(prices.left_ms), list(self.ends_ms), self._before) if demand.together else None
        evicted: list[int] = []
        named = self._named(demand)
        left, waiting, unseen = demand.tasks, 0, 0
        while left:
            if (executor := free.first(demand.slots)) is not None:
                served = min(left, free.slots[executor] // demand.slots)
                free.put(executor, free.slots[executor] - served * demand.slots)
                left -= served
                continue
            if self._deadline.passed:
                unseen, waiting = left, waiting + left
                self._before += left * demand.slots
                break
            prices.mark(free.before)
            group, least_wait_ms = self._named_group(named, demand, free), 0.0
            if not group:
                wait_ms = self._wait_ms(demand.tasks * demand.slots if demand.together else demand.slots)
                kind = Kind(demand.priority, demand.slots, demand.powerful)
                group, least_wait_ms = prices.find(kind, wait_ms, free)
            if not group:
                # Later tasks of the demand would wait longer: for which of them is it worth its price?
                kept = min(left, self._tasks_until(least_wait_ms, demand))
                self._before += kept * demand.slots
                waiting += kept
                left -= kept
                continue
            self._evict(group)
            executor = prices.executor(group[0])
            freed = sum(prices.columns.slots[each] for each in group)
            free.put(executor, free.slots.get(executor, 0) + freed - demand.slots)
            evicted += group
            left -= 1
        # A victim with several slots may have made room for tasks that still wait.
        for executor in free.touched() if waiting else ():
            also = min(waiting, free.slots[executor] // demand.slots)
            free.put(executor, free.slots[executor] - also * demand.slots)
            waiting -= also
            self._before -= also * demand.slots
        prices.mark(free.before)
        if undo is not None and waiting:
            # It cannot start all its tasks: an eviction would be useless.
            left_ms, self.ends_ms, self._before = undo
            prices.reopen(evicted, left_ms)
            free.restore()
            self._before += demand.tasks * demand.slots
            return [], demand.tasks, unseen
        for executor, slots in free.before.items():
            self._taken[executor] = self._taken.get(executor, 0) + slots - free.slots[executor]
        return [prices.all.victim(each) for each in evicted], waiting, min(unseen, waiting)

    def _slots_for(self, demand: SlotDemand) -> FreeSlots:
        if self._free.given is demand.free:
            self._prices.mark(self._free.begin())
        else:
            self._free = FreeSlots(demand.free, self._taken)
        return self._free

    def _named(self, demand: SlotDemand) -> deque[int]:
        """Candidates that the plan before named for it."""
        if not demand.named:
            return deque()
        if self._numbers is None:
            self._numbers = {task: each for each, task in enumerate(self._prices.all.task.tolist())}
        low = self._prices.eligible(demand.priority)
        found = (self._numbers.get(task) for task in demand.named)
        return deque(each for each in found if each is not None and any(a <= each < b for a, b in low))

    def _named_group(self, named: deque[int], demand: SlotDemand, free: FreeSlots) -> list[int]:
        """The first of these candidates that make room for one task; none: they do not suffice."""
        prices = self._prices
        if demand.slots == 1:
            while named:
                each = named.popleft()
                if prices.open[each]:
                    return [each]
            return []
        tried: set[str] = set()
        for each in named:
            executor = prices.executor(each)
            if executor not in tried and prices.open[each]:
                tried.add(executor)
                pool = [other for other in named if prices.executor(other) == executor]
                if group := prices.group(pool, demand.slots, free):
                    return group
        return []

    def _tasks_until(self, wait_ms: float, demand: SlotDemand) -> int:
        """How many tasks of the demand must wait before the next one would wait longer than that."""
        if wait_ms == NEVER:
            return demand.tasks
        ahead = bisect_right(self.ends_ms, wait_ms) - (self._before + demand.slots - 1)
        return max(1, -(-ahead // demand.slots))

    def _wait_ms(self, slots: int) -> float:
        """Time in ms until this number of slots has become free, after the slots for earlier demands."""
        place = self._before + slots - 1
        return self.ends_ms[place] if place < len(self.ends_ms) else NEVER

    def _evict(self, group: Sequence[int]) -> None:
        self._prices.close(group)
        columns = self._prices.columns
        for each in group:
            for _ in range(columns.slots[each]):
                at = bisect_left(self.ends_ms, columns.remaining_ms[each])
                if at < len(self.ends_ms):
                    del self.ends_ms[at]
