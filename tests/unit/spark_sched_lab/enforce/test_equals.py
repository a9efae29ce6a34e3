"""Jobs of equal priority: who goes first, and whose held slots are whose (ADR 38)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from spark_sched.config import validate
from spark_sched.policies.base import Policy, PolicySettings
from spark_sched_lab.simulator import ClusterSpec, JobSpec, StageSpec, simulate, uniform_nodes
from spark_sched_lab.whatif.policies import StockFair, StockFifo

SETTINGS = PolicySettings.from_config(validate({}))


def loop(number: int, submit_ms: int, actions: Sequence[Sequence[int]], priority: int = 5) -> JobSpec:
    """A marked job of Spark jobs one after the other; ``actions`` has the times of each one's tasks."""
    stages = tuple(
        StageSpec(tuple(ms), (at - 1,) if at else (), 30 if at else 0, part=at)
        for at, ms in enumerate(actions)
    )
    return JobSpec(
        str(number), submit_ms, stages, priority=priority, copies=False, marked=True, dag_known="next stage"
    )


def loops(count: int, levels: int, actions: int, typical_ms: float, seed: int) -> list[JobSpec]:
    rng = np.random.default_rng(seed)
    priorities = 1 + rng.permutation(np.arange(count) % levels)
    return [
        loop(
            number,
            100 * number,
            [
                [int(ms) for ms in typical_ms * rng.lognormal(0.0, 0.3, int(rng.integers(4, 9)))]
                for _ in range(actions)
            ],
            int(priorities[number]),
        )
        for number in range(count)
    ]


def jcts_ms(jobs: Sequence[JobSpec], policy: str | Policy, plan_every_ms: int = 100) -> list[int]:
    """By number of the job, on four slots."""
    cluster = ClusterSpec(uniform_nodes(1, 4))
    result = simulate(cluster, jobs, policy, plan_every_ms=plan_every_ms, check=True)
    return [row["jct_ms"] for row in sorted(result.rows(), key=lambda row: int(row["job"]))]


def test_ten_equal_jobs_end_as_soon_as_under_fifo_and_the_first_as_if_it_were_alone() -> None:
    over_fifo = []
    for seed in range(8):
        jobs = loops(10, 1, 6, 500.0, seed)
        reserved, fifo = jcts_ms(jobs, "reservation"), jcts_ms(jobs, "fifo")
        over_fifo.append(np.mean(reserved) / np.mean(fifo))
        [alone] = jcts_ms(jobs[:1], "reservation")
        assert reserved[0] <= 1.1 * alone
        assert fifo[0] > 1.1 * alone  # so that there was something to isolate it from
    assert np.mean(over_fifo) <= 1.05


def test_forty_jobs_of_five_priorities_are_slowed_down_less_than_by_stock_spark() -> None:
    def slowdown(policy: str | Policy, plan_every_ms: int = 0) -> float:
        means = []
        for seed in range(3):
            jobs = loops(40, 5, 4, 250.0, seed)
            alone = [jcts_ms([job], "reservation")[0] for job in jobs]
            means.append(np.mean(np.divide(jcts_ms(jobs, policy, plan_every_ms), alone)))
        return float(np.mean(means))

    ours = slowdown("reservation", 100)
    of_levels = {str(n): f"priority-{job.priority}" for n, job in enumerate(loops(40, 5, 1, 1.0, 0))}
    assert ours < slowdown(StockFifo(SETTINGS))
    assert ours < slowdown(StockFair(SETTINGS, of_levels, {}, {}))


@pytest.mark.parametrize("policy", ["reservation", "priority"])
def test_jobs_of_several_actions_do_not_take_turns(policy: str) -> None:
    jobs = [loop(number, 0, [[100] * 4] * 3, priority=0) for number in range(6)]
    assert jcts_ms(jobs, policy) == sorted(jcts_ms(jobs, policy))
    first, *_, last = jcts_ms(jobs, policy)
    assert first < last / 2
    by_spark_job = jcts_ms(jobs, StockFifo(SETTINGS), 0)
    assert by_spark_job[0] > by_spark_job[-1] / 2


def test_a_slot_that_a_later_equal_holds_goes_to_an_earlier_one() -> None:
    # The later one has the slots that the earlier one's narrow action leaves, and holds two of them from
    # 300 ms on. At 500 ms the earlier one becomes as wide as its own slot and those two.
    earlier = loop(0, 0, [[470], [400] * 3, [100]])
    later = loop(1, 0, [[300, 300, 2000], [100] * 3])
    assert jcts_ms([earlier, later], "reservation")[0] == jcts_ms([earlier], "reservation")[0]


def test_a_job_that_does_not_wait_keeps_its_slots_from_later_equals() -> None:
    jobs = [loop(0, 0, [[100, 1000], [100] * 2]), loop(1, 0, [[100, 1000], [100] * 2])]
    both = jcts_ms([*jobs, loop(2, 10, [[5000] * 4])], "reservation")[:2]
    assert both == [1130, 1130]
