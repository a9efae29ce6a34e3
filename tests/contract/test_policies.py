"""What every policy of the registry promises."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from spark_sched.config import validate
from spark_sched.errors import BadInputError
from spark_sched.policies import Plan, Policy, PolicySettings, available, create
from spark_sched.policies.key_order import KeyOrdered, Moment
from spark_sched.policies.sizes import SizedForecast
from spark_sched.predict import UNKNOWN, Forecast, RuntimeDistribution
from spark_sched.protocol.events import (
    ExecutorAdded,
    JobEnded,
    JobStarted,
    SlotHeld,
    StageEnded,
    StageStarted,
    TaskEnded,
    TaskLaunched,
)
from spark_sched.state import ClusterState, JobView, Snapshot

SCHEMA = Draft202012Validator(
    json.loads((Path(__file__).parents[2] / "protocol" / "plan.schema.json").read_text())
)
DEFAULTS = PolicySettings.from_config(validate({}))

POLICIES = [create(name, DEFAULTS) for name in available()]
every_policy = pytest.mark.parametrize("policy", POLICIES, ids=available())

jobs = st.builds(
    JobStarted,
    time_ms=st.integers(0, 10**6),
    job=st.text(min_size=1, max_size=5),
    name=st.text(max_size=5),
    user=st.none() | st.text(max_size=3),
    priority=st.integers(-(2**31), 2**31 - 1),
    isolation=st.none() | st.floats(0, 1),
    deadline_ms=st.none() | st.integers(0, 10**13),
    job_class=st.none(),
    copies=st.booleans(),
    marked=st.booleans(),
)
forecasts = st.builds(
    Forecast,
    stage_tasks=st.lists(st.integers(1, 10**6), max_size=4).map(tuple),
    alpha=st.none() | st.floats(1.01, 100),
    t_m_ms=st.none() | st.floats(1, 1e9),
    source=st.just("test"),
    runs=st.integers(0, 5),
    samples=st.integers(0, 100),
)


#: What a policy sees: the cluster, and forecasts of some of its jobs.
World = tuple[Snapshot, dict[str, Forecast]]


@st.composite
def worlds(draw: st.DrawFn) -> World:
    state = ClusterState()
    state.apply(ExecutorAdded(0, "e", "h", 4))
    known = {}
    for n, job in enumerate(draw(st.lists(jobs, max_size=8, unique_by=lambda job: job.job))):
        state.apply(job)
        state.apply(
            StageStarted(job.time_ms, job.job, f"{n}.0", "p", 0, 3, None, False, False, draw(st.booleans()))
        )
        if draw(st.booleans()):
            state.apply(TaskLaunched(job.time_ms, job.job, f"{n}.0", n, 0, "e", False))
            state.apply(SlotHeld(job.time_ms, job.job, f"{n}.0", "e", 10**6))
        if draw(st.booleans()):
            known[job.job] = draw(forecasts)
    state.version = 77
    return state.snapshot(), known


def decide(policy: Policy, world: World, seed: int = 3) -> Plan:
    return policy.decide(world[0], world[1], 5_000, np.random.default_rng(seed), None)[0]


ORDERED = [policy for policy in POLICIES if policy.capabilities.key_order]


@pytest.mark.parametrize("policy", POLICIES, ids=available())
def test_a_policy_has_a_key_order_if_it_declares_one(policy: Policy) -> None:
    assert isinstance(policy, KeyOrdered) == policy.capabilities.key_order


@pytest.mark.parametrize("policy", ORDERED, ids=lambda policy: policy.name)
@given(data=st.data())
def test_a_key_order_ranks_jobs_as_the_plans_do(policy: Policy, data: st.DataObject) -> None:
    assert isinstance(policy, KeyOrdered)
    state, now_ms, memory, seen = ClusterState(), 0, None, dict[str, JobView]()
    state.apply(ExecutorAdded(0, "e", "h", 8))
    order = policy.key_order(None)
    running: list[tuple[str, int]] = []
    known: dict[str, Forecast] = {}
    for number in range(data.draw(st.integers(1, 12))):
        now_ms += data.draw(st.integers(0, 3_000))
        present = sorted(state.snapshot().jobs)
        step = data.draw(st.sampled_from(("job", "job", "launch", "launch", "end", "job ends")))
        if step == "launch" and present:
            job = data.draw(st.sampled_from(present))
            state.apply(TaskLaunched(now_ms, job, f"{job}.0", number, number, "e", False))
            running.append((job, number))
        elif step == "end" and running:
            job, task = running.pop(data.draw(st.integers(0, len(running) - 1)))
            state.apply(TaskEnded(now_ms, job, f"{job}.0", task, task, "e", 1_000, "success", False))
        elif step == "job ends" and present:
            ended = data.draw(st.sampled_from(present))
            for job, task in [each for each in running if each[0] == ended]:
                running.remove((job, task))
                state.apply(TaskEnded(now_ms, job, f"{job}.0", task, task, "e", 1_000, "success", False))
            state.apply(JobEnded(now_ms, ended, "ended"))
        else:
            state.apply(replace(data.draw(jobs), time_ms=now_ms, job=f"{number}"))
            state.apply(StageStarted(now_ms, f"{number}", f"{number}.0", "p", 0, 50, None, False, False))
            if policy.capabilities.exact_key_order:
                work = data.draw(st.integers(1, 10_000))
                known[f"{number}"] = SizedForecast(source="test", work_slot_ms=float(work))
        snapshot = state.snapshot()
        plan, memory = policy.decide(snapshot, known, now_ms, np.random.default_rng(3), memory)
        now = snapshot.jobs
        changed = [view for key, view in now.items() if seen.get(key) is not view]
        gone = [key for key in seen if key not in now]
        if order.by_slots and not gone and all(view.job in seen for view in changed):
            for view in changed:
                order.slots_changed(view, now_ms)
        else:
            moment = Moment(
                now_ms,
                snapshot.slots,
                lambda job: known.get(job.job, UNKNOWN),
                lambda job, now=now: now[job.job],
                now.values,
            )
            order.update(changed, gone, moment)
        seen = dict(now)
        places = {key: order.place(key) for key in now}
        values = {key: order.value(place, now_ms) for key, place in places.items()}
        assert sorted(now, key=values.__getitem__) == [entry.job for entry in plan.jobs]
        for a, b in pairwise(sorted(now, key=lambda key: (str(places[key].lane), places[key].key))):
            assert places[a].lane != places[b].lane or values[a] < values[b]
        for entry in plan.jobs:
            rules = order.rules(now[entry.job], UNKNOWN)
            assert (entry.priority, entry.reservation, entry.pool) == (0, rules.reservation, rules.pool)


# ---- what each plan must keep: a world, the policy that planned for it, and its plan ----


def every_active_job_is_ranked_exactly_once(world: World, policy: Policy, plan: Plan) -> None:
    assert sorted(job.job for job in plan.jobs) == sorted(world[0].jobs)
    assert [job.rank for job in plan.jobs] == list(range(len(world[0].jobs)))


def the_plan_is_valid_on_the_wire_and_gives_a_reason_for_each_job(
    world: World, policy: Policy, plan: Plan
) -> None:
    document = json.loads(plan.to_text())
    SCHEMA.validate(document)
    assert (document["snapshot"], document["made_at_ms"], document["policy"]) == (77, 5_000, policy.name)
    assert all(job["reason"] for job in document["jobs"])


def nobody_is_evicted_whom_the_driver_would_not_evict(world: World, policy: Policy, plan: Plan) -> None:
    assert all(world[0].jobs[entry.job].evictable for entry in plan.jobs if entry.evict)


def victims_run_may_run_again_and_are_of_lower_priority(world: World, policy: Policy, plan: Plan) -> None:
    of = {
        task.task: (job, stage)
        for job in world[0].jobs.values()
        for stage in job.stages
        for task in stage.running
    }
    victims = [(entry, task) for entry in plan.jobs for task in entry.victims]
    assert len({task for _, task in victims}) == len(victims)
    for entry, task in victims:
        job, stage = of[task]
        assert stage.restartable
        assert job.marks.priority < entry.priority


def the_plan_uses_nothing_that_the_policy_does_not_declare(world: World, policy: Policy, plan: Plan) -> None:
    used = {
        "places": any(entry.share is not None for entry in plan.jobs),
        "start_times": any(entry.deferred or entry.start_ms is not None for entry in plan.jobs),
        "preempts": any(entry.evict for entry in plan.jobs),
        "evicts_tasks": any(entry.victims for entry in plan.jobs),
        "pilots": any(entry.pilots is not None for entry in plan.jobs),
        "new_jobs_wait": plan.new_jobs_wait,
    }
    can = asdict(policy.capabilities)
    assert [name for name, uses in used.items() if uses and not can[name]] == []


PROMISES = (
    every_active_job_is_ranked_exactly_once,
    the_plan_is_valid_on_the_wire_and_gives_a_reason_for_each_job,
    nobody_is_evicted_whom_the_driver_would_not_evict,
    victims_run_may_run_again_and_are_of_lower_priority,
    the_plan_uses_nothing_that_the_policy_does_not_declare,
)


# One test, since drawing worlds takes most of the time, and each plan tells all of it.
@given(world=worlds())
def test_every_plan_keeps_its_promises_repeats_itself_and_changes_nothing_observed(world: World) -> None:
    before = repr(world)
    for policy in POLICIES:
        note(policy.name)
        plan = decide(policy, world)
        assert repr(world) == before
        for promise in PROMISES:
            promise(world, policy, plan)
        assert decide(policy, world).to_text() == plan.to_text()


# ---- what a policy remembers is a value ----


def stories() -> Iterator[Snapshot]:
    """The snapshots of a run in which jobs come, run, end and make way for others."""
    state = ClusterState()
    state.apply(ExecutorAdded(0, "e", "h", 4))
    tasks = 0
    for number in range(6):
        now_ms, key = 5_000 * number, f"j{number}"
        deadline_ms = now_ms + 60_000 if number % 2 else None
        state.apply(
            JobStarted(now_ms, key, key, f"u{number % 2}", number, None, deadline_ms, None, True, True)
        )
        state.apply(StageStarted(now_ms, key, f"{key}.0", "p", 0, 2 + number, None, True, False, True))
        for index in range(2 if number % 3 == 0 else 0):
            tasks += 1
            state.apply(TaskLaunched(now_ms + 10, key, f"{key}.0", tasks, index, "e", False))
        if number == 4:
            for index in range(2):
                state.apply(
                    TaskEnded(now_ms + 20, "j0", "j0.0", index + 1, index, "e", now_ms + 10, "success", False)
                )
            state.apply(StageEnded(now_ms + 20, "j0", "j0.0", True))
            state.apply(JobEnded(now_ms + 20, "j0", "ended"))
        state.version += 10
        state.now_ms = now_ms + 30
        yield state.snapshot()


def step(policy: Policy, memory: Any, snapshot: Snapshot, seed: int = 3) -> tuple[str, Any]:
    rng = np.random.default_rng(seed + snapshot.version)
    plan, after = policy.decide(snapshot, {}, snapshot.now_ms, rng, memory)
    return plan.to_text(), after


@every_policy
def test_a_new_policy_goes_on_from_the_memory_of_another(policy: Policy) -> None:
    unbroken: Any = None
    broken: Any = None
    for snapshot in stories():
        whole, unbroken = step(policy, unbroken, snapshot)
        text, broken = step(create(policy.name, DEFAULTS), broken, snapshot)
        assert text == whole


@every_policy
def test_one_policy_serves_planners_with_different_memories(policy: Policy) -> None:
    story = list(stories())
    late = story[3:]
    alone_whole, alone_late = run(policy, story), run(policy, late)
    whole: Any = None
    other: Any = None
    for number, snapshot in enumerate(story):
        text, whole = step(policy, whole, snapshot)
        assert text == alone_whole[number]
        if number >= 3:
            text, other = step(policy, other, snapshot)
            assert text == alone_late[number - 3]


@every_policy
def test_a_memory_stays_as_it_is(policy: Policy) -> None:
    memory: Any = None
    for snapshot in stories():
        first, after = step(policy, memory, snapshot)
        step(policy, memory, snapshot, seed=99)  # a question, whose answer nobody keeps
        assert step(policy, memory, snapshot)[0] == first
        memory = after


@every_policy
def test_planning_again_for_an_unchanged_snapshot_gives_the_same_plan(policy: Policy) -> None:
    memory: Any = None
    for snapshot in stories():
        first, memory = step(policy, memory, snapshot)
        again, _ = step(policy, memory, snapshot)
        assert again == first


def run(policy: Policy, story: list[Snapshot]) -> list[str]:
    memory: Any = None
    texts = []
    for snapshot in story:
        text, memory = step(policy, memory, snapshot)
        texts.append(text)
    return texts


# ---- single cases ----


def full_cluster(*, restartable: bool) -> World:
    """A best-effort job on all four slots, for ten minutes in all, and an SLO job of higher priority that
    must start at once."""
    state = ClusterState()
    state.apply(ExecutorAdded(0, "e", "h", 4))
    known = {}
    for key, priority, deadline_ms, runtime_s in (("runs", 0, None, 600.0), ("waits", 10, 20_000, 10.0)):
        state.apply(JobStarted(0, key, key, None, priority, None, deadline_ms, None, True, True))
        state.apply(StageStarted(0, key, f"{key}.0", "p", 0, 4, None, True, False, restartable))
        known[key] = Forecast(runtime=RuntimeDistribution.point_s(runtime_s), runtime_point_s=runtime_s)
    for task in range(4):
        state.apply(TaskLaunched(0, "runs", "runs.0", task, task, "e", False))
    return state.snapshot(), known


@every_policy
def test_a_full_cluster_that_may_not_be_evicted_is_waited_for(policy: Policy) -> None:
    plan = decide(policy, full_cluster(restartable=False))
    assert [entry.job for entry in plan.jobs if entry.evict or entry.victims] == []


@every_policy
def test_policies_that_preempt_do_so_where_the_driver_would(policy: Policy) -> None:
    plan = decide(create(policy.name, DEFAULTS), full_cluster(restartable=True))
    evicted = [entry.job for entry in plan.jobs if entry.evict]
    assert evicted == (["runs"] if policy.capabilities.preempts else [])
    takers = [(entry.job, sorted(entry.victims)) for entry in plan.jobs if entry.victims]
    assert takers == ([("waits", [0, 1, 2, 3])] if policy.capabilities.evicts_tasks else [])


@every_policy
def test_an_empty_cluster_gets_an_empty_plan(policy: Policy) -> None:
    plan = decide(policy, (ClusterState().snapshot(), {}))
    assert plan.jobs == ()
    SCHEMA.validate(plan.to_json())


@every_policy
def test_a_plan_is_renumbered_without_touching_its_rules(policy: Policy) -> None:
    plan = decide(policy, (ClusterState().snapshot(), {}))
    assert plan.numbered(9).to_json() == plan.to_json() | {"plan": 9}


def test_an_unknown_policy_is_refused_with_a_hint() -> None:
    with pytest.raises(BadInputError, match=r"'resevation' is unknown \(did you mean 'reservation'\?\)"):
        create("resevation", DEFAULTS)
