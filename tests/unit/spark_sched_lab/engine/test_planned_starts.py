"""What the simulator does with plans that defer jobs, share out partitions and evict."""

from __future__ import annotations

import numpy as np
import pytest

from spark_sched.config import validate
from spark_sched.policies import Plan, PolicySettings, create
from spark_sched.state import Preferred
from spark_sched_lab.simulator import ClusterSpec, JobSpec, NodeSpec, StageSpec, simulate, uniform_nodes
from tests.unit.spark_sched_lab.engine.scripted import Scripted

SETTINGS = PolicySettings.from_config(validate({}))


def gang(key: str, slots: int, runtime_ms: int, at: int = 0, **marks: object) -> JobSpec:
    return JobSpec(key, at, (StageSpec([runtime_ms] * slots, gang=True),), **marks)  # type: ignore[arg-type]


def rows(result) -> dict[str, dict]:
    return {row["job"]: row for row in result.rows()}


def test_a_deferred_job_starts_when_a_later_plan_lets_it():
    policy = Scripted(
        lambda job, now: {"deferred": now < 7_000}, again_ms=lambda now: 7_000 if now < 7_000 else None
    )
    result = simulate(ClusterSpec(uniform_nodes(2, 1)), [gang("a", 1, 1_000)], policy)
    assert rows(result)["a"]["first_launch_ms"] == 7_000
    assert policy.planned_at[:2] == [0, 7_000]


def test_a_plan_is_made_again_at_the_planners_pace_and_only_for_the_newest_wish():
    policy = Scripted(lambda job, now: {"deferred": now < 9_000}, again_ms=lambda now: now + 1_500)
    result = simulate(
        ClusterSpec(uniform_nodes(2, 1)), [gang("a", 1, 1_000), gang("b", 1, 1_000, 4_100)], policy,
        plan_every_ms=2_000, until_ms=12_000,
    )  # fmt: skip
    assert policy.planned_at == sorted(set(policy.planned_at))
    assert all(at % 2_000 == 0 for at in policy.planned_at)
    assert rows(result)["a"]["first_launch_ms"] == 10_000


def test_a_new_job_waits_for_the_plan_that_knows_it():
    policy = Scripted(lambda job, now: {})
    result = simulate(
        ClusterSpec(uniform_nodes(2, 1)), [gang("a", 1, 100, at=500)], policy, plan_every_ms=2_000
    )
    assert rows(result)["a"]["first_launch_ms"] == 2_000


def test_each_plan_says_anew_whether_jobs_that_it_does_not_know_wait():
    policy = Scripted(lambda job, now: {}, new_jobs_wait=lambda now: now >= 2_000)
    jobs = [gang("early", 1, 100, at=500), gang("late", 1, 100, at=2_500)]
    found = rows(simulate(ClusterSpec(uniform_nodes(2, 1)), jobs, policy, plan_every_ms=2_000))
    assert found["early"]["first_launch_ms"] == 500
    assert found["late"]["first_launch_ms"] == 4_000


def test_what_a_plan_leaves_without_a_start_takes_spare_slots_whoever_waits_for_plans():
    policy = Scripted(lambda job, now: {"deferred": True}, new_jobs_wait=lambda now: False)
    jobs = [JobSpec("a", 0, (StageSpec([1_000]),))]
    assert rows(simulate(ClusterSpec(uniform_nodes(1, 1)), jobs, policy))["a"]["end_ms"] == 1_000


@pytest.mark.parametrize("share", [{0: 1, 2: 2}, {1: 3}])
def test_a_share_is_taken_from_its_partitions_alone(share: dict[int, int]):
    nodes = tuple(NodeSpec(f"n{i}", 3, partition=i) for i in range(3))
    policy = Scripted(lambda job, now: {"share": share})
    result = simulate(ClusterSpec(nodes), [gang("a", 3, 1_000)], policy)
    used: dict[int, int] = {}
    for node in result.tasks["node"]:
        used[node] = used.get(node, 0) + 1
    assert used == share


def test_a_gang_waits_while_its_share_is_not_free():
    nodes = tuple(NodeSpec(f"n{i}", 2, partition=i) for i in range(2))

    def say(job, now):
        return {"share": {0: 1}} if job.job == "first" else {"share": {0: 2}}

    result = simulate(ClusterSpec(nodes), [gang("first", 1, 5_000), gang("b", 2, 1_000)], Scripted(say))
    assert rows(result)["b"]["first_launch_ms"] == 5_000


def test_an_evicted_gang_loses_its_work_and_runs_again():
    def say(job, now):
        if job.job == "victim":
            return {"evict": True, "deferred": True} if now == 3_000 else {"deferred": now < 4_000}
        return {}

    jobs = [gang("victim", 2, 10_000), gang("urgent", 2, 1_000, at=3_000)]
    result = simulate(
        ClusterSpec(uniform_nodes(2, 1)), jobs,
        Scripted(lambda job, now: {} if now < 3_000 else say(job, now)),
    )  # fmt: skip
    found = rows(result)
    assert found["urgent"]["wait_ms"] == 0
    assert found["victim"]["end_ms"] == 4_000 + 10_000
    assert found["victim"]["evictions"] == 2
    assert found["victim"]["wasted_ms"] == 2 * 3_000
    assert found["victim"]["work_ms"] == 2 * 10_000


