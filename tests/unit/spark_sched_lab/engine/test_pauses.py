"""Slots between a job's actions: how long they stay held, and what that may cost (ADR 16 and 57).

Expected slot time follows from the rule that a live application applies under the same settings.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_sched.config.queue_file import read_queues
from spark_sched.policies import ReservationRule
from spark_sched_lab.simulator import ClusterSpec, JobSpec, NodeSpec, Result, StageSpec, simulate
from tests.unit.spark_sched_lab.engine.scripted import Scripted

GAP = "spark.sched.reservation.gap"
FIRST_GAP = "spark.sched.reservation.firstGap"
JOB_SHARE = "spark.sched.reservation.idleShare"
SHARE = "spark.sched.limits.idleShare"
BURST = "spark.sched.limits.idleBurst"
WAITING = "spark.sched.limits.idleWaitingCost"
UNBOUNDED = {JOB_SHARE: "1", SHARE: "1"}


def marked(
    *pauses_ms: int, submit_ms: int = 0, key: str = "front", priority: int = 10, tasks: int = 2
) -> JobSpec:
    """A marked job of actions of one second with these pauses between them: what follows is not known."""
    stages = [StageSpec((1000,) * tasks)]
    for number, pause_ms in enumerate(pauses_ms, start=1):
        stages.append(StageSpec((1000,) * tasks, parents=(number - 1,), delay_ms=pause_ms, part=number))
    return JobSpec(key, submit_ms, tuple(stages), priority=priority, marked=True, dag_known="next stage")


def run(
    *jobs: JobSpec, settings: dict[str, str], nodes: tuple[NodeSpec, ...] = (NodeSpec("a", 2),)
) -> Result:
    return simulate(ClusterSpec(nodes), jobs, "reservation", settings=settings, check=True)


def held_ms(result: Result) -> float:
    return result.totals["held_idle_slot_ms"]


@pytest.mark.parametrize(
    ("settings", "wanted_ms"),
    [
        # 2 slots for firstGap.
        pytest.param({}, 2_000, id="the default, one second"),
        pytest.param({FIRST_GAP: "0s"}, 0, id="no first gap"),
        pytest.param({FIRST_GAP: "3s"}, 6_000, id="three seconds"),
        pytest.param({**UNBOUNDED, FIRST_GAP: "9s"}, 16_000, id="the whole pause"),
        pytest.param({**UNBOUNDED, FIRST_GAP: "9s", GAP: "2s"}, 4_000, id="gap is the longest"),
        # A bucket of 5 s x 2 slots fills at 0.25 x 2 slots and empties at 2: in 10,000 / 1.5 ms.
        pytest.param({FIRST_GAP: "9s"}, 13_332, id="the default budgets"),
        pytest.param({FIRST_GAP: "9s", JOB_SHARE: "1", BURST: "1s"}, 2 * 1_666, id="the budget of all jobs"),
        pytest.param({FIRST_GAP: "9s", SHARE: "1", BURST: "1s"}, 2 * 1_333, id="the budget of one job"),
        pytest.param({FIRST_GAP: "9s", JOB_SHARE: "0", BURST: "0s"}, 0, id="no budget for one job"),
        pytest.param({FIRST_GAP: "9s", SHARE: "0", BURST: "0s"}, 0, id="no budget for all jobs"),
        pytest.param({FIRST_GAP: "9s", SHARE: "0", JOB_SHARE: "1", BURST: "2s"}, 4_000, id="a burst alone"),
    ],
)
def test_slots_stay_held_between_two_actions_as_the_settings_say(
    settings: dict[str, str], wanted_ms: int
) -> None:
    assert held_ms(run(marked(8_000), settings=settings)) == wanted_ms


def test_a_job_that_has_paused_holds_for_twice_its_longest_pause() -> None:
    result = run(marked(2_000, 2_000), settings=UNBOUNDED)
    # One second of the first pause, then, with four seconds allowed, the whole second one.
    assert held_ms(result) == 2 * 1_000 + 2 * 2_000


def test_where_the_next_stage_is_known_slots_stay_held_until_it_starts() -> None:
    job = JobSpec(
        "front",
        0,
        (StageSpec((1000,) * 2), StageSpec((1000,) * 2, parents=(0,), delay_ms=4_000)),
        priority=10,
    )
    assert held_ms(run(job, settings={FIRST_GAP: "0s"})) == 2 * 4_000


def test_the_lowest_priority_releases_its_slots_first() -> None:
    settings = {FIRST_GAP: "9s", JOB_SHARE: "1", SHARE: "0.5", BURST: "1s"}
    front, other = marked(8_000), marked(8_000, key="other", priority=5)
    result = run(other, front, settings=settings, nodes=(NodeSpec("a", 4),))
    # A bucket of 1 s x 4 slots fills at 2 slots and empties at 4. After 2 s two slots have to go; the others
    # cost what they earn.
    held = {row["job"]: row["held_idle_ms"] for row in result.rows()}
    assert held == {"front": 2 * 8_000, "other": 2 * 2_000}


def waiter(tasks: int, submit_ms: int, task_ms: int = 20_000, **more: Any) -> JobSpec:
    return JobSpec("back", submit_ms, (StageSpec((task_ms,) * tasks),), **more)


@pytest.mark.parametrize(
    ("back", "cost", "wanted_ms"),
    [
        # Buckets of 2 s x 4 slots fill at 1 slot (of the job) and 2 (of all). From 1,000 ms on two slots are
        # held; without a waiting task they empty at 1 slot and at none.
        pytest.param(waiter(2, 0), "4", 2 * 8_000, id="nobody waits"),
        pytest.param(waiter(3, 0), "1", 2 * 8_000, id="waiting costs nothing more"),
        # At 4 x 2 - 1 slots: 8,000 / 7 ms.
        pytest.param(waiter(3, 0), "4", 2 * 1_142, id="somebody waits all the time"),
        pytest.param(waiter(3, 0, isolation=0.0), "4", 2 * 1_142, id="of a job that may hold nothing"),
        pytest.param(waiter(3, 0, isolation=1.0), "4", 2 * 1_142, id="of a job that may hold slots"),
        pytest.param(waiter(3, 0), "2", 2 * 2_666, id="at half the cost, more than twice as long"),
        # 1 s at 1 slot, then the rest at 7: at 2,000 ms the job waits, and 1,000 ms later 7,000 / 7 are over.
        pytest.param(waiter(3, 2_000), "4", 2 * 2_000, id="somebody begins to wait"),
        # At 1,500 ms the first two tasks end, and the third starts: 4,500 ms are left at 1 slot.
        pytest.param(waiter(3, 0, task_ms=1_500), "4", 2 * 5_000, id="who waited has started"),
    ],
)
def test_while_tasks_of_other_jobs_wait_a_held_slot_costs_more(
    back: JobSpec, cost: str, wanted_ms: int
) -> None:
    settings = {FIRST_GAP: "9s", BURST: "2s", SHARE: "0.5", WAITING: cost}
    result = run(marked(8_000), back, settings=settings, nodes=(NodeSpec("a", 4),))
    held = {row["job"]: row["held_idle_ms"] for row in result.rows()}
    assert held["front"] == wanted_ms


QUEUES = """
default = "rest"
[queues.rest]
[queues.team]
max_running_jobs = 1
wait_timeout = "1s"
[[rules]]
queue = "team"
user = "ann"
"""


def test_a_job_whose_queue_refuses_it_waits_no_more(tmp_path: Path) -> None:
    path = tmp_path / "queues.toml"
    path.write_text(QUEUES)
    tree = {"spark.sched.queues": read_queues(path).to_json()}
    settings = {FIRST_GAP: "9s", BURST: "2s", SHARE: "0.5", WAITING: "4", **tree}
    jobs = (waiter(1, 0, user="ann"), replace(waiter(1, 1_500, user="ann"), key="refused"))
    result = run(marked(8_000), *jobs, settings=settings, nodes=(NodeSpec("a", 4),))
    held = {row["job"]: row["held_idle_ms"] for row in result.rows()}
    # 500 ms at 1 slot, 1,000 ms at 7 while the second job waits; 500 ms at 1 are left.
    assert held["front"] == 2 * 2_000


def test_a_plan_says_how_long_the_first_pause_may_be() -> None:
    rule = ReservationRule(1.0, None, None, 0.5, (), False, gap_ms=3_000)
    policy = Scripted(lambda job, now_ms: {"priority": 10, "reservation": rule})
    result = simulate(ClusterSpec((NodeSpec("a", 2),)), [marked(8_000)], policy)
    assert held_ms(result) == 2 * 3_000


def test_a_budget_counts_slots_that_were_busy_when_the_first_job_that_may_hold_slots_arrived() -> None:
    background = JobSpec("back", 0, (StageSpec((1000,) * 4),))
    settings = {FIRST_GAP: "9s", JOB_SHARE: "0", SHARE: "1", BURST: "1s"}
    result = run(background, marked(8_000, submit_ms=100), settings=settings, nodes=(NodeSpec("a", 4),))
    assert held_ms(result) == 4 * 1_000


@pytest.mark.parametrize(
    ("task_ms", "wanted_slots"),
    [
        pytest.param(1, 2, id="it is gone when it has no task"),
        pytest.param(20_000, 4, id="it stays as long as a task runs there"),
    ],
)
def test_a_budget_does_not_count_a_node_that_has_left(task_ms: int, wanted_slots: int) -> None:
    there = StageSpec((task_ms,), near=(frozenset({"b"}),), near_wait_ms=60_000)
    early = JobSpec("early", 0, (there,), isolation=1.0)  # The ledger knows the node that leaves.
    settings = {FIRST_GAP: "9s", JOB_SHARE: "0", SHARE: "1", BURST: "1s"}
    nodes = (NodeSpec("a", 2), NodeSpec("b", 2, until_ms=500))
    result = run(early, marked(8_000, submit_ms=600), settings=settings, nodes=nodes)
    assert held_ms(result) == wanted_slots * 1_000
