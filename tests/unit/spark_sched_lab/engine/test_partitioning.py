"""Runtime partitioning: stages of long tasks get more and shorter ones."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from spark_sched_lab.cluster.locality import Delay, LocalityWaits
from spark_sched_lab.engine.partitioning import RuntimePartitioning
from spark_sched_lab.engine.workload import NextJob
from spark_sched_lab.simulator import ClusterSpec, JobSpec, StageSpec, simulate, uniform_nodes

HALF_A_SECOND = RuntimePartitioning(500)


def test_tasks_are_split_so_that_they_have_the_advisory_runtime_on_average() -> None:
    assert HALF_A_SECOND.stage(StageSpec([1_000, 1_000])).durations_ms == [500] * 4
    # The mean of 1.2 s asks for three parts, of the longer task as of the shorter one.
    assert HALF_A_SECOND.stage(StageSpec([401, 1_999])).durations_ms == [134, 134, 133, 667, 666, 666]
    assert RuntimePartitioning(500, overhead_ms=30).stage(StageSpec([1_000])).durations_ms == [530, 530]


def test_what_needs_no_split_or_allows_none_stays_as_it_is() -> None:
    short = StageSpec([500, 400])
    gang = StageSpec([9_000, 9_000], gang=True)
    assert HALF_A_SECOND.stage(short) is short
    assert HALF_A_SECOND.stage(gang) is gang
    assert RuntimePartitioning(500, most_tasks=5).stage(StageSpec([9_000, 9_000])).tasks == 4
    full = StageSpec([9_000] * 5)
    assert RuntimePartitioning(500, most_tasks=5).stage(full) is full


def test_parts_are_where_their_task_was() -> None:
    delay = Delay(LocalityWaits(1, 1, 1), cached=(frozenset("a"), frozenset("b")), away=2.0)
    stage = StageSpec(
        [1_000, 1_000],
        memory=(0.1, 0.2),
        near=(frozenset("x"), frozenset("y")),
        seen_on=("x", "y"),
        delay=delay,
        copies_ms={0: 100},
        parents=(0,),
    )
    split = HALF_A_SECOND.stage(stage)
    assert split.near == (frozenset("x"), frozenset("x"), frozenset("y"), frozenset("y"))
    assert split.seen_on == ("x", "x", "y", "y")
    assert split.memory == (0.1, 0.1, 0.2, 0.2)
    assert split.delay == replace(delay, cached=(frozenset("a"),) * 2 + (frozenset("b"),) * 2)
    assert (split.copies_ms, split.parents) == ({}, (0,))
    JobSpec("job", 0, (StageSpec([1]), split)).check()


def test_jobs_that_follow_are_split_too() -> None:
    follower = JobSpec("next", 0, (StageSpec([2_000]),))
    job = JobSpec("job", 0, (StageSpec([1_000]),), then=(NextJob(10, follower, 99),))
    (split,) = HALF_A_SECOND.jobs([job])
    (following,) = split.then
    assert (following.pause_ms, following.deadline_after_ms) == (10, 99)
    assert [each.tasks for each in (*split.stages, *following.job.stages)] == [2, 4]


@given(
    durations=st.lists(st.integers(1, 5_000), min_size=1, max_size=20),
    task_ms=st.integers(1, 2_000),
    most=st.integers(1, 100),
)
def test_a_split_keeps_the_work_and_the_limits(durations: list[int], task_ms: int, most: int) -> None:
    stage = StageSpec(durations)
    split = RuntimePartitioning(task_ms, most_tasks=most).stage(stage)
    assert split.tasks <= max(most, stage.tasks)
    assert sum(split.durations_ms) >= sum(durations)
    if min(durations) * most > split.tasks * stage.tasks:
        # Parts of at least a millisecond lose and gain nothing.
        parts = split.tasks // stage.tasks
        if min(durations) >= parts:
            assert sum(split.durations_ms) == sum(durations)


def test_a_small_job_does_not_wait_for_long_tasks_of_another_one() -> None:
    jobs = [
        JobSpec("long", 0, (StageSpec([10_000] * 4),), user="ann"),
        JobSpec("small", 100, (StageSpec([100] * 4),), user="bob"),
    ]

    def ended_ms(jobs: list[JobSpec]) -> int | None:
        result = simulate(ClusterSpec(uniform_nodes(4, 1)), jobs, "uwfq", predictor="oracle")
        return dict(zip(result.jobs["job"], result.jobs["end_ms"], strict=True))["small"]

    assert ended_ms(jobs) == 10_100
    assert ended_ms(list(HALF_A_SECOND.jobs(jobs))) == 600
