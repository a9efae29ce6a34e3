"""When jobs are expected to end: what a plan says to people beside its rules."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from spark_sched.config.queues import Amount, PlacementRule, QueueSpec, QueueTree
from spark_sched.planner.outlook import Outlook
from spark_sched.policies import EndQuantiles, JobPlan, Plan, QueuedBehind
from spark_sched.predict import Forecast, RuntimeDistribution
from spark_sched.predict.later import Kind
from spark_sched.protocol.plan import PoolShare
from spark_sched.state import (
    ClusterState,
    DurationSummary,
    ExecutorView,
    JobMarks,
    JobSummary,
    JobView,
    RunningTask,
    Snapshot,
    StageView,
)

MARKS = JobMarks("n", "u", 0, None, None, None, copies=True, marked=True)
VIEW = JobView("j", MARKS, 1_000, 0, (), MappingProxyType({}), 0)
KNOWN = {"j": Forecast(runtime=RuntimeDistribution.uniform_s(10.0, 20.0))}


class Clock:
    now_ms = 0.0

    def __call__(self) -> float:
        return self.now_ms


def cluster(*jobs: JobView) -> Snapshot:
    executors = {"e": ExecutorView("e", "h", 4, 0, 0)}
    return replace(
        ClusterState().snapshot(),
        executors=MappingProxyType(executors),
        jobs=MappingProxyType({job.job: job for job in jobs}),
    )


def snapshot(**job: Any) -> Snapshot:
    return cluster(replace(VIEW, **job))


def close(found: EndQuantiles | None, *ends_ms: int) -> bool:
    """Samples give quantiles to a thirtieth of the range of 10 s."""
    assert found is not None
    return (found.p10_ms, found.p50_ms, found.p90_ms) == pytest.approx(ends_ms, abs=350)


def plan(**entry: Any) -> Plan:
    return Plan(1, 0, 1, "p", True, (JobPlan("j", 0, 0, None, "why", **entry),))


def end(
    seen: Snapshot, planned: Plan, now_ms: int, known: dict[str, Forecast] = KNOWN
) -> EndQuantiles | None:
    outlook = Outlook(Clock())
    outlook.see(seen)
    return outlook.ends(seen, known, planned, now_ms).get("j")


def test_a_job_that_waits_is_expected_to_run_from_its_start_on():
    assert close(end(snapshot(), plan(), 50_000), 61_000, 65_000, 69_000)
    later = end(snapshot(), plan(start_ms=60_000, deferred=True), 50_000)
    assert close(later, 71_000, 75_000, 79_000)
    assert later.start_ms == (60_000, 60_000, 60_000)
    assert end(snapshot(), plan(deferred=True), 50_000) is None


def test_a_job_that_runs_has_the_rest_of_its_runtime_before_it():
    begun = snapshot(running_slots=1)  # seen first at its start, 1 s
    assert close(end(begun, plan(), 1_000), 12_000, 16_000, 20_000)
    assert end(begun, plan(), 1_000).start_ms is None
    assert close(end(begun, plan(), 16_000), 16_500, 18_500, 20_500)
    assert close(end(begun, plan(), 99_000), 99_000, 99_000, 99_000)


def test_the_probability_to_meet_the_deadline_is_of_what_is_left():
    begun = snapshot(running_slots=1, marks=replace(MARKS, deadline_ms=18_500))
    assert end(begun, plan(), 1_000).deadline_probability == pytest.approx(0.75, abs=0.03)
    assert end(begun, plan(), 16_000).deadline_probability == pytest.approx(0.5, abs=0.03)


def test_without_a_runtime_nothing_is_said():
    assert end(snapshot(), plan(), 0, {"j": Forecast()}) is None
    assert end(snapshot(), plan(), 0, {}) is None
    # That of whatever ran before is no runtime of this job.
    assert end(snapshot(), plan(), 0, {"j": replace(KNOWN["j"], runtime_is_own=False)}) is None


def test_ends_are_computed_once_a_second_and_anew_after_a_reset():
    clock = Clock()
    outlook = Outlook(clock)
    seen = snapshot(running_slots=1)
    outlook.see(seen)
    first = outlook.ends(seen, KNOWN, plan(), 1_000)
    clock.now_ms = 900.0
    assert outlook.ends(seen, KNOWN, plan(), 90_000) is first
    clock.now_ms = 1_000.0
    assert outlook.ends(seen, KNOWN, plan(), 90_000)["j"].p50_ms == pytest.approx(90_000, abs=350)
    outlook.clear()
    assert outlook.ends(snapshot(), KNOWN, plan(), 90_000)["j"].p50_ms == pytest.approx(105_000, abs=350)


def test_computations_take_a_part_of_the_processor_however_long_they_last():
    """A busy machine may let one of 20 ms last for a minute."""
    clock, work = Clock(), Clock()
    outlook = Outlook(clock, work_ms=work)
    seen = snapshot(running_slots=1)
    outlook.see(seen)
    inner = outlook._forecasts

    def slow(*arguments: Any) -> dict[str, Any]:
        clock.now_ms += 60_000.0
        work.now_ms += 40.0
        return inner(*arguments)

    outlook._forecasts = slow
    first = outlook.ends(seen, KNOWN, plan(), 1_000)
    clock.now_ms = 1_999.0  # fifty times 40 ms after the beginning
    assert outlook.ends(seen, KNOWN, plan(), 1_999) is first
    clock.now_ms = 2_000.0
    assert outlook.ends(seen, KNOWN, plan(), 2_000) is not first


def test_a_job_that_is_between_two_stages_began_with_its_first_task():
    outlook = Outlook(Clock())
    outlook.see(snapshot(running_slots=1))
    outlook.see(snapshot())
    assert outlook.ends(snapshot(), KNOWN, plan(), 1_000)["j"].p50_ms == pytest.approx(16_000, abs=350)


@pytest.mark.parametrize("cut_short", [False, True])
def test_later_ends_are_corrected_by_those_of_jobs_that_ended_whole(cut_short: bool):
    clock = Clock()
    outlook = Outlook(clock)
    for _ in range(30):
        clock.now_ms += 1_000.0
        outlook.ends(snapshot(), KNOWN, plan(), 1_000)
        outlook.learn(JobSummary("j", "n", True, "ended", 1_000, 41_000, cut_short))  # 40 s for 10 to 20 s
    clock.now_ms += 1_000.0
    late = outlook.ends(snapshot(), KNOWN, plan(), 1_000)["j"]
    assert (late.p50_ms > 30_000) is not cut_short


@pytest.mark.parametrize(("first_seen_ms", "median_s"), [(1_000, 40.0), (31_000, 15.0)])
def test_a_newcomer_is_corrected_by_jobs_that_began_at_once(first_seen_ms: int, median_s: float):
    """By those that came lately, and not by those that a new planner finds after half a minute."""
    clock = Clock()
    outlook = Outlook(clock)
    for number in range(30):
        clock.now_ms += 1_000.0
        job = f"j{number}"  # each has its slots at the first look, and takes 40 s instead of 10 to 20 s
        view = replace(VIEW, job=job, running_slots=1)
        seen = cluster(view)
        outlook.see(seen)
        planned = replace(plan(), jobs=(JobPlan(job, 0, 0, None, "why"),))
        outlook.ends(seen, {job: KNOWN["j"]}, planned, first_seen_ms)
        outlook.learn(JobSummary(job, "n", True, "ended", 1_000, 41_000, False))
    answered = outlook.of_newcomer("j", snapshot(), KNOWN, plan(), 1_000)
    assert answered is not None
    assert float(answered.quantile(0.5)) == pytest.approx(median_s, rel=0.05)


def test_a_newcomer_is_no_shorter_for_jobs_that_were_first_seen_when_nearly_over():
    """Each is seen 3.9 s after its submission, and ends 0.1 s later: it took 4 s and not 0.1 s."""
    clock = Clock()
    outlook = Outlook(clock)
    for number in range(30):
        clock.now_ms += 1_000.0
        job = f"j{number}"
        seen = cluster(replace(VIEW, job=job, running_slots=1))
        outlook.see(seen)
        planned = replace(plan(), jobs=(JobPlan(job, 0, 0, None, "why"),))
        outlook.ends(seen, {job: KNOWN["j"]}, planned, 4_900)
        outlook.learn(JobSummary(job, "n", True, "ended", 1_000, 5_000, False))
    answered = outlook.of_newcomer("j", snapshot(), KNOWN, plan(), 1_000)
    assert answered is not None
    assert float(answered.quantile(0.5)) == pytest.approx(4.0, rel=0.05)


def queue(*known: Forecast, running: int = 1, **entry: Any) -> tuple[Snapshot, dict[str, Forecast], Plan]:
    """Jobs that each have four tasks for the four slots; the first ones run."""
    jobs = [
        replace(
            VIEW, job=f"j{number}", arrival=number, running_slots=4 if number < running else 0,
            stages=(stage(4, running=4 if number < running else 0),),
        )
        for number in range(len(known))
    ]  # fmt: skip
    entries = tuple(JobPlan(job.job, rank, 0, None, "why", **entry) for rank, job in enumerate(jobs))
    return cluster(*jobs), {f"j{at}": each for at, each in enumerate(known)}, replace(plan(), jobs=entries)


def stage(tasks: int, running: int) -> StageView:
    launched = tuple(RunningTask(at, at, "e", 1_000, False) for at in range(running))
    return StageView(
        "0.0", "", 0, tasks, None, True, False, 1_000, 0, DurationSummary(0, None, 0.0), launched
    )


def test_the_tenth_of_ten_equal_jobs_waits_for_nine():
    """Each takes 10 to 20 s, so the last one starts after 135 s or so, and nobody ends at 4 s."""
    seen, known, planned = queue(*[KNOWN["j"]] * 10)
    outlook = Outlook(Clock())
    outlook.see(seen)
    found = outlook.ends(seen, known, planned, 1_000)
    ends = [found[f"j{number}"] for number in range(10)]
    assert all(isinstance(each, EndQuantiles) for each in ends)
    for number, each in enumerate(ends):
        assert each.p50_ms == pytest.approx(1_000 + 15_000 * (number + 1), rel=0.1)
        assert each.p10_ms <= each.p50_ms <= each.p90_ms
    assert ends[0].start_ms is None
    assert ends[9].start_ms[1] == pytest.approx(136_000, rel=0.05)
    # The spread of a sum of ten: 10 s / sqrt(12) * sqrt(10) * 2.56.
    assert ends[9].p90_ms - ends[9].p10_ms == pytest.approx(23_400, rel=0.35)


def test_behind_a_job_of_which_nothing_is_known_there_is_no_number():
    seen, known, planned = queue(KNOWN["j"], Forecast(), KNOWN["j"], KNOWN["j"])
    outlook = Outlook(Clock())
    outlook.see(seen)
    found = outlook.ends(seen, known, planned, 1_000)
    assert isinstance(found["j0"], EndQuantiles)
    assert [found[f"j{n}"] for n in (1, 2, 3)] == [QueuedBehind(1), QueuedBehind(2), QueuedBehind(3)]


def test_a_job_that_the_plan_defers_without_a_start_is_behind_nobody():
    """All is known about it and those before it; only the plan has no start for it."""
    seen, known, planned = queue(*[KNOWN["j"]] * 3)
    deferred = replace(planned.jobs[1], deferred=True)
    outlook = Outlook(Clock())
    outlook.see(seen)
    found = outlook.ends(
        seen, known, replace(planned, jobs=(planned.jobs[0], deferred, planned.jobs[2])), 1_000
    )
    assert "j1" not in found
    assert isinstance(found["j2"], EndQuantiles)


def test_an_unknown_job_that_leaves_slots_leaves_numbers():
    """It takes one of the four slots for as long as anybody knows, and the other job the rest."""
    seen, known, planned = queue(Forecast(), KNOWN["j"])
    small = replace(seen.jobs["j0"], running_slots=1, stages=(stage(1, running=1),))
    seen = cluster(small, seen.jobs["j1"])
    outlook = Outlook(Clock())
    outlook.see(seen)
    found = outlook.ends(seen, known, planned, 1_000)
    assert "j0" not in found
    assert found["j1"].p50_ms == pytest.approx(1_000 + 15_000 * 4 / 3, rel=0.05)


def test_jobs_in_pools_of_their_own_share():
    seen, known, planned = queue(KNOWN["j"], KNOWN["j"], running=2)
    pools = tuple(replace(each, pool=PoolShare(each.job)) for each in planned.jobs)
    outlook = Outlook(Clock())
    outlook.see(seen)
    found = outlook.ends(seen, known, replace(planned, jobs=pools), 1_000)
    for job in ("j0", "j1"):
        assert found[job].p50_ms == pytest.approx(1_000 + 28_000, rel=0.1)


@pytest.mark.parametrize(("jobs", "start"), [(4, True), (5, False), (60, False)])
def test_a_job_in_a_pool_of_its_own_has_a_start_if_its_part_is_a_slot(jobs: int, start: bool):
    """Of four slots in all."""
    seen, known, planned = queue(*[KNOWN["j"]] * jobs, running=0)
    pools = tuple(replace(each, pool=PoolShare(each.job)) for each in planned.jobs)
    found = Outlook(Clock()).ends(seen, known, replace(planned, jobs=pools), 1_000)
    assert all(isinstance(each, EndQuantiles) for each in found.values())
    assert [each.start_ms is not None for each in found.values()] == [start] * jobs


def test_work_of_higher_priority_that_keeps_coming_delays_those_behind():
    seen, known, planned = queue(*[KNOWN["j"]] * 10, running=0)
    outlook = Outlook(Clock())
    before = outlook.ends(seen, known, planned, 1_000)["j9"]
    outlook._later.lasted_ms(1_000)
    for number in range(40):  # half of the slots
        outlook._later.arrive(1_000 + 5_000 * number, Kind(0, 7), 10_000.0, 1.0)
    outlook._again_at_ms = 0.0
    after = outlook.ends(seen, known, planned, 201_000)["j9"]
    # 150 s of work; such arrivals last for 200 s more in half of the samples.
    assert after.p50_ms - 201_000 == pytest.approx(1.7 * (before.p50_ms - 1_000), rel=0.1)
    # How many come, and for how long, is less certain than how long the ten jobs take.
    assert after.p90_ms - after.p10_ms > 3.0 * (before.p90_ms - before.p10_ms)


@pytest.mark.parametrize(
    ("before_ms", "started_ms", "now_ms", "counts"),
    # In the pause; an event that came late; older than both.
    [(10_000, 12_000, 40_000, True), (10_000, 9_500, 12_000, True), (10_000, 4_000, 40_000, False)],
)
@pytest.mark.parametrize("cleared", [False, True])
def test_jobs_that_arrive_in_a_long_pause_are_newcomers(
    before_ms: int, started_ms: int, now_ms: int, counts: bool, cleared: bool
):
    clock = Clock()
    outlook = Outlook(clock)
    seen, known, planned = queue(*[KNOWN["j"]] * 2, running=0)
    old = cluster(replace(seen.jobs["j0"], started_ms=-90_000))
    outlook.ends(old, known, planned, before_ms)
    clock.now_ms = 30_000.0
    if cleared:
        # Then only what is young counts: events report all active jobs again.
        outlook.clear()
    both = cluster(*old.jobs.values(), replace(seen.jobs["j1"], started_ms=started_ms))
    outlook.ends(both, known, planned, now_ms)
    young = now_ms - started_ms <= 5_000
    assert len(outlook._later._seen) == (young if cleared else counts)


def tenants(**first: Any) -> QueueTree:
    """A queue for user u with these keys, and one for all others."""
    return QueueTree(
        (QueueSpec("mine", **first), QueueSpec("theirs")), (PlacementRule("mine", user="u"),), "theirs"
    )


def of_two_users(*users: str) -> tuple[Snapshot, dict[str, Forecast], Plan]:
    """Jobs of four tasks of 10 to 20 s on four slots, none of which has begun."""
    seen, known, planned = queue(*[KNOWN["j"]] * len(users), running=0)
    jobs = [
        replace(job, marks=replace(job.marks, user=user))
        for job, user in zip(seen.jobs.values(), users, strict=True)
    ]
    return cluster(*jobs), known, planned


@pytest.mark.parametrize(
    ("tree", "last_s"),
    [
        # The first five go before it, and the last one has all slots at the end.
        (None, 90.0),
        # Below its floor it is first.
        (tenants(floor=Amount(4)), 15.0),
        # Two of four slots from the start, beside the others.
        (tenants(weight=1.0), 30.0),
        (tenants(floor=Amount(2), ceiling=Amount(2)), 30.0),
        (tenants(weight=1.0, ceiling=Amount(1)), 60.0),
    ],
)
def test_the_last_job_ends_as_its_queue_gets_slots(tree: QueueTree | None, last_s: float):
    seen, known, planned = of_two_users(*"vvvvvu")
    found = Outlook(Clock(), tree=tree).ends(seen, known, planned, 1_000)
    assert found["j5"].p50_ms == pytest.approx(1_000 + 1_000 * last_s, rel=0.1)


def test_jobs_at_a_ceiling_leave_slots_to_those_behind():
    """Without floors and weights the order is the plan's."""
    seen, known, planned = of_two_users("u", "u", "v")
    found = Outlook(Clock(), tree=tenants(ceiling=Amount(1))).ends(seen, known, planned, 1_000)
    ends_s = [(found[f"j{at}"].p50_ms - 1_000) / 1_000.0 for at in range(3)]
    assert ends_s == pytest.approx([60.0, 120.0, 20.0], rel=0.1)


