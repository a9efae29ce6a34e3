"""What the engine promises, on cases small enough to reckon by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_sched.config import validate
from spark_sched.errors import BadInputError
from spark_sched.policies import Capabilities, ChangesWith, Plan, PolicySettings, available, create
from spark_sched.policies.reservation import reservation_deadline_s, utilization_lower_bound
from spark_sched.predict import Forecast
from spark_sched.protocol.events import Event
from spark_sched.state import ClusterState, Preferred, Snapshot
from spark_sched_lab.engine.planning import Planner
from spark_sched_lab.simulator import (
    ClusterSpec,
    JobSpec,
    Locality,
    NodeSpec,
    StageSpec,
    simulate,
    uniform_nodes,
)


def job(key: str, *stages: list[int], at: int = 0, **marks: object) -> JobSpec:
    """A chain of stages."""
    chain = tuple(StageSpec(durations, (i - 1,) if i else ()) for i, durations in enumerate(stages))
    return JobSpec(key, at, chain, **marks)  # type: ignore[arg-type]


def ends(result_jobs: Mapping[str, list[object]]) -> dict[object, object]:
    return dict(zip(result_jobs["job"], result_jobs["end_ms"], strict=True))


def test_a_chain_of_stages_takes_the_sum_of_its_longest_tasks() -> None:
    result = simulate(ClusterSpec(uniform_nodes(3, 1)), [job("j", [5, 9, 2], [4, 4, 7], [1])])
    assert result.jobs["jct_ms"] == [9 + 7 + 1]


def test_stages_of_a_diamond_wait_for_all_their_parents_and_their_delay() -> None:
    diamond = (
        StageSpec([10]),
        StageSpec([20], (0,)),
        StageSpec([5], (0,), delay_ms=40),
        StageSpec([1], (1, 2)),
    )
    result = simulate(ClusterSpec(uniform_nodes(4, 1)), [JobSpec("j", 100, diamond)])
    assert result.jobs["end_ms"] == [100 + 10 + 40 + 5 + 1]


def test_first_come_first_served_on_two_slots() -> None:
    jobs = [job("a", [10, 10, 10]), job("b", [5], at=1), job("c", [5], at=2)]
    result = simulate(ClusterSpec(uniform_nodes(2, 1)), jobs)
    assert ends(result.jobs) == {"a": 20, "b": 15, "c": 20}


def test_a_slot_freed_at_an_instant_is_had_by_a_job_that_comes_at_that_instant() -> None:
    result = simulate(ClusterSpec(uniform_nodes(1, 1)), [job("a", [10]), job("b", [10], at=10)])
    assert result.jobs["wait_ms"] == [0, 0]


def test_a_higher_priority_goes_first_and_the_policy_fifo_ignores_it() -> None:
    jobs = [job("running", [10]), job("low", [10], at=1), job("high", [10], at=2, priority=5)]
    cluster = ClusterSpec(uniform_nodes(1, 1))
    assert ends(simulate(cluster, jobs, "priority").jobs) == {"running": 10, "high": 20, "low": 30}
    assert ends(simulate(cluster, jobs, "fifo").jobs) == {"running": 10, "low": 20, "high": 30}


def test_jobs_that_do_not_end_are_rows_without_an_end() -> None:
    jobs = [job("short", [10]), job("long", [1000]), job("late", [10], at=500)]
    result = simulate(ClusterSpec(uniform_nodes(2, 1)), jobs, until_ms=100)
    assert ends(result.jobs) == {"short": 10, "long": None}
    assert (result.unfinished, result.totals["jobs_not_submitted"]) == (1, 1)


def test_a_gang_starts_whole_and_one_that_never_fits_is_reported() -> None:
    gang = JobSpec("gang", 0, (StageSpec([10, 10], gang=True),))
    wide = JobSpec("wide", 0, (StageSpec([10] * 3, gang=True),))
    first = JobSpec("first", 0, (StageSpec([7]),))
    result = simulate(ClusterSpec(uniform_nodes(2, 1)), [first, gang, wide])
    assert ends(result.jobs) == {"first": 7, "gang": 17, "wide": None}


@pytest.mark.parametrize("name", available())
def test_a_gang_that_never_fits_does_not_keep_a_simulation_going_under_any_policy(name: str) -> None:
    wide = JobSpec("wide", 0, (StageSpec([1_000] * 3, gang=True),))
    later = job("later", [5_000], at=10_000)
    policy = _Counted(create(name, PolicySettings.from_config(validate({}))))
    result = simulate(ClusterSpec(uniform_nodes(2, 1)), [wide, later], policy)  # type: ignore[arg-type]
    assert ends(result.jobs) == {"wide": None, "later": 15_000}


class _Counted:
    """A policy that refuses to plan for ever."""

    def __init__(self, policy: Any) -> None:
        self._policy, self._plans = policy, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)

    def decide(self, *given: Any) -> Any:
        self._plans += 1
        assert self._plans < 5_000, "the simulation does not end"
        return self._policy.decide(*given)


def test_a_fast_node_runs_tasks_faster() -> None:
    result = simulate(ClusterSpec((NodeSpec("fast", 1, speed=4.0),)), [job("j", [1000])])
    assert result.jobs["jct_ms"] == [250]


def test_delay_scheduling_gives_up_after_the_wait_and_pays_the_slowdown() -> None:
    cluster = ClusterSpec(uniform_nodes(2, 1), locality=Locality(wait_ms=3_000, slowdown=5.0))
    chain = JobSpec("chain", 0, (StageSpec([1_000]), StageSpec([1_000], (0,), delay_ms=10)), priority=5)
    # The thief takes the chain's slot between its stages; the twin has the other node's until 2 s.
    others = [job("twin", [2_000], at=0), job("thief", [60_000], at=1_005)]
    result = simulate(cluster, [chain, *others], "priority")
    row = next(row for row in result.rows() if row["job"] == "chain")
    assert row["nonlocal_tasks"] == 1
    assert row["end_ms"] == 1_010 + 3_000 + 5_000


@pytest.mark.parametrize(("near", "ends_ms"), [(True, 1_000 + 4_000), (False, 1_000 + 3_000 + 5 * 4_000)])
def test_a_held_slot_away_from_the_input_is_near_only_where_the_model_says_so(
    near: bool, ends_ms: int
) -> None:
    locality = Locality(wait_ms=3_000, slowdown=5.0, held_is_near=near)
    cluster = ClusterSpec((NodeSpec("a", 2), NodeSpec("b", 1)), locality=locality)
    # Two tasks, then three: where node a ran both of the first, the third of the others holds the slot of b.
    chain = JobSpec("chain", 0, (StageSpec([1_000] * 2), StageSpec([4_000] * 3, (0,))), priority=5)
    settings = {
        "spark.sched.reservation.preReserveThreshold": "0",
        "spark.sched.copies.enabled": "false",
    }
    found = []
    for seed in range(20):
        result = simulate(cluster, [chain], "reservation", settings=settings, seed=seed)
        rows = zip(result.tasks["node"], result.tasks["stage"], strict=True)
        if {result.nodes[node] for node, stage in rows if stage == 0} == {"a"}:
            found.append((result.jobs["end_ms"][0], result.jobs["nonlocal_tasks"][0]))
    assert found
    assert set(found) == {(ends_ms, int(not near))}


def test_a_job_prefers_its_partition_and_runs_longer_elsewhere() -> None:
    nodes = (NodeSpec("a", 1, partition=0), NodeSpec("b", 1, partition=1))
    one = JobSpec("one", 0, (StageSpec([100, 100]),), preferred=Preferred(frozenset({1}), 1.5))
    result = simulate(ClusterSpec(nodes), [one])
    rows = zip(result.tasks["node"], result.tasks["end_ms"], strict=True)
    assert {result.nodes[node]: end for node, end in rows} == {"b": 100, "a": 150}


CHAIN = ([1_000, 3_000], [1_000, 1_000])
BACKGROUND = [20_000] * 4


def test_priority_alone_loses_slots_at_the_barrier_and_a_reservation_keeps_them() -> None:
    jobs = [job("front", *CHAIN, priority=10), job("back", BACKGROUND, at=500)]
    cluster = ClusterSpec(uniform_nodes(2, 1))
    alone = simulate(cluster, jobs, "priority")
    held = simulate(
        cluster, jobs, "reservation", settings={"spark.sched.copies.enabled": "false"}, check=True
    )
    assert ends(alone.jobs)["front"] == 5_000
    assert ends(held.jobs)["front"] == 4_000
    assert held.totals["held_idle_slot_ms"] == 2_000
    # One slot waits for the job's own straggler, and that is the job's to answer for.
    idle_ms = dict(zip(held.jobs["job"], held.jobs["held_idle_ms"], strict=True))
    assert idle_ms == {"front": 2_000, "back": 0}


def test_a_jobs_predicted_idle_time_is_equation_4s_bound_at_the_deadline() -> None:
    # Half of the tasks take t_m = 1 s and half of them 2 s; no prior of the shape counts.
    times = [1_000] * 10 + [2_000] * 10
    jobs = [job("front", times, [100] * 20, priority=10, isolation=0.5)]
    settings = {"spark.sched.copies.enabled": "false", "spark.sched.reservation.alphaWeight": "0"}
    found = simulate(ClusterSpec(uniform_nodes(20, 1)), jobs, "reservation", settings=settings)
    alpha = 20 / (10 * math.log(2))
    deadline_s = reservation_deadline_s(0.5, 1.0, alpha, 20)
    lost = 1.0 - utilization_lower_bound(0.5, alpha, 20)
    assert found.jobs["predicted_idle_ms"] == [pytest.approx(1000 * 20 * deadline_s * lost, abs=0.6)]
    assert found.totals["predicted_idle_slot_ms"] == found.jobs["predicted_idle_ms"][0]


@pytest.mark.parametrize(("priority", "start_ms"), [(10, 4_000), (11, 1_500)])
def test_a_higher_priority_overrides_a_hold_and_an_equal_one_waits(priority: int, start_ms: int) -> None:
    # Of the front job's two slots one is held from 1 s on; its last stage runs on both until 4 s.
    jobs = [
        job("front", *CHAIN, priority=10),
        job("other", [100], at=1_500, priority=priority, isolation=0.0),
    ]
    off = {"spark.sched.copies.enabled": "false"}
    result = simulate(ClusterSpec(uniform_nodes(2, 1)), jobs, "reservation", settings=off, check=True)
    row = next(row for row in result.rows() if row["job"] == "other")
    assert row["first_launch_ms"] == start_ms
    assert result.totals["holds_overridden"] == (priority == 11)


def test_a_hold_expires_and_the_slot_goes_to_who_waits() -> None:
    jobs = [job("front", [1_000, 90_000], [1_000, 1_000], priority=10), job("back", [5_000], at=10)]
    off = {"spark.sched.copies.enabled": "false", "spark.sched.reservation.maxHold": "30s"}
    result = simulate(ClusterSpec(uniform_nodes(2, 1)), jobs, "reservation", settings=off, check=True)
    row = next(row for row in result.rows() if row["job"] == "back")
    assert row["first_launch_ms"] == 30_000
    assert result.totals["holds_expired"] == 1


class Watching:
    """A policy that compares every snapshot it is given with the state that live code makes of the events."""

    capabilities = Capabilities(ChangesWith.TASKS)

    def __init__(self, state: ClusterState) -> None:
        self.name = "reservation"
        self._state = state
        self._policy = create("reservation", PolicySettings.from_config(validate({})))
        self.compared = 0

    def decide(
        self,
        snapshot: Snapshot,
        forecasts: Mapping[str, Forecast],
        now_ms: int,
        rng: np.random.Generator,
        memory: Any,
    ) -> tuple[Plan, Any]:
        live = self._state.snapshot()
        assert dict(snapshot.jobs) == dict(live.jobs)
        assert dict(snapshot.executors) == dict(live.executors)
        self.compared += 1
        return self._policy.decide(snapshot, forecasts, now_ms, rng, memory)


durations = st.lists(st.integers(1, 3_000), min_size=1, max_size=6)
workloads = st.lists(
    st.builds(
        lambda stages, gap, priority: (stages, gap, priority),
        st.lists(durations, min_size=1, max_size=4),
        st.integers(0, 2_000),
        st.sampled_from([0, 0, 1, 10]),
    ),
    min_size=1,
    max_size=8,
)


def specs(drawn: list[tuple[list[list[int]], int, int]]) -> list[JobSpec]:
    at, made = 0, []
    for number, (stages, gap, priority) in enumerate(drawn):
        at += gap
        made.append(job(f"j{number}", *stages, at=at, priority=priority))
    return made


@given(drawn=workloads, nodes=st.integers(1, 4), slots=st.integers(1, 2))
def test_policies_see_what_live_code_would_make_of_the_same_events(
    drawn: list[tuple[list[list[int]], int, int]], nodes: int, slots: int
) -> None:
    state = ClusterState()

    def watch(event: Event) -> None:
        state.apply(event)

    policy = Watching(state)
    result = simulate(
        ClusterSpec(uniform_nodes(nodes, slots)), specs(drawn), policy, observer=watch, check=True
    )
    state.check()
    assert policy.compared > 0
    assert not state.ignored
    assert result.unfinished == 0


@given(drawn=workloads, policy=st.sampled_from(available()), every_ms=st.sampled_from([0, 200]))
def test_every_task_succeeds_once_and_every_promise_of_the_ledger_holds(
    drawn: list[tuple[list[list[int]], int, int]], policy: str, every_ms: int
) -> None:
    jobs = specs(drawn)
    result = simulate(
        ClusterSpec(uniform_nodes(2, 2)), jobs, policy, predictor="oracle", plan_every_ms=every_ms, check=True
    )
    rows = zip(*(result.tasks[key] for key in ("outcome", "job", "stage", "task")), strict=True)
    won = [where for outcome, *where in rows if outcome == "success"]
    wanted = [
        [j, p, t] for j, spec in enumerate(jobs) for p, q in enumerate(spec.stages) for t in range(q.tasks)
    ]
    assert sorted(won) == sorted(wanted)
    assert result.unfinished == 0


@pytest.mark.parametrize("policy", ["fifo", "priority", "reservation"])
@given(drawn=workloads)
def test_showing_a_policy_each_job_once_changes_nothing_where_jobs_are_decided_on_one_by_one(
    policy: str, drawn: list[tuple[list[list[int]], int, int]]
) -> None:
    jobs, cluster = specs(drawn), ClusterSpec(uniform_nodes(2, 2))
    always = create(policy, PolicySettings.from_config(validate({})))
    always.capabilities = Capabilities(ChangesWith.TASKS)  # type: ignore[misc]
    assert Planner(always, None, np.random.default_rng(0)).one_by_one is False
    first, second = simulate(cluster, jobs, policy), simulate(cluster, jobs, always)
    assert (first.jobs, first.tasks) == (second.jobs, second.tasks)


@pytest.mark.parametrize("policy", available())
def test_the_same_seed_gives_the_same_bytes_and_another_seed_other_places(policy: str) -> None:
    rng = np.random.default_rng(5)
    jobs = [
        job(
            f"j{i}",
            *(rng.integers(1, 5_000, 6).tolist() for _ in range(3)),
            at=i * 700,
            priority=i % 3,
            user=str(i % 2),
        )
        for i in range(20)
    ]

    def run(seed: int) -> str:
        result = simulate(ClusterSpec(uniform_nodes(5, 2)), jobs, policy, predictor="oracle", seed=seed)
        return json.dumps([result.jobs, result.tasks, result.totals])

    assert run(1) == run(1)
    assert run(1) != run(2)


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        (JobSpec("j", 0, ()), r"job 'j' has no stage: give it one or leave it out"),
        (job("j", []), r"job 'j', stage 0 has no task"),
        (job("j", [0]), r"job 'j', stage 0 has a task of 0 ms but 1 ms is the least"),
        (
            JobSpec("j", 0, (StageSpec([1], (0,)),)),
            r"has parents \[0\] but a parent must be a stage before it",
        ),
        (JobSpec("j", -5, (StageSpec([1]),)), r"is submitted at -5 ms but must be at 0 or later"),
    ],
)
def test_a_job_that_cannot_be_simulated_is_named(bad: JobSpec, sentence: str) -> None:
    with pytest.raises(BadInputError, match=sentence):
        simulate(ClusterSpec(uniform_nodes(1, 1)), [bad])


def test_jobs_out_of_order_are_refused_with_the_remedy() -> None:
    with pytest.raises(BadInputError, match="sort the jobs by their submission"):
        simulate(ClusterSpec(uniform_nodes(1, 1)), [job("a", [1], at=10), job("b", [1], at=5)])
