"""What replays of recorded applications need of the engine: nodes that come and go, parts, near nodes,
followers."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from spark_sched.config import validate
from spark_sched.errors import BadInputError
from spark_sched.policies import PolicySettings
from spark_sched.protocol.events import Event, ExecutorAdded, ExecutorRemoved
from spark_sched_lab.simulator import ClusterSpec, JobSpec, NextJob, NodeSpec, Result, StageSpec, simulate
from spark_sched_lab.whatif.policies import StockFifo


def starts(result: Result) -> dict[tuple[int, int], tuple[int, str]]:
    """(job, task index) to (start in ms, node)."""
    t = result.tasks
    return {
        (job, task): (start, result.nodes[node])
        for job, task, start, node in zip(t["job"], t["task"], t["start_ms"], t["node"], strict=True)
    }


def one(key: str, durations: list[int], at: int = 0, **more: object) -> JobSpec:
    return JobSpec(key, at, (StageSpec(durations, **more),))  # type: ignore[arg-type]


def test_a_node_that_joins_late_takes_tasks_from_then_on() -> None:
    cluster = ClusterSpec((NodeSpec("a", 1), NodeSpec("b", 2, from_ms=30)))
    found = starts(simulate(cluster, [one("j", [100, 100, 100, 5])]))
    assert sorted(start for start, _ in found.values()) == [0, 30, 30, 100]
    assert {node for start, node in found.values() if start == 30} == {"b"}


def test_a_node_that_leaves_ends_its_tasks_and_takes_no_more() -> None:
    cluster = ClusterSpec((NodeSpec("a", 1), NodeSpec("b", 1, until_ms=10)))
    events: list[Event] = []
    result = simulate(cluster, [one("j", [50, 50, 50])], observer=events.append, check=True)
    assert sorted(starts(result).values()) == [(0, "a"), (0, "b"), (50, "a")]
    told = [(type(e), e.time_ms) for e in events if isinstance(e, ExecutorAdded | ExecutorRemoved)]
    assert told == [(ExecutorAdded, 0), (ExecutorAdded, 0), (ExecutorRemoved, 50)]


def test_work_without_a_node_waits_for_one_and_else_is_reported() -> None:
    late = ClusterSpec((NodeSpec("a", 1, from_ms=70),))
    assert simulate(late, [one("j", [5])]).jobs["end_ms"] == [75]
    gone = ClusterSpec((NodeSpec("a", 1, until_ms=1),))
    assert simulate(gone, [one("j", [5], at=2)]).unfinished == 1


def test_holds_leave_with_their_node() -> None:
    cluster = ClusterSpec((NodeSpec("a", 1), NodeSpec("b", 1, until_ms=20), NodeSpec("c", 1, from_ms=15)))
    stages = (StageSpec([10, 40]), StageSpec([10, 10], (0,)))
    high = JobSpec("high", 0, stages, priority=5, isolation=1.0, copies=False)
    low = one("low", [100] * 3, at=1)
    result = simulate(cluster, [high, low], "reservation", check=True)
    assert result.unfinished == 0
    assert result.totals["holds_total"] >= 1


@pytest.mark.parametrize("span", [(-1, None), (5, 4)])
def test_a_span_that_is_none_is_refused_by_the_nodes_name(span: tuple[int, int | None]) -> None:
    with pytest.raises(BadInputError, match="node 'n'"):
        simulate(ClusterSpec((NodeSpec("n", 1, from_ms=span[0], until_ms=span[1]),)), [one("j", [1])])


def two_parts(key: str, at: int) -> JobSpec:
    return JobSpec(key, at, (StageSpec([10]), StageSpec([10], (0,), delay_ms=1, part=1)))


def test_in_sparks_fifo_a_jobs_next_spark_job_stands_behind_those_that_came_before_it() -> None:
    cluster = ClusterSpec((NodeSpec("a", 1),))
    jobs = [two_parts("first", 0), one("second", [30], at=5)]
    stock = simulate(cluster, jobs, StockFifo(PolicySettings.from_config(validate({}))))
    assert dict(zip(stock.jobs["job"], stock.jobs["end_ms"], strict=True)) == {"second": 40, "first": 50}
    # Both wait at 11 under fifo as well, which goes by the job: but the slot was taken at 10.
    jobs = [two_parts("first", 0), one("second", [5], at=5), one("third", [30], at=6)]
    fifo = simulate(cluster, jobs, "fifo")
    assert dict(zip(fifo.jobs["job"], fifo.jobs["end_ms"], strict=True)) == {
        "second": 15,
        "first": 25,
        "third": 55,
    }


def test_a_task_waits_for_its_near_node_and_then_takes_any() -> None:
    cluster = ClusterSpec((NodeSpec("a", 1), NodeSpec("b", 1)))
    near = [frozenset({"a"})] * 3
    patient = starts(simulate(cluster, [one("j", [20, 20, 20], near=near, near_wait_ms=1000)]))
    assert [patient[0, task] for task in range(3)] == [(0, "a"), (20, "a"), (40, "a")]
    # Refused at 0, when the wait had begun; it ends at 30.
    hasty = starts(simulate(cluster, [one("j", [20, 20, 20, 20], near=near + near[:1], near_wait_ms=30)]))
    assert [hasty[0, task] for task in range(3)] == [(0, "a"), (20, "a"), (30, "b")]


def test_others_get_the_slots_that_a_stage_refuses() -> None:
    cluster = ClusterSpec((NodeSpec("a", 1), NodeSpec("b", 1)))
    picky = one("picky", [20, 20], near=[frozenset({"a"})] * 2, near_wait_ms=1000)
    found = starts(simulate(cluster, [picky, one("other", [5], at=1)]))
    assert found[1, 0] == (1, "b")


def test_a_near_node_that_is_not_there_is_not_waited_for() -> None:
    cluster = ClusterSpec((NodeSpec("a", 1, until_ms=1), NodeSpec("b", 1)))
    job = one("j", [5], at=2, near=[frozenset({"a"})], near_wait_ms=1000)
    assert starts(simulate(cluster, [job]))[0, 0] == (2, "b")


def test_where_a_task_was_seen_takes_the_place_of_chance() -> None:
    cluster = ClusterSpec(tuple(NodeSpec(f"n{i}", 1) for i in range(8)))
    job = one("j", [5] * 4, seen_on=["n6", "n2", "n6", "n0"])
    found = starts(simulate(cluster, [job]))
    assert [found[0, task][1] for task in (0, 1, 3)] == ["n6", "n2", "n0"]
    assert found[0, 2][0] == 0  # its place was taken: any other one


def test_followers_come_after_their_pause_and_their_wait_counts_from_then() -> None:
    third = one("third", [7])
    second = JobSpec("second", 0, (StageSpec([20]),), then=(NextJob(5, third),))
    first = JobSpec("first", 3, (StageSpec([10]),), then=(NextJob(2, second),))
    result = simulate(ClusterSpec((NodeSpec("a", 1),)), [first], predictor="oracle")
    assert result.jobs["submit_ms"] == [3, 15, 40]
    assert result.jobs["jct_ms"] == [10, 20, 7]
    cut = simulate(ClusterSpec((NodeSpec("a", 1),)), [first], until_ms=14)
    assert (cut.unfinished, cut.totals["jobs_not_submitted"]) == (0, 2)


def test_a_run_is_the_same_in_every_process():
    program = """
