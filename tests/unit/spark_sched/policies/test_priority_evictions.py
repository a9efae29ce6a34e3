"""Whom the policy ``priority-evictions`` evicts for whom, and what it says of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from spark_sched.config import validate
from spark_sched.errors import BadInputError
from spark_sched.policies import JobPlan, PolicySettings, create
from spark_sched.policies.budget import Budget
from spark_sched.policies.eviction.candidates import Candidates, Victim
from spark_sched.policies.eviction.prices import Prices
from spark_sched.policies.eviction.remaining import remaining_ms
from spark_sched.policies.eviction.tasks import SlotDemand, Terms, choose
from spark_sched.predict import Forecast, RuntimeDistribution
from spark_sched.predict.tasks.expectation import StageExpectation
from spark_sched.predict.tasks.pilots import TaskForecast
from spark_sched.protocol.events import (
    Event,
    ExecutorAdded,
    JobChanged,
    JobStarted,
    StageStarted,
    TaskEnded,
    TaskLaunched,
)
from spark_sched_lab.simulator import ClusterSpec, JobSpec, NodeSpec, StageSpec, simulate, uniform_nodes
from tests.unit.spark_sched.policies.eviction_world import World, siblings


def test_the_most_recently_started_go_first_and_as_many_as_tasks_wait() -> None:
    world = World(0, 3_000, 1_000, 2_000)
    world.job("high", 5, tasks=2)
    assert world.victims(10_000) == [1, 3]
    assert world.victims(10_000, victims="LRS", worth="100") == [0, 2]
    random = world.victims(10_000, victims="RND", worth="100")
    assert len(set(random)) == 2


def test_the_lowest_running_priority_goes_first_however_it_started() -> None:
    world = World(0, 100)
    world.job("middle", 3, tasks=2)
    for task in (10, 11):
        world.launch("middle", task, 5_000)
    world.job("high", 5, tasks=3)
    assert world.victims(10_000) == [1, 0, 11]


def test_free_slots_are_taken_before_anybody_is_evicted() -> None:
    world = World(0, 0, slots=4)
    world.job("high", 5, tasks=3)
    assert len(world.victims(10_000)) == 1


@pytest.mark.parametrize("priority", [0, -1])
def test_nobody_is_evicted_for_a_job_of_no_higher_priority(priority: int) -> None:
    world = World(0, 0, 0, 0)
    world.job("other", priority, tasks=4)
    assert world.victims(10_000) == []


def test_tasks_that_may_not_run_twice_are_not_evicted() -> None:
    world = World(0, 0, 0, 0, restartable=False)
    world.job("high", 5, tasks=4)
    assert world.victims(10_000) == []


def test_a_task_is_not_evicted_more_often_than_the_threshold() -> None:
    world = World(0, 0, 0, evictions=2)
    world.launch("low", 3, 0, evictions=1)
    world.job("high", 5, tasks=4)
    assert world.victims(10_000, most_evictions="2") == [3]
    assert world.victims(10_000, most_evictions="0") == []


def test_a_job_loses_no_more_than_its_budget() -> None:
    world = World(0, 0, 0, 0)
    world.job("high", 5, tasks=4)
    terms = {"job_budget": "25s", "worth": "1000"}
    plan, memory = world.plan(10_000, **terms)
    victims = plan.jobs[0].victims
    assert len(victims) == 2
    again, memory = world.plan(10_500, memory=memory, **terms)
    assert again.jobs[0].victims == victims, "they still run"
    for task in victims:
        world.end("low", task, 10_600, evicted_for="high")
        world.launch("high", 20 + task, 10_600)
    assert world.plan(11_000, memory=memory, **terms)[0].jobs[0].victims == ()
    assert world.victims(11_000, **terms) == [], "a policy that is switched to knows it, too"
    assert len(world.victims(11_000, job_budget="33s", worth="1000")) == 1, "10.6 s each were lost"


@pytest.mark.parametrize("outcome", ["success", "killed", "lost"])
def test_victims_that_end_by_themselves_take_nothing_from_the_budget(outcome: str) -> None:
    world = World(0, 0, 0, 0)
    world.job("high", 5, tasks=4)
    terms = {"job_budget": "25s", "worth": "1000"}
    plan, memory = world.plan(10_000, **terms)
    for task in plan.jobs[0].victims:
        world.end("low", task, 10_600, outcome)
        world.launch("high", 20 + task, 10_600)
    assert len(world.plan(11_000, memory=memory, **terms)[0].jobs[0].victims) == 2


def test_no_eviction_where_waiting_for_the_expected_end_costs_less() -> None:
    world = World(0, 0, 0, 0)
    world.job("high", 5, tasks=1)
    # All have run 10 s of an expected 11 s: a second of waiting for ten of lost work.
    plan, _ = world.plan(10_000, siblings(11_000), worth="4")
    assert all(entry.victims == () for entry in plan.jobs)
    assert plan.jobs[0].reason.endswith("no victim is worth its price for 1 task")
    assert plan.again_ms == 11_000, "made again when one might have ended"
    assert world.victims(10_000, siblings(11_000), worth="11") == [3]
    assert world.victims(10_000, siblings(20_000)) == [3]


def test_a_task_that_is_nearly_done_is_spared_while_another_will_do() -> None:
    world = World(0, 0, 0, 9_000)
    world.job("high", 5, tasks=1)
    # By the times seen, tasks 0 to 2 have a second left, task 3 most of its time.
    forecasts = siblings(11_000)
    assert world.victims(10_000, forecasts, victims="LRS", worth="1000") == [3]
    world.job("higher", 6, tasks=4)
    assert world.victims(10_000, forecasts, victims="LRS", worth="1000")[0] == 3


def test_reasons_name_victims_beneficiary_and_price() -> None:
    world = World(0, 0, 0, 8_000)
    world.job("high", 5, tasks=1)
    plan, _ = world.plan(10_000)
    high, low = plan.jobs
    assert high.reason.endswith("takes the slots of task 3 of low (2.0 s lost, 2.0 s expected still)")
    assert low.reason.endswith("1 task evicted for jobs of higher priority")


def test_a_barrier_stage_gets_all_its_slots_or_evicts_nobody() -> None:
    world = World(0, 0, slots=2)
    world.state.apply(JobStarted(0, "gang", "gang", None, 5, None, None, None, True, True))
    world.state.apply(StageStarted(0, "gang", "gang.0", "s", 0, 3, None, True, True))
    assert world.victims(10_000) == []
    world.state.apply(ExecutorAdded(0, "f", "h", 1))
    assert sorted(world.victims(10_000)) == [0, 1]


def test_a_stage_that_cannot_start_whole_leaves_the_order_of_victims_as_it_was() -> None:
    victims = [Victim(n, "low", 0, f"e{n}", 1, 10_000.0 * n, 1e6) for n in (1, 2, 3)]
    # Others end after 3, 3 and 6 s. At a worth of 4 the first two victims are worth it for the whole stage,
    # which waits 6 s; the third is worth it only for the next job, which waits for a victim's end.
    ends_ms = [3_000.0, 3_000.0, 6_000.0, *(victim.remaining_ms for victim in victims)]
    demands = [SlotDemand("whole", 9, 3, 1, {}, together=True), SlotDemand("next", 8, 1, 1, {})]
    choice = choose(demands, Candidates.of(victims), ends_ms, Terms(4.0, {"low": 1e9}))
    assert [[victim.task for victim in each] for each in choice.victims] == [[], [1]]
    assert choice.waiting == [3, 0]


def test_wide_tasks_get_slots_of_one_executor() -> None:
    world = World(0, 0)
    world.state.apply(ExecutorAdded(0, "f", "h", 2))
    for task in (5, 6):
        world.state.apply(TaskLaunched(9_000, "low", "low.0", task, task, "f", False))
    world.state.apply(ExecutorAdded(0, "g", "h", 1))
    world.state.apply(TaskLaunched(9_500, "low", "low.0", 7, 7, "g", False))
    world.job("more", 0, tasks=2)
    for task in (2, 3):
        world.launch("more", task, 0)
    world.job("wide", 5, tasks=1, slots_per_task=2)
    assert world.victims(10_000) == [6, 5], "the youngest one is alone on its executor"


@pytest.mark.parametrize(
    ("forecast", "elapsed_ms", "expected_ms"),
    [
        pytest.param(Forecast(), 100, 1_000, id="nothing known: a second at least"),
        pytest.param(Forecast(), 7_000, 7_000, id="nothing known: half is over"),
        pytest.param(Forecast(alpha=2.0, t_m_ms=3_000.0), 1_000, 5_000, id="a shape, before the shortest"),
        pytest.param(Forecast(alpha=2.0, t_m_ms=3_000.0), 9_000, 9_000, id="a shape: mean residual life"),
        pytest.param(siblings(2_000, 6_000, 8_000)["low"], 5_000, 2_000, id="siblings that took longer"),
        pytest.param(siblings(2_000)["low"], 5_000, 5_000, id="longer than all siblings"),
        pytest.param(
            TaskForecast(expected=(StageExpectation(4, RuntimeDistribution.point_s(9.0)),)),
            5_000,
            4_000,
            id="history",
        ),
    ],
)
def test_remaining_time(forecast: Forecast, elapsed_ms: float, expected_ms: float) -> None:
    # Another stage beside it, of which other things are known, changes nothing.
    both = [(siblings(3_000, 50_000)["low"], 0), (forecast, 0)]
    found = remaining_ms(both, np.array([2, 1]), np.array([10.0, 4_000.0, elapsed_ms]))
    assert found == pytest.approx([26_490.0, 46_000.0, expected_ms])


def test_a_spread_around_the_mean_leaves_long_tasks_a_chance() -> None:
    expectation = StageExpectation(4, RuntimeDistribution.point_s(9.0), spread=0.5)
    stage = TaskForecast(expected=(expectation,)), 0
    first_ms, second_ms = remaining_ms([stage], np.array([2]), np.array([9_000.0, 9_500.0]))
    assert first_ms > 0.0
    assert second_ms != 9_500.0


@pytest.mark.parametrize(("name", "text"), [("victims", "mrs"), ("most_evictions", "-1"), ("worth", "0")])
def test_wrong_options_are_refused(name: str, text: str) -> None:
    with pytest.raises(BadInputError, match=name):
        World().plan(0, **{name: text})


def test_in_the_simulator_a_job_of_high_priority_starts_at_once_and_every_task_runs_to_its_end() -> None:
    jobs = [
        JobSpec("low", 0, (StageSpec([60_000] * 8),)),
        *(JobSpec(f"high-{n}", 10_000 * n, (StageSpec([2_000] * 4),), priority=5) for n in range(1, 9)),
    ]
    given = {"spark.sched.policy.priority-evictions.most_evictions": "2"}
    policy = create("priority-evictions", PolicySettings.from_config(validate(given)))
    told: list[Event] = []
    result = simulate(
        ClusterSpec(uniform_nodes(2, 2)), jobs, policy, check=True,
        observer=told.append,
    )  # fmt: skip
    rows = {row["job"]: row for row in result.rows()}
    assert rows["high-1"]["wait_ms"] == 0
    assert rows["low"]["work_ms"] == 8 * 60_000
    again = [event for event in told if isinstance(event, TaskLaunched) and event.evictions]
    assert {event.job for event in again} == {"low"}
    assert rows["low"]["evictions"] == len(again) > 0
    assert max(event.evictions for event in again) == 2
    lost_ms = [event.duration_ms for event in told if isinstance(event, TaskEnded) and event.evicted_for]
    assert sum(lost_ms) == rows["low"]["wasted_ms"]


def test_the_simulator_gives_no_job_more_evictions_than_its_budget_pays() -> None:
    jobs = [
        JobSpec("low", 0, (StageSpec([60_000] * 4),)),
        *(JobSpec(f"high-{n}", 10_000 * n, (StageSpec([2_000] * 4),), priority=5) for n in range(1, 9)),
    ]
    options = {"job_budget": "60s", "worth": "1000"}
    given = {f"spark.sched.policy.priority-evictions.{name}": text for name, text in options.items()}
    result = simulate(ClusterSpec(uniform_nodes(2, 2)), jobs, "priority-evictions", settings=given)
    (low,) = (row for row in result.rows() if row["job"] == "low")
    assert 0 < low["wasted_ms"] <= 60_000


def low_jct_ms(**options: str) -> list[int]:
    """Sorted completion times of small jobs of low priority beside others that would take all slots."""
    jobs = sorted(
        [
            *(JobSpec(f"high-{n}", 1_000 * n, (StageSpec([8_000] * 4),), priority=5) for n in range(60)),
            *(JobSpec(f"low-{n}", 5_000 + 6_000 * n, (StageSpec([4_000]),)) for n in range(10)),
        ],
        key=lambda job: job.submit_ms,
    )
    given = {f"spark.sched.policy.priority-evictions.{name}": text for name, text in options.items()}
    result = simulate(
        ClusterSpec(uniform_nodes(2, 4)), jobs, "priority-evictions", settings=given, check=True
    )
    return sorted(row["jct_ms"] for row in result.rows() if row["job"].startswith("low"))


def test_with_sticky_slots_the_slowest_of_low_priority_are_sooner() -> None:
    without, sticky = low_jct_ms(), low_jct_ms(sticky_slots="1", sticky_wait="5s")
    assert sticky[-1] < without[-1] / 2
    assert sum(sticky) < sum(without)


def test_tasks_on_sticky_slots_are_not_evicted_and_there_are_no_more_than_slots() -> None:
    world = World(slots=2)
    world.job("high", 5, tasks=10)
    for task in (20, 21):
        world.launch("high", task, 0)
    terms = {"sticky_slots": "1", "sticky_wait": "5s"}
    plan, memory = world.plan(1_000, **terms)
    assert plan.again_ms == 6_000
    plan, memory = world.plan(6_000, memory=memory, **terms)
    low = plan.jobs[1]
    assert (low.job, low.priority, low.share) == ("low", 6, {0: 1})
    # It got the slot of a task that ended.
    world.end("high", 20, 7_000)
    world.launch("low", 3, 7_000)
    plan, memory = world.plan(8_000, memory=memory, **terms)
    assert [(each.priority, each.share, each.victims) for each in plan.jobs] == [(5, None, ()), (0, None, ())]
    # Another slot of it is no sticky one.
    world.end("high", 21, 8_000)
    world.launch("low", 4, 8_000)
    plan, memory = world.plan(9_000, memory=memory, **terms)
    assert plan.jobs[0].victims == (4,)


def full_of_high(slots: int) -> World:
    """All slots run tasks of a job of priority 5 from the start."""
    world = World(slots=slots)
    world.job("high", 5, tasks=20)
    for task in range(20, 20 + slots):
        world.launch("high", task, 0)
    return world


def test_sticky_slots_that_become_free_one_by_one_are_all_used() -> None:
    world, terms = full_of_high(4), {"sticky_slots": "3", "sticky_wait": "5s"}
    _, memory = world.plan(1_000, **terms)
    plan, memory = world.plan(6_000, memory=memory, **terms)
    assert plan.jobs[1].share == {0: 3}
    for task, left in enumerate(({0: 2}, {0: 1}, None)):
        at_ms = 7_000 + 10_000 * task
        world.end("high", 20 + task, at_ms)
        world.launch("low", task, at_ms)
        for later_ms in (100, 5_000):
            plan, memory = world.plan(at_ms + later_ms, memory=memory, **terms)
            assert (plan.jobs[1].share, plan.jobs[0].victims) == (left, ())
    # What was granted is used up: the slot of a task that ends is granted after the next wait only.
    world.end("low", 0, 30_000)
    plan, memory = world.plan(30_100, memory=memory, **terms)
    assert plan.jobs[1].share is None


def test_sticky_slots_granted_to_one_job_are_not_granted_to_another() -> None:
    world, terms = full_of_high(2), {"sticky_slots": "3", "sticky_wait": "5s"}
    world.job("next", 1, tasks=5)
    _, memory = world.plan(1_000, **terms)
    plan, memory = world.plan(6_000, memory=memory, **terms)
    assert [each.share for each in plan.jobs] == [None, None, {0: 3}]
    world.end("high", 20, 7_000)
    world.launch("low", 0, 7_000)
    plan, memory = world.plan(7_100, memory=memory, **terms)
    shares = {each.job: each.share for each in plan.jobs}
    assert shares == {"high": None, "low": {0: 2}, "next": None}


def test_a_sticky_slot_too_few_for_a_wide_task_is_not_granted() -> None:
    world, terms = full_of_high(4), {"sticky_slots": "3", "sticky_wait": "5s"}
    world.job("wide", 0, tasks=5, slots_per_task=2)
    world.launch("low", 0, 500)
    _, memory = world.plan(1_000, **terms)
    plan, memory = world.plan(6_000, memory=memory, **terms)
    assert {each.job: each.share for each in plan.jobs}["wide"] == {0: 3}
    for task in (20, 21):
        world.end("high", task, 7_000)
    world.launch("wide", 10, 7_000)
    plan, memory = world.plan(7_100, memory=memory, **terms)
    assert {each.job: each.share for each in plan.jobs}["wide"] is None


def hold(world: World, key: str, priority: int, deadline_ms: int | None = None) -> None:
    world.state.apply(JobChanged(0, key, priority, None, deadline_ms, True, "ada"))


def test_nobody_is_evicted_for_a_job_on_hold() -> None:
    world = World(0, 1_000, 2_000)
    world.job("held", 9, tasks=4)
    world.launch("held", 20, 3_000)
    world.job("middle", 5, tasks=2)
    assert {each.job: each.victims for each in world.plan(10_000)[0].jobs}["held"] == (2, 1, 0)
    hold(world, "held", 9)
    victims = {each.job: each.victims for each in world.plan(10_000)[0].jobs}
    assert victims == {"held": (), "middle": (2, 1), "low": ()}


def test_jobs_on_hold_get_no_sticky_slots_and_keep_nobody_waiting() -> None:
    world, terms = full_of_high(4), {"sticky_slots": "3", "sticky_wait": "5s"}
    hold(world, "high", 5)
    _, memory = world.plan(1_000, **terms)
    assert world.plan(6_000, memory=memory, **terms)[0].jobs[1].share is None
    world, low = full_of_high(4), "low"
    _, memory = world.plan(1_000, **terms)
    assert world.plan(6_000, memory=memory, **terms)[0].jobs[1].share == {0: 3}
    hold(world, low, 0)
    assert world.plan(6_000, memory=memory, **terms)[0].jobs[1].share is None


def test_prio_evicts_nobody_and_keeps_no_slots_for_a_job_on_hold() -> None:
    world = World(0, 0, 0)
    world.job("slo", 0, tasks=4)
    world.launch("slo", 20, 0)
    world.state.apply(JobChanged(0, "slo", 0, None, 60_000, False, "ada"))
    policy, rng = create("prio", PolicySettings.from_config(validate({}))), np.random.default_rng(1)

    def low(memory: Any) -> tuple[JobPlan, Any]:
        plan, memory = policy.decide(world.state.snapshot(), {}, 1_000, rng, memory)
        return {each.job: each for each in plan.jobs}["low"], memory

    evicted, memory = low(None)
    assert evicted.evict
    hold(world, "slo", 0, 60_000)
    for before in (None, memory):
        entry, _ = low(before)
        assert (entry.evict, entry.deferred) == (False, False)


def test_many_waiting_stages_do_not_each_look_at_every_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 300 waiting stages and 4,000 running tasks, prices are computed for victims and stages only."""
    looks = 0
    plain = Prices._worth_from_ms

    def counted(prices: Prices, group: Sequence[int], width: int) -> float:
        nonlocal looks
        looks += 1
        return plain(prices, group, width)

    monkeypatch.setattr(Prices, "_worth_from_ms", counted)
    running = [Victim(n, "low", 0, f"e{n // 16}", 1, 60_000.0 + n, 90_000.0) for n in range(4_000)]
    demands = [SlotDemand(f"high{n}", 1, 10, 1, {}) for n in range(300)]
    # 2,000 slots of others become free within 15 s, before which no eviction is worth 60 s of work.
    ends_ms = [5.0 * n for n in range(2_000)] + [60_000.0] * 500 + [victim.remaining_ms for victim in running]
    choice = choose(demands, Candidates.of(running), ends_ms, Terms(4.0, {"low": 1e12}))
    evicted = sum(map(len, choice.victims))
    assert evicted > 0
    assert sum(choice.waiting) + evicted == 3_000
    assert looks <= 2 * evicted + len(demands)


