"""Prices of evictions: for each running attempt, how long a task must wait to be worth its slots."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from spark_sched.policies.eviction.candidates import Candidates, LeastTree
from spark_sched.policies.eviction.free_slots import FreeSlots

NEVER = float("inf")


class Kind(NamedTuple):
    """What the prices for a waiting task depend on: candidates have a lower ``priority``; ``width``: its
    slots; ``powerful``: as in `SlotDemand`."""

    priority: int
    width: int
    powerful: bool


class PriceList:
    """The wait from which on an eviction is worth its price, by candidate in the order of one kind of demand.

    For tasks of one slot each candidate has a price. For wider tasks the first candidate of each executor has
    the price of all that have to go there. Prices only rise while demands are served, because jobs may lose
    less and less: the least one is computed again before it is believed.
    """

    def __init__(self, place: Sequence[int], at: Sequence[int], tree: LeastTree) -> None:
        self.place = place  # of a candidate, by its number
        self.at = at  # the candidate at each place
        self.tree = tree
        self.groups: dict[int, list[int]] = {}  # for wider tasks, by the first candidate
        self.heads: dict[int, int] = {}  # … which is this one, by executor
        self.free: FreeSlots | None = None  # that the groups are based on
        self.stale: set[str] = set()  # executors whose free slots or candidates have changed since


class _Columns(NamedTuple):
    """Of candidates, by number, as lists: these are read one by one."""

    job: list[int]
    executor: list[int]
    slots: list[int]
    remaining_ms: list[float]
    lost_ms: list[float]


class Prices:
    """Candidates that are open, what their jobs may still lose, and their prices.

    Args:
        candidates: in order (`Candidates.in_order`); their places there are their numbers.
        left_ms: slot time that each job may still lose.
        worth: slot time that may be lost for each unit that is gained.
    """

    def __init__(self, candidates: Candidates, left_ms: list[float], worth: float) -> None:
        self.all = candidates
        self.left_ms = left_ms
        self._worth = worth
        self.columns = _Columns(
            candidates.job.tolist(), candidates.executor.tolist(), candidates.slots.tolist(),
            candidates.remaining_ms.tolist(), (candidates.elapsed_ms * candidates.slots).tolist(),
        )  # fmt: skip
        self.open = [True] * len(candidates)
        # The order begins with the candidates that are not nearly done; in both parts priorities rise.
        first = int(np.count_nonzero(~candidates.nearly_done))
        priority: list[int] = candidates.priority.tolist()
        self._priorities = priority[:first], priority[first:]
        self._single = self._of_one_slot()
        # The least price for a task of one slot, until an eviction changes it.
        self._least_ms: dict[Kind, float] = {}
        self._log: list[tuple[PriceList, int, float]] = []  # prices that were replaced, with the old ones
        self._executor_at = {executor: at for at, executor in enumerate(candidates.executors)}
        self._by_executor: dict[int, list[int]] = {}
        self._wide: dict[Kind, PriceList] = {}

    # ---- what waiting tasks ask ----

    def eligible(self, priority: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """The places of candidates of lower priority, in each order."""
        low, done = (bisect_left(priorities, priority) for priorities in self._priorities)
        first = len(self._priorities[0])
        return (0, low), (first, first + done)

    def find(self, kind: Kind, wait_ms: float, free: FreeSlots) -> tuple[list[int], float]:
        """The first candidates that are worth their price for that wait and make room for one task; none: the
        wait from which on some would be worth it."""
        if kind.width == 1 and wait_ms <= self._least_ms.get(kind, -1.0):
            return [], self._least_ms[kind]
        prices, ranges = self._list(kind, free), self.eligible(kind.priority)
        for low, high in ranges:
            while (place := prices.tree.first(low, high, wait_ms)) is not None:
                if self._holds(prices, place, kind.width):
                    return prices.groups.get(prices.at[place], [prices.at[place]]), 0.0
        while True:
            least_ms = min(prices.tree.least(low, high) for low, high in ranges)
            places = [prices.tree.first(low, high, least_ms, reached=True) for low, high in ranges]
            found = [place for place in places if place is not None]
            if least_ms == NEVER or self._holds(prices, found[0], kind.width):
                if kind.width == 1:
                    self._least_ms[kind] = least_ms
                return [], least_ms

    def group(self, pool: Iterable[int], width: int, free: FreeSlots) -> list[int]:
        """The first of these candidates of one executor that make room for one task; none: all do not."""
        group: list[int] = []
        room = 0
        for each in pool:
            if self.open[each]:
                room = room if group else free.slots.get(self.executor(each), 0)
                group.append(each)
                room += self.columns.slots[each]
                if room >= width:
                    return group
        return []

    def executor(self, each: int) -> str:
        """Where a candidate runs."""
        return self.all.executors[self.columns.executor[each]]

    # ---- what evictions change ----

    def close(self, group: Sequence[int]) -> None:
        """These candidates of one executor are evicted."""
        self._least_ms.clear()
        for each in group:
            self.open[each] = False
            for prices in self._single:
                place = prices.place[each]
                self._log.append((prices, place, prices.tree[place]))
                prices.tree[place] = NEVER
            self.left_ms[self.columns.job[each]] -= self.columns.lost_ms[each]
        self.mark([self.executor(group[0])])

    def mark(self, executors: Iterable[str]) -> None:
        """Free slots or candidates of these executors have changed."""
        for prices in self._wide.values():
            prices.stale.update(executors)

    def remember(self) -> None:
        """The state to which `reopen` returns is the present one."""
        self._log.clear()

    def reopen(self, evicted: Sequence[int], left_ms: list[float]) -> None:
        """As if none of these had been evicted; ``left_ms``: before that."""
        if not evicted:
            return
        self._least_ms.clear()
        self.left_ms = left_ms
        for each in evicted:
            self.open[each] = True
        for prices, place, old_ms in reversed(self._log):
            if prices in self._single:
                prices.tree[place] = old_ms
        # They left out candidates that are open again, or have prices from a smaller allowance.
        self._wide.clear()
        self._by_executor.clear()

    # ---- lists ----

    def _of_one_slot(self) -> tuple[PriceList, ...]:
        """For usual demands, and, if their order is another one, for powerful demands."""
        all_ = self.all
        if not len(all_):
            return (PriceList((), (), LeastTree(np.zeros(0))),)
        lost_ms = all_.elapsed_ms * all_.slots
        from_ms = lost_ms / self._worth
        too_much = lost_ms > np.array(self.left_ms, np.float64)[all_.job]
        values = np.where(too_much | (from_ms >= all_.remaining_ms), NEVER, from_ms)
        same = range(len(all_))
        usual = PriceList(same, same, LeastTree(values))
        if (all_.slowness == all_.slowness[0]).all():
            return (usual,)
        order = np.lexsort((all_.slowness, all_.priority, all_.nearly_done))
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        return usual, PriceList(place.tolist(), order.tolist(), LeastTree(values[order]))

    def _list(self, kind: Kind, free: FreeSlots) -> PriceList:
        single = self._single[-1 if kind.powerful else 0]
        if kind.width == 1:
            return single
        if not self._by_executor:
            for each, number in enumerate(self.columns.executor):
                self._by_executor.setdefault(number, []).append(each)
        prices = self._wide.get(kind)
        if prices is None:
            prices = PriceList(single.place, single.at, LeastTree(np.full(len(self.all), NEVER)))
            self._wide[kind] = prices
        if prices.free is not free:
            before, prices.free = prices.free, free
            every = (self.all.executors[number] for number in self._by_executor)
            if before is None:
                prices.stale.update(every)
            else:
                # What has changed since in the slots of before is marked: compare with those of now.
                known = before.slots
                prices.stale.update(each for each in every if known.get(each, 0) != free.slots.get(each, 0))
        for executor in prices.stale:
            self._refresh(prices, executor, kind, free)
        prices.stale.clear()
        return prices

    def _refresh(self, prices: PriceList, executor: str, kind: Kind, free: FreeSlots) -> None:
        """Compute again what has to go on an executor for a wide task, and its price."""
        number = self._executor_at.get(executor, -1)
        if number not in self._by_executor:
            return  # nothing there may be evicted
        if (old := prices.heads.pop(number, None)) is not None:
            del prices.groups[old]
            prices.tree[prices.place[old]] = NEVER
        mine = self._by_executor[number] = [each for each in self._by_executor[number] if self.open[each]]
        ranges = self.eligible(kind.priority)
        pool = [each for each in mine if any(low <= each < high for low, high in ranges)]
        if group := self.group(pool, kind.width, free):
            prices.heads[number] = group[0]
            prices.groups[group[0]] = group
            prices.tree[prices.place[group[0]]] = self._worth_from_ms(group, kind.width)

    def _holds(self, prices: PriceList, place: int, width: int) -> bool:
        """Whether the price at this place still holds; if not, the present one replaces it."""
        each = prices.at[place]
        now_ms, old_ms = self._worth_from_ms(prices.groups.get(each, [each]), width), prices.tree[place]
        if now_ms != old_ms:
            self._log.append((prices, place, old_ms))
            prices.tree[place] = now_ms
        return now_ms == old_ms

    def _worth_from_ms(self, group: Sequence[int], width: int) -> float:
        """The wait from which on evicting these victims is worth their lost work; infinite: it never is."""
        job, lost_ms = self.columns.job, self.columns.lost_ms
        costs: dict[int, float] = {}
        for each in group:
            costs[job[each]] = costs.get(job[each], 0.0) + lost_ms[each]
        if any(cost > self.left_ms[of] for of, cost in costs.items()):
            return NEVER
        from_ms = sum(costs.values()) / (self._worth * width)
        return from_ms if from_ms < max(self.columns.remaining_ms[each] for each in group) else NEVER
