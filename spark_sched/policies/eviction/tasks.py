"""Which running tasks lose their slots to waiting tasks of jobs of higher priority, and at what price.

A pure function of demands and candidates; `spark_sched.policies.eviction.policy` makes them from a snapshot.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

#: A task with less than this share of its expected time left is nearly done.
NEARLY_DONE = 0.25


@dataclass(frozen=True, slots=True)
class Victim:
    """A running attempt that may be evicted.

    Attributes:
        executor, slots: where it runs, and what that takes.
        elapsed_ms: how long it has run: the work that its eviction loses.
        remaining_ms: its expected remaining time.
        slowness: of the executor: a task's time there over its time on an average one.
    """

    task: int
    job: str
    priority: int
    executor: str
    slots: int
    elapsed_ms: float
    remaining_ms: float
    slowness: float = 1.0

    @property
    def lost_ms(self) -> float:
        """Slot-milliseconds that its eviction loses."""
        return self.elapsed_ms * self.slots

    @property
    def nearly_done(self) -> bool:
        """Whether it should be a victim only if no other is suitable."""
        return self.remaining_ms < NEARLY_DONE * (self.elapsed_ms + self.remaining_ms)


@dataclass(frozen=True, slots=True)
class SlotDemand:
    """Tasks of one stage that wait.

    Attributes:
        job, priority: whose they are.
        tasks, slots: how many, and slots that each takes of one executor.
        free: slots that they may take without an eviction, by executor.
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
    wait, and when the first running task is expected to end, in ms from now."""

    victims: list[list[Victim]] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    first_end_ms: float = float("inf")


def choose(
    demands: Iterable[SlotDemand], candidates: Sequence[Victim], running_ms: Iterable[float], terms: Terms
) -> Choice:
    """Victims for waiting tasks.

    1. Demands are served in the given order. A waiting task takes free slots, else the slots of victims that
       are already named, else those of the first candidates of one executor whose eviction is worth its
       price.
    2. Candidates are tried in the given order, those that are nearly done after all others. For powerful
       demands, candidates of equal priority on the fastest executors come first.
    3. An eviction is worth its price if ``worth`` times the wait that it saves exceeds the work lost. Without
       it the task would wait until enough running tasks have ended for it and all tasks before it, or until
       the candidates themselves end, if that is sooner.

    Args:
        demands: jobs of higher priority first.
        candidates: in the order of the victim rule.
        running_ms: expected remaining times of the slots of all running attempts, one for each slot.
        terms: the price, and the slot time that jobs may still lose.
    """
    choosing = _Choosing(candidates, running_ms, terms)
    choice = Choice(first_end_ms=choosing.ends_ms[0] if choosing.ends_ms else float("inf"))
    for demand in demands:
        victims, waiting = choosing.serve(demand)
        choice.victims.append(victims)
        choice.waiting.append(waiting)
    return choice


class _Choosing:
    def __init__(self, candidates: Sequence[Victim], running_ms: Iterable[float], terms: Terms) -> None:
        ordered = sorted(candidates, key=lambda victim: victim.nearly_done)
        self._open = {victim.task: victim for victim in ordered}
        self._by_executor: dict[str, list[Victim]] = {}
        for victim in ordered:
            self._by_executor.setdefault(victim.executor, []).append(victim)
        self._fastest = self._open  # in the order for powerful demands
        if len({victim.slowness for victim in ordered}) > 1:
            ordered.sort(key=lambda each: (each.nearly_done, each.priority, each.slowness))
            self._fastest = {victim.task: victim for victim in ordered}
        self.ends_ms = sorted(running_ms)
        self._worth = terms.worth
        self._left_ms = dict(terms.left_ms)
        self._taken: dict[str, int] = {}  # free slots that demands before took, by executor
        self._before = 0  # slots that demands before wait for

    def serve(self, demand: SlotDemand) -> tuple[list[Victim], int]:
        """Its victims, and how many of its tasks go on waiting."""
        start = {executor: slots - self._taken.get(executor, 0) for executor, slots in demand.free.items()}
        free = dict(start)
        before = self._state() if demand.together else None
        victims: list[Victim] = []
        left, waiting = demand.tasks, 0
        while left:
            executor, group, least_wait_ms = self._next(demand, free)
            if executor is None:
                # Later tasks of the demand would wait longer: for which of them is it worth its price?
                kept = min(left, self._tasks_until(least_wait_ms, demand))
                self._before += kept * demand.slots
                waiting += kept
                left -= kept
                continue
            for victim in group:
                self._evict(victim)
            free[executor] = free.get(executor, 0) + sum(victim.slots for victim in group) - demand.slots
            victims += group
            left -= 1
        # A victim with several slots may have made room for tasks that still wait.
        for executor in free:
            also = min(waiting, max(0, free[executor]) // demand.slots)
            free[executor] -= also * demand.slots
            waiting -= also
            self._before -= also * demand.slots
        if before is not None and waiting:
            # It cannot start all its tasks: an eviction would be useless.
            self._open, self._fastest, self.ends_ms, self._left_ms, self._before = before
            self._before += demand.tasks * demand.slots
            return [], demand.tasks
        for executor, slots in free.items():
            self._taken[executor] = self._taken.get(executor, 0) + start.get(executor, 0) - slots
        return victims, waiting

    def _state(self) -> tuple[dict[int, Victim], dict[int, Victim], list[float], dict[str, float], int]:
        """A copy of what evictions change, with candidates in their order."""
        return dict(self._open), dict(self._fastest), list(self.ends_ms), dict(self._left_ms), self._before

    def _next(self, demand: SlotDemand, free: Mapping[str, int]) -> tuple[str | None, list[Victim], float]:
        """Where the next task of a demand starts, and which victims make room for it there; otherwise the
        wait from which on an eviction would be worth its price."""
        for executor, slots in free.items():
            if slots >= demand.slots:
                return executor, [], 0.0
        known = (self._open.get(task) for task in demand.named)
        named = [victim for victim in known if victim is not None and victim.priority < demand.priority]
        for victim in named:
            if group := self._group(victim, demand, free, named):
                return victim.executor, group, 0.0
        wait_ms = self._wait_ms(demand.tasks * demand.slots if demand.together else demand.slots)
        least_wait_ms = float("inf")
        tried: set[str] = set()
        for victim in (self._fastest if demand.powerful else self._open).values():
            if victim.priority >= demand.priority or (demand.slots > 1 and victim.executor in tried):
                continue
            tried.add(victim.executor)
            if group := self._group(victim, demand, free, self._by_executor[victim.executor]):
                worth_from_ms = self._worth_from_ms(group, demand)
                if worth_from_ms < wait_ms:
                    return victim.executor, group, worth_from_ms
                least_wait_ms = min(least_wait_ms, worth_from_ms)
        return None, [], least_wait_ms

    def _group(
        self, first: Victim, demand: SlotDemand, free: Mapping[str, int], pool: Iterable[Victim]
    ) -> list[Victim]:
        """The victim and others of its executor that make room for one task; none: they do not suffice."""
        room = free.get(first.executor, 0) + first.slots
        group = [first]
        if room < demand.slots:
            for victim in pool:
                if victim.executor != first.executor or victim is first or victim.task not in self._open:
                    continue
                if victim.priority < demand.priority:
                    group.append(victim)
                    room += victim.slots
                    if room >= demand.slots:
                        break
        return group if room >= demand.slots else []

    def _worth_from_ms(self, group: Sequence[Victim], demand: SlotDemand) -> float:
        """The wait from which on evicting these victims is worth their lost work; infinite: it never is."""
        costs: dict[str, float] = {}
        for victim in group:
            costs[victim.job] = costs.get(victim.job, 0.0) + victim.lost_ms
        if any(cost > self._left_ms.get(job, 0.0) for job, cost in costs.items()):
            return float("inf")
        from_ms = sum(costs.values()) / (self._worth * demand.slots)
        return from_ms if from_ms < max(victim.remaining_ms for victim in group) else float("inf")

    def _tasks_until(self, wait_ms: float, demand: SlotDemand) -> int:
        """How many tasks of the demand must wait before the next one would wait longer than that."""
        if wait_ms == float("inf"):
            return demand.tasks
        ahead = bisect_right(self.ends_ms, wait_ms) - (self._before + demand.slots - 1)
        return max(1, -(-ahead // demand.slots))

    def _wait_ms(self, slots: int) -> float:
        """Time in ms until this number of slots has become free, after the slots for earlier demands."""
        place = self._before + slots - 1
        return self.ends_ms[place] if place < len(self.ends_ms) else float("inf")

    def _evict(self, victim: Victim) -> None:
        del self._open[victim.task]
        self._fastest.pop(victim.task, None)
        self._left_ms[victim.job] = self._left_ms.get(victim.job, 0.0) - victim.lost_ms
        for _ in range(victim.slots):
            at = bisect_left(self.ends_ms, victim.remaining_ms)
            if at < len(self.ends_ms):
                del self.ends_ms[at]
