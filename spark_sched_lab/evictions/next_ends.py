"""The next end of a task on each server."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence

from spark_sched_lab.evictions.servers import Server


class NextEnds:
    """The second of each server's next end, in a heap.

    A server whose tasks changed gets a new entry at the end of the second; its old one is void: it
    has another generation than the server.
    """

    __slots__ = ("_changed", "_generation", "_heap", "_servers", "_sleeps")

    def __init__(self, servers: Sequence[Server], *, sleeps: bool) -> None:
        self._servers = servers
        self._sleeps = sleeps
        self._heap: list[tuple[int, int, int]] = []  # (second, server, generation)
        self._generation = [0] * len(servers)
        self._changed: list[Server] = []

    def next_s(self) -> float:
        """The second of the first entry."""
        return self._heap[0][0] if self._heap else math.inf

    def due(self, now_s: int) -> Iterator[Server]:
        """The servers with a task that is done by now; each is to be `changed`."""
        heap, generations = self._heap, self._generation
        while heap and heap[0][0] <= now_s:
            _, number, generation = heapq.heappop(heap)
            server = self._servers[number]
            if generation == generations[number]:
                yield server

    def changed(self, server: Server) -> None:
        """A task of this server started or ended."""
        if not server.changed:
            server.changed = True
            self._changed.append(server)

    def schedule(self, attempts: Sequence[int], now_s: int) -> None:
        """New entries for the servers that changed; those without tasks sleep, or stay idle."""
        generations = self._generation
        for server in self._changed:
            server.changed = False
            number = server.number
            generation = generations[number] = generations[number] + 1
            if not server.running:
                server.asleep = self._sleeps
                server.wake_s = 0
                continue
            at_s = server.next_end_s(attempts, now_s)
            if at_s is not None:
                heapq.heappush(self._heap, (at_s, number, generation))
        self._changed.clear()
