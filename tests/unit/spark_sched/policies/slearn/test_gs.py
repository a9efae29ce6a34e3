"""GS and SLearn, told what happened event by event."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spark_sched.errors import BadInputError
from spark_sched.policies import JobPlan
from spark_sched.policies.slearn.queues import Queues
from spark_sched.policies.slearn.variants import SLearnPolicy
from spark_sched.predict.runtimes.distribution import RuntimeDistribution
from spark_sched.predict.tasks.expectation import StageExpectation
from spark_sched.predict.tasks.history import TaskHistory
from spark_sched.protocol.events import (
    Batch,
    ExecutorAdded,
    JobEnded,
    JobStarted,
    ShortTasks,
    StageEnded,
    StageStarted,
    TaskEnded,
    TaskLaunched,
)
from spark_sched.state import JobSummary
from tests.unit.spark_sched.policies.slearn.world import SETTINGS, World


def test_queues_grow_by_ten_from_1000_slot_seconds_and_weigh_a_tenth_of_the_one_before():
    queues = Queues()
    assert [queues.of(ms) for ms in (0, 999_999, 1e6, 9.9e6, 1e7, 1e30)] == [0, 0, 1, 1, 2, 9]
    assert queues.weights == pytest.approx([10.0**-q for q in range(10)])
    assert queues.threshold_ms(8) == 1e14
    assert queues.threshold_ms(9) == float("inf")


def test_the_queue_with_the_least_running_over_its_weight_stands_first():
    queues = Queues(count=3)
    assert queues.in_turn([0, 0, 0]) == [0, 1, 2]
    assert queues.in_turn([9, 0, 0]) == [1, 2, 0]
    assert queues.in_turn([11, 1, 1]) == [1, 0, 2]


def test_queues_that_cannot_be_are_refused():
    with pytest.raises(BadInputError, match="are not valid queues"):
        Queues(growth=1.0)


@pytest.mark.parametrize(
    "given",
    [{"thin_limit": -1}, {"fixed_percent": 0.0}, {"fixed_percent": 101.0}, {"fixed_percent": math.nan}],
)
def test_limits_and_ratios_that_cannot_be_are_refused(given: dict[str, Any]):
    with pytest.raises(BadInputError, match="give a limit of 0 tasks or more and a ratio above 0"):
        SLearnPolicy(SETTINGS, **given)


@pytest.mark.parametrize("tasks", [1, 2])
def test_a_thin_job_goes_to_the_top_queue_unsampled(tasks: int):
    world = World()
    world.job("a", tasks)
    assert (world.of("a").queue, world.of("a").pilots) == (0, None)


def test_a_wide_job_waits_in_the_second_queue_for_its_pilots_then_goes_where_its_size_belongs():
    world = World()
    world.job("a", 100)
    plan = world.plan()
    assert plan.new_jobs_wait
    first = plan.jobs[0]
    assert first.queue == 1
    assert first.pilots is not None
    assert first.pilots.stage == 0
    assert len(first.pilots.tasks) == 3
    for index, ms in zip(first.pilots.tasks, (100_000, 200_000, 600_000), strict=True):
        assert world.of("a").pilots == first.pilots
        world.run("a", index, ms)
    sized = world.of("a")
    # 300 s on average, 100 tasks: 3e7 ms.
    assert (sized.queue, sized.pilots) == (2, None)
    assert "30000.0 slot-seconds" in sized.reason


def test_pilots_are_chosen_at_random_by_the_seed():
    chosen = set()
    for seed in range(20):
        world = World()
        world.rng = np.random.default_rng(seed)
        world.job("a", 100)
        chosen.add(world.pilots("a").tasks)
    assert len(chosen) > 15
    assert all(0 <= task < 100 for tasks in chosen for task in tasks)


def test_asked_twice_about_one_moment_the_pilots_stay():
    world = World()
    world.job("a", 100)
    assert world.pilots("a") == world.pilots("a")


@pytest.mark.parametrize("outcome", ["failed", "killed", "lost"])
def test_a_pilot_that_did_not_succeed_is_no_part_of_the_estimate(outcome: str):
    world = World()
    world.job("a", 100)
    first, second, third = world.pilots("a").tasks
    world.run("a", first, 10)
    world.run("a", second, 99_999_999, outcome)
    world.run("a", second, 88_888_888)  # its second attempt
    world.run("a", third, 30)
    assert "2.0 slot-seconds: tasks of 20 ms by 2 pilots" in world.of("a").reason


def test_a_pilot_that_got_a_copy_is_no_part_of_the_estimate_whoever_won():
    world = World()
    world.job("a", 100)
    first, second, third = world.pilots("a").tasks
    world.run("a", first, 10)
    world.run("a", second, 77_777, "killed", copy=True)
    world.run("a", second, 88_888)
    world.run("a", third, 30)
    assert "tasks of 20 ms by 2 pilots" in world.of("a").reason


def test_when_every_pilot_is_lost_others_are_chosen_and_at_last_the_job_is_sized_without():
    world = World()
    world.job("a", 60)
    tried: set[int] = set()
    for _ in range(3):
        pilots = world.pilots("a").tasks
        assert tried.isdisjoint(pilots)
        tried |= set(pilots)
        for index in pilots:
            world.run("a", index, 5, "failed")
    last = world.of("a")
    assert (last.pilots, last.queue) == (None, 1)
    assert "unknown" in last.reason


def test_a_job_whose_pilots_stage_went_before_one_ended_samples_the_next_wide_stage():
    world = World()
    world.job("a", 100)
    for attempt in range(1, 3):
        world.pilots("a")
        percent = world.memory.jobs["a"].percent
        world.tell(StageEnded(world.now, "a", f"a.{attempt - 1}", False))
        assert world.plan().jobs[0].deferred
        world.tell(StageStarted(world.now, "a", f"a.{attempt}", "p", 0, 100, None, True, False))
    third = world.pilots("a")
    assert world.memory.jobs["a"].percent == percent
    for index in third.tasks:
        world.run("a", index, 10, stage=2)
    assert "tasks of 10 ms by 3 pilots" in world.of("a").reason


def test_a_job_whose_pilots_stages_go_three_times_is_sized_without():
    world = World()
    world.job("a", 100)
    for attempt in range(1, 4):
        world.pilots("a")
        world.tell(StageEnded(world.now, "a", f"a.{attempt - 1}", False))
        last = world.of("a")
        world.tell(StageStarted(world.now, "a", f"a.{attempt}", "p", 0, 100, None, True, False))
    assert (last.pilots, last.deferred) == (None, False)
    assert "unknown" in last.reason


def test_a_job_whose_pilots_stage_is_over_is_sized_by_what_they_took():
    world = World()
    world.job("a", 3)
    (pilot,) = world.pilots("a").tasks
    for index in range(3):
        world.run("a", index, 1_000 + index)
    world.tell(StageEnded(0, "a", "a.0", True))
    assert f"tasks of {1_000 + pilot} ms" in world.of("a").reason


@pytest.mark.parametrize("over", [True, False])
def test_the_size_counts_all_tasks_of_the_pilots_stage_though_it_ended_with_them(over: bool):
    world = World()
    world.job("a", 4)
    (pilot,) = world.pilots("a").tasks
    for index in [index for index in range(4) if index != pilot] + [pilot]:
        world.run("a", index, 1_000)
    if over:
        world.tell(StageEnded(0, "a", "a.0", True))
    assert "4.0 slot-seconds: tasks of 1000 ms by 1 pilot" in world.of("a").reason


def test_pilots_that_a_retry_of_their_stage_does_not_have_are_lost_and_its_size_is_the_whole_stages():
    world = World()
    world.job("a", 100)
    # The plan saw neither the end of the first attempt nor the start of the next one.
    assert max(world.pilots("a").tasks) >= 10
    world.tell(StageEnded(0, "a", "a.0", False))
    world.tell(StageStarted(0, "a", "a.1", "p", 0, 10, None, True, False))
    for index in range(10):
        world.run("a", index, 1_000, stage=1)
    assert "100.0 slot-seconds: tasks of 1000 ms" in world.of("a").reason


def _scores(world: World) -> Mapping[int, tuple[float, ...]]:
    """The sampling ratio's scores after the next plan."""
    world.plan()
    return world.memory.ratio.scores


