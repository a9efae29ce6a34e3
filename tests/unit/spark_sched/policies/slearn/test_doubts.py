"""History that has not been seen to hold is checked by a pilot, and not believed after it failed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from spark_sched.config import validate
from spark_sched.policies import PolicySettings, create
from spark_sched.policies.slearn.doubts import Doubts, Recurs
from spark_sched.policies.slearn.sizing import SURE_QUEUE, BayesSizing
from spark_sched.predict.runtimes.distribution import RuntimeDistribution
from spark_sched.predict.tasks.bayes import surprised
from spark_sched.predict.tasks.expectation import StageExpectation
from tests.unit.spark_sched.policies.slearn.world import World

#: 100 tasks of 45 to 55 s: well within the second queue.
SURE = RuntimeDistribution.uniform_s(45.0, 55.0)
EXPECTED = StageExpectation(100, SURE, 0.1, calibrated=SURE)


AT = ("u", "n")


def pilots(doubts: Doubts, at: Recurs = AT) -> int:
    return BayesSizing().pilots(100, replace(EXPECTED, doubt=doubts.of(at)), 3)


def test_bayes_rule_weighs_history_against_anything():
    assert surprised(SURE, 0.1, [50.0], 0.1) < 0.01
    assert surprised(SURE, 0.1, [500.0], 0.1) > 0.99
    assert surprised(SURE, 0.1, [], 0.1) == pytest.approx(0.1)
    assert surprised(SURE, 0.1, [50.0], 0.0) == 0.0


def test_the_first_job_of_a_kind_has_one_pilot_and_the_next_ones_none():
    doubts = Doubts().came(AT)
    assert pilots(doubts) == 1
    doubts = doubts.checked(AT, EXPECTED, [51_000.0])
    taken = []
    for _ in range(40):
        doubts = doubts.came(AT)
        taken.append(pilots(doubts))
        if taken[-1]:
            doubts = doubts.checked(AT, EXPECTED, [49_000.0])
    # Some nine without, then one that looks again.
    assert taken[:8] == [0] * 8
    assert 2 <= sum(taken) <= 5
    assert set(taken) == {0, 1}


def test_history_that_failed_is_not_asked_until_it_holds_again():
    sizing = BayesSizing()
    doubts = Doubts().came(AT).checked(AT, EXPECTED, [400_000.0])
    assert pilots(doubts) == 3
    told = replace(EXPECTED, doubt=doubts.of(AT))
    assert sizing.task_ms([], told) is None
    assert sizing.task_ms([400_000.0], told) == pytest.approx(400_000.0, rel=0.05)
    for _ in range(3):
        doubts = doubts.came(AT).checked(AT, EXPECTED, [50_000.0, 51_000.0])
    assert pilots(doubts) == 0


def test_other_kinds_of_jobs_are_not_doubted_for_it():
    doubts = Doubts().came(AT).checked(AT, EXPECTED, [400_000.0])
    assert doubts.of(("u", "other")) == Doubts().of(AT)
    assert 1.0 - doubts.of(("u", "other")) < SURE_QUEUE


def test_pilots_of_a_job_without_history_tell_nothing():
    doubts = Doubts()
    assert doubts.checked(AT, StageExpectation(100), [400_000.0]) is doubts
    assert doubts.checked(AT, EXPECTED, []) is doubts


def test_no_more_than_the_latest_thousand_are_remembered():
    doubts = Doubts()
    for number in range(1_200):
        doubts = doubts.came(("u", f"n{number}"))
    assert len(doubts.known) == 1_000
    assert ("u", "n1199") in doubts.known
    assert ("u", "n0") not in doubts.known


def test_the_policy_stops_believing_a_history_whose_job_changed_for_good():
    """Each run takes ten times as long as those before: after the first one no job is sized by history."""
    world = World("slearn-bayes")
    sized = []
    for number in range(3):
        key = f"j{number}"
        world.job(key, 100)
        told = _plan(world)
        chosen = next(entry for entry in told.jobs if entry.job == key).pilots
        assert chosen is not None
        for index in chosen.tasks:
            world.run(key, index, 500_000)
        told = _plan(world)
        sized.append((len(chosen.tasks), next(e for e in told.jobs if e.job == key).queue))
    # 100 tasks of 500 s: the third queue, not the second as history has it.
    assert sized == [(1, 2), (3, 2), (3, 2)]


@pytest.mark.parametrize(
    ("first_queue", "slots_per_task", "pilots"),
    [("1000s", 1, 0), ("5000s", 1, 1), ("10000s", 1, 0), ("10000s", 2, 1)],
)
def test_a_history_is_sure_of_a_queue_of_the_settings(first_queue: str, slots_per_task: int, pilots: int):
    """100 tasks of 45 to 55 s are in the second queue, or on either side of the first one's end."""
    world = World("slearn-bayes")
    named = validate({"spark.sched.policy.slearn-bayes.firstQueue": first_queue})
    world.policy = create("slearn-bayes", PolicySettings.from_config(named))
    for key in ("checked", "believed"):
        world.job(key, 100, slots_per_task=slots_per_task)
        entry = next(each for each in _plan(world).jobs if each.job == key)
        chosen = () if entry.pilots is None else entry.pilots.tasks
        for index in chosen:
            world.run(key, index, 50_000)
        _plan(world)
    assert len(chosen) == pilots


def _plan(world: World):
    snapshot = world.state.snapshot()
    told = {
        key: replace(world.times.forecast(view), expected=(EXPECTED,)) for key, view in snapshot.jobs.items()
    }
    return world.decide(snapshot, told)
