"""Forecasts of ends are corrected by how earlier ones turned out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spark_sched.predict import RuntimeDistribution
from spark_sched.predict.ends import EndCorrection, Situation

WAITS = Situation(begun=False, first=False, crowd=1.0, age=0.0)
GIVEN = RuntimeDistribution.uniform_s(10.0, 20.0)


def test_intervals_hold_though_jobs_wait_longer_than_is_known():
    """All ends are later than given: of the first interval none is inside, later eight of ten are."""
    rng = np.random.default_rng(31)
    correction = EndCorrection()
    inside, met = [], []
    for number in range(600):
        end_s = float(rng.uniform(10.0, 20.0) * rng.uniform(1.5, 3.0))
        shown = correction.corrected(WAITS, GIVEN, 5_000)
        low, high = shown.quantile([0.1, 0.9])
        inside.append(low <= end_s <= high)
        met.append((float(shown.cdf(30.0)), end_s <= 30.0))
        correction.note(f"j{number}", WAITS, 5_000, GIVEN)
        correction.ended(f"j{number}", 5_000 + round(1000.0 * end_s))
    assert np.mean(inside[100:]) == pytest.approx(0.8, abs=0.05)
    given, found = np.array(met[100:], dtype=float).T
    assert given.mean() == pytest.approx(found.mean(), abs=0.05)


def test_another_situation_is_not_corrected_by_this_one_but_a_near_one_is():
    correction = EndCorrection()
    for number in range(5):
        correction.note(f"j{number}", WAITS, 0, GIVEN)
        correction.ended(f"j{number}", 40_000)
    assert correction.corrected(replace(WAITS, begun=True), GIVEN, 0) is GIVEN
    assert correction.corrected(replace(WAITS, age=3.0), GIVEN, 0).quantile(0.9) > 20.0


@pytest.mark.parametrize("situation", [WAITS, replace(WAITS, begun=True), replace(WAITS, arrives=True)])
def test_errors_for_names_without_runs_say_nothing_of_names_with_runs(situation: Situation):
    """The runs of other names were a thousand times as long as this one."""
    correction = EndCorrection()
    new = replace(situation, recurs=False)
    correction.note("new", new, 0, GIVEN)
    correction.ended("new", 10)
    assert correction.corrected(new, GIVEN, 0).cdf(1.0) > 0.0
    assert correction.corrected(situation, GIVEN, 0) is GIVEN


def test_the_forecast_of_a_job_that_was_over_by_then_teaches_nothing():
    correction = EndCorrection()
    correction.note("late", WAITS, 5_000, GIVEN)
    correction.ended("late", 4_990)
    assert correction.corrected(WAITS, GIVEN, 6_000) is GIVEN


@pytest.mark.parametrize("arrives", [False, True])
def test_jobs_that_wait_are_corrected_by_those_of_their_priority(arrives: bool):
    """The low ones take three times as long as given, the high ones what is given; nobody has begun."""
    correction = EndCorrection()
    low, high = (replace(WAITS, priority=priority, arrives=arrives) for priority in (0, 5))
    for number in range(40):
        for situation, end_s in ((low, 45.0), (high, 15.0)):
            job = f"{situation.priority}-{number}"
            correction.note(job, situation, 0, GIVEN)
            correction.ended(job, round(1000.0 * end_s))
    assert correction.corrected(low, GIVEN, 0).quantile(0.5) == pytest.approx(45.0, rel=0.05)
    assert correction.corrected(high, GIVEN, 0).quantile(0.5) == pytest.approx(15.0, rel=0.1)


def test_priorities_without_number_need_no_memory_without_end():
    correction = EndCorrection()
    for number in range(2000):
        correction.note(f"j{number}", replace(WAITS, priority=number), 0, GIVEN)
        correction.ended(f"j{number}", 40_000)
    assert len(correction._learned) <= 1000
    assert not correction._given
    # The newest one has its own, an old one what all have.
    for priority in (1999, 0):
        shown = correction.corrected(replace(WAITS, priority=priority), GIVEN, 0)
        assert shown.quantile(0.9) > 20.0


def test_jobs_that_were_cut_short_and_those_of_before_a_reset_teach_nothing():
    correction = EndCorrection()
    correction.note("a", WAITS, 0, GIVEN)
    correction.note("b", WAITS, 0, GIVEN)
    correction.forget("a")
    correction.ended("a", 90_000)
    correction.clear()
    correction.ended("b", 90_000)
    assert correction.corrected(WAITS, GIVEN, 0) is GIVEN


def test_jobs_that_have_not_ended_count_as_far_as_they_came():
    """Half of the jobs end as given, half take ten times as long, and nobody knows yet."""
    correction = EndCorrection()
    for number in range(60):
        correction.note(f"j{number}", WAITS, 0, GIVEN)
        if number % 2:
            correction.ended(f"j{number}", 10_000 + 160 * number)
    assert correction.corrected(WAITS, GIVEN, 1_000).cdf(20.0) == pytest.approx(0.9, abs=0.1)
    late = correction.corrected(WAITS, GIVEN, 100_000)
    assert late.cdf(20.0) == pytest.approx(0.5, abs=0.1)
    # None of them ended before it was as late as this.
    assert late.max_s == pytest.approx(100.0)


def test_what_is_left_is_not_corrected_by_forecasts_of_the_whole():
    """Of jobs of another age there may be many; the wait before them says nothing of their last tasks."""
    correction = EndCorrection()
    runs = replace(WAITS, begun=True)
    for number in range(40):
        correction.note(f"j{number}", runs, 0, GIVEN)
        correction.ended(f"j{number}", 60_000)
    assert correction.corrected(runs, GIVEN, 0).quantile(0.5) > 40.0
    assert correction.corrected(replace(runs, age=3.0), GIVEN, 0) is GIVEN
