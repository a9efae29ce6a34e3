"""Pilots on executors of different speed."""

from __future__ import annotations

import numpy as np
import pytest

from spark_sched.predict.tasks.pilots import TaskTimePredictor
from spark_sched.predict.tasks.speeds import ExecutorSpeeds
from spark_sched.protocol.events import ExecutorRemoved, JobStarted, ShortTasks, StageStarted
from spark_sched.state import ClusterState
from spark_sched_lab.simulator import ClusterSpec, JobSpec, NodeSpec, StageSpec, simulate


def test_a_slow_executor_is_known_by_its_tasks_and_an_average_one_is_not():
    speeds = ExecutorSpeeds()
    rng = np.random.default_rng(1)
    for _ in range(30):
        times = {i: round(1000 * (2.0 if i % 4 == 0 else 1.0) * rng.lognormal(0.0, 0.2)) for i in range(8)}
        speeds.learn(times, {i: f"e{i % 4}" for i in times})
    # Of four executors one takes twice as long: 2 ** 0.75 times the geometric mean.
    assert speeds.slowness("e0") == pytest.approx(2.0**0.75, rel=0.1)
    assert speeds.slowness("e1") == pytest.approx(2.0**-0.25, rel=0.1)


def test_equal_executors_stay_equal_however_much_their_tasks_differ():
    speeds = ExecutorSpeeds()
    rng = np.random.default_rng(2)
    for _ in range(100):
        times = {i: round(1000 * rng.lognormal(0.0, 1.0)) + 1 for i in range(40)}
        speeds.learn(times, {i: f"e{i % 20}" for i in times})
    assert {speeds.slowness(f"e{n}") for n in range(20)} == {1.0}


def test_few_tasks_an_unknown_executor_and_one_that_is_gone_tell_nothing():
    speeds = ExecutorSpeeds()
    for _ in range(4):
        speeds.learn({0: 1000, 1: 9000}, {0: "a", 1: "b"})
    assert speeds.slowness("a") == speeds.slowness("stranger") == 1.0
    for _ in range(20):
        speeds.learn({0: 1000, 1: 9000}, {0: "a", 1: "b"})
    assert speeds.slowness("b") == pytest.approx(3.0)
    speeds.forget("b")
    assert speeds.slowness("b") == 1.0


def test_a_stage_on_one_executor_says_nothing_of_its_speed():
    speeds = ExecutorSpeeds()
    for _ in range(50):
        speeds.learn({0: 10, 1: 1000}, {0: "a", 1: "a"})
    assert speeds.slowness("a") == 1.0


def test_pilots_on_slow_and_on_fast_executors_size_a_job_alike():
    """Half of the nodes run four times as fast; every job's tasks are equal."""
    nodes = tuple(NodeSpec(f"n{i}", 4, speed=4.0 if i % 2 else 1.0) for i in range(4))
    jobs = [JobSpec(f"j{n}", 60_000 * n, (StageSpec([40_000] * 16),)) for n in range(20)]
    times = TaskTimePredictor(None)
    simulate(ClusterSpec(nodes), jobs, "slearn", predictor=times, until_ms=60_000 * 25)
    # A task of 40 s takes 40 s or 10 s, 20 s at the geometric mean.
    assert times.speeds.slowness("n0") == pytest.approx(2.0, rel=0.05)
    assert times.speeds.slowness("n1") == pytest.approx(0.5, rel=0.05)


def test_a_forecast_names_the_executors_that_differ_until_they_are_gone() -> None:
    speeds = ExecutorSpeeds()
    equal = speeds.differing()
    speeds.learn({0: 1000, 1: 1000}, {0: "a", 1: "b"})
    assert dict(equal) == {}
    assert speeds.differing() is equal
    for _ in range(30):
        speeds.learn({0: 1000, 1: 1000, 2: 4000}, {0: "a", 1: "b", 2: "slow"})
    known = speeds.differing()
    assert known is speeds.differing()
    assert known["slow"] > 1.0 > known["a"]
    speeds.learn({0: 1000, 1: 1000, 2: 4000}, {0: "a", 1: "b", 2: "slow"})
    assert speeds.differing() is known  # the third decimal makes no new forecasts
    speeds.forget("slow")
    assert "slow" not in speeds.differing()


