"""Operators' changes of jobs' marks in the simulator: they apply at once, and every job ends."""

from __future__ import annotations

import random

import pytest

from spark_sched.errors import BadInputError
from spark_sched.protocol.events import Event, JobChanged
from spark_sched_lab.simulator import ClusterSpec, JobSpec, MarkChange, StageSpec, simulate, uniform_nodes

#: One of each kind, of those that need no compiled solver.
POLICIES = ("fifo", "fair", "priority", "prio", "priority-evictions", "reservation", "slearn")


def job(
    key: str, tasks: int, task_ms: int, stages: int = 1, *, at: int = 0, changes: tuple[MarkChange, ...] = ()
) -> JobSpec:
    chain = tuple(StageSpec([task_ms] * tasks, (n - 1,) if n else ()) for n in range(stages))
    return JobSpec(key, at, chain, name=key, marked=True, dag_known="next stage", changes=changes)


@pytest.mark.parametrize("plan_every_ms", [0, 100])
def test_a_raised_priority_counts_from_the_next_free_slot_on(plan_every_ms: int) -> None:
    events: list[Event] = []
    jobs = [job("long", 8, 100), job("short", 2, 100, at=10, changes=(MarkChange(50, priority=5),))]
    result = simulate(
        ClusterSpec(uniform_nodes(1, 2)),
        jobs,
        "priority",
        plan_every_ms=plan_every_ms,
        observer=events.append,
        check=True,
    )
    ends = dict(zip(result.jobs["job"], result.jobs["end_ms"], strict=True))
    assert ends == {"long": 500, "short": 200}
    assert [event for event in events if isinstance(event, JobChanged)] == [
        JobChanged(60, "short", 5, None, None, False, by="")
    ]


@pytest.mark.parametrize("plan_every_ms", [0, 100])
def test_a_raised_isolation_level_holds_slots_from_the_next_stage_on(plan_every_ms: int) -> None:
    def held_idle_ms(isolation: float, *changes: MarkChange) -> int:
        stages = tuple(StageSpec([100, 200], (n - 1,) if n else ()) for n in range(3))
        first = JobSpec("first", 0, stages, priority=1, isolation=isolation, copies=False, changes=changes)
        result = simulate(
            ClusterSpec(uniform_nodes(1, 2)),
            [first, job("background", 40, 50)],
            "reservation",
            plan_every_ms=plan_every_ms,
            check=True,
        )
        return int(result.totals["held_idle_slot_ms"])

    # Two of three stages have a slot to hold for 100 ms.
    assert (held_idle_ms(0.0), held_idle_ms(1.0)) == (0, 200)
    assert held_idle_ms(0.0, MarkChange(10, priority=1, isolation=1.0)) == 100
    # What is held goes at once.
    assert held_idle_ms(1.0, MarkChange(130, priority=1, isolation=0.0)) == 30


@pytest.mark.parametrize("policy", POLICIES)
def test_held_and_changed_jobs_start_nothing_on_hold_and_all_end(policy: str) -> None:
    rng = random.Random(7)
    jobs, holds = [], {}
    for number in range(8):
        begin, length = rng.randrange(300), rng.randrange(1, 400)
        changes = (
            MarkChange(begin, priority=rng.randrange(3), on_hold=True),
            MarkChange(begin + length // 2, priority=rng.randrange(3), isolation=1.0, on_hold=True),
            MarkChange(begin + length, priority=rng.randrange(3), isolation=rng.random()),
        )
        at = 40 * number
        holds[f"job-{number}"] = range(at + begin, at + begin + length)
        tasks, task_ms = rng.randrange(1, 6), rng.randrange(20, 80)
        jobs.append(job(f"job-{number}", tasks, task_ms, 3, at=at, changes=changes))
    result = simulate(ClusterSpec(uniform_nodes(2, 2)), jobs, policy, predictor="oracle", check=True)
    assert result.unfinished == 0
    assert len(result.jobs["job"]) == len(jobs)
    begun = list(zip(result.tasks["job"], result.tasks["start_ms"], strict=True))
    names = result.jobs["job"]
    by_number = dict(zip(result.jobs["number"], names, strict=True))
    early = [(by_number[number], at_ms) for number, at_ms in begun if at_ms in holds[by_number[number]]]
    assert early == []


def test_a_change_before_the_jobs_submission_is_refused() -> None:
    with pytest.raises(BadInputError, match="job 'a' is changed -1 ms after its submission but 0 ms is"):
        simulate(ClusterSpec(uniform_nodes(1, 1)), [job("a", 1, 1, changes=(MarkChange(-1, 0),))])


def test_a_change_that_comes_after_the_end_of_its_job_does_not_happen():
    late = job("a", 1, 100, changes=(MarkChange(50, priority=1), MarkChange(5_000, priority=2)))
    result = simulate(ClusterSpec(uniform_nodes(1, 1)), [late, job("b", 1, 100, at=10)])
    assert result.totals["end_ms"] == 200
    assert result.jobs["priority"] == [1, 0]
