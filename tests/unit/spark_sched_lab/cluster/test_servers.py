"""Servers that share CPU and memory, sleep and draw power (thesis chapter 6), reckoned by hand."""

from __future__ import annotations

import pytest

from spark_sched_lab.simulator import ClusterSpec, JobSpec, NodeSpec, Power, Result, StageSpec, simulate

POWER = Power(idle_w=100.0, cpu_w=60.0, memory_w=40.0, sleep_w=10.0)


def job(key: str, demand_ms: int, at: int = 0, memory: float | None = None, **marks: object) -> JobSpec:
    stage = StageSpec([demand_ms], memory=() if memory is None else (memory,))
    return JobSpec(key, at, (stage,), **marks)  # type: ignore[arg-type]


def ends(result: Result) -> dict[str, int]:
    return dict(zip(result.jobs["job"], result.jobs["end_ms"], strict=True))


def server(**what: object) -> NodeSpec:
    return NodeSpec("n", **({"slots": 10, "power": POWER} | what))  # type: ignore[arg-type]


def test_two_tasks_share_a_core_equally_and_the_longer_one_speeds_up_when_alone() -> None:
    result = simulate(ClusterSpec((server(),), model="sharing"), [job("a", 1_000), job("b", 3_000)])
    assert ends(result) == {"a": 2_000, "b": 4_000}


def test_a_task_uses_one_core_at_most() -> None:
    cluster = ClusterSpec((server(cores=4),), model="sharing")
    result = simulate(cluster, [job("a", 1_000), job("b", 3_000)])
    assert ends(result) == {"a": 1_000, "b": 3_000}


def test_six_tasks_on_four_cores_get_two_thirds_of_a_core_each() -> None:
    cluster = ClusterSpec((server(cores=4, speed=2.0),), model="sharing")
    result = simulate(cluster, [job(str(i), 4_000) for i in range(6)])
    assert set(ends(result).values()) == {3_000}


def test_no_more_tasks_than_slots_run_at_once() -> None:
    cluster = ClusterSpec((server(slots=1),), model="sharing")
    assert ends(simulate(cluster, [job("a", 1_000), job("b", 1_000)])) == {"a": 1_000, "b": 2_000}


def test_a_sleeping_server_wakes_for_thirty_seconds_before_it_serves() -> None:
    cluster = ClusterSpec((server(),), model="sharing", power_policy="sleep")
    result = simulate(cluster, [job("a", 1_000, at=5_000), job("b", 1_000, at=100_000)])
    assert ends(result) == {"a": 36_000, "b": 131_000}
    # Asleep, waking at peak, on with one core busy; twice. Nothing sleeps at the very end.
    asleep_s, waking_s, on_s = 5.0 + 64.0, 2 * 30.0, 2 * 1.0
    assert result.totals["energy_j"] == pytest.approx(asleep_s * 10.0 + waking_s * 200.0 + on_s * 160.0)


def test_power_is_idle_plus_cpu_and_memory_in_use() -> None:
    cluster = ClusterSpec((server(cores=2, memory=8.0),), model="sharing")
    result = simulate(cluster, [job("a", 10_000, memory=2.0), job("b", 4_000, at=20_000, memory=8.0)])
    one_core_s = (10.0 * 0.25 + 4.0 * 1.0) * 40.0
    assert result.totals["energy_j"] == pytest.approx(24.0 * 100.0 + 14.0 * 30.0 + one_core_s)


def test_a_woken_server_is_taken_before_one_that_sleeps() -> None:
    nodes = tuple(NodeSpec(f"n{i}", slots=2, cores=2, power=POWER) for i in range(3))
    cluster = ClusterSpec(nodes, model="sharing", power_policy="sleep")
    result = simulate(cluster, [job("a", 100_000), job("b", 1_000, at=40_000)])
    assert ends(result)["b"] == 41_000
    assert len(set(result.tasks["node"])) == 1


def outcomes(result: Result) -> list[tuple[str, str]]:
    keys = {number: key for key, number in zip(result.jobs["job"], result.jobs["number"], strict=True)}
    return [(keys[j], o) for j, o in zip(result.tasks["job"], result.tasks["outcome"], strict=True)]


def test_memory_that_suffices_evicts_nobody() -> None:
    cluster = ClusterSpec((server(cores=2, memory=4.0),), model="sharing")
    result = simulate(cluster, [job("a", 1_000, memory=2.0), job("b", 1_000, memory=2.0)])
    assert outcomes(result) == [("a", "success"), ("b", "success")]


def test_lsf_evicts_the_task_whose_need_is_not_met_whatever_its_priority() -> None:
    cluster = ClusterSpec((server(cores=2, memory=4.0),), model="sharing", memory_eviction="LSF")
    jobs = [job("low", 9_000, memory=3.0), job("high", 1_000, at=10, memory=3.0, priority=5)]
    result = simulate(cluster, jobs, "priority", until_ms=9_000)
    assert ("high", "evicted") in outcomes(result)
    assert ("low", "evicted") not in outcomes(result)


def test_lpf_evicts_the_lowest_priority_until_the_higher_one_has_its_memory() -> None:
    cluster = ClusterSpec((server(cores=3, memory=4.0),), model="sharing", memory_eviction="LPF")
    jobs = [
        job("low", 9_000, memory=1.5),
        job("later", 9_000, at=5, memory=1.5),
        job("high", 1_000, at=10, memory=2.2, priority=5),
    ]
    result = simulate(cluster, jobs, "priority", until_ms=1_500)
    # 1.2 more are needed: the low job that started last gives 1.5.
    assert outcomes(result)[0] == ("later", "evicted")
    assert ("low", "evicted") not in outcomes(result)
    assert ends(result)["high"] == 1_010


def test_an_evicted_task_starts_over_and_its_lost_work_is_counted() -> None:
    cluster = ClusterSpec((server(cores=2, memory=4.0),), model="sharing")
    jobs = [job("first", 2_000, memory=3.0), job("second", 1_000, memory=3.0)]
    result = simulate(cluster, jobs)
    row = next(row for row in result.rows() if row["job"] == "second")
    assert row["evictions"] >= 1
    assert row["wasted_ms"] > 0
    assert row["end_ms"] > 1_000
    assert result.unfinished == 0