def _ended(world: World, key: str, ms: int) -> None:
    world.tell(StageEnded(ms, key, f"{key}.0", True), JobEnded(ms, key, "ended"))
    world.now = ms


def test_a_sampling_ratio_is_scored_by_the_work_that_its_job_had_whatever_the_pilots_made_of_it():
    world = World()
    world.job("a", 4)
    (pilot,) = world.pilots("a").tasks
    world.run("a", pilot, 1)
    assert "tasks of 1 ms by 1 pilot" in world.of("a").reason
    for index in range(4):
        if index != pilot:
            world.run("a", index, 1_000)
    _ended(world, "a", 6_002)
    assert _scores(world) == {3: (2.0,)}


def test_a_job_that_ends_together_with_its_pilots_scores_its_sampling_ratio():
    world = World()
    world.job("a", 3)
    world.pilots("a")
    for index in range(3):
        world.run("a", index, 500)
    _ended(world, "a", 3_000)
    assert _scores(world) == {3: (2.0,)}


def test_failed_attempts_and_copies_are_work_that_a_job_had():
    world = World()
    world.job("a", 3)
    world.pilots("a")
    world.run("a", 0, 500, "failed")
    world.run("a", 1, 250, "killed", copy=True)
    for index in range(3):
        world.run("a", index, 250)
    _ended(world, "a", 3_000)
    assert _scores(world) == {3: (2.0,)}