def test_task_times_follow_what_becomes_known_of_executors_and_stay_when_these_are_gone() -> None:
    times, state = TaskTimePredictor(None), ClusterState()
    for event in (
        JobStarted(0, "j", "n", "u", 0, None, None, None, True, True),
        StageStarted(0, "j", "j.0", "p", 0, 3, None, False, False),
        ShortTasks(9, "j", "j.0", "slow", [0], [0], [4_000]),
        ShortTasks(9, "j", "j.0", "fast", [1], [1], [1_000]),
    ):
        state.apply(event)
        times.observe(event)
    view = state.snapshot().jobs["j"]

    def seen() -> dict[int, int]:
        return dict(times.forecast(view).times[0].ended_ms)

    assert seen() == {0: 4_000, 1: 1_000}
    for _ in range(30):  # stages of other jobs
        times.speeds.learn({0: 1_000, 1: 4_000}, {0: "fast", 1: "slow"})
    assert seen() == {0: 2_000, 1: 2_000}
    times.observe(ExecutorRemoved(10, "slow", "lost"))
    assert seen() == {0: 2_000, 1: 2_000}


FAST, SLOW = ("f0", "f1"), ("s0", "s1")
RATIO = 2.0


def run_stage(speeds: ExecutorSpeeds, rng: np.random.Generator, executors: tuple[str, ...]) -> None:
    """Eight tasks on these executors in turn; those with an s take twice as long."""
    ran_on = {i: executors[i % len(executors)] for i in range(8)}
    ms = {i: (RATIO if on in SLOW else 1.0) * 1000 * rng.lognormal(0.0, 0.2) for i, on in ran_on.items()}
    speeds.learn({i: round(each) for i, each in ms.items()}, ran_on)


@pytest.mark.parametrize(
    "placed",
    [
        pytest.param((FAST, FAST + SLOW), id="some stages on fast executors alone"),
        pytest.param((FAST, FAST, FAST, FAST + SLOW), id="most stages on fast executors alone"),
        pytest.param((FAST, SLOW), id="no stage on both"),
    ],
)
def test_speeds_last_where_plans_place_tasks_by_them(placed: tuple[tuple[str, ...], ...]) -> None:
    speeds, rng = ExecutorSpeeds(), np.random.default_rng(3)
    for _ in range(50):
        run_stage(speeds, rng, FAST + SLOW)
    for _ in range(500):
        for executors in placed:
            run_stage(speeds, rng, executors)
    assert speeds.slowness("s0") / speeds.slowness("f0") == pytest.approx(RATIO, rel=0.1)


def test_noise_of_a_few_stages_does_not_last_where_executors_share_no_stage_any_more() -> None:
    found = []
    for seed in range(20):
        speeds, rng = ExecutorSpeeds(), np.random.default_rng(seed)
        for n in range(206):
            for executors in (FAST + SLOW,) if n < 6 else (FAST, SLOW):
                ran_on = {i: executors[i % len(executors)] for i in range(8)}
                speeds.learn({i: round(10_000 * rng.lognormal(0.0, 1.0)) for i in ran_on}, ran_on)
        found.append(dict(speeds.differing()))
    assert found == [{}] * 20


def test_executors_are_average_ones_again_some_time_after_the_others_left() -> None:
    speeds, rng = ExecutorSpeeds(), np.random.default_rng(4)
    for _ in range(100):
        run_stage(speeds, rng, FAST + SLOW)
    for executor in SLOW:
        speeds.forget(executor)
    assert speeds.slowness("f0") == pytest.approx(RATIO**-0.5, rel=0.1)
    for _ in range(2_000):
        run_stage(speeds, rng, FAST)
    assert dict(speeds.differing()) == {}
