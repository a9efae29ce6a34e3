"""Choice of the running task to evict, by an index instead of a scan."""

from __future__ import annotations

import random
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from spark_sched.policies.eviction.rules import PRODUCTION, PreemptionRule


@dataclass(slots=True)
class _Group:
    """Evictable tasks of one priority on slots of one level, in the order of their starts."""

    order: OrderedDict[int, int] = field(default_factory=OrderedDict)  # task -> started
    tasks: list[int] = field(default_factory=list)  # for a random one
    place: dict[int, int] = field(default_factory=dict)


class RunningIndex:
    """Chooses the task to evict for one of a higher priority without scanning all running tasks.

    The victim has the lowest running priority (§6.2.3.3). Under WASP a production task evicts in the most
    powerful slots that run a task of lower priority (§8.1.2). Level 0 has the most powerful slots.
    """

    def __init__(self, rule: PreemptionRule, levels: int, rng: random.Random) -> None:
        self._rule = rule
        self._rng = rng
        self._random = rule.victims == "RND"
        self._groups: list[dict[int, _Group]] = [{} for _ in range(levels)]
        self._all = range(levels)
        self._starts = 0

    def add(self, task: int, priority: int, level: int) -> None:
        """An evictable task starts."""
        group = self._groups[level].get(priority)
        if group is None:
            group = self._groups[level][priority] = _Group()
        self._starts += 1
        group.order[task] = self._starts
        if self._random:
            group.place[task] = len(group.tasks)
            group.tasks.append(task)

    def remove(self, task: int, priority: int, level: int) -> None:
        """An evictable task ended in any way; a task that was not added is ignored."""
        group = self._groups[level].get(priority)
        if group is None or group.order.pop(task, None) is None:
            return
        if self._random:
            place, last = group.place.pop(task), group.tasks.pop()
            if last != task:
                group.tasks[place] = last
                group.place[last] = place

    def victim(self, priority: int) -> int | None:
        """The task to evict for one of ``priority``, or None."""
        if self._rule.victims == "none":
            return None
        if self._rule.powerful and priority in PRODUCTION:
            for level in self._all:
                lowest = self._lowest(priority, (level,))
                if lowest is not None:
                    return self._pick(lowest, (level,))
            return None
        lowest = self._lowest(priority, self._all)
        return None if lowest is None else self._pick(lowest, self._all)

    def of(self, priority: int) -> int | None:
        """The task to evict among those of exactly this priority, or None."""
        present = any(p == priority and g.order for groups in self._groups for p, g in groups.items())
        return self._pick(priority, self._all) if present else None

    def priorities(self) -> list[int]:
        """Priorities of evictable tasks, ascending."""
        return sorted({p for groups in self._groups for p, group in groups.items() if group.order})

    def _lowest(self, below: int, levels: Sequence[int]) -> int | None:
        found = None
        for level in levels:
            for priority, group in self._groups[level].items():
                if priority < below and group.order and (found is None or priority < found):
                    found = priority
        return found

    def _pick(self, priority: int, levels: Sequence[int]) -> int:
        groups = [g for level in levels if (g := self._groups[level].get(priority)) and g.order]
        if self._random:
            at = self._rng.randrange(sum(len(group.tasks) for group in groups))
            for group in groups:
                if at < len(group.tasks):
                    return group.tasks[at]
                at -= len(group.tasks)
        last = self._rule.victims == "MRS"
        ends = [
            (group.order[task := next(reversed(group.order) if last else iter(group.order))], task)
            for group in groups
        ]
        return (max(ends) if last else min(ends))[1]
