"""The thin limit that follows the load."""

from __future__ import annotations

from spark_sched.events import JobEnded, StageEnded, TaskEnded, TaskLaunched
from spark_sched.policies.slearn.adaptive import AdaptiveRatio
from spark_sched.policies.slearn.thin import AdaptiveThinLimit
from tests.unit.policies.slearn.world import World

ONE_EACH = AdaptiveThinLimit(AdaptiveRatio(window=1))


def test_it_tries_3_then_2_then_4_and_keeps_what_did_best():
    world, limit = World(), ONE_EACH
    tried: list[int | None] = []
    for number in range(3):
        world.job(f"j{number}", 2)
        limit, given = limit.came(world.state.snapshot().jobs[f"j{number}"])
        tried.append(given)
    assert tried == [3, 2, 4]
    for of, normalised_jct in ((3, 2.0), (2, 4.0), (4, 1.95)):
        limit = limit.ended(of, normalised_jct)
    assert limit.limit() == 4
    # Far better than 3: one step further.
    assert limit.ended(4, 0.5).limit() == 5


def test_a_wide_job_is_no_witness():
    world = World()
    world.job("wide", 6)
    assert ONE_EACH.came(world.state.snapshot().jobs["wide"]) == (ONE_EACH, None)


def test_a_job_without_work_tells_nothing():
    world = World("slearn-adaptive")
    world.job("idle", 1)
    world.plan()
    world.tell(JobEnded(1_000, "idle", "idle"))
    world.plan()
    assert world.memory.thin.choice.scores == {}


def test_under_a_limit_of_2_a_job_of_two_tasks_has_a_pilot():
    world = World("slearn-adaptive")
    world.policy._thin = ONE_EACH
    world.job("first", 2)
    world.job("second", 2)
    plan = {entry.job: entry for entry in world.plan().jobs}
    assert plan["first"].pilots is None
    assert "too few for pilots" in plan["first"].reason
    assert plan["second"].pilots is not None


def test_a_fixed_limit_stays():
    world = World()
    for number in range(3):
        world.job(f"j{number}", 2)
    assert all(entry.pilots is None for entry in world.plan().jobs)


def test_the_limit_learns_from_jobs_that_end():
    world = World("slearn-adaptive")
    world.job("thin", 1)
    world.plan()
    world.tell(TaskLaunched(0, "thin", "thin.0", 1, 0, "e", False))
    world.plan()
    world.now = 1_000
    world.tell(TaskEnded(1_000, "thin", "thin.0", 1, 0, "e", 1_000, "success", False))
    world.tell(StageEnded(1_000, "thin", "thin.0", True), JobEnded(1_000, "thin", "ended"))
    world.plan()
    assert world.memory.thin.choice.scores == {3: (1.0,)}
