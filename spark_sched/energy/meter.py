"""Energy, times and utilization of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from spark_sched.energy.centre import DataCentre

__all__ = ["Meter", "Totals"]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

_KWH_J = 3.6e6


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """The totals of a run: the rows of tables 4.2 and 4.3.

    Attributes:
        server_kwh, network_kwh: energy of all servers and all switches, sleeping ones included.
        span_s: from the first arrival to the last end.
        tasks: how many ended.
        wait_s, response_s: means over the tasks; from arrival to the begin of processing, and to the end.
        cpu_use, memory_use: shares asked for by tasks of the servers that are on, mean over servers and time.
        on_servers, most_on_servers: mean over time and maximum; a server that wakes up is not on yet.
        on_switches, most_on_switches: the same of switches.
        always_on_kwh: energy of the same run if no node had ever slept, with idle power instead.
        wakes: how many times a server was woken up.
        queued: tasks that never found a place.
        unconnected: tasks without room for the bandwidth to their master task.
        at_s, on_at: the number of servers that are on from each second of ``at_s`` on; shape (E,).
    """

    server_kwh: float
    network_kwh: float
    span_s: int
    tasks: int
    wait_s: float
    response_s: float
    cpu_use: float
    memory_use: float
    on_servers: float
    most_on_servers: int
    on_switches: float
    most_on_switches: int
    always_on_kwh: float
    wakes: int
    queued: int
    unconnected: int
    at_s: Ints
    on_at: Ints

    @property
    def total_kwh(self) -> float:
        return self.server_kwh + self.network_kwh


class Meter:
    """Sums up power over time; ``sleeps``: nodes without tasks sleep, else they idle."""

    def __init__(self, centre: DataCentre, sleeps: bool) -> None:
        t = centre.topology
        kinds = np.array(t.servers)

        def by_server(name: str) -> Floats:
            found: Floats = np.array([getattr(kind, name) for kind in t.types])[kinds]
            return found

        self._centre = centre
        self._idle_w, self._peak_w = by_server("idle_w"), by_server("peak_w")
        self._rest_w = by_server("sleep_w") if sleeps else self._idle_w
        self._cpu_w, self._memory_w = by_server("cpu_w"), by_server("memory_w")
        self._switch_w = [(kind.on_w, kind.sleep_w if sleeps else kind.idle_w) for kind in t.switches]
        self._switch_idle_w = [kind.idle_w for kind in t.switches]
        self._began_s = self._now_s = 0
        self._server_j = self._network_j = self._always_j = 0.0
        self._cpu_s = self._memory_s = self._on_s = self._switches_s = 0.0
        self._most_on = self._most_switches = 0
        self._waits = self._responses = 0.0
        self._tasks = self._wakes = 0
        self._series: list[tuple[int, int]] = []

    def begin(self, now_s: int) -> None:
        self._began_s = self._now_s = now_s

    def until(self, now_s: int, wake_at_s: Ints) -> None:
        """Nothing has changed since the last call; from now on something may."""
        passed = now_s - self._now_s
        if passed <= 0:
            return
        c = self._centre
        busy = c.tasks > 0
        waking = busy & (wake_at_s > self._now_s)
        on = busy & ~waking
        cpu, memory = 1.0 - c.cpu / c.cpu_size, 1.0 - c.memory / c.memory_size
        on_w = self._idle_w + self._cpu_w * cpu + self._memory_w * memory  # equation 4.1
        power = np.where(on, on_w, np.where(waking, self._peak_w, self._rest_w))
        self._server_j += passed * float(power.sum())
        network = rested = 0.0
        switches = 0
        for (on_w_, rest_w), idle_w, flows in zip(self._switch_w, self._switch_idle_w, c.flows, strict=True):
            used = int(np.count_nonzero(flows))
            switches += used
            network += used * on_w_ + (len(flows) - used) * rest_w
            rested += used * on_w_ + (len(flows) - used) * idle_w
        self._network_j += passed * network
        self._always_j += passed * (float(np.where(busy, on_w, self._idle_w).sum()) + rested)
        count = int(on.sum())
        self._on_s += passed * count
        self._switches_s += passed * switches
        self._cpu_s += passed * float(cpu[on].sum())
        self._memory_s += passed * float(memory[on].sum())
        self._most_on = max(self._most_on, count)
        self._most_switches = max(self._most_switches, switches)
        self._series.append((self._now_s, count))
        self._now_s = now_s

    def activate(self, server_j: float, switch_j: float, servers: int) -> None:
        """Record the energy of nodes that are turned on together, and the number of servers among them."""
        self._server_j += server_j
        self._network_j += switch_j
        self._wakes += servers

    def wait(self, seconds: float) -> None:
        """Record the time from a task's arrival to the start of its processing."""
        self._waits += seconds

    def response(self, seconds: float) -> None:
        """Record the time from a task's arrival to its end."""
        self._responses += float(seconds)
        self._tasks += 1

    def totals(self, *, queue: int, unconnected: int) -> Totals:
        span = self._now_s - self._began_s
        series = np.array(self._series, dtype=np.int64).reshape(-1, 2)
        on_s, tasks, over = max(self._on_s, 1e-9), max(self._tasks, 1), max(span, 1)
        return Totals(
            server_kwh=self._server_j / _KWH_J,
            network_kwh=self._network_j / _KWH_J,
            span_s=span,
            tasks=self._tasks,
            wait_s=self._waits / tasks,
            response_s=self._responses / tasks,
            cpu_use=self._cpu_s / on_s,
            memory_use=self._memory_s / on_s,
            on_servers=self._on_s / over,
            most_on_servers=self._most_on,
            on_switches=self._switches_s / over,
            most_on_switches=self._most_switches,
            always_on_kwh=self._always_j / _KWH_J,
            wakes=self._wakes,
            queued=queue,
            unconnected=unconnected,
            at_s=series[:, 0],
            on_at=series[:, 1],
        )
