"""Chapter 4's simulator on cases small enough to reckon by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spark_sched.errors import BadInputError
from spark_sched_lab.energy import (
    CHAPTER_4,
    SERVER_TYPES,
    FlowSizes,
    Tasks,
    Topology,
    google_like,
    simulate_gems,
)
from spark_sched_lab.energy.gems import VARIANTS


def tasks_of(*rows: tuple[float, float, float, float], job: list[int] | None = None) -> Tasks:
    """Tasks from (arrival, duration, cpu, memory), flows of 1 kB."""
    at, duration, cpu, memory = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    flow = np.full(len(at), 1e3)
    number = np.arange(len(at)) if job is None else np.array(job)
    return Tasks(at.astype(np.int64), number, duration, cpu, memory, flow, flow)


ONE_LARGE = Topology(1, 1, 1, (3,))


def test_a_task_alone_runs_as_much_faster_as_the_server_is_larger() -> None:
    # §4.2.5: a task of 0.5 on a server of 1 takes half its time, after 30 s of waking up.
    found = simulate_gems(ONE_LARGE, tasks_of((0, 100, 0.5, 0.1)))
    assert (found.tasks.response_s, found.tasks.wait_s, found.span_s) == (80.0, 30.0, 80)
    assert simulate_gems(ONE_LARGE, tasks_of((0, 100, 0.5, 0.1)), "noSleep").tasks.response_s == 50.0


def test_waking_up_takes_whole_slots_rounded_up() -> None:
    found = simulate_gems(Topology(1, 1, 1, (3,), server_wake_s=0.5), tasks_of((0, 100, 0.5, 0.1)))
    assert (found.tasks.response_s, found.tasks.wait_s, found.servers.wakes) == (51.0, 1.0, 1)
    assert found.energy.server_kwh * 3.6e6 == pytest.approx(301 + 50 * (162 + 103 * 0.5 + 36 * 0.1))


def test_two_tasks_that_fill_a_server_take_their_time() -> None:
    found = simulate_gems(ONE_LARGE, tasks_of((0, 100, 0.5, 0.1), (0, 100, 0.5, 0.1)), "noSleep")
    assert found.tasks.response_s == 100.0


def test_no_task_takes_longer_than_in_the_trace() -> None:
    found = simulate_gems(ONE_LARGE, tasks_of((0, 100, 0.7, 0.1), (0, 100, 0.3, 0.1)), "noSleep")
    assert found.span_s == 100


def test_what_is_left_over_is_shared_equally() -> None:
    # 0.2 and 0.4 leave 0.4: they run at 0.4 and 0.6, so that the first is done after 50 s with 20 s of work.
    # The second has done 30 of its 40 by then and runs at 1.
    found = simulate_gems(ONE_LARGE, tasks_of((0, 100, 0.2, 0.1), (0, 100, 0.4, 0.1)), "noSleep")
    assert (found.span_s, found.tasks.response_s) == (60, 55.0)


def test_energy_of_one_task() -> None:
    found = simulate_gems(ONE_LARGE, tasks_of((0, 100, 0.5, 0.25)))
    server = 30 * 301 + 50 * (162 + 103 * 0.5 + 36 * 0.25)
    assert found.energy.server_kwh * 3.6e6 == pytest.approx(server)
    # The path is there from the task's arrival, while its server wakes up.
    assert found.energy.network_kwh * 3.6e6 == pytest.approx(80 * (25 + 51 + 75))
    assert found.servers.wakes == 1


def test_a_task_without_room_waits_until_there_is() -> None:
    found = simulate_gems(ONE_LARGE, tasks_of((0, 100, 0.6, 0.1), (0, 100, 0.6, 0.1)), "noSleep")
    assert (found.span_s, found.tasks.wait_s, found.tasks.queued) == (120, 30.0, 0)


def test_a_large_flow_takes_a_link_and_the_next_goes_around() -> None:
    # 1 Gbit in 1 s at least: each fills a link.
    topology = Topology(1, 1, 2, (3,))
    two = tasks_of((0, 10, 0.1, 0.1), (0, 10, 0.1, 0.1))
    flow = np.full(2, 1e9 / 8)
    found = simulate_gems(
        topology, Tasks(two.arrival_s, two.job, two.duration_s, two.cpu, two.memory, flow, flow), "noSleep"
    )
    assert found.switches.most_on == 4
    assert found.tasks.queued == 0


def test_a_task_talks_to_its_master_over_one_access_switch() -> None:
    # Too large for one server: the second task's way to the first adds no switch.
    topology = Topology(1, 1, 3, (0, 0))
    found = simulate_gems(topology, tasks_of((0, 50, 0.5, 0.1), (0, 50, 0.5, 0.1), job=[0, 0]))
    assert found.switches.most_on == 3
    assert found.tasks.unconnected == 0


@pytest.mark.parametrize("variant", VARIANTS)
def test_runs_repeat_and_every_task_ends(variant: str) -> None:
    tasks = google_like(np.random.default_rng(5), CHAPTER_4, horizon_s=120.0)
    first, second = (
        simulate_gems(CHAPTER_4, tasks, variant, rng=np.random.default_rng(1))  # type: ignore[arg-type]
        for _ in range(2)
    )
    assert first.energy.total_kwh == second.energy.total_kwh
    assert first.tasks.ended == len(tasks)
    assert first.tasks.queued == 0


def test_a_random_path_uses_more_switches() -> None:
    tasks = google_like(np.random.default_rng(5), CHAPTER_4, horizon_s=120.0)
    gems, random = (simulate_gems(CHAPTER_4, tasks, variant) for variant in ("gems", "noNetwork"))  # type: ignore[arg-type]
    assert random.switches.on > 5 * gems.switches.on
    assert random.energy.network_kwh > gems.energy.network_kwh


def test_the_load_is_what_was_asked_for() -> None:
    loads = [
        google_like(np.random.default_rng(seed), CHAPTER_4, horizon_s=7200.0, load=0.2).load(
            CHAPTER_4, 7200.0
        )
        for seed in range(20)
    ]
    assert np.mean(loads) == pytest.approx(0.2, rel=0.15)


def test_bad_input_is_named() -> None:
    with pytest.raises(BadInputError, match="variant is 'x' but must be one of gems"):
        simulate_gems(ONE_LARGE, tasks_of((0, 1, 0.5, 0.1)), "x")  # type: ignore[arg-type]
    with pytest.raises(BadInputError, match="switch_wake_s is 2.0 but must be 0"):
        simulate_gems(Topology(1, 1, 1, (3,), switch_wake_s=2.0), tasks_of((0, 1, 0.5, 0.1)))
    with pytest.raises(BadInputError, match=r"task 0 asks for 1.5 CPU and 0.1 memory and no server has both"):
        simulate_gems(ONE_LARGE, tasks_of((0, 1, 1.5, 0.1)))
    # One server has the CPU, the other the memory.
    types = (replace(SERVER_TYPES[0], cpu=1.0, memory=0.25), replace(SERVER_TYPES[0], cpu=0.5, memory=1.0))
    with pytest.raises(BadInputError, match=r"task 1 asks for 0.8 CPU and 0.8 memory"):
        simulate_gems(Topology(1, 1, 1, (0, 1), types), tasks_of((0, 1, 0.5, 0.25), (0, 1, 0.8, 0.8)))
    for name in ("load", "horizon_s"):
        with pytest.raises(BadInputError, match=f"{name} is inf but must be above 0 and finite"):
            google_like(np.random.default_rng(0), CHAPTER_4, **{"horizon_s": 10.0, name: np.inf})
    with pytest.raises(BadInputError, match="shares of flow sizes must go from 0 to 1"):
        FlowSizes((0.1, 1.0), (1.0, 2.0))
    with pytest.raises(BadInputError, match="width is 2 but is a share"):
        google_like(np.random.default_rng(0), CHAPTER_4, horizon_s=10.0, width=2)
    with pytest.raises(BadInputError, match="cores is 0"):
        Topology(0, 1, 1, (0,))
