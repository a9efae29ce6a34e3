"""A day of 200 users with tenants' queues: floors, ceilings and most running jobs are kept to the slot."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from spark_sched.config.queues import Amount, PlacementRule, QueueSpec, QueueTree
from spark_sched_lab.simulator import JobSpec, StageSpec
from tests.properties.queue_rules import kept

USERS, JOBS, NODES = 200, 1_500, [4] * 10
DAY_MS = 86_400_000
#: Arrivals of each hour, beside the others: few at night, reports at six, most at ten and at three.
HOURS = (1, 1, 1, 1, 2, 3, 10, 4, 6, 9, 12, 9, 6, 8, 11, 12, 9, 6, 4, 3, 2, 2, 1, 1)
TREE = QueueTree(
    (
        QueueSpec("etl", ceiling=Amount(percent=75.0), floor=Amount(percent=25.0)),
        QueueSpec("etl.nightly", weight=3.0, max_running_jobs=6),
        QueueSpec("etl.hourly", floor=Amount(4), ceiling=Amount(12)),
        QueueSpec("dashboards", floor=Amount(6), weight=2.0, max_priority=10),
        QueueSpec("adhoc", ceiling=Amount(percent=50.0), max_running_jobs=15),
        QueueSpec("team-x", ceiling=Amount(percent=30.0)),
    ),
    tuple(
        PlacementRule(queue, user=f"{queue}-*")
        for queue in ("etl.nightly", "etl.hourly", "dashboards", "team-x")
    ),
    "adhoc",
)
TEAMS = ("etl.nightly", "etl.hourly", "dashboards", "team-x", "analyst", "analyst")


def day(seed: int) -> list[JobSpec]:
    """Arrivals follow the hours; few users have most jobs; sizes and task times are heavy-tailed."""
    rng = np.random.default_rng(seed)
    hours = rng.choice(24, JOBS, p=np.array(HOURS) / sum(HOURS))
    submits_ms = np.sort(((hours + rng.random(JOBS)) * DAY_MS / 24).astype(int))
    often = 1.0 / (1.0 + rng.permutation(USERS))
    users = rng.choice(USERS, JOBS, p=often / often.sum())
    jobs = []
    for number, (submit_ms, user) in enumerate(zip(submits_ms.tolist(), users.tolist(), strict=True)):
        median_ms = 1000.0 * float(np.exp(rng.normal(np.log(60.0), 0.8)))
        stages = []
        for nth in range(int(rng.integers(1, 4))):
            width = min(120, 1 + int(4 * rng.pareto(1.3)))
            tasks = [1 + int(median_ms * np.exp(0.5 * rng.normal())) for _ in range(width)]
            stages.append(StageSpec(tasks, parents=(nth - 1,) if nth else ()))
        jobs.append(
            JobSpec(
                f"job-{number:04}", submit_ms, tuple(stages), name=f"program-{user}",
                user=f"{TEAMS[user % len(TEAMS)]}-{user}", priority=int(rng.choice((0, 0, 0, 1, 5))),
                marked=True,
            )
        )  # fmt: skip
    return jobs


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["fifo", "fair", "reservation"])
def test_a_day_of_200_users_keeps_floors_and_ceilings_to_the_slot(policy: str) -> None:
    jobs = day(7)
    assert len({job.user for job in jobs}) > 0.8 * USERS
    assert kept(TREE, jobs, NODES, policy) == []


def test_slots_of_holds_that_a_launch_ended_are_given_out_at_once_where_each_launch_is_planned() -> None:
    assert kept(TREE, day(7)[300:430], NODES, "fair") == []


def test_a_morning_without_limits_breaks_every_rule() -> None:
    """The rules notice it where the simulation has the queues alone, without what they promise and allow."""
    names = tuple(QueueSpec(spec.path) for spec in TREE.queues)
    found = kept(TREE, day(7)[:800], NODES, "fifo", enforced=replace(TREE, queues=names))
    for broken in ("slots, ceiling 12", "jobs, at most", "is below its floor"):
        assert any(broken in sentence for sentence in found), broken
