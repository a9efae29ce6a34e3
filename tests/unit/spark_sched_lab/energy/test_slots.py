"""Chapter 3's simulator on cases small enough to compute by hand."""

from __future__ import annotations

import numpy as np
import pytest

from spark_sched.errors import BadInputError
from spark_sched_lab.energy import HEURISTICS, Tasks, Topology, simulate_slots


def tasks_of(*rows: tuple[float, float, float, float]) -> Tasks:
    """Tasks from (arrival, duration, cpu, memory)."""
    at, duration, cpu, memory = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    flow = np.full(len(at), 1e3)
    return Tasks(at.astype(np.int64), np.arange(len(at)), duration, cpu, memory, flow, flow)


def test_waits_are_a_mean_over_the_tasks_that_got_a_place() -> None:
    # The second task waits 60 s for the first one's end and still runs at the end; the third gets no place.
    tasks = tasks_of((0, 60, 0.5, 0.2), (0, 1000, 0.5, 0.1), (0, 1000, 0.5, 0.05))
    found = simulate_slots(
        Topology(1, 1, 1, (0,)), tasks, HEURISTICS["BEPS-memory"](), slot_s=60, horizon_s=120
    )
    assert (found.tasks.ended, found.tasks.queued) == (1, 1)
    assert (found.tasks.wait_s, found.tasks.response_s) == (30.0, 60.0)


def test_a_task_that_no_server_could_hold_is_refused() -> None:
    tasks = tasks_of((0, 60, 0.5, 0.5), (0, 60, 0.5, 0.6))
    with pytest.raises(BadInputError, match=r"task 1 asks for 0.5 CPU and 0.6 memory and no server has both"):
        simulate_slots(Topology(1, 1, 1, (0, 0)), tasks, HEURISTICS["RRS"](), slot_s=60, horizon_s=120)


def test_what_happens_in_the_warm_up_does_not_count() -> None:
    # A task in the warm-up, and the same one an hour later.
    once = tasks_of((3600, 60, 0.25, 0.2))
    twice = tasks_of((0, 60, 0.25, 0.2), (3600, 60, 0.25, 0.2))
    topology, make = Topology(1, 1, 1, (0, 0)), HEURISTICS["BEPS-memory"]
    cold = simulate_slots(topology, once, make(), slot_s=60, horizon_s=3720, warm_up_s=3600)
    warm = simulate_slots(topology, twice, make(), slot_s=60, horizon_s=3720, warm_up_s=3600)
    assert (warm.energy, warm.tasks, warm.switches) == (cold.energy, cold.tasks, cold.switches)
    for name in ("on", "most_on", "wakes", "cpu_use", "memory_use", "held_load"):
        assert getattr(warm.servers, name) == getattr(cold.servers, name), name
    # 0.25 of a CPU of 1.0 in all for one minute of two; the server sleeps in the other.
    assert (warm.span_s, warm.tasks.ended, warm.servers.wakes, warm.servers.held_load) == (120, 1, 1, 0.125)
    assert warm.energy.server_kwh * 3.6e6 == pytest.approx(
        30 * 231.25 + 60 * (162 + 51.5 * 0.5 + 18 * 0.4) + 60 * 46.25 + 120 * 46.25
    )


def test_a_task_from_the_warm_up_counts_from_its_end() -> None:
    tasks = tasks_of((0, 120, 0.25, 0.2))
    found = simulate_slots(
        Topology(1, 1, 1, (0,)), tasks, HEURISTICS["RRS"](), slot_s=60, horizon_s=180, warm_up_s=90
    )
    assert (found.span_s, found.tasks.ended, found.tasks.response_s, found.servers.wakes) == (90, 1, 120.0, 0)
    assert found.servers.held_load == pytest.approx(0.5 * 30 / 90)


@pytest.mark.parametrize("warm_up_s", [-1, 61])
def test_a_warm_up_leaves_a_slot(warm_up_s: int) -> None:
    with pytest.raises(BadInputError, match="warm_up_s is"):
        simulate_slots(
            Topology(1, 1, 1, (0,)), tasks_of((0, 60, 0.1, 0.1)), HEURISTICS["RRS"](),
            slot_s=60, horizon_s=120, warm_up_s=warm_up_s,
        )  # fmt: skip
