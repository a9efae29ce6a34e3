"""Minimum-energy paths are those that listing all paths finds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_sched_lab.energy.centre import DataCentre, InternalPath, Path
from spark_sched_lab.energy.paths import SwitchCosts, best_path, internal_path, reach
from spark_sched_lab.energy.topology import Topology


def centre_of(rng: np.random.Generator, full: float) -> tuple[DataCentre, SwitchCosts]:
    """A small data centre whose links have little room, some none at all."""
    centre = DataCentre(Topology(3, 4, 5, (0,) * 6))
    for links in (centre.core_links, centre.aggregation_links, centre.access_links):
        links[:] = np.where(rng.random(links.shape) < full, 0.0, rng.random(links.shape))
    return centre, SwitchCosts(rng.random(3), rng.random(4), rng.random(5))


def listed(
    centre: DataCentre, costs: SwitchCosts, gbps: float, server_cost: np.ndarray, scale: np.ndarray
) -> float:
    """The least cost over every path."""
    best = np.inf
    for c, a, x, s in itertools.product(*(range(n) for n in (3, 4, 5, 6))):
        room = min(centre.core_links[c, a], centre.aggregation_links[a, x], centre.access_links[x, s])
        if room >= gbps:
            switches = costs.core[c] + costs.aggregation[a] + costs.access[x]
            best = min(best, server_cost[s] + scale[s] * switches)
    return float(best)


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.3, 0.7, 0.95]), st.floats(0.01, 0.99))
def test_the_best_path_is_the_least_of_all(seed: int, full: float, gbps: float) -> None:
    rng = np.random.default_rng(seed)
    centre, costs = centre_of(rng, full)
    server_cost = np.where(rng.random(6) < 0.3, np.inf, rng.random(6))
    scale = rng.random(6)
    found = best_path(centre, reach(centre, costs, gbps), gbps, server_cost, scale)
    least = listed(centre, costs, gbps, server_cost, scale)
    if found is None:
        assert least == np.inf
        return
    cost, path = found
    assert cost == pytest.approx(least)
    switches = costs.core[path.core] + costs.aggregation[path.aggregation] + costs.access[path.access]
    assert cost == pytest.approx(server_cost[path.server] + scale[path.server] * switches)
    centre.place(path, 0.0, 0.0, gbps)
    assert min(x.min() for x in (centre.core_links, centre.aggregation_links, centre.access_links)) > -1e-8


def listed_internal(
    centre: DataCentre, costs: SwitchCosts, gbps: float, server: int, master: int
) -> list[tuple[float, InternalPath]]:
    """Every path of 1, 3 or 5 different switches with room, and its cost."""
    links, up, top = centre.access_links, centre.aggregation_links, centre.core_links
    found = []
    for x, y in itertools.product(range(5), repeat=2):
        if min(links[x, server], links[y, master]) < gbps:
            continue
        if x == y:
            found.append((costs.access[x], InternalPath(x, server, master)))
            continue
        ends = costs.access[x] + costs.access[y]
        for a, b in itertools.product(range(4), repeat=2):
            if min(up[a, x], up[b, y]) < gbps:
                continue
            if a == b:
                found.append((ends + costs.aggregation[a], InternalPath(x, server, master, a, y)))
                continue
            for c in range(3):
                if min(top[c, a], top[c, b]) >= gbps:
                    cost = ends + costs.aggregation[a] + costs.aggregation[b] + costs.core[c]
                    found.append((cost, InternalPath(x, server, master, a, y, c, b)))
    return found


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.3, 0.7, 0.9]), st.floats(0.01, 0.99), st.booleans())
def test_the_internal_path_is_the_least_of_all(seed: int, full: float, gbps: float, asleep: bool) -> None:
    rng = np.random.default_rng(seed)
    centre, costs = centre_of(rng, full)
    if asleep:
        # Most access switches sleep: a path over more switches that are on may be cheaper.
        costs = SwitchCosts(costs.core, costs.aggregation, costs.access + 10.0 * (rng.random(5) < 0.6))
    every = listed_internal(centre, costs, gbps, 0, 1)
    found = internal_path(centre, costs, gbps, 0, 1)
    if found is None:
        assert not every
        return
    by_path = {path: cost for cost, path in every}
    assert by_path[found] == pytest.approx(min(by_path.values()))


def test_the_internal_path_avoids_a_sleeping_switch() -> None:
    # Servers 0 and 1 share access switch 2 alone, which is dear; switches 0 and 1 are on.
    centre = DataCentre(Topology(1, 1, 3, (0, 0)))
    centre.access_links[0, 1] = centre.access_links[1, 0] = 0.0
    costs = SwitchCosts(np.array([1.0]), np.array([1.0]), np.array([1.0, 1.0, 9.0]))
    assert internal_path(centre, costs, 0.1, 0, 1) == InternalPath(0, 0, 1, 0, 1)
    assert internal_path(centre, SwitchCosts(costs.core, costs.aggregation, np.ones(3)), 0.1, 0, 1) == (
        InternalPath(2, 0, 1)
    )


def test_the_internal_path_crosses_the_core_where_no_other_has_room() -> None:
    centre = DataCentre(Topology(2, 2, 2, (0, 0)))
    centre.access_links[0, 1] = centre.access_links[1, 0] = 0.0
    centre.aggregation_links[0, 1] = centre.aggregation_links[1, 0] = 0.0
    costs = SwitchCosts(np.array([2.0, 1.0]), np.ones(2), np.ones(2))
    found = internal_path(centre, costs, 0.1, 0, 1)
    assert found == InternalPath(0, 0, 1, 0, 1, 1, 1)
    centre.connect(found, 0.1)
    assert [flows.tolist() for flows in centre.flows] == [[0, 1], [1, 1], [1, 1]]
    assert centre.core_links[1].tolist() == [9.9, 9.9]
    centre.connect(found, 0.1, -1)
    assert not any(flows.any() for flows in centre.flows)
    assert centre.core_links[1].tolist() == [10.0, 10.0]


def test_what_a_task_took_comes_back() -> None:
    centre = DataCentre(Topology(1, 2, 2, (0, 3)))
    path, inner = Path(0, 1, 0, 1), InternalPath(0, 1, 0, 1, 1)
    centre.place(path, 0.25, 0.5, 0.125)
    centre.connect(inner, 0.25)
    assert centre.tasks.tolist() == [0, 1]
    assert centre.flows[2].tolist() == [2, 1]
    assert (centre.cpu[1], centre.memory[1]) == (0.75, 0.5)
    assert centre.access_links[0, 1] == 1.0 - 0.125 - 0.25
    centre.connect(inner, 0.25, -1)
    centre.place(path, 0.25, 0.5, 0.125, -1)
    fresh = DataCentre(centre.topology)
    for name in ("cpu", "memory", "core_links", "aggregation_links", "access_links", "tasks"):
        assert (getattr(centre, name) == getattr(fresh, name)).all(), name
    assert not any(flows.any() for flows in centre.flows)
