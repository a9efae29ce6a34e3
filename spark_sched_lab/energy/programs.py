"""MTEC and MSEC as linear programs: as the thesis states them, and a relaxation for larger data centres."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from spark_sched.arrays import Floats, Ints
from spark_sched.policies.three_sigma.milp import LinearProgram
from spark_sched_lab.energy.centre import DataCentre, Path
from spark_sched_lab.energy.costs import SlotCosts
from spark_sched_lab.energy.heuristics import Demand

#: Servers of the tasks, and by layer 0 for switches that are on and 1 for the others.
Chosen: TypeAlias = tuple[list[int], tuple[Floats, Floats, Floats]]


class _Rows:
    """A program as it grows: columns by name, rows as lists of terms."""

    def __init__(self) -> None:
        self._cost: list[float] = []
        self._upper: list[float] = []
        self._whole: list[bool] = []
        self._starts, self._columns, self._values = [0], list[int](), list[float]()
        self._bounds: list[tuple[float, float]] = []

    def column(self, cost: float = 0.0, upper: float = 1.0, whole: bool = True) -> int:
        self._cost.append(cost)
        self._upper.append(upper)
        self._whole.append(whole)
        return len(self._cost) - 1

    def columns(
        self, shape: tuple[int, ...], cost: float = 0.0, upper: float = 1.0, whole: bool = True
    ) -> Ints:
        count = int(np.prod(shape))
        return np.array([self.column(cost, upper, whole) for _ in range(count)], dtype=np.int64).reshape(
            shape
        )

    def row(self, terms: Sequence[tuple[int, float]], low: float, high: float) -> None:
        self._columns += [int(c) for c, _ in terms]
        self._values += [float(v) for _, v in terms]
        self._starts.append(len(self._columns))
        self._bounds.append((low, high))

    def program(self) -> LinearProgram:
        low, high = np.array(self._bounds, dtype=float).reshape(-1, 2).T
        return LinearProgram(
            # Solvers maximise.
            objective=-np.array(self._cost),
            upper=np.array(self._upper),
            whole=np.array(self._whole),
            row_start=np.array(self._starts),
            column=np.array(self._columns),
            value=np.array(self._values),
            row_lower=low,
            row_upper=high,
        )


def _switch_costs(costs: SlotCosts, centre: DataCentre, layer: int, network: bool) -> Floats:
    """What turning on each switch of a layer adds; nothing for those that are on."""
    joules = costs.switch_j[layer] + costs.switch_activation_j[layer]
    return np.where(centre.flows[layer] == 0, joules if network else 0.0, 0.0)


def by_task(
    centre: DataCentre, costs: SlotCosts, demands: Sequence[Demand], *, network: bool
) -> tuple[LinearProgram, Callable[[Floats], list[Path]]]:
    """Equations 3.1 to 3.9 (3.10 without ``network``): J_i(u, v) for each task and link.

    Returns:
        The program, and what reads the paths off its solution.
    """
    t, rows, inf = centre.topology, _Rows(), np.inf
    sizes = (t.cores, t.aggregations, t.accesses, len(t.servers))
    layers = [centre.core_links, centre.aggregation_links, centre.access_links]
    y = [
        [rows.column(cost) for cost in _switch_costs(costs, centre, layer, network).tolist()]
        for layer in range(3)
    ]
    asleep = centre.tasks == 0
    w = [rows.column(cost) for cost in np.where(asleep, costs.idle_j + costs.activation_j, 0.0).tolist()]
    nodes = [*y, w]
    x = [rows.columns(links.shape) for links in layers]
    root, inner, sink = [], [], []
    for demand in demands:
        root.append(rows.columns((sizes[0],)))
        inner.append([rows.columns(links.shape) for links in layers])
        load = costs.cpu_j * demand.cpu + costs.memory_j * demand.memory
        sink.append([rows.column(joules) for joules in load.tolist()])
    for layer, links in enumerate(layers):
        for u, v in np.ndindex(*links.shape):
            terms = [(int(inner[i][layer][u, v]), d.gbps) for i, d in enumerate(demands)]
            link = int(x[layer][u, v])
            rows.row([*terms, (link, -max(0.0, float(links[u, v])))], -inf, 1e-12)  # 3.2
            rows.row([(link, 1.0), (nodes[layer][u], -1.0)], -inf, 0.0)  # 3.6
            rows.row([(link, 1.0), (nodes[layer + 1][v], -1.0)], -inf, 0.0)  # 3.6, 3.8
    for s in range(sizes[3]):
        for needs, room in (("cpu", centre.cpu[s]), ("memory", centre.memory[s])):
            taken = [(sink[i][s], getattr(d, needs)) for i, d in enumerate(demands)]
            rows.row([*taken, (w[s], -float(room))], -inf, 1e-12)  # 3.3
    for i in range(len(demands)):
        rows.row([(c, 1.0) for c in root[i]], 1.0, 1.0)  # 3.5
        rows.row([(c, 1.0) for c in sink[i]], 1.0, 1.0)  # 3.5
        for layer in range(4):  # 3.4
            for n in range(sizes[layer]):
                into = [root[i][n]] if layer == 0 else inner[i][layer - 1][:, n].tolist()
                out = [sink[i][n]] if layer == 3 else inner[i][layer][n].tolist()
                rows.row([*((c, 1.0) for c in into), *((c, -1.0) for c in out)], 0.0, 0.0)
    for layer in range(4):  # 3.7, 3.9
        for n in range(sizes[layer]):
            around = [
                *(x[layer - 1][:, n].tolist() if layer else []),
                *(x[layer][n].tolist() if layer < 3 else []),
            ]
            rows.row([(nodes[layer][n], 1.0), *((c, -1.0) for c in around)], -inf, 0.0)

    def read(solution: Floats) -> list[Path]:
        found = []
        for i in range(len(demands)):
            core = int(solution[root[i]].argmax())
            aggregation = int(solution[inner[i][0][core]].argmax())
            access = int(solution[inner[i][1][aggregation]].argmax())
            found.append(Path(core, aggregation, access, int(solution[inner[i][2][access]].argmax())))
        return found

    return rows.program(), read


def by_type(
    centre: DataCentre, costs: SlotCosts, demands: Sequence[Demand], *, network: bool, ceiling_j: float
) -> tuple[LinearProgram, Callable[[Floats], Chosen]]:
    """A relaxation whose optimum bounds MTEC's (MSEC's without ``network``) from below.

    Equal tasks are counted, not named; their flows may split; links to servers are left out. Of the sleeping
    servers of a type, which are alike, only as many are there as a plan below ``ceiling_j`` can wake up.
    """
    rows, inf = _Rows(), np.inf
    alike: dict[Demand, list[int]] = {}
    for i, demand in enumerate(demands):
        alike.setdefault(demand, []).append(i)
    groups = list(alike.items())
    on = np.flatnonzero(centre.tasks > 0).tolist()
    wake_j = costs.idle_j + costs.activation_j
    sleeping = _sleeping(centre, wake_j, len(demands), ceiling_j)
    servers = [*on, *(s for members in sleeping for s in members)]
    w = {s: rows.column(float(wake_j[s])) for members in sleeping for s in members}
    z: dict[tuple[int, int], int] = {}
    for g, (demand, members) in enumerate(groups):
        for s in servers:
            fit = min(
                len(members),
                int((centre.cpu[s] + 1e-9) / demand.cpu),
                int((centre.memory[s] + 1e-9) / demand.memory) if demand.memory > 0.0 else len(members),
            )
            if fit > 0:
                load = float(costs.cpu_j[s] * demand.cpu + costs.memory_j[s] * demand.memory)
                z[g, s] = rows.column(load, float(fit))
    by_server: dict[int, list[tuple[int, int]]] = {s: [] for s in servers}
    by_group: list[list[int]] = [[] for _ in groups]
    for (g, s), column in z.items():
        by_server[s].append((g, column))
        by_group[g].append(column)
    for g, (_, members) in enumerate(groups):
        rows.row([(c, 1.0) for c in by_group[g]], len(members), len(members))
    for s in servers:
        for needs, room in (("cpu", float(centre.cpu[s])), ("memory", float(centre.memory[s]))):
            taken = [(c, float(getattr(groups[g][0], needs))) for g, c in by_server[s]]
            if s in w:
                rows.row([*taken, (w[s], -room)], -inf, 1e-12)  # 3.3
            else:
                rows.row(taken, -inf, room + 1e-12)
    for members in sleeping:
        for first, second in pairwise(members):
            rows.row([(w[first], 1.0), (w[second], -1.0)], 0.0, inf)
    y = _network(rows, centre, costs, sum(d.gbps for d in demands)) if network else None

    def read(solution: Floats) -> Chosen:
        place = [-1] * len(demands)
        for (g, s), column in z.items():
            free = [i for i in groups[g][1] if place[i] < 0]
            for i in free[: round(solution[column])]:
                place[i] = s
        off = [(flows == 0).astype(float) for flows in centre.flows]
        if y is not None:
            off = [np.where(solution[on] > 0.5, 0.0, was) for on, was in zip(y, off, strict=True)]
        return place, (off[0], off[1], off[2])

    return rows.program(), read


def _sleeping(centre: DataCentre, wake_j: Floats, tasks: int, ceiling_j: float) -> list[list[int]]:
    """The sleeping servers of each type that a plan of ``tasks`` tasks below ``ceiling_j`` can wake up."""
    kinds = np.array(centre.topology.servers)
    found = []
    for kind in range(len(centre.topology.types)):
        members = np.flatnonzero((kinds == kind) & (centre.tasks == 0)).tolist()
        if members:
            affordable = int(ceiling_j / wake_j[members[0]]) if ceiling_j < np.inf else len(members)
            found.append(members[: min(tasks, len(members), affordable)])
    return found


def _network(rows: _Rows, centre: DataCentre, costs: SlotCosts, gbps: float) -> list[Ints]:
    """Switches that must be on so that the tasks' flows, all together, reach the access switches."""
    inf = np.inf
    y = []
    for layer in range(3):
        added = _switch_costs(costs, centre, layer, True)
        y.append(np.array([rows.column(float(cost)) for cost in added], dtype=np.int64))
    upper, lower = np.maximum(centre.core_links, 0.0), np.maximum(centre.aggregation_links, 0.0)
    above = rows.columns(upper.shape, 0.0, inf, False)
    below = rows.columns(lower.shape, 0.0, inf, False)
    for flow, links, layer in ((above, upper, 0), (below, lower, 1)):
        for u, v in np.ndindex(*links.shape):
            for end in (y[layer][u], y[layer + 1][v]):
                rows.row([(int(flow[u, v]), 1.0), (int(end), -float(links[u, v]))], -inf, 0.0)  # 3.2, 3.6
    for a in range(lower.shape[0]):
        into, out = above[:, a].tolist(), below[a].tolist()
        rows.row([*((c, 1.0) for c in into), *((c, -1.0) for c in out)], 0.0, 0.0)  # 3.4
    rows.row([(c, 1.0) for c in below.ravel().tolist()], gbps, inf)  # 3.5
    return y