def test_a_job_that_ran_before_it_was_known_scores_nothing():
    world = World()
    told = (
        JobStarted(0, "a", "n", "u", 0, None, None, None, True, False),
        StageStarted(0, "a", "a.0", "p", 0, 3, None, True, False),
    )
    world.state.apply_batch(Batch(1, True, 0, 0, (ExecutorAdded(0, "e", "h", 100), *told)))
    world.pilots("a")
    world.tell(TaskLaunched(0, "a", "a.0", 1, 0, "e", False))
    world.tell(TaskEnded(9, "a", "a.0", 1, 0, "e", 9, "success", False))
    _ended(world, "a", 90)
    assert _scores(world) == {}


def test_stages_that_come_unannounced_add_to_the_size():
    world = World()
    world.job("a", 100)
    for index in world.pilots("a").tasks:
        world.run("a", index, 10_000)
    assert "1000.0 slot-seconds" in world.of("a").reason
    world.tell(StageStarted(0, "a", "a.1", "p", 1, 900, None, True, False))
    assert "10000.0 slot-seconds" in world.of("a").reason
    assert world.of("a").queue == 2


def test_a_thin_job_that_turns_out_wide_is_sampled_then():
    world = World()
    world.job("a", 1)
    assert world.of("a").queue == 0
    world.tell(StageStarted(0, "a", "a.1", "p", 1, 100, None, True, False))
    assert world.pilots("a").stage == 1


def test_a_barrier_stage_has_no_pilots():
    world = World()
    world.tell(
        JobStarted(0, "a", "n", "u", 0, None, None, None, True, False),
        StageStarted(0, "a", "a.0", "p", 0, 100, None, True, True),
    )
    assert world.of("a").pilots is None


def test_a_job_of_which_nothing_came_yet_is_deferred():
    world = World()
    world.tell(JobStarted(0, "a", "n", "u", 0, None, None, None, True, False))
    assert world.of("a").deferred
    world.tell(StageStarted(0, "a", "a.0", "p", 0, 100, None, True, False))
    assert not world.of("a").deferred


def test_the_ratio_learns_from_jobs_that_ended():
    world = World()
    for number in range(101):
        key = f"j{number}"
        world.job(key, 200)
        assert len(world.pilots(key).tasks) == (6 if number < 100 else 4)  # 3 %, then 2 %
        for index in world.pilots(key).tasks:
            world.run(key, index, 10)
        world.plan()
        world.now += 1
        world.tell(JobEnded(world.now, key, "ended"))
        world.plan()


def history() -> TaskHistory:
    """30 runs of job n's two stages: 1 s and 3 s a task."""
    world = World(history=TaskHistory())
    for number in range(30):
        key = f"h{number}"
        world.job(key, 4)
        world.tell(StageStarted(0, key, f"{key}.1", "p", 1, 4, None, True, False))
        for stage, ms in ((0, 1_000), (1, 3_000)):
            for index in range(4):
                world.run(key, index, ms, stage=stage)
            world.tell(StageEnded(0, key, f"{key}.{stage}", True))
        world.tell(JobEnded(0, key, "ended"))
        world.times.learn(JobSummary(key, "n", False, "ended", 0, 0, cut_short=False))
    prior = world.times._prior
    assert isinstance(prior, TaskHistory)
    return prior


