"""Processor sharing: the progress of the tasks of each server (§4.2.5)."""

from __future__ import annotations

from math import ceil

import numpy as np

from spark_sched.arrays import Ints
from spark_sched_lab.energy.centre import DataCentre
from spark_sched_lab.energy.demands import Tasks

#: CPU-seconds below which nothing is left to do.
_DONE = 1e-6


class SharedServers:
    """Servers whose tasks get the CPU that they request and equal parts of the remainder.

    This is the reading of §4.2.5 under which all its sentences hold: a task of 0.5 alone on a server of 1
    runs twice as fast as in the trace, two of them as fast as there; the excess capacity decides; and no task
    takes longer than in the trace. Equal parts of the whole capacity would break the last one.

    Attributes:
        generation: counts the changes of each server, so that ends computed before a change can be discarded.
        wake_at_s: when each server is on; tasks do not progress before. Shape (H,).
    """

    def __init__(self, centre: DataCentre, tasks: Tasks) -> None:
        count = len(centre.tasks)
        self._centre = centre
        self._cpu = tasks.cpu.tolist()
        self._left = (tasks.cpu * tasks.duration_s).tolist()
        self._members: list[list[int]] = [[] for _ in range(count)]
        self._settled_s = [0] * count
        self.generation = [0] * count
        self.wake_at_s: Ints = np.zeros(count, dtype=np.int64)

    def settle(self, server: int, now_s: int) -> None:
        """Update the progress of its tasks until now; call this before a task arrives or leaves."""
        since = max(self._settled_s[server], int(self.wake_at_s[server]))
        self._settled_s[server] = now_s
        members = self._members[server]
        if now_s > since and members:
            excess = max(0.0, float(self._centre.cpu[server])) / len(members)
            passed, left, cpu = now_s - since, self._left, self._cpu
            for task in members:
                left[task] -= passed * (cpu[task] + excess)

    def add(self, server: int, task: int) -> None:
        """Add a task; call `settle` first."""
        self._members[server].append(task)

    def finished(self, server: int, now_s: int) -> list[int]:
        """Remove and return the finished tasks."""
        self.settle(server, now_s)
        left = self._left
        done = [task for task in self._members[server] if left[task] <= _DONE]
        if done:
            self._members[server] = [task for task in self._members[server] if left[task] > _DONE]
        return done

    def next_end_s(self, server: int, now_s: int) -> int | None:
        """The slot at whose beginning the next of its tasks is done, if nothing changes; None without tasks.

        Ends returned for this server before are no longer valid.
        """
        self.generation[server] += 1
        members = self._members[server]
        if not members:
            return None
        excess = max(0.0, float(self._centre.cpu[server])) / len(members)
        left, cpu = self._left, self._cpu
        least_s: float = min((left[task] - _DONE) / (cpu[task] + excess) for task in members)
        begins_s: int = max(now_s, int(self.wake_at_s[server]))
        return begins_s + max(1, ceil(least_s))
