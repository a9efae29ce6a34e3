"""No job starves under GS, however few slots there are and however many queues have work all the time."""

from __future__ import annotations

from heapq import merge
from operator import attrgetter

from hypothesis import given
from hypothesis import strategies as st

from spark_sched.policies.slearn.gs import SAMPLING_QUEUE, THIN_LIMIT
from spark_sched.policies.slearn.queues import Queues
from spark_sched_lab.simulator import ClusterSpec, JobSpec, NodeSpec, StageSpec, simulate

#: Jobs of three tasks of a second belong into the second queue, jobs of 25 into the third.
QUEUES = Queues(first_ms=2_500)
SETTINGS = {"spark.sched.policy.slearn.firstQueue": "2500ms"}
HORIZON_MS = 120_000


def _stream(name: str, tasks_ms: list[int], every_ms: int) -> list[JobSpec]:
    """Equal jobs, one after the other until the horizon."""
    return [JobSpec(f"{name}-{at}", at, (StageSpec(tasks_ms),)) for at in range(0, HORIZON_MS, every_ms)]


@st.composite
def workloads(draw: st.DrawFn) -> tuple[int, list[JobSpec]]:
    """Slots, and jobs of which the thin ones alone keep as many slots busy as there are."""
    slots = draw(st.integers(1, 2))
    streams = [_stream(f"thin{n}", [1_000], draw(st.sampled_from([1_000, 960]))) for n in range(slots)]
    if slots > 1 or draw(st.booleans()):
        streams.append(_stream("wide", [1_000] * 4, draw(st.sampled_from([20_000, 50_000]))))
    for number in range(draw(st.integers(1, 3))):
        tasks = draw(st.sampled_from([3, 6, 25]))
        streams.append(
            [JobSpec(f"rare{number}", draw(st.integers(0, 20_000)), (StageSpec([1_000] * tasks),))]
        )
    return slots, list(merge(*streams, key=attrgetter("submit_ms")))


def _queue(job: JobSpec) -> int:
    durations = job.stages[0].durations_ms
    return 0 if len(durations) < THIN_LIMIT else max(SAMPLING_QUEUE, QUEUES.of(float(sum(durations))))


def _bound_ms(job: JobSpec, ends_ms: dict[str, int], jobs: list[JobSpec]) -> float:
    """When the job must be over, whatever comes after it.

    Each of its own and of earlier jobs' tasks waits until its queue is due again, which is (1/s - 1) times
    what the queue's last task took, then for one task of each other queue, and runs.
    """
    ahead = [other for other in jobs if other.submit_ms <= job.submit_ms < ends_ms[other.key]]
    tasks = sum(other.stages[0].tasks for other in ahead)
    longest_ms = max(max(other.stages[0].durations_ms) for other in jobs)
    queues = {queue for other in jobs for queue in (_queue(other), SAMPLING_QUEUE)}
    share = max(0.01, min(QUEUES.weights[_queue(other)] for other in ahead))
    return job.submit_ms + (tasks + 1) * longest_ms * (1.0 / share - 1.0 + len(queues))


def _ends_ms(slots: int, jobs: list[JobSpec]) -> dict[str, int]:
    cluster = ClusterSpec((NodeSpec("n", slots),))
    result = simulate(cluster, jobs, "slearn", settings=SETTINGS, keep_tasks=False)
    assert result.unfinished == 0
    return dict(zip(result.jobs["job"], result.jobs["end_ms"], strict=True))


@given(workloads())
def test_how_long_a_job_waits_is_bounded_by_what_came_before_it(drawn: tuple[int, list[JobSpec]]) -> None:
    slots, jobs = drawn
    ends_ms = _ends_ms(slots, jobs)
    for job in jobs:
        assert ends_ms[job.key] <= _bound_ms(job, ends_ms, jobs), job.key


def test_on_one_slot_a_wide_job_runs_a_tenth_of_the_time_between_narrow_ones() -> None:
    jobs = [JobSpec("wide", 0, (StageSpec([1_000] * 10),)), *_stream("thin", [1_000], 1_000)]
    # Its pilot and nine more tasks, each nine seconds after the one before.
    assert 90_000 <= _ends_ms(1, jobs)["wide"] <= 110_000
