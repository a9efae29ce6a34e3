"""FAIR, least attained service, shortest first and UWFQ, by what they do to jobs in the simulator."""

from __future__ import annotations

import pytest

from spark_sched.config import validate
from spark_sched.policies import Policy, PolicySettings, create
from spark_sched.policies.simple.uwfq import UwfqPolicy
from spark_sched.policies.simple.virtual_time import VirtualTime
from spark_sched_lab.simulator import ClusterSpec, JobSpec, Result, StageSpec, simulate, uniform_nodes

DEFAULTS = PolicySettings.from_config(validate({}))


def job(key: str, tasks: int, task_ms: int, at: int = 0, user: str | None = None) -> JobSpec:
    return JobSpec(key, at, (StageSpec([task_ms] * tasks),), user=user, job_class=user)


def run(policy: Policy | str, jobs: list[JobSpec], slots: int = 6, predictor: str = "oracle") -> Result:
    return simulate(ClusterSpec(uniform_nodes(slots, 1)), jobs, policy, predictor=predictor)


def running_at(result: Result, at_ms: int) -> dict[str, int]:
    names = dict(zip(result.jobs["number"], result.jobs["job"], strict=True))
    found = dict.fromkeys(names.values(), 0)
    for number, start, end in zip(*(result.tasks[key] for key in ("job", "start_ms", "end_ms")), strict=True):
        found[names[number]] += start <= at_ms < end
    return found


def fair(**options: str) -> Policy:
    given = {f"spark.sched.policy.fair.{name}": text for name, text in options.items()}
    return create("fair", PolicySettings.from_config(validate(given)))


def ends(result: Result) -> dict[str, int]:
    return dict(zip(result.jobs["job"], result.jobs["end_ms"], strict=True))


def test_fair_gives_jobs_equal_shares_even_when_all_slots_come_free_at_once() -> None:
    result = run("fair", [job("a", 30, 100), job("b", 30, 100), job("c", 30, 100)])
    assert [running_at(result, at) for at in (50, 150, 250)] == [{"a": 2, "b": 2, "c": 2}] * 3


def test_fair_pools_share_by_weight() -> None:
    policy = fair(poolBy="user", weights="ann=2")
    result = run(policy, [job("a", 30, 100, user="ann"), job("b", 30, 100, user="bob")])
    assert running_at(result, 250) == {"a": 4, "b": 2}


def test_a_fair_pool_below_its_minimum_share_comes_before_any_weight() -> None:
    policy = fair(poolBy="class", minShares="ann=5", weights="bob=100")
    result = run(policy, [job("a", 30, 100, user="ann"), job("b", 30, 100, user="bob")])
    assert running_at(result, 250) == {"a": 5, "b": 1}


def test_jobs_of_one_fair_pool_come_in_the_order_of_their_arrival() -> None:
    policy = fair(poolBy="user")
    result = run(policy, [job("a", 12, 100, user="u"), job("b", 12, 100, user="u")])
    assert ends(result) == {"a": 200, "b": 400}


def test_las_lets_a_new_job_pass_one_that_has_run_for_long() -> None:
    jobs = [job("long", 60, 100), job("short", 6, 100, at=350)]
    assert ends(run("las", jobs))["short"] == 500
    assert ends(run("fifo", jobs))["short"] == 1_100


def test_las_shares_between_jobs_that_have_had_the_same() -> None:
    result = run("las", [job("a", 60, 100), job("b", 60, 100)], slots=1)
    starts = zip(result.tasks["job"], result.tasks["start_ms"], strict=True)
    turns = [number for number, _ in sorted(starts, key=lambda pair: pair[1])]
    assert all(abs(turns[:n].count(0) - turns[:n].count(1)) <= 1 for n in range(len(turns)))


def test_shortest_first_orders_by_all_the_work_of_a_job_and_not_by_its_tasks() -> None:
    jobs = [job("running", 6, 100), job("many", 12, 30, at=1), job("few", 2, 100, at=2)]
    assert ends(run("shortest-first", jobs, slots=1)) == {"few": 300, "many": 660, "running": 1_160}


def test_shortest_first_without_knowledge_is_first_come_first_served() -> None:
    jobs = [job("running", 6, 100), job("many", 12, 30, at=1), job("few", 2, 100, at=2)]
    result = run("shortest-first", jobs, slots=1, predictor="none")
    assert ends(result) == {"running": 600, "many": 960, "few": 1_160}


FIGURE_13 = {"spark.sched.reservation.minPriority": "1", "spark.sched.copies.enabled": "false"}


