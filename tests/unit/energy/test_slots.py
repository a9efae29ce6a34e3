"""Chapter 3's simulator on cases small enough to compute by hand."""

from __future__ import annotations

import numpy as np
import pytest

from spark_sched.energy import HEURISTICS, Tasks, Topology, simulate_slots
from spark_sched.errors import BadInputError


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
    assert (found.tasks, found.queued) == (1, 1)
    assert (found.wait_s, found.response_s) == (30.0, 60.0)


def test_a_task_that_no_server_could_hold_is_refused() -> None:
    tasks = tasks_of((0, 60, 0.5, 0.5), (0, 60, 0.5, 0.6))
    with pytest.raises(BadInputError, match=r"task 1 asks for 0.5 CPU and 0.6 memory and no server has both"):
        simulate_slots(Topology(1, 1, 1, (0, 0)), tasks, HEURISTICS["RRS"](), slot_s=60, horizon_s=120)
