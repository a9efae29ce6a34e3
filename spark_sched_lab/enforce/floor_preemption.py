"""Evictions for tenants' queues that stay below their floors.

The twin of ``schedcore.enforce.FloorPreemption``: the same operations and results. ``protocol/golden/queues``
and ``tests/contract/test_queue_usage_golden.py`` compare the two: change both together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from spark_sched.config.queues import Preemption
from spark_sched_lab.enforce.queue_shares import QueueShares, QueueUse

#: A task that was evicted so often is not evicted again, as under the policy ``priority-evictions``.
MOST_EVICTIONS = 5
#: Seconds of work that may be lost for each second that a queue has waited, likewise.
WORTH = 4


class FloorVictim(NamedTuple):
    """A running attempt.

    Attributes:
        queue: of its job.
        profile: resource profile of its executor.
        restartable: whether it may be killed at all.
        evictions: how often its task was evicted.
    """

    task: int
    queue: str
    profile: int
    slots: int
    start_ms: int
    restartable: bool
    evictions: int


class FloorEviction(NamedTuple):
    """An attempt to be evicted for a queue."""

    task: int
    queue: str


class FloorPreemption:
    """Names the attempts to evict for queues that have had less than a part of their floors for too long.

    How long a queue will wait is unknown, so that it is expected to wait as long again as it has waited. An
    attempt is worth evicting if it has not run for more than `WORTH` times as long. The latest ones go first,
    of queues above their floors alone, and no queue falls below its floor by that.
    """

    def __init__(
        self, rule: Preemption, shares: QueueShares, paths: Mapping[str, tuple[QueueUse, ...]]
    ) -> None:
        self._rule = rule
        self._shares = shares
        self._paths = paths
        self._since_ms: dict[str, int] = {}  # of the queues below the threshold, since when they have been
        self._looked_ms: int | None = None
        self._chosen: dict[int, str] = {}  # attempts that are to end, and the queue that they end for

    def continues(self, was: FloorPreemption) -> None:
        """It follows another one whose tree was changed: queues go on waiting, and what was named is not
        named again."""
        self._since_ms = {path: ms for path, ms in was._since_ms.items() if path in self._paths}
        self._chosen = {task: queue for task, queue in was._chosen.items() if queue in self._paths}
        self._looked_ms = was._looked_ms

    def next_ms(self) -> int | None:
        """When the next look may name an attempt; None: not before a queue is below the threshold."""
        if not self._since_ms:
            return None
        due_ms = min(self._since_ms.values()) + self._rule.timeout_ms
        return due_ms if self._looked_ms is None else max(due_ms, self._looked_ms + self._rule.interval_ms)

    def look(
        self, wanted: Mapping[tuple[str, int], int], running: Iterable[FloorVictim], now_ms: int
    ) -> list[FloorEviction]:
        """The attempts to evict now, each of which is named once.

        Args:
            wanted: slots that waiting tasks may take as far as ceilings go, by queue and resource profile.
            running: all attempts.
        """
        starving = [path for path in self._paths if self._starves(path, wanted)]
        self._since_ms = {path: self._since_ms.get(path, now_ms) for path in starving}
        due = [path for path in starving if now_ms - self._since_ms[path] >= self._rule.timeout_ms]
        last_ms = self._looked_ms
        if not due or (last_ms is not None and now_ms - last_ms < self._rule.interval_ms):
            return []
        self._looked_ms = now_ms
        attempts = {each.task: each for each in running}
        self._chosen = {task: queue for task, queue in self._chosen.items() if task in attempts}
        found = []
        for queue in due:
            found += self._choose(queue, wanted, attempts, now_ms)
        return found

    def _starves(self, path: str, wanted: Mapping[tuple[str, int], int]) -> bool:
        use = self._paths[path][-1]
        most = self._rule.threshold * self._shares.floor(use)
        return use.used() < most and any(
            slots > 0 and use in self._paths[queue] for (queue, _), slots in wanted.items()
        )

    def _choose(
        self,
        queue: str,
        wanted: Mapping[tuple[str, int], int],
        attempts: Mapping[int, FloorVictim],
        now_ms: int,
    ) -> list[FloorEviction]:
        use = self._paths[queue][-1]
        lacks = self._shares.floor(use) - use.used()
        wants: dict[int, int] = {}
        for (leaf, profile), slots in wanted.items():
            if use in self._paths[leaf]:
                wants[profile] = wants.get(profile, 0) + slots
        gone: dict[str, int] = {}  # slots of other queues that are to end, by path
        for task, target in self._chosen.items():
            self._goes(attempts[task], gone)
            if use in self._paths[target]:
                lacks -= attempts[task].slots
                profile = attempts[task].profile
                wants[profile] = wants.get(profile, 0) - attempts[task].slots
        worth_ms = WORTH * (now_ms - self._since_ms[queue])
        found = []
        for each in sorted(attempts.values(), key=lambda a: (-a.start_ms, -a.task)):
            if lacks <= 0:
                break
            if each.task in self._chosen or not each.restartable or each.evictions >= MOST_EVICTIONS:
                continue
            if now_ms - each.start_ms > worth_ms or wants.get(each.profile, 0) <= 0:
                continue
            if self._may_go(each, queue, gone):
                self._goes(each, gone)
                self._chosen[each.task] = queue
                lacks -= each.slots
                wants[each.profile] -= each.slots
                found.append(FloorEviction(each.task, queue))
        return found

    def _goes(self, attempt: FloorVictim, gone: dict[str, int]) -> None:
        for use in self._paths[attempt.queue]:
            gone[use.spec.path] = gone.get(use.spec.path, 0) + attempt.slots

    def _may_go(self, attempt: FloorVictim, queue: str, gone: Mapping[str, int]) -> bool:
        """Whether the attempt's queues that ``queue`` is not in have their floors without it."""
        mine = self._paths[queue]
        theirs = self._paths[attempt.queue]
        if mine[-1] in theirs:
            return False
        return all(
            use.used() - gone.get(use.spec.path, 0) - attempt.slots >= self._shares.floor(use)
            for use in theirs
            if use not in mine
        )
