"""Tenants' queues in a run: ceilings, admission, refusals, and what a run reports of them."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from spark_sched.config.queue_file import read_queues
from spark_sched_lab.engine.queue_rows import by_queue
from spark_sched_lab.simulator import (
    ClusterSpec,
    JobSpec,
    NodeSpec,
    Result,
    StageSpec,
    simulate,
    uniform_nodes,
)


def run(
    tmp_path: Path,
    queues: str,
    jobs: list[JobSpec],
    policy: str = "fifo",
    slots: int = 4,
    cluster: ClusterSpec | None = None,
) -> Result:
    path = tmp_path / "queues.toml"
    path.write_text(queues)
    settings = {"spark.sched.queues": read_queues(path).to_json()}
    nodes = cluster or ClusterSpec(uniform_nodes(1, slots))
    return simulate(nodes, jobs, policy, settings=settings, check=True)


def job(key: str, tasks: int, user: str = "ann", at_ms: int = 0, **more: object) -> JobSpec:
    return JobSpec(key, at_ms, (StageSpec([1000] * tasks),), name=key, user=user, **more)  # type: ignore[arg-type]


def ends(result: Result) -> dict[str, int | None]:
    return {row["job"]: row["end_ms"] for row in result.rows()}


CEILING = """
default = "rest"
[queues.team]
ceiling = "50 %"
[queues.rest]
[[rules]]
queue = "team"
user = "ann"
"""


def test_a_queue_leaves_the_slots_above_its_ceiling_to_others(tmp_path: Path) -> None:
    result = run(tmp_path, CEILING, [job("first", 8), job("second", 4, user="bob")])
    assert ends(result) == {"first": 4000, "second": 2000}  # 2 of 4 slots each
    assert [(row["queue"], row["peak_slots"], row["slot_s"]) for row in by_queue(result)] == [
        ("team", 2, 8.0),
        ("rest", 2, 4.0),
    ]


def test_slots_above_the_ceiling_idle_if_nobody_else_waits(tmp_path: Path) -> None:
    assert ends(run(tmp_path, CEILING, [job("only", 8)])) == {"only": 4000}


def test_without_queues_a_run_reports_none(tmp_path: Path) -> None:
    result = simulate(ClusterSpec(uniform_nodes(1, 4)), [job("only", 8)])
    assert by_queue(result) == []
    assert "queue" not in result.jobs
    assert ends(result) == {"only": 2000}


ADMISSION = """
default = "q"
[queues.q]
max_running_jobs = 1
max_waiting_jobs = 2
wait_timeout = "2500 ms"
"""


def test_jobs_above_the_most_running_ones_wait_and_too_many_are_refused(tmp_path: Path) -> None:
    jobs = [
        job("a", 1),
        job("b", 1),
        job("c", 1, priority=5),  # before b, though it came later
        job("d", 1, priority=9),  # two wait already
    ]
    result = run(tmp_path, ADMISSION, jobs)
    assert ends(result) == {"a": 1000, "c": 2000, "b": 3000, "d": None}
    (row,) = by_queue(result)
    assert (row["jobs"], row["unfinished"], row["refused"], row["peak_slots"]) == (4, 1, 1, 1)


def test_a_job_that_waits_for_too_long_is_refused_then(tmp_path: Path) -> None:
    long = JobSpec("long", 0, (StageSpec([9000]),), name="long")
    result = run(tmp_path, ADMISSION, [long, job("b", 1), job("late", 1, at_ms=8000)])
    assert ends(result) == {"long": 9000, "b": None, "late": 10000}


def test_a_job_may_be_refused_while_its_first_stage_is_delayed(tmp_path: Path) -> None:
    long = JobSpec("long", 0, (StageSpec([9000]),), name="long")
    delayed = JobSpec("delayed", 0, (StageSpec([1000], delay_ms=4000),), name="delayed")
    assert ends(run(tmp_path, ADMISSION, [long, delayed])) == {"long": 9000, "delayed": None}


def test_a_queue_lowers_the_priorities_of_its_jobs(tmp_path: Path) -> None:
    queues = CEILING.replace('ceiling = "50 %"', "max_priority = 3")
    jobs = [job("blocks", 4, user="bob"), job("low", 4, priority=9), job("high", 4, user="bob", priority=4)]
    assert ends(run(tmp_path, queues, jobs, "priority")) == {"high": 1000, "low": 2000, "blocks": 3000}
    own = queues.replace(
        "max_priority = 3", 'max_priority = 3\nmax_priorities = [{user = "*", max_priority = 8}]'
    )
    assert ends(run(tmp_path, own, jobs, "priority")) == {"low": 1000, "high": 2000, "blocks": 3000}


@pytest.mark.parametrize(("policy", "other_ms"), [("fifo", 5000), ("reservation", 6000)])
def test_held_slots_count_as_the_queues_own(tmp_path: Path, policy: str, other_ms: int) -> None:
    """A job of two stages holds a slot for 2 s under one policy; no policy gives its queue a third slot."""
    stages = (StageSpec([1000, 3000]), StageSpec([1000] * 4, parents=(0,)))
    chain = JobSpec("chain", 0, stages, name="chain", user="ann", priority=5, marked=True, copies=False)
    result = run(tmp_path, CEILING, [chain, job("other", 12, user="bob")], policy)
    assert ends(result) == {"chain": 5000, "other": other_ms}
    assert [row["peak_slots"] for row in result.queues if row["queue"] == "team"] == [2]


SHARES = """
default = "rest"
[queues.team]
{team}
[queues.rest]
{rest}
[[rules]]
queue = "team"
user = "ann"
"""


def peaks(result: Result) -> dict[str, int]:
    return {row["queue"]: row["peak_slots"] for row in result.queues}


def test_slots_go_by_weight_from_the_first_instant_whatever_priorities_say(tmp_path: Path) -> None:
    queues = SHARES.format(team="weight = 3", rest="")
    jobs = [job("bulk", 8, user="bob", priority=9), job("first", 6), job("second", 6, priority=5)]
    result = run(tmp_path, queues, jobs, "priority")
    # 3 of 4 slots for two seconds each, the higher priority first; then bulk has all.
    assert peaks(result) == {"team": 3, "rest": 4}
    assert ends(result) == {"second": 2000, "first": 4000, "bulk": 5000}


TWO_PROFILES = ClusterSpec((NodeSpec("usual", 2), NodeSpec("own", 2, profile=1)))


def test_slots_that_none_of_its_tasks_may_use_are_no_part_of_a_queues(tmp_path: Path) -> None:
    queues = SHARES.format(team="weight = 1", rest="")
    jobs = [job("bulk", 2, user="bob"), job("late", 2)]
    result = run(tmp_path, queues, jobs, cluster=TWO_PROFILES)
    # One of the two slots each: the node of the other profile is for neither.
    assert ends(result) == {"bulk": 2000, "late": 2000}


def test_only_attempts_on_executors_that_its_tasks_may_use_are_evicted_for_a_queue(tmp_path: Path) -> None:
    queues = SHARES.format(team="floor = 2", rest="")
    queues += '[preemption]\nmode = "on"\ntimeout = "300ms"\ninterval = "100ms"\n'
    long = StageSpec([9000] * 2)
    other = StageSpec([9000] * 2, profile=1)
    jobs = [
        JobSpec("bulk", 0, (long,), name="bulk", user="bob"),
        JobSpec("apart", 10, (other,), name="apart", user="bob"),
        job("late", 2, at_ms=1000),
    ]
    result = run(tmp_path, queues, jobs, cluster=TWO_PROFILES)
    evicted = {row["job"]: row["evictions"] for row in result.rows()}
    assert evicted["apart"] == 0
    assert evicted["bulk"] > 0


def test_a_queue_below_its_floor_gets_the_next_slots(tmp_path: Path) -> None:
    queues = SHARES.format(team='floor = "50 %"', rest="weight = 100")
    bulk = JobSpec("bulk", 0, (StageSpec([1000, 1500, 2000, 2500] * 4),), name="bulk", user="bob", priority=9)
    result = run(tmp_path, queues, [bulk, job("late", 4, at_ms=500)], "priority")
    # Slots end at 1 s and at 1.5 s, and these two are the floor: tasks start at 1, 1.5, 2 and 2.5 s.
    assert ends(result)["late"] == 3500
    assert peaks(result)["team"] == 2


def test_the_floor_of_a_queue_is_met_by_weight_below_it(tmp_path: Path) -> None:
    queues = """
    default = "rest"
    [queues.team]
    floor = 3
    [queues.team.a]
    weight = 2
    [queues.team.b]
    [queues.rest]
    [[rules]]
    queue = "team.a"
    user = "ann"
    [[rules]]
    queue = "team.b"
    user = "bea"
    """
    jobs = [job("bulk", 40, user="bob"), job("a", 4, at_ms=10), job("b", 2, user="bea", at_ms=10)]
    result = run(tmp_path, queues, jobs)
    assert peaks(result) == {"team": 3, "team.a": 2, "team.b": 1, "rest": 4}
    assert {key: end for key, end in ends(result).items() if key != "bulk"} == {"a": 3000, "b": 3000}


@pytest.mark.parametrize(
    ("team", "rest", "other_ms"),
    [
        ("weight = 3", "", 8000),  # With a slot, the other queue would have more for its weight.
        ("", "weight = 1", 3000),
        ("", "floor = 1", 3000),
        ("floor = 2", "floor = 1", 8000),  # Without the held slot, the team would be below its own.
    ],
)
def test_a_held_slot_goes_to_a_queue_that_has_less_for_its_weight_or_is_below_its_floor(
    tmp_path: Path, team: str, rest: str, other_ms: int
) -> None:
    """A job of high priority holds a slot from 1 s to 6 s, for a stage of 1 s."""
    stages = (StageSpec([1000, 6000]), StageSpec([1000] * 2, parents=(0,)))
    chain = JobSpec("chain", 0, stages, name="chain", user="ann", priority=5, marked=True, copies=False)
    queues = SHARES.format(team=team, rest=rest)
    result = run(tmp_path, queues, [chain, job("other", 1, user="bob", at_ms=2000)], "reservation", slots=2)
    assert ends(result)["other"] == other_ms
    assert ends(result)["chain"] == 7000


def test_a_queue_whose_jobs_hold_their_slots_one_after_the_other_does_not_starve_another(
    tmp_path: Path,
) -> None:
    """Each slot that becomes free is held for a job of a high priority; the other queue's part is 2 of 4."""
    stages = (StageSpec([1000] * 4), StageSpec([1000] * 4, parents=(0,)))
    crowd = [
        JobSpec(
            f"chain-{n}", 100 * n, stages, name="chain", user="ann", priority=5, marked=True, copies=False
        )
        for n in range(10)
    ]
    late = job("late", 8, user="bob", at_ms=3000)
    queues = SHARES.format(team="weight = 1", rest="")
    result = run(tmp_path, queues, [*crowd, late], "reservation")
    assert ends(result)["late"] == 7000
    assert peaks(result) == {"team": 4, "rest": 2}


