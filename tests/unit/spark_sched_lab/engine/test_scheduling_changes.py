"""Changes for all jobs by operators: another policy, paused reservations."""

from __future__ import annotations

import random

import pytest

from spark_sched.config import validate
from spark_sched.config.queues import NO_QUEUES, Amount, PlacementRule, QueueSpec, QueueTree
from spark_sched.policies import PolicySettings, available, create
from spark_sched.protocol.events import Event, SchedulingChanged
from spark_sched_lab.simulator import (
    ClusterSpec,
    JobSpec,
    Result,
    SchedulingChange,
    StageSpec,
    simulate,
    uniform_nodes,
)

SETTINGS = PolicySettings.from_config(validate({}))


def job(key: str, tasks: int, task_ms: int, *, at: int = 0, priority: int = 0) -> JobSpec:
    return JobSpec(key, at, (StageSpec([task_ms] * tasks),), name=key, priority=priority)


def holding(*changes: SchedulingChange, plan_every_ms: int = 0) -> Result:
    """Three stages of a job of priority 1 that has a slot to hold for 100 ms after each but the last."""
    stages = tuple(StageSpec([100, 200], (n - 1,) if n else ()) for n in range(3))
    first = JobSpec("first", 0, stages, priority=1, isolation=1.0, copies=False)
    return simulate(
        ClusterSpec(uniform_nodes(1, 2)),
        [first, job("background", 40, 50)],
        "reservation",
        plan_every_ms=plan_every_ms,
        check=True,
        changes=changes,
    )


@pytest.mark.parametrize("plan_every_ms", [0, 100])
@pytest.mark.parametrize(
    ("pauses_ms", "held_ms"),
    # After a pause the second stage's longer task starts at 230 ms, when the background's has ended. From its
    # first task's end at 300 ms on a slot is held for 130 ms, unless the pause ended after that.
    [((), 200), ((0,), 0), ((130,), 30), ((130, 150), 160), ((130, 299), 160), ((130, 310), 30)],
    ids=["never", "at first", "for good", "for 20 ms", "until an end", "beyond an end"],
)
def test_paused_reservations_hold_nothing_until_the_pause_ends(
    pauses_ms: tuple[int, ...], held_ms: int, plan_every_ms: int
) -> None:
    changes = [SchedulingChange(at_ms, reserves=bool(n % 2)) for n, at_ms in enumerate(pauses_ms)]
    result = holding(*changes, plan_every_ms=plan_every_ms)
    assert result.totals["held_idle_slot_ms"] == held_ms


@pytest.mark.parametrize("plan_every_ms", [0, 50])
def test_another_policy_decides_from_its_switch_on(plan_every_ms: int) -> None:
    events: list[Event] = []
    jobs = [job("long", 8, 100), job("urgent", 2, 100, at=10, priority=5)]
    switch = SchedulingChange(150, policy=create("priority", SETTINGS))
    result = simulate(
        ClusterSpec(uniform_nodes(1, 2)),
        jobs,
        "fifo",
        plan_every_ms=plan_every_ms,
        observer=events.append,
        changes=[switch],
    )
    ends = dict(zip(result.jobs["job"], result.jobs["end_ms"], strict=True))
    assert ends == {"long": 500, "urgent": 300}
    assert [event for event in events if isinstance(event, SchedulingChanged)] == [
        SchedulingChanged(150, "priority", "on", reservations_paused=False, by="")
    ]


def test_a_change_after_the_last_end_does_not_happen() -> None:
    late = SchedulingChange(5_000, policy=create("fair", SETTINGS))
    result = simulate(ClusterSpec(uniform_nodes(1, 1)), [job("a", 1, 100)], changes=[late])
    assert result.totals["end_ms"] == 100


