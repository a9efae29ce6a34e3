"""Jobs past their deadline, jobs that end exactly at it, and jobs wider than what they are offered."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from spark_sched.config import validate
from spark_sched.policies import Plan, PolicySettings, create
from spark_sched.policies.budget import Budget
from spark_sched.policies.three_sigma.curves import curves, utilities
from spark_sched.policies.three_sigma.jobs import Worth, pending_jobs
from spark_sched.policies.three_sigma.utility import slo
from spark_sched.policies.three_sigma.window import uniform
from spark_sched.predict import Forecast, RuntimeDistribution
from spark_sched.state import (
    DurationSummary,
    ExecutorView,
    JobMarks,
    JobView,
    Preferred,
    RunningTask,
    Snapshot,
    StageView,
)
from spark_sched_lab.engine.engine import Simulation
from spark_sched_lab.engine.oracle import Oracle
from spark_sched_lab.engine.planning import Planner
from spark_sched_lab.simulator import ClusterSpec, JobSpec, StageSpec, uniform_nodes

UNLIMITED = Budget()
ABOUT_A_MINUTE = RuntimeDistribution.uniform_s(50.0, 70.0)


def job(
    key: str,
    tasks: int,
    *,
    running: int = 0,
    slots_per_task: int = 1,
    barrier: bool = False,
    deadline_ms: int | None = None,
    **fields: Any,
) -> JobView:
    """One stage; its tasks run since 0."""
    attempts = tuple(RunningTask(hash((key, n)) % 10**6, n, "e", 0, False) for n in range(running))
    nothing = DurationSummary(0, None, 0.0)
    stage = StageView(
        key, "", 0, tasks, None, True, barrier, 0, 0, nothing, attempts, True, slots_per_task=slots_per_task
    )
    given = {"started_ms": 0, "arrival": 0, **fields}
    marks = JobMarks(
        name=key, user=None, priority=0, isolation=None, deadline_ms=deadline_ms, job_class=None, copies=True,
        marked=True,
    )  # fmt: skip
    return JobView(
        job=key, marks=marks, stages=(stage,), held=MappingProxyType({}),
        running_slots=running * slots_per_task, **given,
    )  # fmt: skip


def plan(
    policy: str,
    slots: int,
    now_ms: int,
    runtimes: dict[str, Forecast],
    *jobs: JobView,
    budget: Budget = UNLIMITED,
    **options: str,
) -> Plan:
    busy = sum(each.running_slots for each in jobs)
    executors = {"e": ExecutorView("e", "h", slots, busy, 0)}
    snapshot = Snapshot(
        version=1, now_ms=now_ms, executors=MappingProxyType(executors),
        jobs=MappingProxyType({each.job: each for each in jobs}), ended=MappingProxyType({}),
    )  # fmt: skip
    settings = validate({f"spark.sched.policy.{policy}.{key}": value for key, value in options.items()})
    made = create(policy, replace(PolicySettings.from_config(settings), budget=budget))
    return made.decide(snapshot, runtimes, now_ms, np.random.default_rng(0), None)[0]


def forecast(runtime: RuntimeDistribution, point_s: float | None = None) -> Forecast:
    return Forecast(source="test", runtime=runtime, runtime_point_s=point_s)


@pytest.mark.parametrize("policy", ["3sigma", "3sigma-no-adapt", "3sigma-no-oe"])
def test_two_late_jobs_do_not_evict_each_other(policy: str) -> None:
    """Both are over-estimated at once: their deadlines are 20 s after they come, and each takes 60 s."""
    name = f"spark.sched.policy.{policy}"
    settings = validate({f"{name}.firstStep": "5s", f"{name}.window": "10min"})
    jobs = [
        JobSpec(
            key=key, submit_ms=came_ms, deadline_ms=came_ms + 20_000,
            stages=(StageSpec(durations_ms=[60_000] * 4),),
        )
        for key, came_ms in (("first", 0), ("second", 5_000))
    ]  # fmt: skip
    oracle = Oracle()
    planner = Planner(
        create(policy, PolicySettings.from_config(settings)), oracle, np.random.default_rng(0), 200
    )
    cluster = ClusterSpec(uniform_nodes(1, 4))
    result = Simulation(cluster, oracle.watch(jobs), planner, settings, until_ms=600_000).run()
    rows = {row["job"]: row for row in result.rows()}
    assert [row["evictions"] for row in rows.values()] == [0, 0]
    assert rows["first"]["end_ms"] == 60_000
    assert rows["second"]["end_ms"] == pytest.approx(120_000, abs=500)


@pytest.mark.parametrize("policy", ["3sigma", "3sigma-no-oe"])
def test_a_job_long_past_its_deadline_still_starts(policy: str) -> None:
    late = job("late", 4, deadline_ms=20_000)
    known = {"late": forecast(ABOUT_A_MINUTE), "new": forecast(ABOUT_A_MINUTE)}
    (entry,) = plan(policy, 4, 200_000, known, late).jobs
    assert entry.start_ms == 200_000
    # Beside a best-effort job, too: it is worth as much as one.
    beside = plan(policy, 4, 200_000, known, late, job("new", 4, started_ms=199_000, arrival=1))
    assert [entry.start_ms for entry in beside.jobs] == [200_000, 270_000]


def test_a_gang_is_worth_nothing_after_its_decay() -> None:
    gang, stage = job("g", 4, deadline_ms=20_000, barrier=True), job("s", 4, deadline_ms=20_000)
    worth = Worth()
    assert worth.of(gang, 0.0, 70.0).at(500.0) == 0.0
    assert worth.of(stage, 0.0, 70.0).at(500.0) == worth.of(job("b", 4), 1.0, 70.0).at(500.0)


def test_wide_tasks_take_all_their_slots() -> None:
    """Four tasks of two slots fill eight slots: nothing can start beside them."""
    known = {"running": forecast(ABOUT_A_MINUTE), "due": forecast(RuntimeDistribution.uniform_s(5.0, 7.0))}
    running = job("running", 4, running=4, slots_per_task=2, deadline_ms=90_000)
    made = plan("3sigma", 8, 1_000, known, running, job("due", 4, deadline_ms=60_000, arrival=1))
    due = {entry.job: entry for entry in made.jobs}["due"]
    assert "starts now" not in due.reason
    assert due.deferred or due.start_ms is None or due.start_ms > 1_000


def test_steps_of_100_ms_refuse_no_plan() -> None:
    """0.3 s - 0.1 s is less than 0.2 s in floating point."""
    known = {key: forecast(RuntimeDistribution.point_s(0.2), 0.2) for key in "ABC"}
    known["R"] = forecast(RuntimeDistribution.point_s(0.1), 0.1)
    waiting = [job(key, 1, arrival=n, started_ms=900, barrier=True) for n, key in enumerate("ABC", 1)]
    running = job("R", 1, running=1, barrier=True, started_ms=1_000)
    made = plan(
        "point-real-est", 1, 1_000, known, running, *waiting, firstStep="100ms", window="2400ms"
    )  # fmt: skip
    assert made.quality is not None
    assert made.quality.status != "refused"


def test_who_ends_exactly_at_the_deadline_meets_it_at_any_time_of_day() -> None:
    known = curves([RuntimeDistribution.point_s(60.0)])
    which, factor = np.zeros(1, dtype=np.int64), np.ones(1)
    for number in range(1_000):
        now_s = 37 * number / 1000.0
        found = utilities(known, which, factor, [slo(now_s + 60.0)], np.array([now_s]))
        assert found[0, 0] == pytest.approx(1.0), now_s
        late = utilities(known, which, factor, [slo(now_s + 60.0)], np.array([now_s + 0.001]))
        assert late[0, 0] == 0.0


def test_a_job_wider_than_its_preferred_slots_runs_there_in_more_rounds() -> None:
    capacity = np.array([2.0, 2.0, 2.0, 2.0])

    def places(tasks: int, barrier: bool = False) -> list[tuple[int, int, float]]:
        view = job("w", tasks, barrier=barrier, preferred=Preferred(frozenset({0, 1, 2}), 1.5))
        (found,) = pending_jobs([(view, ABOUT_A_MINUTE)], Worth(), uniform(4, 1_000), capacity)
        assert found is not None
        return [(place.mask, place.slots, place.factor) for place in found.places]

    assert places(6) == [(0b111, 6, 1.0), (0b1111, 6, 1.5)]
    assert places(8) == [(0b111, 6, 2.0), (0b1111, 8, 1.5)]
    assert places(8, barrier=True) == [(0b1111, 8, 1.5)]


def test_a_plan_considers_as_many_waiting_jobs_as_its_time_allows_the_earliest_deadlines_first() -> None:
    jobs = [
        job("oldest", 2, arrival=0),
        job("older", 2, arrival=1),
        job("late", 2, arrival=2, deadline_ms=900_000),
        job("early", 2, arrival=3, deadline_ms=300_000),
    ]
    runtimes = {each.job: forecast(ABOUT_A_MINUTE) for each in jobs}
    all_of_them = plan("3sigma", 8, 0, runtimes, *jobs)
    assert [entry.start_ms for entry in all_of_them.jobs] == [0] * 4
    # A budget of 0.7 ms is one for three jobs.
    some = plan("3sigma", 8, 0, runtimes, *jobs, budget=Budget(0.7))
    entries = {entry.job: entry for entry in some.jobs}
    assert {key for key, entry in entries.items() if entry.start_ms == 0} == {"early", "late", "oldest"}
    assert entries["older"].deferred
    assert entries["older"].reason.startswith("not considered: the time for one plan")
    assert some.quality is not None
    assert some.quality.pending == 3
    assert some.again_ms is not None
