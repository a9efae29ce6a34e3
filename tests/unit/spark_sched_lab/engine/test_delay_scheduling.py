"""Delay scheduling level by level; the times follow from the rules of Spark's TaskSetManager."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from spark_sched.config import validate
from spark_sched.errors import BadInputError
from spark_sched.policies import ChangesWith, Plan, PolicySettings, create
from spark_sched.state import Snapshot
from spark_sched_lab.simulator import (
    ClusterSpec,
    Delay,
    JobSpec,
    LocalityWaits,
    NodeSpec,
    StageSpec,
    simulate,
)

A, AB = frozenset({"a"}), frozenset({"a", "b"})
ABC = ClusterSpec((NodeSpec("a", 1), NodeSpec("b", 1), NodeSpec("c", 1)))


def starts(cluster: ClusterSpec, *jobs: JobSpec) -> dict[tuple[int, int], tuple[int, str]]:
    """By job and task, when and where it started."""
    found = simulate(cluster, jobs, check=True)
    columns = (found.tasks[name] for name in ("job", "task", "start_ms", "node"))
    return {(job, task): (start, found.nodes[node]) for job, task, start, node in zip(*columns, strict=True)}


def cached_on_a(durations_ms: list[int], waits: LocalityWaits) -> JobSpec:
    """Tasks whose input node a caches; b is on the same host."""
    tasks = len(durations_ms)
    stage = StageSpec(durations_ms, near=[AB] * tasks, delay=Delay(waits, [A] * tasks))
    return JobSpec("j", 0, (stage,))


def test_a_stage_waits_at_each_level_before_it_accepts_the_next() -> None:
    found = starts(ABC, cached_on_a([1_000] * 4, LocalityWaits(process_ms=100, node_ms=200, rack_ms=0)))
    assert found == {
        (0, 0): (0, "a"),
        (0, 1): (100, "b"),
        (0, 2): (300, "c"),
        (0, 3): (1_000, "a"),
    }


def test_a_level_that_no_task_can_have_is_not_waited_for() -> None:
    waits = LocalityWaits(process_ms=5_000, node_ms=50, rack_ms=5_000)
    near = StageSpec([1_000] * 2, near=[A] * 2, delay=Delay(waits))
    assert starts(ABC, JobSpec("j", 0, (near,)))[0, 1][0] == 50


def test_a_task_without_preferences_goes_anywhere_while_others_wait() -> None:
    waits = LocalityWaits(1_000, 1_000, 1_000)
    mixed = StageSpec([500] * 3, near=[A, A, frozenset()], delay=Delay(waits, [A, A, frozenset()]))
    found = starts(ABC, JobSpec("j", 0, (mixed,)))
    assert (found[0, 0], found[0, 1]) == ((0, "a"), (500, "a"))
    assert found[0, 2][0] == 0
    assert found[0, 2][1] != "a"


def test_the_rack_of_a_preferred_host_is_nearer_than_other_racks() -> None:
    nodes = (NodeSpec("a", 1, rack=0), NodeSpec("other", 1, rack=1), NodeSpec("same", 1, rack=0))
    stage = StageSpec([1_000] * 3, near=[A] * 3, delay=Delay(LocalityWaits(0, 100, 200)))
    found = starts(ClusterSpec(nodes), JobSpec("j", 0, (stage,)))
    assert [found[0, task] for task in range(3)] == [(0, "a"), (100, "same"), (300, "other")]


@pytest.mark.parametrize(("at_launch", "second_ms"), [(False, 500), (True, None)])
def test_when_the_timer_restarts(at_launch: bool, second_ms: int | None) -> None:
    """Node b is busy until 250. Launches at 0, 100 and 200 refuse no slot, so the wait of 300 ms counts from
    200; by the older rule it counts from each launch, and b is never accepted."""
    cluster = ClusterSpec((NodeSpec("a", 1), NodeSpec("b", 1)))
    other = JobSpec("other", 0, (StageSpec([250], seen_on=["b"]),))
    waits = LocalityWaits(300, 0, 0, restarts_at_launch=at_launch)
    stage = StageSpec([100] * 9, near=[A] * 9, delay=Delay(waits, [A] * 9))
    found = starts(cluster, other, JobSpec("j", 0, (stage,)))
    on_b = [start for (job, _), (start, node) in found.items() if job == 1 and node == "b"]
    assert min(on_b, default=None) == second_ms


def test_a_refused_slot_is_offered_again_with_all_free_slots() -> None:
    waits = LocalityWaits(100, 0, 0, revive_ms=1_000, revive_at_ms=7_050)
    found = starts(ABC, cached_on_a([5_000] * 3, waits))
    assert sorted(found.values()) == [(0, "a"), (1_050, "b"), (1_050, "c")]


def test_the_submission_of_a_stage_offers_all_free_slots() -> None:
    waits = LocalityWaits(100, 0, 0, revive_ms=1_000, revive_at_ms=50)
    late = JobSpec("late", 400, (StageSpec([1], seen_on=["c"]),))
    found = starts(ABC, cached_on_a([5_000] * 3, waits), late)
    assert sorted(found[0, task] for task in range(3)) == [(0, "a"), (400, "b"), (400, "c")]


@pytest.mark.parametrize(
    ("seen_on", "ends_ms"),
    [(["a", "a"], [1_000, 100 + 1_600]), (["a", "b"], [1_000, 100 + 1_000]), (["b", "a"], [625, 1_700])],
)
def test_a_task_takes_longer_away_from_its_cached_input(seen_on: list[str], ends_ms: list[int]) -> None:
    """Its duration is the one of the place where it was seen."""
    cluster = ClusterSpec((NodeSpec("a", 1), NodeSpec("b", 1)))
    waits = LocalityWaits(100, 0, 0)
    stage = StageSpec([1_000] * 2, near=[A] * 2, delay=Delay(waits, [A] * 2, away=1.6), seen_on=seen_on)
    found = simulate(cluster, [JobSpec("j", 0, (stage,))])
    ends = dict(zip(found.tasks["task"], found.tasks["end_ms"], strict=True))
    assert [ends[task] for task in range(2)] == ends_ms


def test_tasks_whose_places_are_gone_wait_for_nothing() -> None:
    nodes = (NodeSpec("a", 1, until_ms=50), NodeSpec("b", 1), NodeSpec("c", 1))
    stage = StageSpec([100] * 4, near=[A] * 4, delay=Delay(LocalityWaits(9_000, 9_000, 0), [A] * 4))
    late = JobSpec("late", 60, (StageSpec([1]),))
    found = starts(ClusterSpec(nodes), JobSpec("j", 0, (stage,)), late)
    assert max(start for (job, _), (start, _) in found.items() if job == 0) < 500


@pytest.mark.parametrize(
    ("stage", "what"),
    [
        (StageSpec([1, 1], delay=Delay(LocalityWaits(0, 0, 0), [A])), "1 sets of cached nodes for 2 tasks"),
        (StageSpec([1], delay=Delay(LocalityWaits(0, 0, 0), away=0.0)), "away 0.0"),
    ],
)
def test_wrong_places_are_refused(stage: StageSpec, what: str) -> None:
    with pytest.raises(BadInputError, match=what):
        simulate(ABC, [JobSpec("j", 0, (stage,))])


class Defers:
    """FIFO that defers the job ``late`` and plans every half second."""

    name = "defers"

    def __init__(self) -> None:
        self._fifo = create("fifo", PolicySettings.from_config(validate({})))
        self.capabilities = replace(self._fifo.capabilities, changes_with=ChangesWith.TASKS)

    def decide(
        self, snapshot: Snapshot, forecasts: Any, now_ms: int, rng: Any, memory: Any
    ) -> tuple[Plan, Any]:
        plan, memory = self._fifo.decide(snapshot, forecasts, now_ms, rng, memory)
        jobs = tuple(replace(job, deferred=True) if job.job == "late" else job for job in plan.jobs)
        return replace(plan, jobs=jobs, again_ms=now_ms + 500 if now_ms < 200_000 else None), memory


def waits_on_b(revive_ms: int) -> LocalityWaits:
    return LocalityWaits(3_000, 3_000, 3_000, restarts_at_launch=False, revive_ms=revive_ms)


def test_a_slot_that_a_deferred_job_refused_is_offered_to_it_again() -> None:
    busy = JobSpec("busy", 0, (StageSpec([100_000], seen_on=["a"]),))
    late = JobSpec("late", 10, (StageSpec([1_000], near=[A], delay=Delay(waits_on_b(1_000))),))
    found = simulate(ClusterSpec((NodeSpec("a", 1), NodeSpec("b", 1))), [busy, late], Defers())
    launched_ms = dict(zip(found.jobs["job"], found.jobs["first_launch_ms"], strict=True))
    assert 3_010 <= launched_ms["late"] <= 5_000


@pytest.mark.parametrize("revive_ms", [0, 1_000])
def test_after_its_wait_a_stage_takes_a_held_slot_that_it_may_have(revive_ms: int) -> None:
    holder = JobSpec(
        "holder",
        0,
        (StageSpec([1_000], seen_on=["b"]), StageSpec([1_000], parents=(0,), delay_ms=60_000)),
        priority=1,
        marked=True,
        isolation=1.0,
    )
    busy = JobSpec("busy", 0, (StageSpec([200_000], seen_on=["a"]),), priority=9)
    higher = JobSpec(
        "higher", 2_000, (StageSpec([1_000], near=[A], delay=Delay(waits_on_b(revive_ms))),), priority=5
    )
    found = simulate(
        ClusterSpec((NodeSpec("a", 1), NodeSpec("b", 1))),
        [holder, busy, higher],
        "reservation",
        settings={"spark.sched.reservation.maxHold": "300s", "spark.sched.reservation.gap": "120s"},
        check=True,
    )
    launched_ms = dict(zip(found.jobs["job"], found.jobs["first_launch_ms"], strict=True))
    assert 5_000 <= launched_ms["higher"] <= 8_000