@pytest.mark.parametrize("policy", available())
def test_all_jobs_end_whatever_is_switched(policy: str) -> None:
    rng = random.Random(11)
    jobs = []
    for number in range(12):
        chain = tuple(
            StageSpec([rng.randrange(20, 120) for _ in range(rng.randrange(1, 6))], (n - 1,) if n else ())
            for n in range(3)
        )
        jobs.append(JobSpec(f"job-{number}", 30 * number, chain, priority=rng.randrange(3), isolation=1.0))
    names = rng.sample(available(), 6)
    changes = [
        SchedulingChange(40 + 90 * n, bool(n % 2), create(name, SETTINGS)) for n, name in enumerate(names)
    ]
    changes.append(SchedulingChange(600, policy=create(policy, SETTINGS)))
    result = simulate(
        ClusterSpec(uniform_nodes(2, 2)), jobs, policy, predictor="oracle", check=True, changes=changes
    )
    assert result.unfinished == 0
    assert len(result.jobs["job"]) == len(jobs)


def test_queues_come_and_go_during_a_run() -> None:
    """Twelve tasks of 1 s on four slots: the queue that comes after 1.5 s has one slot, and goes at 2.5 s."""
    one_slot = QueueTree((QueueSpec("team", ceiling=Amount(1)),), (), "team")
    changes = [SchedulingChange(1_500, queues=one_slot), SchedulingChange(2_500, queues=NO_QUEUES)]
    ends = {}
    for number in range(3):
        result = simulate(
            ClusterSpec(uniform_nodes(1, 4)),
            [job("first", 12, 1_000)],
            "fifo",
            check=True,
            changes=changes[:number],
        )
        (row,) = result.rows()
        ends[number] = row["end_ms"], [(each["queue"], each["peak_slots"]) for each in result.queues]
    assert ends == {0: (3_000, []), 1: (6_000, [("team", 4)]), 2: (3_500, [])}


@pytest.mark.parametrize("policy", available())
def test_queues_that_change_among_jobs_that_hold_slots_lose_nobody(policy: str) -> None:
    trees = (
        QueueTree(
            (QueueSpec("a", ceiling=Amount(2)), QueueSpec("b")), (PlacementRule("a", user="ann"),), "b"
        ),
        QueueTree((QueueSpec("b", floor=Amount(1)), QueueSpec("c", weight=2.0)), (), "c"),
        NO_QUEUES,
    )
    stages = (StageSpec([100, 300]), StageSpec([100, 200], (0,)))
    jobs = [
        JobSpec(
            f"j{n}", n * 90, stages, name=f"j{n}", user=("ann", "bob")[n % 2], priority=n % 3, isolation=1.0
        )
        for n in range(12)
    ]
    changes = [SchedulingChange(150 + 170 * n, queues=trees[n % 3]) for n in range(8)]
    result = simulate(ClusterSpec(uniform_nodes(1, 4)), jobs, policy, check=True, changes=changes)
    assert [row["end_ms"] is None for row in result.rows()] == [False] * len(jobs)


def test_weights_that_come_among_jobs_that_hold_slots_apply_to_these() -> None:
    """A job of high priority holds a slot from 1 s to 6 s. At 2.5 s its queue gets the smaller part."""
    stages = (StageSpec([1000, 6000]), StageSpec([1000] * 2, (0,)))
    holder = JobSpec("holder", 0, stages, name="holder", user="ann", priority=5, marked=True, copies=False)
    other = JobSpec("other", 2000, (StageSpec([1000]),), name="other", user="bob")
    halves = QueueTree((QueueSpec("a", weight=1.0), QueueSpec("b")), (PlacementRule("a", user="ann"),), "b")
    ends = {}
    for changes in ([], [SchedulingChange(2_500, queues=halves)]):
        result = simulate(
            ClusterSpec(uniform_nodes(1, 2)), [holder, other], "reservation", check=True, changes=changes
        )
        ends[len(changes)] = {row["job"]: row["end_ms"] for row in result.rows()}["other"]
    assert ends == {0: 8_000, 1: 3_500}