def gang_of(key: str, before: StageSpec, tasks: int, user: str, priority: int) -> JobSpec:
    """A stage, and then a gang of tasks of 1 s."""
    stages = (before, StageSpec([1000] * tasks, (0,), gang=True))
    return JobSpec(key, 0, stages, name=key, user=user, priority=priority, marked=True, copies=False)


def test_weights_take_no_held_slots_from_a_job_whose_gang_waits(tmp_path: Path) -> None:
    """Its job holds all eight slots for a gang of eight, and the other queue's part is four."""
    queues = SHARES.format(team="weight = 1", rest="weight = 1")
    jobs = [gang_of("gang", StageSpec([1000] * 8), 8, "ann", 9), job("bulk", 200, user="bob", at_ms=100)]
    result = run(tmp_path, queues, jobs, "reservation", cluster=ClusterSpec(uniform_nodes(8, 1)))
    assert ends(result)["gang"] == 2000


def test_two_gangs_of_queues_of_one_weight_do_not_keep_slots_from_each_other(tmp_path: Path) -> None:
    queues = SHARES.format(team="weight = 1", rest="weight = 1")
    jobs = [
        gang_of(f"gang-{user}", StageSpec([1000] * 4), 6, user, n) for user, n in (("ann", 9), ("bob", 5))
    ]
    result = run(tmp_path, queues, jobs, "reservation", cluster=ClusterSpec(uniform_nodes(8, 1)))
    assert ends(result) == {"gang-ann": 2000, "gang-bob": 3000}


