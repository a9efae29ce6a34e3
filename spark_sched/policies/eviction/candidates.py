"""Running attempts that may be evicted, as columns: their order, and the cheapest of them by a tree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spark_sched.arrays import Bools, Floats, Ints

#: A task with less than this share of its expected time left is nearly done.
NEARLY_DONE = 0.25
_NEVER = float("inf")


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


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The columns of many victims: objects for each of some ten thousand tasks would take longer than the
    choice among them.

    Attributes:
        jobs, executors: names by the numbers in the columns ``job`` and ``executor``.
    """

    jobs: Sequence[str]
    executors: Sequence[str]
    task: Ints
    job: Ints
    priority: Ints
    executor: Ints
    slots: Ints
    elapsed_ms: Floats
    remaining_ms: Floats
    slowness: Floats

    @classmethod
    def of(cls, victims: Sequence[Victim]) -> Candidates:
        jobs = list(dict.fromkeys(victim.job for victim in victims))
        executors = list(dict.fromkeys(victim.executor for victim in victims))
        job_at = {job: at for at, job in enumerate(jobs)}
        executor_at = {executor: at for at, executor in enumerate(executors)}
        return cls(
            jobs,
            executors,
            np.array([victim.task for victim in victims], np.int64),
            np.array([job_at[victim.job] for victim in victims], np.int64),
            np.array([victim.priority for victim in victims], np.int64),
            np.array([executor_at[victim.executor] for victim in victims], np.int64),
            np.array([victim.slots for victim in victims], np.int64),
            np.array([victim.elapsed_ms for victim in victims], np.float64),
            np.array([victim.remaining_ms for victim in victims], np.float64),
            np.array([victim.slowness for victim in victims], np.float64),
        )

    def __len__(self) -> int:
        return len(self.task)

    def at(self, places: Ints | Bools) -> Candidates:
        """Some of them, or all in another order."""
        return Candidates(
            self.jobs, self.executors, self.task[places], self.job[places], self.priority[places],
            self.executor[places], self.slots[places], self.elapsed_ms[places], self.remaining_ms[places],
            self.slowness[places],
        )  # fmt: skip

    def victim(self, place: int) -> Victim:
        return Victim(
            int(self.task[place]), self.jobs[self.job[place]], int(self.priority[place]),
            self.executors[self.executor[place]], int(self.slots[place]), float(self.elapsed_ms[place]),
            float(self.remaining_ms[place]), float(self.slowness[place]),
        )  # fmt: skip

    @property
    def nearly_done(self) -> Bools:
        """`Victim.nearly_done` of each."""
        return np.asarray(self.remaining_ms < NEARLY_DONE * (self.elapsed_ms + self.remaining_ms))

    def in_order(self) -> Candidates:
        """Those that are nearly done last, of equals lower priorities first; else in the given order."""
        return self.at(np.lexsort((self.priority, self.nearly_done)))


class LeastTree:
    """Values by place, with the least value of a range and the first place of a range whose value is less
    than a limit, each in logarithmic time."""

    __slots__ = ("_half", "_nodes")

    def __init__(self, values: Floats) -> None:
        half = 1 << max(0, len(values) - 1).bit_length()
        level = np.full(half, _NEVER)
        level[: len(values)] = values
        levels = [level]
        while len(level) > 1:
            level = np.minimum(level[0::2], level[1::2])
            levels.append(level)
        self._half = half
        # Node n has the children 2 n and 2 n + 1; node 1 is the root.
        self._nodes: list[float] = np.concatenate([[_NEVER], *reversed(levels)]).tolist()

    def __getitem__(self, place: int) -> float:
        return self._nodes[self._half + place]

    def __setitem__(self, place: int, value: float) -> None:
        nodes, node = self._nodes, self._half + place
        nodes[node] = value
        while node > 1:
            node >>= 1
            left, right = nodes[2 * node], nodes[2 * node + 1]
            least = left if left < right else right
            if nodes[node] == least:
                break
            nodes[node] = least

    def _cover(self, low: int, high: int) -> list[int]:
        """Nodes that together cover the places from ``low`` up to and without ``high``, in their order."""
        first: list[int] = []
        last: list[int] = []
        left, right = self._half + low, self._half + high
        while left < right:
            if left & 1:
                first.append(left)
                left += 1
            if right & 1:
                right -= 1
                last.append(right)
            left >>= 1
            right >>= 1
        return first + last[::-1]

    def least(self, low: int, high: int) -> float:
        return min((self._nodes[node] for node in self._cover(low, high)), default=_NEVER)

    def first(self, low: int, high: int, limit: float, *, reached: bool = False) -> int | None:
        """The first place whose value is less than ``limit``; ``reached``: or equal to it."""
        nodes = self._nodes
        for node in self._cover(low, high):
            if nodes[node] < limit or (reached and nodes[node] == limit):
                while node < self._half:
                    node *= 2
                    if not (nodes[node] < limit or (reached and nodes[node] == limit)):
                        node += 1
                return node - self._half
        return None
