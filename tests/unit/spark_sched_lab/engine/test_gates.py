"""Pilots, gates and shared queues in the simulator, reckoned by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from spark_sched.policies import ChangesWith, PilotSet
from spark_sched.state import JobView
from spark_sched_lab.simulator import ClusterSpec, JobSpec, NodeSpec, StageSpec, simulate, uniform_nodes
from tests.unit.spark_sched_lab.engine.scripted import Say, Scripted


def scripted(say: Say, queue_weights: tuple[float, ...] = ()) -> Scripted:
    return Scripted(say, ChangesWith.GATES, queue_weights=queue_weights)


def starts(result, job: int = 0) -> dict[int, list[int]]:
    """Start times of each task's attempts."""
    found: dict[int, list[int]] = {}
    columns = (result.tasks[name] for name in ("job", "task", "start_ms"))
    for number, task, start_ms in sorted(zip(*columns, strict=True)):
        if number == job:
            found.setdefault(task, []).append(start_ms)
    return found


def pilots_of(key: str, *tasks: int, stage: int = 0) -> Callable[[JobView, int], Mapping[str, Any]]:
    return lambda job, now: {"pilots": PilotSet(stage, tasks)} if job.job == key else {}


def job(key: str, *durations: int, at: int = 0, **marks: Any) -> JobSpec:
    return JobSpec(key, at, (StageSpec(list(durations)),), **marks)


def test_pilots_run_first_and_the_last_one_to_end_opens_the_gate_at_that_moment():
    other = job("b", *[10_000] * 4)
    result = simulate(
        ClusterSpec(uniform_nodes(2, 1)), [job("a", *[1_000] * 4), other], scripted(pilots_of("a", 1, 3))
    )
    assert starts(result) == {1: [0], 3: [0], 0: [1_000], 2: [1_000]}


def test_a_gate_lets_others_have_the_slots_that_its_stage_may_not_take():
    jobs = [job("a", 1_000, 1_000, 5_000), job("b", 1_000, 1_000)]
    result = simulate(ClusterSpec(uniform_nodes(2, 1)), jobs, scripted(pilots_of("a", 2)))
    assert starts(result) == {2: [0], 0: [2_000], 1: [3_000]}, "after b, by work conservation"
    assert starts(result, 1) == {0: [0], 1: [1_000]}


def test_slots_that_nobody_else_can_use_go_to_gated_tasks_in_the_order_of_arrival():
    jobs = [job("a", *[1_000] * 3), job("b", *[1_000] * 3)]
    say = lambda view, now: {"pilots": PilotSet(0, (0,))}  # noqa: E731
    result = simulate(ClusterSpec(uniform_nodes(5, 1)), jobs, scripted(say))
    assert starts(result, 0) == {0: [0], 1: [0], 2: [0]}
    assert sorted(at for times in starts(result, 1).values() for at in times) == [0, 0, 1_000]


def test_a_later_plan_without_pilots_opens_the_gate():
    jobs = [job("a", 9_000, 1_000, 1_000), job("b", 20_000), job("c", 1_000, at=3_000)]

    def say(view: JobView, now: int) -> Mapping[str, Any]:
        return {"pilots": PilotSet(0, (0,))} if view.job == "a" and now < 3_000 else {}

    cluster = ClusterSpec(uniform_nodes(2, 1))
    assert starts(simulate(cluster, jobs, scripted(say)))[1] == [9_000]
    free = ClusterSpec((*uniform_nodes(2, 1), NodeSpec("late", 1, from_ms=3_500)))
    assert starts(simulate(free, jobs, scripted(say)))[1] == [3_500]


def test_a_pilot_lost_with_its_node_opens_the_gate_and_runs_again():
    nodes = (NodeSpec("dies", 1, until_ms=500, dies=True), NodeSpec("stays", 2))
    jobs = [job("b", 10_000, 10_000), job("a", 4_000, 4_000), job("c", 1_000)]

    def say(view: JobView, now: int) -> Mapping[str, Any]:
        return {"pilots": PilotSet(0, (0,))} if view.job == "a" else {}

    result = simulate(ClusterSpec(nodes), jobs, scripted(say), seed=0)
    assert starts(result, 1) == {0: [0, 10_000], 1: [10_000]}, "c does not pass the gated task"
    assert starts(result, 2) == {0: [14_000]}
    assert list(result.tasks["outcome"]).count("lost") == 1
    assert result.unfinished == 0