def test_a_gang_keeps_the_ceiling_above_its_queue(tmp_path: Path) -> None:
    """A job of a sibling queue runs on one slot and holds three, of four."""
    queues = """
    default = "team.a"
    [queues.team]
    ceiling = 4
    [queues.team.a]
    weight = 1
    [queues.team.b]
    weight = 1
    [[rules]]
    queue = "team.b"
    user = "bob"
    """
    stages = (StageSpec([1000] * 3 + [6000]), StageSpec([1000] * 4, (0,)))
    holder = JobSpec("holder", 0, stages, name="holder", user="ann", priority=5, marked=True, copies=False)
    gang = JobSpec(
        "gang", 2000, (StageSpec([1000] * 3, gang=True),), name="gang", user="bob", priority=9, marked=True
    )
    result = run(tmp_path, queues, [holder, gang], "reservation", cluster=ClusterSpec(uniform_nodes(8, 1)))
    assert ends(result)["gang"] == 3000
    assert peaks(result)["team"] == 4


def test_a_plan_evicts_no_task_of_a_queue_that_would_get_the_slot_back(tmp_path: Path) -> None:
    """Four long tasks of one queue, and an urgent job of another one of the same weight: its part is 2."""
    long = JobSpec("long", 0, (StageSpec([60_000] * 4),), name="long", user="bob")
    urgent = job("urgent", 8, at_ms=2000, priority=9)
    queues = SHARES.format(team="weight = 1", rest="")
    result = run(tmp_path, queues, [long, urgent], "priority-evictions")
    assert {row["job"]: row["evictions"] for row in result.rows()} == {"long": 2, "urgent": 0}
    assert peaks(result)["team"] == 2
    below = run(tmp_path, SHARES.format(team="weight = 3", rest=""), [long, urgent], "priority-evictions")
    assert {row["job"]: row["evictions"] for row in below.rows()} == {"long": 3, "urgent": 0}


