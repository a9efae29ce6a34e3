"""The energy account: the energy of every host is charged once, to the jobs that caused it or to no job.

A host is on while it has an executor. Its power is P = idle + dynamic · min(1, b / C) watts with b busy slots
of C (thesis, equation 4.1, with the share of busy slots as the utilization of CPU and memory). At every
moment

- the idle power is divided equally among the host's slots: those that an attempt or a hold takes carry their
  owner's part, the free ones belong to no job;
- the dynamic power is divided equally among the busy slots.

The owners' parts and the unowned part therefore add up to the hosts' energy, even if attempts overlap in the
log. If the energy was measured, the model only gives the shares: all parts are scaled to the measured sum.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from spark_sched_lab.usage.account import KINDS, Charge, GroupBy, charges, group_of
from spark_sched_lab.usage.power import HostType, PowerProfile
from spark_sched_lab.usage.records import Presence, Usage


@dataclass(slots=True)
class EnergyRow:
    """The energy of one group of jobs, in joules by kind."""

    group: tuple[str, ...]
    joules: dict[str, float] = field(default_factory=lambda: dict.fromkeys(KINDS, 0.0))

    @property
    def total_j(self) -> float:
        return sum(self.joules.values())


@dataclass(frozen=True, slots=True)
class HostEnergy:
    """A host of one application: its type, the time it was on, its energy and the unused part."""

    host: str
    type: str
    on_s: float
    energy_j: float
    idle_j: float


@dataclass(frozen=True, slots=True)
class EnergyStatement:
    """Who used the energy of all hosts: the rows and ``idle_j`` add up to ``energy_j`` but for rounding."""

    by: tuple[GroupBy, ...]
    rows: tuple[EnergyRow, ...]
    hosts: tuple[HostEnergy, ...]

    @property
    def energy_j(self) -> float:
        """Energy of all hosts while they were on."""
        return sum(host.energy_j for host in self.hosts)

    @property
    def idle_j(self) -> float:
        """The part of free slots."""
        return sum(host.idle_j for host in self.hosts)

    def total_j(self, kind: str) -> float:
        return sum(row.joules[kind] for row in self.rows)


def account_energy(
    usages: Iterable[Usage], profile: PowerProfile, by: Sequence[GroupBy] = ("name",)
) -> EnergyStatement:
    """Charge the energy of the applications' hosts to groups of jobs, the greatest first.

    The energy of an evicted attempt is charged to the job for which it was evicted, if recorded. Each
    application is charged for its hosts as if no other application used them. An executor without a host name
    counts as a host of its own.
    """
    hosts: list[HostEnergy] = []
    parts: list[tuple[str, tuple[str, ...], str, float]] = []
    for usage in usages:
        executors: dict[str, list[Presence]] = defaultdict(list)
        host_of: dict[str, tuple[str, Presence]] = {}
        for there in usage.executors:
            host = there.host or there.executor
            executors[host].append(there)
            host_of[there.executor] = host, there
        taken: dict[str, list[Charge]] = defaultdict(list)
        for charge in charges(usage):
            if charge.executor in host_of:
                host, there = host_of[charge.executor]
                start_ms, end_ms = max(charge.start_ms, there.start_ms), min(charge.end_ms, there.end_ms)
                if end_ms > start_ms:
                    taken[host].append(charge._replace(start_ms=start_ms, end_ms=end_ms))
        for host, presences in executors.items():
            kind = profile.of(host)
            found, joules = _host(host, kind, presences, taken[host])
            hosts.append(found)
            for charge, energy_j in zip(taken[host], joules, strict=True):
                parts.append((host, group_of(usage, charge.caused_by, charge, by), charge.kind, energy_j))
    factor = _calibration(hosts, profile.measured_j)
    rows: dict[tuple[str, ...], EnergyRow] = {}
    for host, group, kind_of_use, energy_j in parts:
        rows.setdefault(group, EnergyRow(group)).joules[kind_of_use] += factor[host] * energy_j
    hosts = [
        replace(h, energy_j=factor[h.host] * h.energy_j, idle_j=factor[h.host] * h.idle_j) for h in hosts
    ]
    ordered = sorted(rows.values(), key=lambda row: (-row.total_j, row.group))
    return EnergyStatement(tuple(by), tuple(ordered), tuple(hosts))


def _calibration(hosts: Sequence[HostEnergy], measured_j: Mapping[str, float]) -> dict[str, float]:
    """Measured energy over the model's, by host; 1 for hosts without a measurement or never on."""
    modelled_j: dict[str, float] = defaultdict(float)
    for host in hosts:
        modelled_j[host.host] += host.energy_j
    return {
        host: measured_j[host] / joules if host in measured_j and joules > 0.0 else 1.0
        for host, joules in modelled_j.items()
    }


def _host(
    host: str, kind: HostType, presences: Sequence[Presence], taken: Sequence[Charge]
) -> tuple[HostEnergy, list[float]]:
    """A host's energy and that of each charge, in joules."""
    # 1. Between two of these moments nothing changes.
    moments = [t for p in presences for t in (p.start_ms, p.end_ms)]
    at_ms = np.unique([*moments, *(t for c in taken for t in (c.start_ms, c.end_ms))])
    there = _level(at_ms, presences, [1] * len(presences))
    offered = _level(at_ms, presences, [each.slots for each in presences])
    used = _level(at_ms, taken, [each.slots for each in taken])
    busy = _level(at_ms, taken, [each.slots if each.kind != "held" else 0 for each in taken])
    # 2. The power of a slot: that of every slot, and that which a busy slot adds.
    size = np.maximum(1, offered if kind.slots is None else kind.slots)
    seconds = np.where(there > 0, np.diff(at_ms) / 1000.0, 0.0)
    all_slots = np.maximum(size, used)
    every_j = _integral(kind.idle_w / all_slots * seconds)
    busy_j = _integral(kind.dynamic_w / np.maximum(size, busy) * seconds)
    # 3. A charge's energy is its slots' from its start to its end.
    starts = np.searchsorted(at_ms, [each.start_ms for each in taken])
    ends = np.searchsorted(at_ms, [each.end_ms for each in taken])
    slots = np.array([each.slots for each in taken], dtype=float)
    runs = np.array([each.kind != "held" for each in taken], dtype=bool)
    joules = slots * (every_j[ends] - every_j[starts] + np.where(runs, busy_j[ends] - busy_j[starts], 0.0))
    watts = kind.idle_w + kind.dynamic_w * np.minimum(1.0, busy / size)
    idle_j = float((kind.idle_w * (all_slots - used) / all_slots * seconds).sum())
    energy_j = float((watts * seconds).sum())
    return HostEnergy(host, kind.name, float(seconds.sum()), energy_j, idle_j), joules.tolist()


def _level(
    at_ms: NDArray[np.int64], spans: Sequence[Presence] | Sequence[Charge], heights: Sequence[int]
) -> NDArray[np.int64]:
    """The sum of the heights of the spans that cover each interval between two moments."""
    change = np.zeros(len(at_ms), dtype=np.int64)
    np.add.at(change, np.searchsorted(at_ms, [each.start_ms for each in spans]), heights)
    np.subtract.at(change, np.searchsorted(at_ms, [each.end_ms for each in spans]), heights)
    return np.cumsum(change)[:-1]


def _integral(parts: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.concatenate(([0.0], np.cumsum(parts)))
