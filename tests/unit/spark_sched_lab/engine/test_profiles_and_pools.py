"""Resource profiles of nodes and stages, and pools of Spark's FAIR mode, in whole runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from spark_sched.errors import BadInputError
from spark_sched.protocol.plan import PoolShare
from spark_sched.state import Preferred
from spark_sched_lab.simulator import ClusterSpec, JobSpec, Locality, NodeSpec, Result, StageSpec, simulate

TWO_PROFILES = ClusterSpec((NodeSpec("a", 1), NodeSpec("b", 2, profile=1), NodeSpec("c", 2, 1, profile=1)))


def starts(result: Result) -> list[tuple[int, int, str]]:
    """When and where each task started: ms, job, node."""
    tasks = result.tasks
    nodes = (result.nodes[node] for node in tasks["node"])
    return sorted(zip(tasks["start_ms"], tasks["job"], nodes, strict=True))


def test_a_stage_runs_on_nodes_of_its_profile_alone() -> None:
    jobs = [JobSpec("usual", 0, (StageSpec([10] * 3),)), JobSpec("own", 0, (StageSpec([10] * 5, profile=1),))]
    found = starts(simulate(TWO_PROFILES, jobs))
    assert [at for at, job, _ in found if job == 0] == [0, 10, 20]
    assert {node for _, job, node in found if job == 0} == {"a"}
    assert [at for at, job, _ in found if job == 1] == [0, 0, 0, 0, 10]
    assert {node for _, job, node in found if job == 1} <= {"b", "c"}


def test_a_gang_waits_for_slots_of_its_profile() -> None:
    gang = StageSpec([10] * 4, gang=True, profile=1)
    jobs = [JobSpec("before", 0, (StageSpec([7], profile=1),)), JobSpec("gang", 0, (gang,))]
    assert [at for at, job, _ in starts(simulate(TWO_PROFILES, jobs)) if job == 1] == [7] * 4


def test_preferred_partitions_count_among_nodes_of_a_profile() -> None:
    stage = StageSpec([10] * 2, profile=1)
    job = JobSpec("picky", 0, (stage,), preferred=Preferred(frozenset({1}), 2.0))
    assert {node for _, _, node in starts(simulate(TWO_PROFILES, [job]))} == {"c"}


def test_a_gang_takes_slots_that_a_job_of_lower_priority_holds() -> None:
    holder = JobSpec(
        "holder",
        0,
        (StageSpec([10, 10]), StageSpec([10, 10], (0,), delay_ms=500)),
        isolation=1.0,
        marked=True,
    )
    gang = JobSpec("gang", 20, (StageSpec([10, 10], gang=True),), priority=5)
    result = simulate(ClusterSpec((NodeSpec("a", 2),)), [holder, gang], "reservation")
    assert [at for at, job, _ in starts(result) if job == 1] == [20, 20]
    assert result.totals["holds_overridden"] > 0


@pytest.mark.parametrize(
    ("cluster", "stage", "sentence"),
    [
        pytest.param(
            TWO_PROFILES, StageSpec([1], profile=2), "has profile 2, which no node has", id="unknown"
        ),
        pytest.param(
            TWO_PROFILES,
            StageSpec([1], near=[frozenset({"a"})], near_wait_ms=5),
            "prefers nodes, and the nodes have different profiles",
            id="near",
        ),
        pytest.param(
            ClusterSpec(TWO_PROFILES.nodes, locality=Locality()),
            StageSpec([1]),
            "nodes have different profiles",
            id="locality",
        ),
    ],
)
def test_profiles_are_refused_where_nothing_could_run(
    cluster: ClusterSpec, stage: StageSpec, sentence: str
) -> None:
    with pytest.raises(BadInputError, match=sentence):
        simulate(cluster, [JobSpec("j", 0, (stage,))])


def in_pools(shares: Sequence[PoolShare], tasks: int) -> list[JobSpec]:
    # Tasks of different lengths, so that they do not all end at once.
    return [
        JobSpec(f"j{n}", 0, (StageSpec([100 + 7 * n + i for i in range(tasks)]),), pool=share)
        for n, share in enumerate(shares)
    ]


@pytest.mark.parametrize("policy", ["fifo", "reservation"])
def test_pools_share_slots_by_their_weights(policy: str) -> None:
    cluster = ClusterSpec((NodeSpec("a", 8),))
    jobs = in_pools([PoolShare("heavy", 3.0), PoolShare("light", 1.0)], 80)
    result = simulate(cluster, jobs, policy)
    early = Counter(job for at, job, _ in starts(result) if 500 < at < 1000)
    assert 2.0 < early[0] / early[1] < 4.0


def test_a_pool_below_its_minimum_share_is_first() -> None:
    cluster = ClusterSpec((NodeSpec("a", 4),))
    jobs = in_pools([PoolShare("a"), PoolShare("b", 1.0, 3.0)], 40)
    early = Counter(job for at, job, _ in starts(simulate(cluster, jobs)) if 300 < at < 900)
    assert 2.0 < early[1] / early[0] < 4.0


def test_the_first_job_of_a_pool_is_first_and_those_of_a_fair_one_share() -> None:
    cluster = ClusterSpec((NodeSpec("a", 4),))
    fifo = starts(simulate(cluster, in_pools([PoolShare("p")] * 2, 20)))
    assert [job for _, job, _ in fifo[:20]] == [0] * 20
    # A plan with an order would decide within the pool.
    fair = starts(simulate(cluster, in_pools([PoolShare("p", fair=True)] * 2, 20), "reservation"))
    assert 5 <= [job for _, job, _ in fair[:20]].count(1) <= 15