LONG = JobSpec("long", 0, (StageSpec([60_000] * 4),), name="long", user="bob", priority=9)
PREEMPTS = """
default = "rest"
[preemption]
mode = "{mode}"
timeout = "10s"
interval = "2s"
[queues.team]
floor = {floor}
[queues.rest]
{rest}
[[rules]]
queue = "team"
user = "ann"
"""


def evicted_for(result: Result) -> dict[str, int]:
    return {row["queue"]: row["floor_evictions"] for row in result.queues}


@pytest.mark.parametrize(
    ("mode", "end_ms", "counted"), [("off", 61_000, 0), ("observe", 61_000, 2), ("on", 41_000, 2)]
)
def test_a_queue_that_stays_below_its_floor_evicts_others(
    tmp_path: Path, mode: str, end_ms: int, counted: int
) -> None:
    """The team comes after 30 s and waits for 10 s; one second of waiting is worth four of work."""
    queues = PREEMPTS.format(mode=mode, floor=2, rest="")
    result = run(tmp_path, queues, [LONG, job("team", 2, at_ms=30_000)], "priority")
    assert ends(result)["team"] == end_ms
    assert evicted_for(result) == {"team": counted, "rest": 0}
    assert sum(row["evictions"] for row in result.rows()) == (counted if mode == "on" else 0)