def test_a_job_without_a_start_takes_what_nobody_with_a_start_waits_for():
    def say(job, now):
        if job.job == "planned":
            return {"deferred": now < 5_000, "start_ms": 5_000}
        return {"deferred": True}

    def job(key: str, tasks: int) -> JobSpec:
        return JobSpec(key, 0, (StageSpec([2_000] * tasks),))

    policy = Scripted(say, again_ms=lambda now: 5_000 if now < 5_000 else None)
    jobs = [job("first", 3), job("second", 3), gang("gang", 1, 1_000), job("planned", 3)]
    found = rows(simulate(ClusterSpec(uniform_nodes(1, 8)), jobs, policy, until_ms=60_000))
    # Three of the eight slots are kept for the planned job.
    assert {key: found[key]["end_ms"] for key in ("first", "second", "planned")} == {
        "first": 2_000, "second": 4_000, "planned": 7_000,
    }  # fmt: skip
    assert found["gang"]["end_ms"] is None


def test_evicted_jobs_neither_take_nor_keep_spare_slots():
    def say(job, now):
        return {"deferred": True, "evict": job.job == "evicted"}

    jobs = [JobSpec(key, 0, (StageSpec([1_000] * 2),)) for key in ("evicted", "spare")]
    found = rows(simulate(ClusterSpec(uniform_nodes(1, 2)), jobs, Scripted(say), until_ms=60_000))
    assert found["spare"]["end_ms"] == 1_000
    assert found["evicted"]["end_ms"] is None


def test_prio_evicts_the_latest_best_effort_jobs_for_a_deadline():
    jobs = [
        gang("old", 1, 60_000),
        gang("new", 1, 60_000, at=1_000),
        gang("slo", 1, 5_000, at=2_000, deadline_ms=9_000),
    ]
    found = rows(simulate(ClusterSpec(uniform_nodes(2, 1)), jobs, "prio"))
    assert found["slo"]["end_ms"] == 7_000
    assert (found["old"]["evictions"], found["new"]["evictions"]) == (0, 1)


def test_prio_evicts_nobody_in_vain():
    jobs = [gang("be", 1, 60_000), gang("slo", 3, 5_000, at=2_000, deadline_ms=9_000)]
    found = rows(simulate(ClusterSpec(uniform_nodes(2, 1)), jobs, "prio", until_ms=30_000))
    assert found["be"]["evictions"] == 0


def near_job(at: int, nodes: list[str], tasks: int, near_wait_ms: int) -> JobSpec:
    near = [frozenset(nodes)] * tasks
    stage = StageSpec([1_000] * tasks, near=near, near_wait_ms=near_wait_ms)
    return JobSpec("slo", at, (stage,), deadline_ms=200_000)


@pytest.mark.parametrize("near", ["n0", "n1"])
def test_prio_keeps_the_slots_that_it_freed_for_tasks_that_wait_for_a_nearer_one(near: str):
    """n0 is of a job that may not be evicted. While the SLO task waits for it, no best-effort job takes
    n1 only to be evicted again."""
    jobs = [gang(f"be{n}", 1, 60_000, at=n, copies=n > 0) for n in range(4)]
    jobs.append(near_job(1_000, [near], 1, 3_000))
    found = rows(simulate(ClusterSpec(uniform_nodes(2, 1)), jobs, "prio", seed=1))
    assert sum(row["evictions"] for row in found.values()) == 1
    assert found["slo"]["end_ms"] <= 5_000


def test_prio_gives_best_effort_jobs_what_a_waiting_slo_job_does_not_need():
    jobs = [
        JobSpec("never", 0, (StageSpec([90_000]),), copies=False),
        JobSpec("be", 1, (StageSpec([90_000] * 3),)),
        JobSpec("waits", 2, (StageSpec([90_000]),)),
        near_job(1_000, ["n0"], 1, 3_000),
    ]
    found = rows(simulate(ClusterSpec(uniform_nodes(4, 1)), jobs, "prio"))
    assert (found["be"]["evictions"], found["waits"]["evictions"]) == (3, 0)
    assert found["waits"]["first_launch_ms"] == 1_000


def test_prio_gives_up_slots_that_nobody_takes():
    """The SLO task waits for ten minutes for n0, which is of a job that may not be evicted. Others do not
    wait for it that long, and are not evicted for it again."""
    jobs = [gang(f"be{n}", 1, 90_000, at=n, copies=n > 0) for n in range(2)]
    jobs.append(near_job(1_000, ["n0"], 1, 600_000))
    found = rows(simulate(ClusterSpec(uniform_nodes(2, 1)), jobs, "prio", seed=1))
    assert found["slo"]["end_ms"] == 91_000
    assert found["be1"]["evictions"] == 1
    assert found["be1"]["end_ms"] == 61_000 + 90_000


