"""``priority-evictions`` where executors differ: high priorities start, and evict, on the fastest ones."""

from __future__ import annotations

import pytest

from spark_sched.policies.eviction.powerful import speed_levels
from spark_sched.predict.tasks.pilots import TaskForecast
from spark_sched.protocol.events import ExecutorAdded, TaskLaunched
from tests.unit.spark_sched.policies.eviction_world import World


def two_executors(priority: int) -> World:
    """Executor e is full and runs the tasks 0 to 3 of low priority, f the tasks 4 and 5, which are older."""
    world = World(5_000, 5_000, 5_000, 5_000)
    world.state.apply(ExecutorAdded(0, "f", "h", 2))
    for task in (4, 5):
        world.state.apply(TaskLaunched(4_000, "low", "low.0", task, task, "f", False, 0))
    world.job("high", priority, tasks=3)
    return world


@pytest.mark.parametrize(
    ("priority", "slowness", "victims"),
    [
        (9, {"f": 0.5}, [5, 4, 3]),
        (9, {"e": 2.0}, [5, 4, 3]),
        (9, {"f": 2.0}, [3, 2, 1]),
        (9, {}, [3, 2, 1]),
        (8, {"f": 0.5}, [3, 2, 1]),  # below powerful_priority
    ],
)
def test_jobs_of_high_priority_evict_on_the_fastest_executors_first(
    priority: int, slowness: dict[str, float], victims: list[int]
) -> None:
    forecasts = {"low": TaskForecast(slowness=slowness)}
    assert two_executors(priority).victims(6_000, forecasts) == victims


def test_from_which_priority_jobs_evict_on_fast_executors_can_be_set() -> None:
    forecasts = {"low": TaskForecast(slowness={"f": 0.5})}
    assert two_executors(1).victims(6_000, forecasts, powerful_priority="1") == [5, 4, 3]


def test_jobs_of_high_priority_start_on_the_fastest_executors_first() -> None:
    world = two_executors(9)
    world.job("higher", 10, tasks=1)
    forecasts = {"low": TaskForecast(slowness={"f": 0.5, "gone": 0.1})}
    plan, _ = world.plan(6_000, forecasts)
    assert plan.slowness == {"f": 0.5}
    assert {entry.job for entry in plan.jobs if entry.powerful} == {"high", "higher"}
    clause = "starts on the fastest executors first"
    assert {entry.job for entry in plan.jobs if clause in entry.reason.split("; ")} == {"high", "higher"}


def test_that_needs_nobody_to_evict_but_executors_that_differ_and_a_job_of_that_priority() -> None:
    world = World(slots=4)
    world.state.apply(ExecutorAdded(0, "f", "h", 2))
    world.job("high", 9, tasks=1)
    differ = {"low": TaskForecast(slowness={"f": 0.5})}
    plan, _ = world.plan(6_000, differ)
    assert (plan.slowness, plan.jobs[0].powerful, plan.jobs[0].victims) == ({"f": 0.5}, True, ())
    for forecasts, options in (
        ({"low": TaskForecast(slowness={"f": 0.95})}, {}),
        ({"low": TaskForecast(slowness={"e": 0.5, "f": 0.52})}, {}),
        ({}, {}),
        (differ, {"powerful_priority": "10"}),
    ):
        plan, _ = world.plan(6_000, forecasts, **options)
        assert not plan.slowness
        assert not any(entry.powerful for entry in plan.jobs)


@pytest.mark.parametrize(
    ("slowness", "levels"),
    [
        pytest.param({}, {}, id="nothing known"),
        pytest.param({"a": 0.5}, {"a": 0.5}, id="one fast"),
        pytest.param({"a": 0.7, "b": 0.72, "c": 1.4, "d": 1.41},
                     {"a": 0.7, "b": 0.7, "c": 1.4, "d": 1.4}, id="two levels"),
        pytest.param({"a": 0.95, "b": 1.04, "c": 2.0}, {"c": 2.0}, id="close to the average"),
        pytest.param({"a": 0.7, "b": 0.76, "c": 0.83}, {"a": 0.7, "b": 0.7, "c": 0.83},
                     id="a level does not spread without end"),
        pytest.param({"a": 0.0}, {"a": 0.01}, id="above 0 on the wire"),
    ],
)  # fmt: skip
def test_executors_of_like_speed_are_of_one_level(
    slowness: dict[str, float], levels: dict[str, float]
) -> None:
    assert speed_levels(slowness, "abcd") == levels