def figure_13(width: int, *, reserving: bool) -> dict[str, int]:
    """Job-1 has three stages of ``width`` uneven tasks, job-2 many tasks without dependency; eight slots."""
    stages = tuple(
        StageSpec([1_000] * (width - 1) + [2_500], parents=(i - 1,) if i else ()) for i in range(3)
    )
    one = JobSpec("job-1", 0, stages, isolation=1.0 if reserving else None, priority=0, copies=False)
    two = JobSpec("job-2", 0, (StageSpec([1_000] * 160),))
    cluster = ClusterSpec(uniform_nodes(8, 1))
    return ends(simulate(cluster, [one, two], "fair", settings=FIGURE_13, check=True))


@pytest.mark.parametrize("width", [2, 4, 6, 8], ids=["narrower", "equal", "wider", "all slots"])
def test_a_job_keeps_its_fair_share_across_barriers_and_costs_nobody_theirs(width: int) -> None:
    without, held = figure_13(width, reserving=False), figure_13(width, reserving=True)
    assert held["job-1"] <= without["job-1"]
    # Alone on half of the slots a stage takes 2.5 s where it fits, and else two rounds at most.
    assert held["job-1"] <= 3 * (2_500 if width <= 4 else 3_500) + 1_000
    assert held["job-2"] <= 1.1 * without["job-2"]


@pytest.mark.parametrize("pool_by", ["job", "user"])
def test_what_a_wide_fair_job_holds_goes_to_a_pool_below_its_share(pool_by: str) -> None:
    wide = JobSpec(
        "wide",
        0,
        (StageSpec([1_000] * 3 + [20_000]), StageSpec([1_000] * 4, parents=(0,))),
        isolation=1.0,
        copies=False,
        user="ann",
    )
    other = JobSpec("other", 2_000, (StageSpec([1_000] * 4),), user="bob")
    settings = {**FIGURE_13, "spark.sched.policy.fair.poolBy": pool_by}
    result = simulate(ClusterSpec(uniform_nodes(4, 1)), [wide, other], "fair", settings=settings, check=True)
    # Two of the three idle slots are its share: two rounds, and not the straggler's end.
    assert ends(result) == {"wide": 21_000, "other": 4_000}
    assert result.totals["holds_overridden"] > 0


def test_the_virtual_system_ends_jobs_when_a_fluid_share_would() -> None:
    # 4 slots, two users: 2 slots each. ann's jobs of 400 and 800 slot-ms share ann's 2 slots.
    virtual = VirtualTime()
    virtual.arrive(0, "ann", 1.0, 400.0)
    virtual.arrive(1, "ann", 1.0, 800.0)
    virtual.arrive(2, "bob", 1.0, 600.0)
    # One after another inside a user: ann's at 400 and 1,200 of virtual time, bob's at 600.
    assert virtual.deadlines == {0: 400.0, 1: 1_200.0, 2: 600.0}
    # bob leaves at 300 ms (600 at 2 slots); ann has then had 600, and from there 4 slots: all done at 450 ms.
    virtual.advance(300.0, 4)
    virtual.arrive(3, "bob", 1.0, 100.0)
    assert virtual.deadlines[3] == 700.0
    virtual.advance(10_000.0, 4)
    virtual.arrive(4, "cid", 1.0, 50.0)
    assert virtual.deadlines[4] == pytest.approx(1_200.0 + 50.0)


def test_weights_stretch_a_users_share_of_the_virtual_system() -> None:
    virtual = VirtualTime()
    virtual.arrive(0, "ann", 2.0, 400.0)
    virtual.arrive(1, "bob", 1.0, 400.0)
    assert virtual.deadlines == {0: 200.0, 1: 400.0}


def test_uwfq_does_not_favour_a_user_with_many_jobs() -> None:
    # bob's one job of 600 slot-ms against ann's ten of 300: per job ann would get ten elevenths.
    jobs = [job("first", 6, 50)]
    jobs += [job(f"ann{i}", 3, 100, at=1, user="ann") for i in range(10)]
    jobs += [job("bob", 6, 100, at=2, user="bob")]
    uwfq, shortest = ends(run("uwfq", jobs)), ends(run("shortest-first", jobs))
    assert shortest["bob"] == max(shortest.values())
    assert sum(end < uwfq["bob"] for key, end in uwfq.items() if key.startswith("ann")) <= 4


def test_uwfq_remembers_what_a_user_has_had_after_its_jobs_ended() -> None:
    # ann's small jobs come one after another, each alone in the real system; bob's long one must not starve.
    jobs = [job("bob", 40, 100, user="bob")]
    jobs += [job(f"ann{i}", 4, 100, at=100 * i, user="ann") for i in range(40)]
    result = run(UwfqPolicy(DEFAULTS), jobs, slots=4)
    assert ends(result)["bob"] <= 2 * 1_000 + 200