def test_a_job_waits_to_be_admitted_until_one_of_its_queue_ends():
    """Though slots are idle: each of the two jobs of the queue has a task, and the cluster four slots."""
    seen, known, planned = of_two_users("u", "u", "v")
    small = [replace(job, stages=(stage(1, running=0),)) for job in seen.jobs.values()]
    found = Outlook(Clock(), tree=tenants(max_running_jobs=1)).ends(cluster(*small), known, planned, 1_000)
    assert [found[f"j{at}"].start_ms[1] for at in range(3)] == pytest.approx([1_000, 16_000, 1_000], rel=0.1)


def test_a_job_behind_an_unknown_one_of_its_queue_has_no_number():
    seen, known, planned = of_two_users("u", "u", "v")
    known["j0"] = Forecast()
    found = Outlook(Clock(), tree=tenants(max_running_jobs=1, weight=1.0)).ends(seen, known, planned, 1_000)
    assert found["j1"] == QueuedBehind(1)
    assert isinstance(found["j2"], EndQuantiles)


@pytest.mark.parametrize("jobs", [10, 200])
def test_the_slots_of_the_cluster_are_added_up_once_and_not_for_each_job(monkeypatch, jobs: int):
    counts = 0
    slots = Snapshot.slots.fget

    def counted(seen: Snapshot) -> int:
        nonlocal counts
        counts += 1
        return slots(seen)

    monkeypatch.setattr(Snapshot, "slots", property(counted))
    seen, known, planned = queue(*[KNOWN["j"]] * jobs)
    found = Outlook(Clock()).ends(seen, known, planned, 50_000)
    assert len(found) == jobs
    assert counts == 3  # for what remains of jobs, for the queue, and for the crowd


def test_each_newcomer_is_asked_about_in_its_own_queue():
    outlook = Outlook(Clock(), tree=tenants(ceiling=Amount(1)))
    found = []
    for user in "uv":
        seen, known, planned = of_two_users(user)
        answered = outlook.of_newcomer("j0", seen, known, planned, 1_000)
        assert answered is not None
        found.append(float(answered.quantile(0.5)))
    assert found == pytest.approx([60.0, 15.0], rel=0.1)
