"""When jobs are expected to end: what a plan says to people beside its rules."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from spark_sched.planner.outlook import Outlook
from spark_sched.policies import EndQuantiles, JobPlan, Plan
from spark_sched.predict import Forecast, RuntimeDistribution
from spark_sched.state import ClusterState, JobMarks, JobSummary, JobView, Snapshot

MARKS = JobMarks("n", "u", 0, None, None, None, copies=True, marked=True)
VIEW = JobView("j", MARKS, 1_000, 0, (), MappingProxyType({}), 0)
KNOWN = {"j": Forecast(runtime=RuntimeDistribution.uniform_s(10.0, 20.0))}


class Clock:
    now_ms = 0.0

    def __call__(self) -> float:
        return self.now_ms


def snapshot(**job: Any) -> Snapshot:
    return replace(ClusterState().snapshot(), jobs=MappingProxyType({"j": replace(VIEW, **job)}))


def plan(**entry: Any) -> Plan:
    return Plan(1, 0, 1, "p", True, (JobPlan("j", 0, 0, None, "why", **entry),))


def end(
    seen: Snapshot, planned: Plan, now_ms: int, known: dict[str, Forecast] = KNOWN
) -> EndQuantiles | None:
    outlook = Outlook(Clock())
    outlook.see(seen)
    return outlook.ends(seen, known, planned, now_ms).get("j")


def test_a_job_that_waits_is_expected_to_run_from_its_start_on():
    assert end(snapshot(), plan(), 50_000) == EndQuantiles(61_000, 65_000, 69_000, None)
    assert end(snapshot(), plan(start_ms=60_000, deferred=True), 50_000).p50_ms == 75_000
    assert end(snapshot(), plan(deferred=True), 50_000) is None


def test_a_job_that_runs_has_the_rest_of_its_runtime_before_it():
    begun = snapshot(running_slots=1)  # seen first at its start, 1 s
    assert end(begun, plan(), 1_000) == EndQuantiles(12_000, 16_000, 20_000, None)
    assert end(begun, plan(), 16_000) == EndQuantiles(16_500, 18_500, 20_500, None)
    assert end(begun, plan(), 99_000) == EndQuantiles(99_000, 99_000, 99_000, None)


def test_the_probability_to_meet_the_deadline_is_of_what_is_left():
    begun = snapshot(running_slots=1, marks=replace(MARKS, deadline_ms=18_500))
    assert end(begun, plan(), 1_000).deadline_probability == pytest.approx(0.75)
    assert end(begun, plan(), 16_000).deadline_probability == pytest.approx(0.5)


def test_without_a_runtime_nothing_is_said():
    assert end(snapshot(), plan(), 0, {"j": Forecast()}) is None
    assert end(snapshot(), plan(), 0, {}) is None


def test_ends_are_computed_once_a_second_and_anew_after_a_reset():
    clock = Clock()
    outlook = Outlook(clock)
    seen = snapshot(running_slots=1)
    outlook.see(seen)
    first = outlook.ends(seen, KNOWN, plan(), 1_000)
    clock.now_ms = 900.0
    assert outlook.ends(seen, KNOWN, plan(), 90_000) is first
    clock.now_ms = 1_000.0
    assert outlook.ends(seen, KNOWN, plan(), 90_000)["j"].p50_ms == 90_000
    outlook.clear()
    assert outlook.ends(snapshot(), KNOWN, plan(), 90_000)["j"].p50_ms == 105_000


def test_a_job_that_is_between_two_stages_began_with_its_first_task():
    outlook = Outlook(Clock())
    outlook.see(snapshot(running_slots=1))
    outlook.see(snapshot())
    assert outlook.ends(snapshot(), KNOWN, plan(), 1_000)["j"].p50_ms == 16_000


@pytest.mark.parametrize("cut_short", [False, True])
def test_later_ends_are_corrected_by_those_of_jobs_that_ended_whole(cut_short: bool):
    clock = Clock()
    outlook = Outlook(clock)
    for _ in range(30):
        clock.now_ms += 1_000.0
        outlook.ends(snapshot(), KNOWN, plan(), 1_000)
        outlook.learn(JobSummary("j", "n", True, "ended", 1_000, 41_000, cut_short))  # 40 s for 10 to 20 s
    clock.now_ms += 1_000.0
    late = outlook.ends(snapshot(), KNOWN, plan(), 1_000)["j"]
    assert (late.p50_ms > 30_000) is not cut_short


@pytest.mark.parametrize(("first_seen_ms", "median_s"), [(1_000, 40.0), (31_000, 15.0)])
def test_a_newcomer_is_corrected_by_jobs_that_began_at_once(first_seen_ms: int, median_s: float):
    """By those that came lately, and not by those that a new planner finds after half a minute."""
    clock = Clock()
    outlook = Outlook(clock)
    for number in range(30):
        clock.now_ms += 1_000.0
        job = f"j{number}"  # each has its slots at the first look, and takes 40 s instead of 10 to 20 s
        view = replace(VIEW, job=job, running_slots=1)
        seen = replace(ClusterState().snapshot(), jobs=MappingProxyType({job: view}))
        outlook.see(seen)
        planned = replace(plan(), jobs=(JobPlan(job, 0, 0, None, "why"),))
        outlook.ends(seen, {job: KNOWN["j"]}, planned, first_seen_ms)
        outlook.learn(JobSummary(job, "n", True, "ended", 1_000, 41_000, False))
    given = KNOWN["j"].runtime
    answered = outlook.of_newcomer("j", given, snapshot(), plan(), 1_000)
    assert float(answered.quantile(0.5)) == pytest.approx(median_s, rel=0.05)