def test_history_sizes_a_job_at_once():
    for policy in ("3sigma-gs", "3sigma-tl", "point-est"):
        world = World(policy, history())
        world.job("a", 4)
        assert world.of("a").pilots is None
        assert "tasks of 1000 ms by history, 90 % sure of " in world.of("a").reason


def test_point_est_takes_the_median_and_3sigma_the_inverse_squares_mean():
    known = TaskHistory()
    world = World(history=known)
    for number, ms in enumerate([1_000, 1_000, 1_000, 1_000, 8_000]):
        key = f"h{number}"
        world.job(key, 4)
        for index in range(4):
            world.run(key, index, ms)
        world.tell(StageEnded(0, key, f"{key}.0", True), JobEnded(0, key, "ended"))
    sizes = {}
    for policy in ("3sigma-gs", "point-est"):
        world = World(policy, known)
        world.job("a", 4)
        sizes[policy] = world.of("a").reason
    assert sizes["3sigma-gs"] != sizes["point-est"]


def test_the_first_stages_pilots_correct_what_history_says_of_the_later_ones():
    """SLearn-DAG (section 6): d_s / d_h of the first stage scales the second."""
    world = World()
    world.job("a", 10)
    expected = (
        StageExpectation(10, RuntimeDistribution.point_s(2.0)),
        StageExpectation(5, RuntimeDistribution.point_s(8.0)),
    )

    def plan() -> JobPlan:
        snapshot = world.state.snapshot()
        told = {
            key: replace(world.times.forecast(job), expected=expected) for key, job in snapshot.jobs.items()
        }
        return world.decide(snapshot, told).jobs[0]

    pilots = plan().pilots
    assert pilots is not None
    for index in pilots.tasks:
        world.run("a", index, 3_000)
    # 10 tasks of 3 s, and 5 of 8 s x 3/2.
    assert "90.0 slot-seconds" in plan().reason


def _retold(world: World, done: list[int]) -> None:
    """The planner's picture is made anew from what the driver knows."""
    told = (
        JobStarted(0, "a", "n", "u", 0, None, None, None, True, False),
        StageStarted(0, "a", "a.0", "p", 0, 100, None, True, False, done=done),
    )
    events = (ExecutorAdded(0, "e", "h", 100), *told)
    world.state.apply_batch(Batch(1, True, 0, 0, events))
    world.times.reset()
    for event in events:
        world.times.observe(event)


def test_a_new_planner_chooses_no_pilots_that_are_over():
    world = World()
    _retold(world, list(range(97)))
    assert world.pilots("a").tasks == (97, 98, 99)
    for index in (97, 98, 99):
        world.run("a", index, 10_000)
    assert "1000.0 slot-seconds: tasks of 10000 ms by 3 pilots" in world.of("a").reason


def test_pilots_that_ended_in_lost_events_are_replaced():
    world = World()
    world.job("a", 100)
    pilots = world.pilots("a").tasks
    _retold(world, [*pilots])
    others = world.pilots("a").tasks
    assert set(others).isdisjoint(pilots)
    world.run("a", others[0], 10_000)
    _retold(world, [*pilots, *others])
    # Nothing is left to sample: history would tell.
    _retold(world, list(range(100)))
    assert "its size is unknown" in world.of("a").reason


@pytest.mark.parametrize("over", [True, False])
def test_a_job_whose_tasks_take_two_slots_each_is_twice_as_large(over: bool):
    world = World()
    world.job("a", 4, slots_per_task=2)
    (pilot,) = world.pilots("a").tasks
    world.run("a", pilot, 10_000)
    if over:
        world.tell(StageEnded(0, "a", "a.0", False))
    assert "80.0 slot-seconds: tasks of 10000 ms by 1 pilot" in world.of("a").reason
    world.tell(StageStarted(0, "a", "a.1", "p", 1, 3, None, True, False, slots_per_task=4))
    assert "200.0 slot-seconds" in world.of("a").reason


def test_such_a_job_attains_twice_the_service():
    world = World("gs-las")
    world.job("a", 4, slots_per_task=2)
    world.run("a", 0, 10_000)
    world.tell(ShortTasks(0, "a", "a.0", "e", [97, 98], [1, 2], [1_000, 1_000]))
    world.tell(TaskLaunched(0, "a", "a.0", 99, 3, "e", False))
    world.now = 5_000
    assert "34.0 slot-seconds so far" in world.of("a").reason
