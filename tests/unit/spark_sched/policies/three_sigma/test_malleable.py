"""Spark's stages are no gangs: an SLO job starts with fewer slots than it can use where that is in time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spark_sched.config import validate
from spark_sched.policies import Plan, PolicySettings, create
from spark_sched.policies.three_sigma.jobs import Worth, is_best_effort, pending_jobs
from spark_sched.policies.three_sigma.malleable import narrower, rounds
from spark_sched.policies.three_sigma.problem import Running
from spark_sched.policies.three_sigma.window import uniform
from spark_sched.predict import RuntimeDistribution
from spark_sched.state import DurationSummary, JobMarks, JobView, StageView
from spark_sched_lab.engine.engine import Simulation
from spark_sched_lab.engine.oracle import Oracle
from spark_sched_lab.engine.planning import Planner
from spark_sched_lab.simulator import ClusterSpec, JobSpec, StageSpec, uniform_nodes

SETTINGS = validate(
    {"spark.sched.policy.point-perf-est.firstStep": "1s", "spark.sched.policy.point-perf-est.window": "10min"}
)


def _job(key: str, submit_ms: int, tasks: int, task_ms: int, deadline_ms: int | None, gang: bool) -> JobSpec:
    stage = StageSpec(durations_ms=[task_ms] * tasks, gang=gang)
    return JobSpec(key=key, submit_ms=submit_ms, deadline_ms=deadline_ms, stages=(stage,))


def _ends_ms(gang: bool, plans: list[Plan]) -> dict[str, int | None]:
    """Six tasks of 1 s that are due in 4.5 s come while another SLO job has half of eight slots."""
    jobs = [
        _job("long", 0, 4, 20_000, 40_000, True),
        _job("urgent", 1_000, 6, 1_000, 5_500, gang),
    ]
    policy = create("point-perf-est", PolicySettings.from_config(SETTINGS))
    inner = policy.decide

    def decide(*about):
        plan, memory = inner(*about)
        plans.append(plan)
        return plan, memory

    policy.decide = decide  # type: ignore[method-assign]
    oracle = Oracle()
    planner = Planner(policy, oracle, np.random.default_rng(0), 200)
    cluster = ClusterSpec(uniform_nodes(1, 8))
    result = Simulation(cluster, oracle.watch(jobs), planner, SETTINGS, until_ms=60_000).run()
    return {row["job"]: row["end_ms"] for row in result.rows()}


def test_a_malleable_job_runs_in_rounds_and_meets_its_deadline():
    plans: list[Plan] = []
    assert _ends_ms(False, plans)["urgent"] == 3_000
    reasons = [entry.reason for plan in plans for entry in plan.jobs if entry.job == "urgent"]
    assert reasons[0] == "starts now on 4 slots of the 6 that it can use"
    # The share of the first plan would hold it at four for good.
    assert reasons[1] == "runs"


def test_a_gang_does_not():
    assert _ends_ms(True, [])["urgent"] is None


def test_past_its_deadline_a_job_waits_like_best_effort_ones_and_gives_way_like_them():
    """Ten seconds of work due in one second, beside a best-effort job; then somebody is in a hurry."""
    jobs = [
        _job("late", 0, 8, 10_000, 1_000, gang=False),
        _job("best effort", 100, 8, 10_000, None, gang=False),
        _job("urgent", 4_000, 8, 1_000, 6_000, gang=False),
    ]
    policy = create("point-perf-est", PolicySettings.from_config(SETTINGS))
    oracle = Oracle()
    planner = Planner(policy, oracle, np.random.default_rng(0), 200)
    result = Simulation(ClusterSpec(uniform_nodes(1, 8)), oracle.watch(jobs), planner, SETTINGS).run()
    ends_ms = {row["job"]: row["end_ms"] for row in result.rows()}
    assert ends_ms["urgent"] == 5_000
    assert all(end is not None for end in ends_ms.values())


def test_late_jobs_are_worth_what_best_effort_jobs_are_but_gangs_nothing():
    worth = Worth(horizon_s=100.0)
    job, gang = _waiting(6, barrier=False)[0].view, _waiting(6, barrier=True)[0].view
    after_s = (gang.marks.deadline_ms + 1) / 1000.0
    assert worth.of(gang, 1.0, 1.0).at(after_s) == 0.0
    unhurried = worth.of(replace(job, marks=replace(job.marks, deadline_ms=None)), 1.0, 1.0)
    assert worth.of(job, 1.0, 1.0).at(after_s) == pytest.approx(unhurried.at(after_s))
    assert worth.of(job, 1.0, 1.0).at(200.0) == unhurried.at(200.0)
    assert worth.of(job, 1.0, 1.0).at(job.marks.deadline_ms / 1000.0) == worth.slo
    assert is_best_effort(job, job.marks.deadline_ms + 1)
    assert not is_best_effort(job, job.marks.deadline_ms)
    assert not is_best_effort(gang, gang.marks.deadline_ms + 1)


GRID = uniform(6, 1_000)


def _running(slots: int, ends_at: int, cost: float | None = None) -> tuple[int, Running]:
    """A job on so many slots that is expected to end at that time step; 6: not in the window."""
    remaining = (np.arange(6) < ends_at).astype(float)
    return slots, Running(np.array([float(slots)]), remaining, cost)


def _narrower(jobs, free: int, *running: tuple[int, Running]):
    return narrower(jobs, free, [slots for slots, _ in running], [kept for _, kept in running], GRID, 0)


@pytest.mark.parametrize(
    ("free", "running", "slots", "factor"),
    [
        (3, [(5, 6)], 3, 2.0),  # three and three
        (2, [(4, 1)], 2, 2.0),  # the others come when the first ones end
        (1, [(7, 6)], 1, 6.0),  # one after the other
        (1, [(2, 1), (5, 6)], 1, 3.0),  # one, then three, then two
    ],
)
def test_it_takes_as_long_as_its_tasks_on_the_slots_that_are_expected(free, running, slots, factor):
    (job,) = _waiting(6, barrier=False)
    ((number, place),) = _narrower([job], free, *[_running(*each) for each in running])
    assert (number, place.slots) == (0, slots)
    assert place.factor == pytest.approx(factor)


def test_a_job_of_very_many_tasks_takes_their_number_over_the_slots():
    (job,) = _waiting(100_000, barrier=False)
    ((_, place),) = _narrower([job], 2, _running(6, 6))
    assert place.factor == pytest.approx(4.0)  # two slots instead of eight


def test_slots_of_jobs_that_may_be_preempted_make_a_place_of_their_own():
    (job,) = _waiting(6, barrier=False)
    found = _narrower([job], 2, _running(3, 6, cost=0.1), _running(3, 6))
    assert [(place.slots, place.factor) for _, place in found] == [(2, pytest.approx(3.0)), (5, 2.0)]


@pytest.mark.parametrize("free", [0, 6, 8])
def test_with_no_slot_or_with_all_of_them_there_is_no_narrower_place(free):
    (job,) = _waiting(6, barrier=False)
    assert _narrower([job], free, _running(8 - free, 2)) == []


def test_gangs_have_none_and_only_the_most_urgent_are_looked_at():
    assert _narrower(_waiting(6, barrier=True), 3, _running(5, 6)) == []
    many = _waiting(*[6] * 40, barrier=False)
    # The later ones are due sooner.
    assert {number for number, _ in _narrower(many, 3, _running(5, 6))} == set(range(8, 40))


def test_a_running_job_with_tasks_left_needs_its_rounds():
    (job,) = _waiting(6, barrier=False)
    view = job.view
    times = [rounds(replace(view, running_slots=slots), 8.0) for slots in (0, 1, 2, 4, 6)]
    assert times == [1.0, 6.0, 3.0, 2.0, 1.0]


def _waiting(*tasks: int, barrier: bool):
    """Jobs of 1 s on eight slots, the later ones due sooner."""
    none = DurationSummary(0, None, 0.0)
    found = []
    for number, count in enumerate(tasks):
        stage = StageView(f"{number}.0", "p", 0, count, None, True, barrier, 0, 0, none, ())
        found.append(
            JobView(
                f"j{number}",
                JobMarks("n", "u", 0, None, 9_000 - number, None, True, False),
                0,
                number,
                (stage,),
                {},
                0,
            )
        )
    runtime = RuntimeDistribution.point_s(1.0)
    made = pending_jobs([(view, runtime) for view in found], Worth(), GRID, np.array([8.0]))
    assert None not in made
    return made