def test_the_oracle_tells_point_perf_est_to_wait_for_the_preferred_slots():
    """Elsewhere the SLO job would take 18 s and miss its deadline; the preferred slot is free in time."""
    nodes = tuple(NodeSpec(f"n{i}", 1, partition=i) for i in range(2))
    jobs = [
        gang("be", 1, 5_000, preferred=Preferred(frozenset({0}), 9.0)),
        gang("slo", 1, 10_000, at=2_000, deadline_ms=18_000, preferred=Preferred(frozenset({0}), 1.8)),
    ]
    for policy, end_ms in (("prio", 20_000), ("point-perf-est", 15_000)):
        found = rows(simulate(ClusterSpec(nodes), jobs, policy, predictor="oracle"))
        assert found["slo"]["end_ms"] == end_ms, policy


def test_preemption_saves_a_deadline():
    jobs = [gang("be", 2, 600_000), gang("slo", 1, 20_000, at=10_000, deadline_ms=40_000)]
    for policy in ("point-perf-est", "3sigma"):
        found = rows(simulate(ClusterSpec(uniform_nodes(2, 1)), jobs, policy, predictor="oracle"))
        assert found["slo"]["end_ms"] == 30_000, policy
        assert found["be"]["evictions"] == 2, policy


class Recorded:
    """A policy whose plans can be looked at afterwards."""

    def __init__(self, name: str) -> None:
        self._policy = create(name, SETTINGS)
        self.name = name
        self.capabilities = self._policy.capabilities
        self.plans: list[Plan] = []

    def decide(self, *arguments):
        decision = self._policy.decide(*arguments)
        self.plans.append(decision[0])
        return decision


@pytest.mark.parametrize("policy", ["prio", "point-perf-est", "3sigma"])
@pytest.mark.parametrize("marks", [{"barrier": True}, {"copies": False}], ids=["barrier", "never"])
def test_an_slo_job_waits_for_the_end_of_what_may_not_be_evicted(policy: str, marks: dict[str, bool]):
    stage = StageSpec([100_000] * 2, gang=True, restartable=not marks.get("barrier", False))
    jobs = [
        JobSpec("first", 0, (stage,), copies=marks.get("copies", True)),
        JobSpec("slo", 10_000, (StageSpec([5_000] * 2),), deadline_ms=60_000),
    ]
    recorded = Recorded(policy)
    found = rows(simulate(ClusterSpec(uniform_nodes(2, 1)), jobs, recorded, predictor="oracle"))
    assert found["first"]["evictions"] == 0
    assert (found["first"]["end_ms"], found["slo"]["end_ms"]) == (100_000, 105_000)
    entries = [entry for plan in recorded.plans for entry in plan.jobs]
    assert not any(entry.evict for entry in entries)
    # Policies that plan start times plan this one for the other job's end.
    starts = {entry.start_ms for entry in entries if entry.job == "slo" and entry.deferred}
    assert all(start_ms is None or start_ms >= 100_000 for start_ms in starts)
    assert policy == "prio" or any(starts)


def test_the_driver_and_the_simulator_evict_the_restartable_stages_of_a_job_alone():
    stages = (StageSpec([10_000]), StageSpec([10_000], restartable=False))

    def say(job, now):
        return {"evict": now == 3_000, "deferred": now == 3_000}

    policy = Scripted(say, again_ms=lambda now: 3_000 if now < 3_000 else 4_000 if now < 4_000 else None)
    result = simulate(ClusterSpec(uniform_nodes(1, 2)), [JobSpec("a", 0, stages)], policy)
    assert rows(result)["a"]["evictions"] == 1
    assert sorted(result.tasks["outcome"]) == ["evicted", "success", "success"]


def test_a_job_of_several_stages_is_not_held_up_between_them():
    chain = tuple(StageSpec([1_000, 1_000], (i - 1,) if i else ()) for i in range(3))
    found = rows(simulate(ClusterSpec(uniform_nodes(2, 1)), [JobSpec("a", 0, chain)], "3sigma"))
    assert found["a"]["end_ms"] == 3_000


@pytest.mark.parametrize("policy", ["3sigma", "point-real-est"])
def test_the_same_seed_gives_the_same_plans(policy: str):
    rng = np.random.default_rng(7)
    jobs = []
    for n in range(24):
        at, runtime = n * 500, int(rng.integers(1_000, 20_000))
        deadline = at + 2 * runtime if n % 2 else None
        jobs.append(gang(f"j{n}", int(rng.integers(1, 4)), runtime, at, deadline_ms=deadline))
    cluster = ClusterSpec(uniform_nodes(8, 1, partitions=2))
    first, second = (
        simulate(cluster, jobs, create(policy, SETTINGS), predictor="oracle", plan_every_ms=1_000, seed=3)
        for _ in range(2)
    )
    assert first.jobs == second.jobs
    # A job that has missed its deadline is worth nothing (figure 3a) and is not run.
    late = [row for row in first.rows() if row["end_ms"] is None]
    assert all(row["deadline_ms"] is not None for row in late)
