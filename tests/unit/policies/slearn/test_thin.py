"""The thin limit that follows the load."""

from __future__ import annotations

from spark_sched.events import JobEnded, StageEnded, TaskEnded, TaskLaunched
from spark_sched.policies.slearn.adaptive import AdaptiveRatio
from spark_sched.policies.slearn.thin import AdaptiveThinLimit, NarrowJob
from tests.unit.policies.slearn.world import World

ONE_EACH = AdaptiveThinLimit(AdaptiveRatio(window=1))


def _ended(limit: AdaptiveThinLimit, of: int, jct_ms: int) -> AdaptiveThinLimit:
    """A job of 1,000 slot-ms that came at 0 under that limit."""
    return limit.ended(NarrowJob(of, 1_000.0, 0, 0), 0, jct_ms)


def test_it_tries_3_then_2_then_4_and_keeps_what_did_best():
    world, limit, tried = World(), ONE_EACH, []
    for number in range(3):
        world.job(f"j{number}", 2)
        limit, narrow = limit.came(world.state.snapshot().jobs[f"j{number}"], 0)
        assert narrow is not None
        tried.append(narrow.limit)
    assert tried == [3, 2, 4]
    for of, jct_ms in ((3, 2_000), (2, 4_000), (4, 1_950)):
        limit = _ended(limit, of, jct_ms)
    assert limit.limit() == 4
    # Far better than 3: one step further.
    assert _ended(limit, 4, 500).limit() == 5


def test_a_wide_job_is_no_witness():
    world = World()
    world.job("wide", 6)
    assert ONE_EACH.came(world.state.snapshot().jobs["wide"], 0) == (ONE_EACH, None)


def test_a_jobs_work_is_its_slots_over_time():
    seen = NarrowJob(3, 0.0, 2, 100).at(600, running=1).at(1_600)
    assert (seen.work_ms, seen.running) == (2 * 500 + 1 * 1_000, 0)


def test_a_job_without_work_tells_nothing():
    assert ONE_EACH.ended(NarrowJob(3, 0.0, 0, 0), 0, 1_000) == ONE_EACH


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
    assert world.policy._memory._kept.thin.choice.scores == {3: (1.0,)}
