"""The optimum of a slot: MTEC and MSEC as integer programs (equations 3.1 to 3.10), through HiGHS.

Energies are those that a slot's tasks add, because running tasks continue under every decision. `exact`
states the problem as the thesis does, a binary variable per task and link, and is for tiny data centres.
`Optimum` plans slots of the small data centre from a relaxation in which flows may split, and gives a proven
bound with it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from spark_sched.arrays import Floats
from spark_sched.errors import BadInputError
from spark_sched.policies.three_sigma.solvers.highs import Highs
from spark_sched_lab.energy.centre import ACCESS, AGGREGATION, CORE, DataCentre, Path
from spark_sched_lab.energy.costs import SlotCosts
from spark_sched_lab.energy.heuristics import Beps, Demand
from spark_sched_lab.energy.paths import SwitchCosts, best_path, reach
from spark_sched_lab.energy.programs import by_task, by_type

Kind: TypeAlias = Literal["mtec", "msec"]

#: A heuristic's plan within this share of the slot's whole energy above the bound needs no solver.
_NEAR = 1e-3


def added_j(
    costs: SlotCosts, before: DataCentre, demands: Sequence[Demand], paths: Sequence[Path | None]
) -> tuple[float, float]:
    """Joules that placed tasks add to a slot: by servers (3.10), and by switches (the rest of 3.1)."""
    used = [(d, p) for d, p in zip(demands, paths, strict=True) if p is not None]
    servers = {p.server for _, p in used if before.tasks[p.server] == 0}
    server_j = sum(float(costs.idle_j[s] + costs.activation_j[s]) for s in servers)
    server_j += sum(
        float(costs.cpu_j[p.server] * d.cpu + costs.memory_j[p.server] * d.memory) for d, p in used
    )
    network_j = 0.0
    for layer, name in ((CORE, "core"), (AGGREGATION, "aggregation"), (ACCESS, "access")):
        woken = {getattr(p, name) for _, p in used if before.flows[layer][getattr(p, name)] == 0}
        network_j += len(woken) * (costs.switch_j[layer] + costs.switch_activation_j[layer])
    return server_j, network_j


def exact(
    centre: DataCentre,
    costs: SlotCosts,
    demands: Sequence[Demand],
    kind: Kind = "mtec",
) -> list[Path] | None:
    """An optimal plan for all tasks together, or None if there is none (or none was found in a minute).

    ``mtec`` minimises the energy of servers and network (3.1), ``msec`` that of servers alone (3.10).
    """
    program, read = by_task(centre, costs, demands, network=kind == "mtec")
    answer = Highs().maximise(program, 1e-9, 60.0)
    return read(answer.x) if answer.x is not None and answer.ended else None


@dataclass(frozen=True, slots=True)
class SlotReport:
    """A planned slot, in joules.

    Attributes:
        base_j: the energy of the tasks that run already.
        value_j, bound_j: energy that the plan adds, and a lower bound on the energy that any plan adds.
        beps_j: what the plan of BEPS by memory would add in the same slot; None if it leaves a task waiting.
    """

    base_j: float
    value_j: float
    bound_j: float
    beps_j: float | None


class Optimum:
    """MTEC or MSEC slot by slot, within a time limit; a `Scheduler`.

    The relaxation lets the flows of all tasks split and leaves out the links to servers, which never bind
    while no server has more memory than such a link has Gbps (μ = α^m). Its plan is then routed task by task.

    Args:
        limit_s: time limit per slot. If a slot is not solved in time or its plan cannot be routed, BEPS plans
            it; the report still has the bound.
        rng: MSEC ignores the network: its paths are random, also those to the servers that BEPS found. BEPS's
            paths are kept only in a slot for which not every placed task gets a random one.

    Attributes:
        reports: one per slot that had tasks to place.

    Raises:
        BadInputError: unknown kind, or no time.
    """

    def __init__(self, kind: Kind, limit_s: float = 5.0, rng: np.random.Generator | None = None) -> None:
        if kind not in ("mtec", "msec"):
            raise BadInputError(f"kind is {kind!r} but must be mtec or msec")
        if not limit_s > 0.0:
            raise BadInputError(f"limit_s is {limit_s!r} but must be above 0")
        self.name = kind.upper()
        self.reports: list[SlotReport] = []
        self._network = kind == "mtec"
        self._limit_s = limit_s
        self._rng = np.random.default_rng(0) if rng is None else rng
        self._solver = Highs()
        self._fallback = Beps("memory")

    def place(self, centre: DataCentre, costs: SlotCosts, demands: Sequence[Demand]) -> list[Path | None]:
        before = copy.deepcopy(centre)
        plan = fallback = self._fallback.place(centre, costs, demands)
        base_j, value_j = _running_j(costs, before), self._value_j(costs, before, demands, plan)
        least_j = sum(float((costs.cpu_j * d.cpu + costs.memory_j * d.memory).min()) for d in demands)
        bound_j, complete = least_j, all(plan)
        beps_j = value_j if complete else None
        if not complete or value_j - least_j > _NEAR * (base_j + value_j):
            ceiling_j = value_j if complete else np.inf
            program, read = by_type(before, costs, demands, network=self._network, ceiling_j=ceiling_j)
            answer = self._solver.maximise(program, _NEAR / 2.0, self._limit_s)
            bound_j = max(bound_j, -answer.bound) if np.isfinite(answer.bound) else bound_j
            if answer.x is not None:
                servers, chosen = read(answer.x)
                found = self._route(copy.deepcopy(before), demands, servers, chosen)
                better = self._value_j(costs, before, demands, found)
                if all(found) and (not complete or better < value_j):
                    plan, value_j = found, better
        if not self._network and plan is fallback:
            servers = [p.server if p else -1 for p in plan]
            found = self._route(copy.deepcopy(before), demands, servers, None)
            plan = found if all(f or not p for f, p in zip(found, plan, strict=True)) else plan
        self.reports.append(SlotReport(base_j, value_j, min(bound_j, value_j), beps_j))
        _restore(centre, before)
        for demand, path in zip(demands, plan, strict=True):
            if path is not None:
                centre.place(path, demand.cpu, demand.memory, demand.gbps)
        return plan

    def _value_j(
        self, costs: SlotCosts, before: DataCentre, demands: Sequence[Demand], plan: Sequence[Path | None]
    ) -> float:
        server_j, network_j = added_j(costs, before, demands, plan)
        return server_j + (network_j if self._network else 0.0)

    def _route(
        self,
        centre: DataCentre,
        demands: Sequence[Demand],
        servers: Sequence[int],
        chosen: tuple[Floats, Floats, Floats] | None,
    ) -> list[Path | None]:
        """A path for every task to its server (-1: none): over the chosen switches first (0: chosen), else at
        random."""
        found: list[Path | None] = []
        for demand, server in zip(demands, servers, strict=True):
            if server < 0:
                found.append(None)
                continue
            if self._network and chosen is not None:
                # Access switches in their order, so that the last ones run empty and sleep again.
                core, aggregation, access = chosen
                costs = SwitchCosts(core, aggregation, access + 1e-6 * np.arange(len(access)))
            else:
                costs = SwitchCosts(*(self._rng.random(len(flows)) for flows in centre.flows))
            only = np.full(len(centre.tasks), np.inf)
            only[server] = 0.0
            ways = best_path(centre, reach(centre, costs, demand.gbps), demand.gbps, only)
            if ways is None or not centre.has_room(demand.cpu, demand.memory)[server]:
                found.append(None)
                continue
            centre.place(ways[1], demand.cpu, demand.memory, demand.gbps)
            found.append(ways[1])
        return found


def _running_j(costs: SlotCosts, centre: DataCentre) -> float:
    """Joules that a slot takes without new tasks: nodes that are on."""
    on = centre.tasks > 0
    cpu, memory = centre.cpu_size - centre.cpu, centre.memory_size - centre.memory
    servers = costs.idle_j[on].sum() + (costs.cpu_j * cpu + costs.memory_j * memory)[on].sum()
    switches = sum(
        joules * np.count_nonzero(flows) for joules, flows in zip(costs.switch_j, centre.flows, strict=True)
    )
    return float(servers + switches)


def _restore(centre: DataCentre, before: DataCentre) -> None:
    for name in ("cpu", "memory", "core_links", "aggregation_links", "access_links", "tasks"):
        getattr(centre, name)[:] = getattr(before, name)
    for now, then in zip(centre.flows, before.flows, strict=True):
        now[:] = then
