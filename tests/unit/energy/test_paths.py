"""Minimum-energy paths are those that listing all paths finds."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_sched.energy.centre import DataCentre, InternalPath, Path
from spark_sched.energy.paths import SwitchCosts, best_path, internal_path, reach
from spark_sched.energy.topology import Topology


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


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.3, 0.7]), st.floats(0.01, 0.99))
def test_the_internal_path_is_the_least_of_one_switch_else_of_three(
    seed: int, full: float, gbps: float
) -> None:
    centre, costs = centre_of(np.random.default_rng(seed), full)
    links, up = centre.access_links, centre.aggregation_links
    direct = [costs.access[x] for x in range(5) if min(links[x, 0], links[x, 1]) >= gbps]
    over = [
        costs.access[x] + costs.aggregation[a] + costs.access[y]
        for x, a, y in itertools.product(range(5), range(4), range(5))
        if min(links[x, 0], up[a, x], up[a, y], links[y, 1]) >= gbps
    ]
    found = internal_path(centre, costs, gbps, 0, 1)
    if found is None:
        assert not direct
        assert not over
    elif direct:
        assert found.aggregation == -1
        assert costs.access[found.access] == min(direct)
    else:
        cost = (
            costs.access[found.access]
            + costs.aggregation[found.aggregation]
            + costs.access[found.master_access]
        )
        assert cost == pytest.approx(min(over))


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
