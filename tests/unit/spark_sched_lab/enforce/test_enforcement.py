"""What the simulator's jobs may start under a plan: as the driver's, reckoned by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from spark_sched.policies import ChangesWith, JobPlan, Plan
from spark_sched_lab.enforce.enforcement import Enforcement, RunningAttempt, StartGate, Verdict, preempted
from spark_sched_lab.enforce.pilots import PilotGate
from spark_sched_lab.enforce.queues import QueueTurns
from spark_sched_lab.simulator import ClusterSpec, JobSpec, StageSpec, simulate, uniform_nodes
from tests.unit.spark_sched_lab.engine.scripted import Scripted

Say = Callable[[str, int], Mapping[str, Any]]


def scripted(say: Say) -> Scripted:
    """Plans when a job comes and every ten seconds while there are any."""
    return Scripted(
        lambda job, now: say(job.job, now),
        ChangesWith.JOBS,
        again_ms=lambda now: now + 10_000,
        new_jobs_wait=lambda now: False,
        valid_for_ms=60_000,
    )


def job(key: str, *durations: int, at: int = 0, **marks: Any) -> JobSpec:
    return JobSpec(key, at, (StageSpec(list(durations)),), **marks)


def starts(jobs: list[JobSpec], say: Say, slots: int) -> dict[str, list[int]]:
    result = simulate(ClusterSpec(uniform_nodes(1, slots)), jobs, scripted(say), check=True)
    names = dict(zip(result.jobs["number"], result.jobs["job"], strict=True))
    found: dict[str, list[int]] = {}
    for number, start_ms in zip(result.tasks["job"], result.tasks["start_ms"], strict=True):
        found.setdefault(names[number], []).append(start_ms)
    return {name: sorted(times) for name, times in found.items()}


def test_tasks_beyond_a_share_take_what_nobody_with_a_start_waits_for() -> None:
    say = lambda key, now: {"share": {0: 1}} if key == "a" else {}  # noqa: E731
    assert starts([job("a", *[5_000] * 3)], say, 3) == {"a": [0, 0, 0]}
    found = starts([job("a", *[5_000] * 3), job("b", *[5_000] * 2)], say, 3)
    assert found == {"a": [0, 5_000, 5_000], "b": [0, 0]}


def test_an_evicted_job_starts_nothing_before_the_next_plan_and_nothing_is_kept_for_it() -> None:
    def say(key: str, now_ms: int) -> Mapping[str, Any]:
        if now_ms != 1_000:
            return {}
        return {"evict": True} if key == "a" else {"deferred": True}

    found = starts([job("a", 15_000, 15_000), job("b", 4_000, at=1_000)], say, 2)
    assert found["a"][:2] == [0, 0]
    assert found["b"] == [1_000], "it has no start, but the evicted job's slots are nobody's now"
    assert found["a"][2:] == [1_001, 5_000], "the next plan comes at once"


def test_a_planned_start_comes_by_itself() -> None:
    say = lambda key, now: {"deferred": True, "start_ms": 3_000} if now < 3_000 else {}  # noqa: E731
    assert starts([job("a", 1_000)], say, 1) == {"a": [3_000]}


def test_what_is_left_over_goes_by_priority_before_arrival() -> None:
    def say(key: str, now_ms: int) -> Mapping[str, Any]:
        return {"deferred": True, "priority": 5 if key == "b" else 0}

    found = starts([job("a", 5_000), job("b", 5_000)], say, 1)
    assert found["b"] == [0]


class _Set:
    """A task set of one slot per task."""

    job = SimpleNamespace(key="late", priority=0, arrival=1, rank=0, queue=None)
    pilots_first = pilots_wait = False
    slots_at_once = slots_per_task = 1
    waiting_slots = 2
    executor_profile = 0


def _round_without_a_start() -> Enforcement:
    gate = StartGate(400)
    entry = JobPlan("late", 0, 0, None, "", deferred=True)
    gate.put(Plan(0, 0, 60_000, "", True, (entry,)))
    enforcement = Enforcement(gate, QueueTurns())
    enforcement.begin(0)
    return enforcement


def test_a_slot_that_becomes_spare_after_somebody_was_refused_it_is_given_again() -> None:
    late, enforcement = _Set(), _round_without_a_start()
    enforcement.begin_spare({0: 0}, [late])
    assert enforcement.planned(late) is Verdict.NOTHING_SPARE
    enforcement.end_spare()
    assert not enforcement.spares_again({0: 0}, [late])
    assert enforcement.spares_again({0: 1}, [late])


def test_whoever_was_offered_what_is_left_over_asks_for_no_other_round() -> None:
    late, enforcement = _Set(), _round_without_a_start()
    assert enforcement.planned(late) is Verdict.NOTHING_SPARE
    enforcement.begin_spare({0: 1}, [late])
    assert enforcement.planned(late) is Verdict.LEFT_OVER
    enforcement.end_spare()
    assert not enforcement.spares_again({0: 1}, [late])


@pytest.mark.parametrize(("now_ms", "next_ms"), [(0, 100), (100, 900), (900, None)])
def test_the_gate_says_when_the_next_planned_start_comes(now_ms: int, next_ms: int | None) -> None:
    gate = StartGate(400)
    entries = [JobPlan(f"j{at}", 0, 0, None, "", deferred=True, start_ms=at) for at in (900, 100)]
    gate.put(Plan(0, 0, 60_000, "", True, tuple(entries)))
    assert gate.next_start_ms(now_ms) == next_ms


def test_only_first_attempts_of_pilots_keep_the_gate_shut() -> None:
    gate = PilotGate(4)
    gate.put((1, 3, 9))
    assert gate.closed
    assert gate.waiting == [1, 3]
    assert not gate.ended(0)
    assert not gate.ended(1)
    gate.put((1, 3))
    assert gate.waiting == [3], "a new plan does not ask for the same pilot again"
    assert gate.ended(3)
    assert not gate.ended(3)


# ---- victims by number ----

RUNNING = {
    1: RunningAttempt(priority=0, restartable=True, slots=1),
    2: RunningAttempt(priority=0, restartable=False, slots=1),
    3: RunningAttempt(priority=5, restartable=True, slots=1),
    4: RunningAttempt(priority=0, restartable=True, slots=2),
    5: RunningAttempt(priority=4, restartable=True, slots=1),
}


@pytest.mark.parametrize(
    ("named", "waiting_slots", "killed"),
    [
        pytest.param([5, 1], 2, [5, 1], id="in the order given"),
        pytest.param([5, 1], 1, [5], id="no more than wait"),
        pytest.param([4, 1], 1, [4], id="a wide one for a narrow one"),
        pytest.param([1, 4, 5], 2, [1, 4], id="until there are slots enough"),
        pytest.param([1], 0, [], id="nobody waits"),
        pytest.param([2, 3, 9, 1], 4, [1], id="not restartable, of equal priority, gone"),
        pytest.param([1, 1, 5], 2, [1, 5], id="once"),
    ],
)
def test_victims_go_as_long_as_slots_are_wanted(
    named: list[int], waiting_slots: int, killed: list[int]
) -> None:
    assert preempted(named, 5, {0: waiting_slots}, RUNNING.get) == killed


def test_named_tasks_give_their_slots_at_once_and_run_again_from_the_beginning() -> None:
    def say(key: str, now_ms: int) -> Mapping[str, Any]:
        if key == "high":
            return {"priority": 7, "victims": (2, 1) if now_ms == 1_000 else ()}
        return {}

    found = starts([job("low", 15_000, 15_000), job("high", 4_000, at=1_000)], say, 2)
    assert found == {"low": [0, 0, 5_000], "high": [1_000]}
