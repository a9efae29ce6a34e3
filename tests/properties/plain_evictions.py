"""The choice of victims, written down plainly: each waiting task looks at every candidate.

`spark_sched.policies.eviction.tasks.choose` must choose the same, in less time. The comments there say why.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence

from spark_sched.policies.eviction.candidates import Victim
from spark_sched.policies.eviction.tasks import Choice, SlotDemand, Terms


def choose(
    demands: Iterable[SlotDemand], candidates: Sequence[Victim], running_ms: Iterable[float], terms: Terms
) -> Choice:
    """As `spark_sched.policies.eviction.tasks.choose`, of candidates with the lowest priority first."""
    choosing = _Choosing(candidates, running_ms, terms)
    choice = Choice(first_end_ms=choosing.ends_ms[0] if choosing.ends_ms else float("inf"))
    for demand in demands:
        victims, waiting = choosing.serve(demand)
        choice.victims.append(victims)
        choice.waiting.append(waiting)
        choice.unseen.append(0)
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
        start = {executor: max(0, n - self._taken.get(executor, 0)) for executor, n in demand.free.items()}
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