def test_pilots_that_ended_before_the_plan_came_are_over():
    def say(view: JobView, now: int) -> Mapping[str, Any]:
        return {"pilots": PilotSet(0, (0,))} if view.job == "a" and now >= 2_000 else {}

    jobs = [job("a", 1_000, 1_000, 1_000, 1_000), job("tick", 100, at=2_000)]
    result = simulate(ClusterSpec(uniform_nodes(1, 1)), jobs, scripted(say))
    assert starts(result) == {0: [0], 1: [1_000], 2: [2_000], 3: [3_000]}


def test_a_gang_has_no_gate():
    gang = JobSpec("a", 0, (StageSpec([1_000] * 3, gang=True),))
    result = simulate(ClusterSpec(uniform_nodes(3, 1)), [gang], scripted(pilots_of("a", 1)))
    assert set(map(tuple, starts(result).values())) == {(0,)}


def test_a_gate_for_a_later_stage_shuts_when_that_starts():
    chain = JobSpec("a", 0, (StageSpec([1_000]), StageSpec([1_000] * 3, (0,))))
    result = simulate(
        ClusterSpec(uniform_nodes(2, 1)), [chain, job("b", *[500] * 20)], scripted(pilots_of("a", 2, stage=1))
    )
    columns = (result.tasks[name] for name in ("job", "stage", "task", "start_ms"))
    second = sorted(
        (at, task) for number, stage, task, at in zip(*columns, strict=True) if (number, stage) == (0, 1)
    )
    assert second[0][1] == 2
    assert second[1][0] >= second[0][0] + 1_000


def test_a_stage_beside_the_one_with_pilots_does_not_wait_for_them():
    beside = JobSpec("a", 0, (StageSpec([5_000] * 3), StageSpec([1_000] * 2)))
    jobs = [beside, job("b", *[1_000] * 3)]
    result = simulate(ClusterSpec(uniform_nodes(2, 1)), jobs, scripted(pilots_of("a", 0)))
    columns = (result.tasks[name] for name in ("job", "stage", "start_ms"))
    found = sorted((stage, start_ms) for number, stage, start_ms in zip(*columns, strict=True) if number == 0)
    # The other job has the slots that the pilot's stage may not take, and only those.
    assert found == [(0, 0), (0, 5_000), (0, 5_000), (1, 0), (1, 1_000)]


def test_slots_are_shared_between_queues_by_weight():
    jobs = [job("a", *[10_000] * 30), job("b", *[10_000] * 30)]
    say = lambda view, now: {"queue": int(view.job == "b")}  # noqa: E731
    result = simulate(ClusterSpec(uniform_nodes(11, 1)), jobs, scripted(say, (1.0, 0.1)))
    at_first = [sum(times[0] == 0 for times in starts(result, n).values()) for n in (0, 1)]
    assert at_first == [10, 1]


def test_a_queue_with_a_job_that_waits_always_gets_a_slot():
    jobs = [job("a", *[10_000] * 300), job("b", *[1_000] * 3)]
    say = lambda view, now: {"queue": 9 * (view.job == "b")}  # noqa: E731
    weights = tuple(10.0**-q for q in range(10))
    result = simulate(ClusterSpec(uniform_nodes(4, 1)), jobs, scripted(say, weights))
    assert starts(result, 1) == {0: [0], 1: [1_000], 2: [2_000]}


def test_within_a_queue_it_is_by_rank():
    jobs = [job("a", *[1_000] * 3), job("b", *[1_000] * 3)]
    result = simulate(
        ClusterSpec(uniform_nodes(3, 1)), jobs, scripted(lambda view, now: {"queue": 0}, (1.0,))
    )
    assert set(map(tuple, starts(result, 0).values())) == {(0,)}
    assert set(map(tuple, starts(result, 1).values())) == {(1_000,)}