def test_no_task_is_evicted_that_has_run_for_longer_than_the_wait_is_worth(tmp_path: Path) -> None:
    queues = PREEMPTS.format(mode="on", floor=2, rest="")
    result = run(tmp_path, queues, [LONG, job("team", 2, at_ms=35_000)], "priority")
    # After 10 s, 45 s are too much; after 12 s, 47 s are worth 48 s.
    assert ends(result)["team"] == 48_000


def test_an_eviction_leaves_other_queues_their_floors(tmp_path: Path) -> None:
    queues = PREEMPTS.format(mode="on", floor=3, rest="floor = 3")
    result = run(tmp_path, queues, [LONG, job("team", 3, at_ms=30_000)], "priority")
    assert evicted_for(result) == {"team": 1, "rest": 0}
    # Its tasks run one after the other in the slot that is not the others'.
    assert ends(result)["team"] == 43_000


def test_a_queue_with_half_of_its_floor_evicts_nothing(tmp_path: Path) -> None:
    queues = PREEMPTS.format(mode="on", floor=2, rest="")
    mine = JobSpec("mine", 0, (StageSpec([60_000] * 2),), name="mine", user="ann")
    half = JobSpec("half", 0, (StageSpec([60_000] * 3),), name="half", user="bob")
    result = run(tmp_path, queues, [half, mine], "fifo", slots=4)
    assert evicted_for(result) == {"team": 0, "rest": 0}


DAY = """
default = "rest"
[queues.rest]
ceiling = 3
max_running_jobs = 6
[queues.teams]
ceiling = "80 %"
[queues.teams.a]
ceiling = "30 %"
[queues.teams.b]
[[rules]]
queue = "teams.a"
user = "a-*"
[[rules]]
queue = "teams.b"
user = "b-*"
"""


@pytest.mark.parametrize("policy", ["fair", "reservation"])
def test_a_day_of_200_users_keeps_every_ceiling_to_the_slot(tmp_path: Path, policy: str) -> None:
    rng = random.Random(46)
    jobs = []
    for number, at_ms in enumerate(sorted(rng.randrange(86_400_000) for _ in range(220))):
        stages = [StageSpec([rng.randrange(60_000, 900_000) for _ in range(rng.randrange(1, 9))])]
        if rng.random() < 0.5:
            stages.append(StageSpec([rng.randrange(60_000, 400_000) for _ in range(4)], parents=(0,)))
        user = f"{'abc'[number % 3]}-{number % 200}"
        jobs.append(
            JobSpec(
                f"job-{number}", at_ms, tuple(stages), name=f"job-{number}", user=user,
                priority=rng.choice((0, 0, 1)), marked=True,
            )
        )  # fmt: skip
    assert len({each.user for each in jobs}) >= 200
    result = run(tmp_path, DAY, jobs, policy, slots=20)
    assert result.unfinished == 0
    peaks = {row["queue"]: (row["peak_slots"], row["ceiling_slots"]) for row in result.queues}
    assert {queue: peaks[queue] for queue in ("rest", "teams.a")} == {"rest": (3, 3), "teams.a": (6, 6)}
    assert peaks["teams"][0] <= peaks["teams"][1] == 16


HOUR_MS = 3_600_000
SLOT_HOURS = """
default = "rest"
[queues.team]
slot_hours_per_day = 4
[queues.rest]
[[rules]]
queue = "team"
user = "ann"
"""


def hours(key: str, tasks: int, length_h: float, at_h: float = 0.0, user: str = "ann") -> JobSpec:
    stage = StageSpec([round(length_h * HOUR_MS)] * tasks)
    return JobSpec(key, round(at_h * HOUR_MS), (stage,), name=key, user=user)