def test_a_decision_that_runs_out_of_time_evicts_fewer_and_says_so() -> None:
    world = World(0, 0, 0, 0)
    world.job("high", 5, tasks=4)
    settings = PolicySettings.from_config(validate({"spark.sched.policy.priority-evictions.worth": "1000"}))
    whole = create("priority-evictions", settings)
    clock_ms = iter(range(1_000)).__next__  # a ms with each look at the clock
    hasty = create("priority-evictions", replace(settings, budget=Budget(3.0, clock_ms)))
    plans = [
        policy.decide(world.state.snapshot(), {}, 10_000, np.random.default_rng(1), None)[0]
        for policy in (whole, hasty)
    ]
    assert [len(plan.jobs[0].victims) for plan in plans] == [4, 2]
    assert plans[1].jobs[0].victims == plans[0].jobs[0].victims[:2]
    assert (
        plans[1]
        .jobs[0]
        .reason.endswith(
            "the time for one plan (a tenth of spark.sched.planner.stallTimeout) was over before victims for "
            "2 tasks were looked for"
        )
    )
    assert plans[1].again_ms is not None, "the next plan looks for the others"


def test_tasks_on_an_executor_that_leaves_are_no_victims_and_stop_no_plan() -> None:
    leaving = ClusterSpec((NodeSpec("a", 1), NodeSpec("b", 1, until_ms=500)))
    low = JobSpec("low", 0, (StageSpec([3_000] * 2),), priority=0)
    high = JobSpec("high", 1_000, (StageSpec([1_000]),), priority=5)
    found = simulate(leaving, [low, high], "priority-evictions", check=True)
    end_ms = dict(zip(found.jobs["job"], found.jobs["end_ms"], strict=True))
    assert end_ms["high"] < end_ms["low"]