from spark_sched_lab.simulator import ClusterSpec, JobSpec, NodeSpec, StageSpec, simulate

names = [f"node-{n}" for n in range(40)]
nodes = tuple(NodeSpec(name, 2) for name in names)
near = [frozenset(names[n % 8 :: 8]) for n in range(24)]
jobs = [JobSpec(f"j{n}", 20 * n, (StageSpec([30 + n] * 24, near=near, near_wait_ms=200),)) for n in range(6)]
result = simulate(ClusterSpec(nodes), jobs, seed=3)
print(result.tasks)
"""
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in "123"
    }
    assert len(printed) == 1


# ---- near nodes and held slots: two nodes of a slot each ----

_BESIDE = ClusterSpec((NodeSpec("a", 1), NodeSpec("b", 1)))
_HELD = {"spark.sched.reservation.isolation": "1", "spark.sched.copies.enabled": "false"}


def holding(key: str, second: StageSpec, **more: object) -> JobSpec:
    """The job's first stage runs until 10 on one node, seen on a, and until 50 on the other one."""
    return JobSpec(key, 0, (StageSpec([10, 50], seen_on=["a", "b"]), second), priority=5, **more)  # type: ignore[arg-type]


def test_a_task_takes_the_slot_that_a_lower_priority_holds_on_its_near_node() -> None:
    holder = holding("holder", StageSpec([10, 10], (0,)))
    urgent = JobSpec("urgent", 20, (StageSpec([5], near=[frozenset({"a"})], near_wait_ms=1000),), priority=9)
    found = starts(simulate(_BESIDE, [holder, urgent], "reservation", settings=_HELD, check=True))
    assert found[1, 0] == (20, "a")
    equal = JobSpec("equal", 20, urgent.stages, priority=5)
    assert starts(simulate(_BESIDE, [holder, equal], "reservation", settings=_HELD))[1, 0][0] >= 50


