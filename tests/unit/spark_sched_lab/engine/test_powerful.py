"""Powerful jobs take the fastest nodes first (thesis §8.1.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from spark_sched.policies import Policy
from spark_sched.protocol.events import Event, TaskLaunched
from spark_sched.state import JobView
from spark_sched_lab.enforce.enforcement import by_speed
from spark_sched_lab.simulator import ClusterSpec, JobSpec, NodeSpec, StageSpec, simulate
from tests.unit.spark_sched_lab.engine.scripted import Scripted

SLOW, FAST = ("n0", "n1"), ("n2", "n3")
NODES = tuple(NodeSpec(name, 2, speed=2.0 if name in FAST else 1.0) for name in SLOW + FAST)


def placed(policy: str | Policy, jobs: list[JobSpec], **settings: str) -> dict[str, Counter[str]]:
    """How many tasks each node got, by job."""
    told: list[Event] = []
    simulate(ClusterSpec(NODES), jobs, policy, settings=settings, check=True, observer=told.append)
    found: dict[str, Counter[str]] = {job.key: Counter() for job in jobs}
    for event in told:
        if isinstance(event, TaskLaunched):
            found[event.job][event.executor] += 1
    return found


def job(name: str, tasks: int, *, at_ms: int = 0, priority: int = 0, gang: bool = False) -> JobSpec:
    return JobSpec(name, at_ms, (StageSpec([10_000] * tasks, gang=gang),), priority=priority)


def say(job: JobView, now_ms: int) -> Mapping[str, Any]:
    return {"powerful": job.job.startswith("high")}


KNOWN = {"n0": 2.0, "n1": 2.0}


def test_a_powerful_job_fills_the_fastest_nodes_before_others() -> None:
    policy = Scripted(say, slowness=KNOWN)
    assert placed(policy, [job("high", 4)])["high"] == {"n2": 2, "n3": 2}
    found = placed(policy, [job("high", 6)])["high"]
    assert (found["n2"], found["n3"], found["n0"] + found["n1"]) == (2, 2, 2)


def test_tasks_are_spread_over_nodes_of_one_level() -> None:
    # A draw for each task: two tasks on one node every time are as unlikely as 1 in 2 ** 19.
    jobs = [job(f"high-{n}", 2, at_ms=100_000 * n) for n in range(20)]
    found = placed(Scripted(say, slowness=KNOWN), jobs)
    assert all(set(nodes) <= set(FAST) for nodes in found.values())
    assert any(len(nodes) == 2 for nodes in found.values())


@pytest.mark.parametrize(
    ("name", "gang", "slowness"),
    [
        pytest.param("low", False, KNOWN, id="a job that is not powerful"),
        pytest.param("high", True, KNOWN, id="a gang"),
        pytest.param("high", False, {}, id="no node differs"),
    ],
)
def test_others_take_nodes_at_random(name: str, gang: bool, slowness: Mapping[str, float]) -> None:
    jobs = [job(f"{name}-{n}", 2, at_ms=100_000 * n, gang=gang) for n in range(20)]
    found = sum(placed(Scripted(say, slowness=slowness), jobs).values(), Counter[str]())
    assert set(found) == {*SLOW, *FAST}


def test_executors_of_equal_slowness_stay_together_and_one_level_is_none() -> None:
    assert by_speed(["a", "b", "c", "d"], {"b": 0.5, "d": 2.0}) == [["b"], ["a", "c"], ["d"]]
    assert by_speed(["a", "b"], {"c": 0.5}) == by_speed([], {}) == []


def test_priority_evictions_learns_fast_nodes_and_keeps_jobs_of_high_priority_there() -> None:
    """The first jobs show which nodes are fast. Later ones of high priority run there alone, the last ones as
    well as the first."""
    jobs = [job(f"seen-{n}", 8, at_ms=50_000 * n) for n in range(10)]
    jobs += [job(f"high-{n}", 3, at_ms=500_000 + 50_000 * n, priority=9) for n in range(400)]

    def fast(found: Mapping[str, Counter[str]], first: int) -> int:
        return sum(found[f"high-{n}"][node] for n in range(first, first + 100) for node in FAST)

    wasp = placed("priority-evictions", jobs)
    option = "spark.sched.policy.priority-evictions.powerful_priority"
    without = placed("priority-evictions", jobs, **{option: "10"})
    # The planner knows a job from its first stage on: every plan here has the job before its tasks start.
    assert [fast(wasp, 0), fast(wasp, 300)] == [300, 300]
    assert 100 < fast(without, 300) < 200
