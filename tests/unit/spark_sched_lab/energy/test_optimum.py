"""MSEC's objective leaves the network out: its paths are random."""

from __future__ import annotations

import numpy as np

from spark_sched_lab.energy import Demand, Topology
from spark_sched_lab.energy.centre import DataCentre, Path
from spark_sched_lab.energy.costs import SlotCosts
from spark_sched_lab.energy.optimum import Optimum


def planned(topology: Topology, demands: list[Demand], seed: int = 1) -> list[Path | None]:
    planner = Optimum("msec", 5.0, np.random.default_rng(seed))
    return planner.place(DataCentre(topology), SlotCosts(topology, 60.0), demands)


def test_msec_has_random_paths_where_beps_has_its_servers() -> None:
    # One server holds all six tasks, so that no plan is better than that of BEPS, which uses one path.
    paths = planned(Topology(4, 4, 8, (3, 3)), [Demand(0.1, 0.1, 0.1)] * 6)
    assert len({path.server for path in paths if path}) == 1
    for layer in ("core", "aggregation", "access"):
        assert len({getattr(path, layer) for path in paths}) > 1


def test_msec_has_random_paths_beside_a_task_without_room() -> None:
    paths = planned(Topology(4, 4, 8, (0,)), [*[Demand(0.1, 0.1, 0.1)] * 4, Demand(0.9, 0.1, 0.1)])
    assert paths[4] is None
    assert len({path.access for path in paths if path}) > 1


def test_msec_keeps_the_paths_of_beps_where_routing_at_random_fails() -> None:
    # The large flow needs a link of its own: none is left where chance puts the small ones on both.
    demands = [Demand(0.1, 0.1, 0.3), Demand(0.1, 0.1, 0.3), Demand(0.1, 0.2, 0.6)]
    topology = Topology(1, 1, 2, (3,), access_gbps=0.6)
    assert all(all(planned(topology, demands, seed)) for seed in range(8))
