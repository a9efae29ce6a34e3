"""MTEC and MSEC on tiny data centres: beside brute force, and below every heuristic."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_sched_lab.energy.centre import DataCentre, Path
from spark_sched_lab.energy.costs import SlotCosts
from spark_sched_lab.energy.heuristics import HEURISTICS, Demand
from spark_sched_lab.energy.optimum import Optimum, added_j, exact
from spark_sched_lab.energy.topology import Topology

DEMAND = st.builds(
    lambda cpu, memory: Demand(cpu / 16, memory / 16, memory / 16), st.integers(1, 6), st.integers(1, 6)
)


def centre_of(servers: Sequence[int], running: Sequence[Demand]) -> DataCentre:
    """1 core, 2 aggregation and 2 access switches with thin links, and tasks that run already."""
    centre = DataCentre(Topology(1, 2, 2, tuple(servers), aggregation_gbps=0.5, access_gbps=0.5))
    HEURISTICS["RRS"]().place(centre, SlotCosts(centre.topology, 60.0), running)
    return centre


def least_j(centre: DataCentre, costs: SlotCosts, demands: Sequence[Demand], kind: str) -> float | None:
    """The least energy over all assignments of tasks to paths, None where none has room."""
    t = centre.topology
    every = [
        Path(*nodes)
        for nodes in itertools.product(
            range(t.cores), range(t.aggregations), range(t.accesses), range(len(t.servers))
        )
    ]
    best: list[float] = []
    loads = [float((costs.cpu_j * d.cpu + costs.memory_j * d.memory).min()) for d in demands]

    def cost(paths: Sequence[Path]) -> float:
        server_j, network_j = added_j(costs, centre, demands[: len(paths)], paths)
        return server_j + network_j if kind == "mtec" else server_j

    def go(now: DataCentre, paths: list[Path]) -> None:
        # A further task adds its load at least: what is no better with it need not be gone through.
        if best and cost(paths) + sum(loads[len(paths) :]) >= best[0] - 1e-6:
            return
        if len(paths) == len(demands):
            best[:] = [cost(paths)]
            return
        d = demands[len(paths)]
        # Equal tasks may change places: one order of their paths stands for all.
        first = every.index(paths[-1]) if paths and demands[len(paths) - 1] == d else 0
        for path in every[first:]:
            room = min(
                now.core_links[path.core, path.aggregation],
                now.aggregation_links[path.aggregation, path.access],
                now.access_links[path.access, path.server],
            )
            if room >= d.gbps - 1e-9 and now.has_room(d.cpu, d.memory)[path.server]:
                now.place(path, d.cpu, d.memory, d.gbps)
                go(now, [*paths, path])
                now.place(path, d.cpu, d.memory, d.gbps, -1)

    go(copy.deepcopy(centre), [])
    return best[0] if best else None


@pytest.mark.parametrize("kind", ["mtec", "msec"])
@given(
    servers=st.lists(st.integers(0, 3), min_size=1, max_size=4),
    running=st.lists(DEMAND, max_size=2),
    demands=st.lists(DEMAND, min_size=1, max_size=4),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_optimum_is_what_brute_force_finds(
    kind: str, servers: list[int], running: list[Demand], demands: list[Demand]
) -> None:
    centre = centre_of(servers, running)
    costs = SlotCosts(centre.topology, 60.0)
    plan = exact(centre, costs, demands, kind)  # type: ignore[arg-type]
    least = least_j(centre, costs, demands, kind)
    if plan is None or least is None:
        assert plan is None
        assert least is None
        return
    server_j, network_j = added_j(costs, centre, demands, plan)
    assert server_j + (network_j if kind == "mtec" else 0.0) == pytest.approx(least, rel=1e-6)


@pytest.mark.parametrize(
    ("servers", "running"),
    [((0, 1, 2, 3, 0, 1), []), ((1, 1, 0, 0, 2, 2), [Demand(2 / 16, 2 / 16, 1 / 16)])],
)
def test_six_servers_and_eight_tasks_are_what_brute_force_finds(
    servers: tuple[int, ...], running: list[Demand]
) -> None:
    demands = [*[Demand(4 / 16, 3 / 16, 1 / 16)] * 4, *[Demand(2 / 16, 3 / 16, 2 / 16)] * 4]
    centre = centre_of(servers, running)
    costs = SlotCosts(centre.topology, 60.0)
    plan = exact(centre, costs, demands)
    assert plan is not None
    least = least_j(centre, costs, demands, "mtec")
    assert sum(added_j(costs, centre, demands, plan)) == pytest.approx(least, rel=1e-6)


@given(
    servers=st.lists(st.integers(0, 3), min_size=1, max_size=6),
    running=st.lists(DEMAND, max_size=3),
    demands=st.lists(DEMAND, min_size=1, max_size=8),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_heuristic_is_below_the_optimum(
    servers: list[int], running: list[Demand], demands: list[Demand]
) -> None:
    centre = centre_of(servers, running)
    costs = SlotCosts(centre.topology, 60.0)
    mtec, msec = exact(centre, costs, demands), exact(centre, costs, demands, "msec")
    assert (mtec is None) == (msec is None)
    if mtec is None or msec is None:
        return
    best_server_j, best_network_j = added_j(costs, centre, demands, mtec)
    assert added_j(costs, centre, demands, msec)[0] <= best_server_j + 1e-6
    best_j = best_server_j + best_network_j
    for make in HEURISTICS.values():
        paths = make().place(copy.deepcopy(centre), costs, demands)
        if all(paths):
            assert sum(added_j(costs, centre, demands, paths)) >= best_j - 1e-6
    slotwise = Optimum("mtec")
    paths = slotwise.place(copy.deepcopy(centre), costs, demands)
    (report,) = slotwise.reports
    # The relaxation's bound holds for the problem itself.
    assert report.bound_j <= best_j + 1e-3 * (report.base_j + best_j)
    if all(paths):
        assert report.value_j >= best_j - 1e-6
