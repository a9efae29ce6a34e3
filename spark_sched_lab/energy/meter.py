"""Energy, times and utilization of a run."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from spark_sched.arrays import Ints
from spark_sched_lab.energy.centre import DataCentre

_KWH_J = 3.6e6


@dataclass(frozen=True, slots=True)
class EnergyTotals:
    """Energy in kWh.

    Attributes:
        server_kwh, network_kwh: energy of all servers and all switches, sleeping ones included.
        always_on_kwh: energy of the same run if no node had ever slept, with idle power instead.
    """

    server_kwh: float
    network_kwh: float
    always_on_kwh: float

    @property
    def total_kwh(self) -> float:
        return self.server_kwh + self.network_kwh


@dataclass(frozen=True, slots=True)
class TaskTotals:
    """Counts and times of the tasks.

    Attributes:
        ended: how many ended in the time that was measured.
        wait_s: mean over the tasks that got a place, from arrival to the start of processing.
        response_s: mean over the tasks that ended, from arrival to the end.
        queued: tasks that never found a place.
        unconnected: tasks without room for the bandwidth to their master task.
    """

    ended: int
    wait_s: float
    response_s: float
    queued: int
    unconnected: int


@dataclass(frozen=True, slots=True, eq=False)
class ServerTotals:
    """Servers that are on, and their use. A server that wakes up is not on yet.

    Attributes:
        on, most_on: mean over time, and maximum.
        wakes: how many times a server was woken up.
        cpu_use, memory_use: shares asked for by tasks of the servers that are on, mean over servers and time.
        held_load: CPU that tasks held as a share of all servers' CPU, mean over time.
        at_s, on_at: the number of servers that are on from each second of ``at_s`` on; shape (E,).
    """

    on: float
    most_on: int
    wakes: int
    cpu_use: float
    memory_use: float
    held_load: float
    at_s: Ints
    on_at: Ints


@dataclass(frozen=True, slots=True)
class SwitchTotals:
    """Switches with a flow: mean over time, and maximum."""

    on: float
    most_on: int


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """The totals of a run, by subject: the rows of tables 4.2 and 4.3. ``span_s`` is the time measured."""

    span_s: int
    energy: EnergyTotals
    tasks: TaskTotals
    servers: ServerTotals
    switches: SwitchTotals


class _Powers:
    """Power of nodes in each state, in watts: servers as arrays by server, switches by layer."""

    def __init__(self, centre: DataCentre, sleeps: bool) -> None:
        t = centre.topology
        self.idle_w, self.peak_w, sleep_w, self.cpu_w, self.memory_w = (
            t.by_server(attrgetter(name)) for name in ("idle_w", "peak_w", "sleep_w", "cpu_w", "memory_w")
        )
        self.rest_w = sleep_w if sleeps else self.idle_w
        #: Power in use, without a flow, and without a flow if nodes never sleep.
        self.switches_w = [
            (kind.on_w, kind.sleep_w if sleeps else kind.idle_w, kind.idle_w) for kind in t.switches
        ]


class _Use:
    """Nodes that are on, and requested shares of the servers, summed over time.

    Attributes:
        on_s, switches_s: node-seconds of servers and of switches.
        most_on, most_switches: most of them at once.
        cpu_s, memory_s: of server-seconds, the shares asked for.
        held_s: seconds times the share of the data centre's CPU that tasks held.
        series: from which second on how many servers are on.
    """

    def __init__(self) -> None:
        self.cpu_s = self.memory_s = self.on_s = self.switches_s = self.held_s = 0.0
        self.most_on = self.most_switches = 0
        self.series: list[tuple[int, int]] = []

    def add(self, at_s: int, passed: int, on: int, switches: int, cpu: float, memory: float) -> None:
        """Add ``passed`` seconds in this state, beginning at ``at_s``."""
        self.on_s += passed * on
        self.switches_s += passed * switches
        self.cpu_s += passed * cpu
        self.memory_s += passed * memory
        self.most_on = max(self.most_on, on)
        self.most_switches = max(self.most_switches, switches)
        self.series.append((at_s, on))


class Meter:
    """Sums up power over time; ``sleeps``: nodes without tasks sleep, else they idle."""

    def __init__(self, centre: DataCentre, sleeps: bool) -> None:
        self._centre = centre
        self._powers = _Powers(centre, sleeps)
        self._use = _Use()
        self._from_s = self._now_s = 0
        self._server_j = self._network_j = self._always_j = 0.0
        self._waits = self._responses = 0.0
        self._tasks = self._placed = self._wakes = 0

    def begin(self, now_s: int, warm_up_s: int = 0) -> None:
        """Start at ``now_s``; what happens in the first ``warm_up_s`` seconds does not count."""
        self._now_s = now_s
        self._from_s = now_s + warm_up_s

    def until(self, now_s: int, wake_at_s: Ints) -> None:
        """Account for the time since the last call, in which nothing changed; call it before each change."""
        since_s = max(self._now_s, self._from_s)
        passed = now_s - since_s
        if passed <= 0:
            self._now_s = max(now_s, self._now_s)
            return
        c, p = self._centre, self._powers
        busy = c.tasks > 0
        waking = busy & (wake_at_s > since_s)
        on = busy & ~waking
        cpu, memory = 1.0 - c.cpu / c.cpu_size, 1.0 - c.memory / c.memory_size
        on_w = p.idle_w + p.cpu_w * cpu + p.memory_w * memory  # equation 4.1
        power = np.where(on, on_w, np.where(waking, p.peak_w, p.rest_w))
        self._server_j += passed * float(power.sum())
        network = rested = 0.0
        switches = 0
        for (on_w_, rest_w, idle_w), flows in zip(p.switches_w, c.flows, strict=True):
            used = int(np.count_nonzero(flows))
            switches += used
            network += used * on_w_ + (len(flows) - used) * rest_w
            rested += used * on_w_ + (len(flows) - used) * idle_w
        self._network_j += passed * network
        self._always_j += passed * (float(np.where(busy, on_w, p.idle_w).sum()) + rested)
        self._use.add(since_s, passed, int(on.sum()), switches, float(cpu[on].sum()), float(memory[on].sum()))
        self._use.held_s += passed * (1.0 - float(c.cpu.sum() / c.cpu_size.sum()))
        self._now_s = now_s

    def activate(self, server_j: float, switch_j: float, servers: int) -> None:
        """Record the energy of nodes that are turned on together, and the number of servers among them."""
        if self._now_s >= self._from_s:
            self._server_j += server_j
            self._network_j += switch_j
            self._wakes += servers

    def wait(self, seconds: float) -> None:
        if self._now_s >= self._from_s:
            self._waits += seconds
            self._placed += 1

    def response(self, seconds: float) -> None:
        if self._now_s >= self._from_s:
            self._responses += float(seconds)
            self._tasks += 1

    def totals(self, *, queue: int, unconnected: int) -> Totals:
        span = self._now_s - self._from_s
        use = self._use
        series = np.array(use.series, dtype=np.int64).reshape(-1, 2)
        on_s, tasks, over = max(use.on_s, 1e-9), max(self._tasks, 1), max(span, 1)
        return Totals(
            span_s=span,
            energy=EnergyTotals(
                server_kwh=self._server_j / _KWH_J,
                network_kwh=self._network_j / _KWH_J,
                always_on_kwh=self._always_j / _KWH_J,
            ),
            tasks=TaskTotals(
                ended=self._tasks,
                wait_s=self._waits / max(self._placed, 1),
                response_s=self._responses / tasks,
                queued=queue,
                unconnected=unconnected,
            ),
            servers=ServerTotals(
                on=use.on_s / over,
                most_on=use.most_on,
                wakes=self._wakes,
                cpu_use=use.cpu_s / on_s,
                memory_use=use.memory_s / on_s,
                held_load=use.held_s / over,
                at_s=series[:, 0],
                on_at=series[:, 1],
            ),
            switches=SwitchTotals(on=use.switches_s / over, most_on=use.most_switches),
        )
