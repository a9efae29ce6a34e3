"""Evictions at a price: the work that is lost against the response time that is gained."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import deque
from collections.abc import Mapping

#: Same as in V (equation 6.5).
_WEIGHT_OFFSET = 3.0
#: Demands remembered of each class, and ends remembered for the rate at which slots become free.
_DEMANDS, _ENDS = 500, 200


def slot_rank(valuable: bool, core_rate: float, cores: int, running: int, asleep: bool) -> tuple[float, ...]:
    """How well a slot suits a task, by the CPU rate that the task would have there (equation 6.2). The slot
    with the highest rank is the best one. Among equal slots those of awake servers are better, so that others
    may sleep.

    A valuable task takes the highest rate. Any other task takes the slowest core that it does not have to
    share, so that fast cores stay free for valuable tasks. If all cores are shared, it takes the highest rate
    among the slowest cores.

    Args:
        valuable: see `Pricer.valuable`.
        core_rate, cores: CPU of each core of the server (largest server = 1), and their number.
        running: tasks that run there already.
        asleep: whether the server must wake up first.
    """
    rate = core_rate * min(1.0, cores / (running + 1))
    if valuable:
        return rate, not asleep
    return rate >= core_rate, -core_rate, rate, not asleep


class Pricer:
    """Weighs one eviction in the unit of V: a second of response time of a task of priority p counts
    (p + a) / (tasks of p seen so far), since V is a mean over classes of class means.

    - **Gain**: the seconds that the task would otherwise wait, times its value. The wait is the
      number of tasks before it divided by the rate at which slots became free recently, or the predicted
      remaining time of the victim if that is shorter.
    - **Loss**: the time in which the victim repeats its lost work and waits behind all tasks of higher
      priority, times its value.

    It uses only past arrivals and demands.
    """

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}
        self._demands: dict[int, list[float]] = {}  # ascending
        self._recent: dict[int, deque[float]] = {}
        self._ends_s: deque[int] = deque(maxlen=_ENDS)

    def arrived(self, priority: int) -> None:
        """A task of this priority arrived for the first time."""
        self._seen[priority] = self._seen.get(priority, 0) + 1

    def finished(self, priority: int, demand: float, now_s: int) -> None:
        """A task of this priority took this much CPU (cpu·s) in all and ended now."""
        self._ends_s.append(now_s)
        recent = self._recent.setdefault(priority, deque())
        demands = self._demands.setdefault(priority, [])
        recent.append(demand)
        insort(demands, demand)
        if len(recent) > _DEMANDS:
            del demands[bisect_right(demands, recent.popleft()) - 1]

    def value(self, priority: int) -> float:
        """The weight in V of one second of response time of one task."""
        return (priority + _WEIGHT_OFFSET) / max(1, self._seen.get(priority, 0))

    def valuable(self, priority: int) -> bool:
        """Whether a second of such a task has more weight than a second of the average task so far."""
        seen = self._seen
        mean = sum(each + _WEIGHT_OFFSET for each in seen) / max(1, sum(seen.values()))
        return self.value(priority) > mean

    def remainder(self, priority: int, progress: float) -> float | None:
        """Expected CPU time (cpu·s) that a task still needs after ``progress``, by tasks of its class that
        needed more; None where none did."""
        demands = self._demands.get(priority, [])
        longer = demands[bisect_right(demands, progress) :]
        return sum(longer) / len(longer) - progress if longer else None

    def wait_s(self, ahead: int) -> float:
        """Seconds until this number of slots has become free."""
        ends = self._ends_s
        if len(ends) < 2:
            return float("inf")
        return ahead * max(1.0, ends[-1] - ends[0]) / (len(ends) - 1)

    def victim(
        self,
        priority: int,
        ahead: int,
        behind: Mapping[int, int],
        candidates: Mapping[int, tuple[int, float, float]],
    ) -> int | None:
        """The task whose eviction has the largest gain over its price for a waiting task; None if no eviction
        is worth its price.

        Args:
            priority: of the waiting task.
            ahead: number of slots that must become free before the task has one without an eviction.
            behind: by the victim's priority, the number of slots that must become free before the victim has
                one again.
            candidates: by priority: task, CPU time that it would lose (cpu·s), and its present rate.
        """
        wait_s = self.wait_s(ahead)
        best, most = None, 0.0
        for low, (task, lost, rate) in candidates.items():
            left = self.remainder(low, lost)
            sooner_s = wait_s if left is None else min(wait_s, left / rate)
            gain = self.value(priority) * sooner_s
            loss = self.value(low) * (lost / rate + max(0.0, self.wait_s(behind[low] + 1) - wait_s))
            if gain - loss > most:
                best, most = task, gain - loss
        return best
