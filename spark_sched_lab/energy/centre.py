"""The free capacities of a data centre, and which of its nodes serve a task."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_sched.arrays import Bools
from spark_sched_lab.energy.topology import Topology

#: Layers of switches, top down.
CORE, AGGREGATION, ACCESS = range(3)

#: Tolerance for room: a demand that lacks less than this still fits, because sums of many demands that were
#: added and released are not exact.
ROOM = 1e-9


@dataclass(frozen=True, slots=True)
class Path:
    """From the root to a server: its core, aggregation and access switch and the server, by number."""

    core: int
    aggregation: int
    access: int
    server: int


@dataclass(frozen=True, slots=True)
class InternalPath:
    """A path between two servers: over one access switch; over two access switches and the aggregation switch
    between them; or over two of each and the core switch between them.

    -1: the path has no such switch. With ``core`` it has ``master_aggregation``, before ``master_access``.
    """

    access: int
    server: int
    master: int
    aggregation: int = -1
    master_access: int = -1
    core: int = -1
    master_aggregation: int = -1


class DataCentre:
    """Residual capacities and counts of tasks; a node without tasks sleeps (or idles, as the caller has it).

    Attributes:
        topology: the capacities at the beginning.
        cpu, memory: free in each server, shape (H,).
        core_links, aggregation_links, access_links: free Gbps between core and aggregation (C, A), between
            aggregation and access (A, X), between access and server (X, H).
        tasks: tasks of each server, shape (H,).
        flows: flows through each switch, by layer: shapes (C,), (A,), (X,).
        cpu_size, memory_size: capacity of each server, shape (H,).
    """

    def __init__(self, topology: Topology) -> None:
        t = self.topology = topology
        servers = len(t.servers)
        self.cpu_size = t.by_server(lambda kind: kind.cpu)
        self.memory_size = t.by_server(lambda kind: kind.memory)
        self.cpu, self.memory = self.cpu_size.copy(), self.memory_size.copy()
        self.core_links = np.full((t.cores, t.aggregations), t.core_gbps)
        self.aggregation_links = np.full((t.aggregations, t.accesses), t.aggregation_gbps)
        self.access_links = np.full((t.accesses, servers), t.access_gbps)
        self.tasks = np.zeros(servers, dtype=np.int64)
        layers = (t.cores, t.aggregations, t.accesses)
        self.flows = [np.zeros(switches, dtype=np.int64) for switches in layers]

    def has_room(self, cpu: float, memory: float) -> Bools:
        """Which servers have that much CPU and memory free, shape (H,)."""
        found: Bools = (self.cpu >= cpu - ROOM) & (self.memory >= memory - ROOM)
        return found

    def place(self, path: Path, cpu: float, memory: float, gbps: float, sign: int = 1) -> None:
        """Take a task's demands along its path; ``sign`` -1 releases them."""
        s = path.server
        self.tasks[s] += sign
        self.cpu[s] -= sign * cpu
        self.memory[s] -= sign * memory
        self.core_links[path.core, path.aggregation] -= sign * gbps
        self.aggregation_links[path.aggregation, path.access] -= sign * gbps
        self.access_links[path.access, s] -= sign * gbps
        self.flows[CORE][path.core] += sign
        self.flows[AGGREGATION][path.aggregation] += sign
        self.flows[ACCESS][path.access] += sign
        if sign < 0 and not self.tasks[s]:
            # No task is left there: remove what rounding errors left.
            self.cpu[s], self.memory[s] = self.cpu_size[s], self.memory_size[s]

    def connect(self, path: InternalPath, gbps: float, sign: int = 1) -> None:
        """Take bandwidth along an internal path; ``sign`` -1 releases it."""
        end = path.access if path.aggregation < 0 else path.master_access
        self.access_links[path.access, path.server] -= sign * gbps
        self.access_links[end, path.master] -= sign * gbps
        self.flows[ACCESS][path.access] += sign
        if path.aggregation < 0:
            return
        above = path.aggregation if path.core < 0 else path.master_aggregation
        self.aggregation_links[path.aggregation, path.access] -= sign * gbps
        self.aggregation_links[above, end] -= sign * gbps
        self.flows[AGGREGATION][path.aggregation] += sign
        self.flows[ACCESS][end] += sign
        if path.core >= 0:
            self.core_links[path.core, path.aggregation] -= sign * gbps
            self.core_links[path.core, above] -= sign * gbps
            self.flows[CORE][path.core] += sign
            self.flows[AGGREGATION][above] += sign