@pytest.mark.parametrize(("parents", "waits"), [((0,), False), ((), True)])
def test_a_task_that_reads_map_outputs_takes_its_jobs_held_slot_wherever_that_is(
    parents: tuple[int, ...], waits: bool
) -> None:
    near = [frozenset({"b"})] * 2
    second = StageSpec([10, 10], parents, delay_ms=0 if parents else 50, near=near, near_wait_ms=1000)
    result = simulate(_BESIDE, [holding("job", second)], "reservation", settings=_HELD)
    ran = [
        (start, result.nodes[node])
        for stage, start, node in zip(
            *(result.tasks[name] for name in ("stage", "start_ms", "node")), strict=True
        )
        if stage == 1
    ]
    assert sorted(ran) == ([(50, "b"), (60, "b")] if waits else [(50, "a"), (50, "b")])


def test_a_job_keeps_its_slots_while_its_driver_works_on() -> None:
    first = JobSpec(
        "first", 0, (StageSpec([10, 10]),), priority=5, marked=True, dag_known="next stage", tail_ms=30
    )
    other = one("other", [5], at=5)
    kept = simulate(_BESIDE, [first, other], "reservation", settings=_HELD, check=True)
    assert dict(zip(kept.jobs["job"], kept.jobs["end_ms"], strict=True)) == {"first": 40, "other": 45}
    free = simulate(_BESIDE, [replace(first, dag_known="to the end"), other], "reservation", settings=_HELD)
    assert dict(zip(free.jobs["job"], free.jobs["end_ms"], strict=True)) == {"first": 40, "other": 15}
    with pytest.raises(BadInputError, match="job 'first' has tail_ms -1"):
        simulate(_BESIDE, [replace(first, tail_ms=-1)])


def test_a_task_whose_kill_takes_long_is_copied_later() -> None:
    def copied_at(kill_ms: int) -> list[int]:
        stages = (StageSpec([1_000, 9_000], kill_ms=kill_ms), StageSpec([10, 10], (0,)))
        result = simulate(
            _BESIDE,
            [JobSpec("job", 0, stages, priority=5)],
            "reservation",
            settings={"spark.sched.reservation.isolation": "1"},
        )
        return [s for s, copy in zip(result.tasks["start_ms"], result.tasks["copy"], strict=True) if copy]

    assert (copied_at(0), copied_at(4_000)) == ([1_500], [5_500])


def test_a_job_that_no_plan_contains_yet_comes_after_those_that_came_before_it() -> None:
    # The slot is free at 250. Plans come at multiples of 200: the one of 200 does not know the third job.
    jobs = [one("first", [250]), one("second", [10], at=10), one("third", [10], at=210)]
    found = simulate(ClusterSpec((NodeSpec("a", 1),)), jobs, "fifo", plan_every_ms=200)
    assert found.jobs["job"] == ["first", "second", "third"]