def test_a_queue_that_has_had_its_slot_hours_admits_no_job_until_they_are_a_day_old(tmp_path: Path) -> None:
    jobs = [
        hours("runs", 2, 3),  # It uses 4 slot-hours in 2 hours, goes on, and uses 6.
        hours("before", 1, 0.5, at_h=1.75),
        hours("after", 1, 1, at_h=2),
        hours("other", 1, 1, at_h=2, user="bob"),
    ]
    result = run(tmp_path, SLOT_HOURS, jobs)
    # Up to 2:00 the team has used 4.25 slot-hours, in all 6.5. Each quarter of an hour has half of one and
    # counts until 24 hours after its begin: five of them leave 4 at 25:00, which is not less than 4 yet.
    assert {key: None if at is None else at / HOUR_MS for key, at in ends(result).items()} == {
        "runs": 3.0,
        "before": 2.25,
        "other": 3.0,
        "after": 26.25,
    }


ONE_TO_THREE = """
default = "team"
[queues.team]
weight = 1
[queues.other]
weight = 3
[[rules]]
queue = "other"
user = "cat"
"""


def test_uwfq_orders_the_users_of_a_queue_after_the_weights_of_queues(tmp_path: Path) -> None:
    path = tmp_path / "queues.toml"
    path.write_text(ONE_TO_THREE)
    settings = {"spark.sched.queues": read_queues(path).to_json()}
    jobs = [
        job("first", 4, user="zoe"),
        job("ann-1", 8, at_ms=10),
        job("ann-2", 8, at_ms=20),
        job("bob", 8, user="bob", at_ms=30),
        job("cat", 9, user="cat", at_ms=40),
    ]
    cluster = ClusterSpec(uniform_nodes(1, 4))

    def ended(policy: str, settings: dict[str, str]) -> dict[str, int | None]:
        return ends(simulate(cluster, jobs, policy, predictor="oracle", settings=settings, check=True))

    # 1. Within the queue Bob's one job comes before the second one of Ann, who was there before him. While
    # Cat's nine tasks run, three of four slots are Cat's, although Cat came last: three rounds of one second
    # after the first second. In these Ann has one slot.
    assert ended("uwfq", settings) == {"first": 1000, "cat": 4000, "ann-1": 6000, "bob": 8000, "ann-2": 10000}
    # 2. Without queues Cat waits for its turn among the users.
    alone = ended("uwfq", {})
    assert alone["bob"] < alone["ann-2"]
    assert alone["cat"] > 4000
    # 3. It is the policy that puts Bob before Ann.
    fifo = ended("fifo", settings)
    assert (fifo["cat"], fifo["bob"] > fifo["ann-2"]) == (4000, True)


BY_NAME = """
default = "a"
[queues.a]
weight = 1
[queues.b]
weight = 1
[[rules]]
queue = "b"
name = "b-*"
"""


@pytest.mark.parametrize("predictor", ["oracle", "none"])
def test_under_uwfq_the_users_of_a_queue_share_its_part_whatever_they_have_in_others(
    tmp_path: Path, predictor: str
) -> None:
    path = tmp_path / "queues.toml"
    path.write_text(BY_NAME)
    settings = {"spark.sched.queues": read_queues(path).to_json()}
    # Ann has much to do in queue a. In queue b she came before Bob.
    jobs = [job(f"a-{number}", 8, at_ms=number) for number in range(6)]
    jobs += [job("b-first", 4, user="zoe", at_ms=10)]
    jobs += [job("b-ann", 8, at_ms=20), job("b-bob", 8, user="bob", at_ms=30)]
    jobs = [replace(each, name=each.key) for each in jobs]
    cluster = ClusterSpec(uniform_nodes(1, 4))

    def ended(settings: dict[str, str]) -> dict[str, int | None]:
        return ends(simulate(cluster, jobs, "uwfq", predictor=predictor, settings=settings, check=True))

    found = ended(settings)
    assert found["b-ann"] < found["b-bob"]
    # Without queues, what Ann has before counts against her.
    alone = ended({})
    assert alone["b-bob"] < alone["b-ann"]
