"""The order in which the heuristics of chapter 3 choose tasks and servers."""

from __future__ import annotations

import pytest

from spark_sched_lab.energy import HEURISTICS, Demand, Topology, heuristics
from spark_sched_lab.energy.centre import DataCentre
from spark_sched_lab.energy.costs import SlotCosts


def servers_of(
    name: str, servers: tuple[int, ...], running: dict[int, Demand], demands: list[Demand]
) -> list[int | None]:
    """The server of each task, or None, with one running task on each server that ``running`` names."""
    centre = DataCentre(Topology(1, 1, 1, servers))
    for server, demand in running.items():
        centre.tasks[server] += 1
        centre.cpu[server] -= demand.cpu
        centre.memory[server] -= demand.memory
    paths = HEURISTICS[name]().place(centre, SlotCosts(centre.topology, 60.0), demands)
    return [None if path is None else path.server for path in paths]


def test_bfrs_takes_the_server_of_the_smallest_fitting_value() -> None:
    # Figure 3.4: "server with minimum b". The product is smallest on the fullest server that has room.
    task = Demand(0.1, 0.1, 0.1)
    running = {1: Demand(0.3, 0.3, 0.3), 2: Demand(0.45, 0.45, 0.45)}
    for name in ("BFRS-dot", "BFRS-norm"):
        assert servers_of(name, (0, 0, 0), running, [task]) == [1]


def test_beps_places_the_largest_task_first() -> None:
    # The second task alone fits the server that is left when the first has its place: whoever comes first.
    demands = [Demand(0.1, 0.3, 0.1), Demand(0.1, 0.4, 0.1)]
    assert servers_of("BEPS-memory", (0,), {}, demands) == [None, 0]
    assert servers_of("BEPS-memory-ascending", (0,), {}, demands) == [0, None]


def test_beps_takes_the_largest_of_servers_that_cost_the_same() -> None:
    # Types A, B and D draw the same power for the same load (table 3.1): D fills up, the others become empty.
    small = Demand(0.05, 0.05, 0.05)
    assert servers_of("BEPS-memory", (0, 1, 3), dict.fromkeys(range(3), small), [small] * 3) == [2, 2, 2]


def test_beps_prefers_less_energy_to_a_larger_server() -> None:
    # Waking up a server costs energy, and the larger one takes more: 301 W for 30 s instead of 222.5 W.
    task = Demand(0.1, 0.1, 0.1)
    assert servers_of("BEPS-memory", (1, 3), {0: task}, [task]) == [0]
    assert servers_of("BEPS-memory", (3, 1), {}, [task]) == [1]


def test_a_batch_wakes_up_the_server_that_holds_all_of_it() -> None:
    # Four tasks fill four servers of type B (222.5 W for 30 s and 162 W each), or one of type D (301 W).
    four = [Demand(0.25, 0.25, 0.1)] * 4
    servers = (1, 1, 1, 1, 3)
    assert servers_of("BEPS-memory", servers, {}, four) == [0, 1, 2, 3]
    assert servers_of("BEPS-memory-batch", servers, {}, four) == [4, 4, 4, 4]
    # A task alone needs no more than one server, of which B is cheaper; and one that is on costs nothing.
    assert servers_of("BEPS-memory-batch", servers, {}, four[:1]) == [0]
    assert servers_of("BEPS-memory-batch", servers, {2: Demand(0.1, 0.0, 0.1)}, four) == [2, 4, 4, 4]


@pytest.mark.parametrize("name", HEURISTICS)
def test_a_wide_job_without_room_is_tried_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    has_room = DataCentre.has_room
    monkeypatch.setattr(
        DataCentre, "has_room", lambda self, *demand: (tried.append(demand), has_room(self, *demand))[1]
    )
    demands = [*[Demand(0.3, 0.2, 0.2)] * 50, Demand(0.1, 0.1, 0.1), *[Demand(0.4, 0.2, 0.2)] * 50]
    servers = servers_of(name, (0, 0), {}, demands)
    # One task on each server, the small one beside one of them; each kind that finds no room is tried once.
    assert sum(server is not None for server in servers) == 3
    assert servers[50] is not None
    assert len(tried) <= 3 + 2


def test_servers_that_no_path_reaches_are_not_tried_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    best = heuristics.best_path
    monkeypatch.setattr(heuristics, "best_path", lambda *given: (tried.append(given), best(*given))[1])
    # The servers have room, their links to the only access switch do not.
    for name in ("RRS", "BFRS-dot"):
        tried.clear()
        assert servers_of(name, (3,) * 20, {}, [Demand(0.1, 0.1, 1.5)]) == [None]
        assert len(tried) <= 1
