"""UWFQ where the work of jobs is not known when they come: revised deadlines, and the grace period."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from spark_sched.config import validate
from spark_sched.policies import Plan, PolicySettings, create
from spark_sched.policies.simple.uwfq import Fluids
from spark_sched.policies.simple.virtual_time import Assumed, VirtualTime
from spark_sched.policies.sizes import SizedForecast, estimated_work_slot_ms
from spark_sched.predict import UNKNOWN, EarlierRun, EarlierStage, Forecast
from spark_sched.predict.stages.earlier_runs import LatestRuns
from spark_sched.protocol.events import (
    ExecutorAdded,
    JobEnded,
    JobStarted,
    StageStarted,
    TaskEnded,
    TaskLaunched,
)
from spark_sched.state import ClusterState, DurationSummary
from spark_sched_lab.simulator import ClusterSpec, JobSpec, StageSpec, simulate, uniform_nodes

SLOTS = 4


def settings(**options: str) -> PolicySettings:
    given = {f"spark.sched.policy.uwfq.{name}": text for name, text in options.items()}
    return PolicySettings.from_config(validate(given))


def exactly(work: float) -> Forecast:
    return SizedForecast(source="test", work_slot_ms=work)


def taking(task_ms: float, *tasks: int) -> Forecast:
    """A forecast of one earlier run with these stages."""
    times = DurationSummary(1, int(task_ms), float(np.log(task_ms)))
    run = EarlierRun(0, tuple(EarlierStage("s", each, times) for each in tasks))
    return Forecast(stage_tasks=tasks, source="history", runs=1, own_runs=(run,))


class Application:
    """Jobs come and end, and uwfq plans."""

    def __init__(self, **options: str) -> None:
        self.policy = create("uwfq", settings(**options))
        self.state = ClusterState()
        self.state.apply(ExecutorAdded(0, "e", "h", SLOTS))
        self.memory: Fluids | None = None
        self.known: dict[str, Forecast] = {}
        self._tasks = 0

    def come(self, job: str, user: str, at_ms: int = 0, tasks: int = 10) -> None:
        self.state.apply(JobStarted(at_ms, job, job, user, 0, None, None, None, True, True))
        self.state.apply(StageStarted(at_ms, job, f"{job}.0", "s", 0, tasks, None, True, False))

    def ran(self, job: str, from_ms: int, until_ms: int) -> None:
        """A task of the job has run."""
        self._tasks += 1
        task = self._tasks
        self.state.apply(TaskLaunched(from_ms, job, f"{job}.0", task, task, "e", False))
        took = until_ms - from_ms
        self.state.apply(TaskEnded(until_ms, job, f"{job}.0", task, task, "e", took, "success", False))

    @property
    def deadlines(self) -> dict[int, float]:
        assert self.memory is not None
        return self.memory.systems[""].deadlines

    @property
    def assumed(self) -> dict[int, Assumed]:
        assert self.memory is not None
        return self.memory.systems[""].assumed

    def plan(self, now_ms: int) -> list[str]:
        plan: Plan
        plan, self.memory = self.policy.decide(
            self.state.snapshot(), self.known, now_ms, np.random.default_rng(1), self.memory
        )
        return [entry.job for entry in plan.jobs]


def test_a_job_without_a_forecast_does_not_come_before_others_because_of_that() -> None:
    app = Application()
    app.come("small", "ann")
    app.known["small"] = exactly(500.0)
    app.plan(0)
    app.come("unknown", "bob", 1)
    # It counts as the jobs that are known: 500.
    assert app.plan(1) == ["small", "unknown"]
    assert app.deadlines[1] == pytest.approx(500.0, abs=5.0)


def test_a_deadline_follows_a_forecast_that_comes_later() -> None:
    app = Application()
    app.come("first", "ann")
    app.come("second", "bob")
    assert app.plan(0) == ["first", "second"]
    app.known = {"first": taking(1_000.0, 100), "second": taking(1_000.0, 2, 1)}
    assert app.plan(10) == ["second", "first"]
    app.known["first"] = taking(1_000.0, 1)
    assert app.plan(20) == ["first", "second"]


def test_deadlines_of_jobs_without_forecasts_follow_the_times_of_their_own_tasks() -> None:
    app = Application()
    app.come("slow", "ann", tasks=20)
    app.come("quick", "bob", tasks=20)
    assert app.plan(0) == ["slow", "quick"]
    app.ran("slow", 0, 4_000)
    app.ran("quick", 0, 50)
    assert app.plan(4_000) == ["quick", "slow"]


def test_a_change_that_is_not_material_changes_no_deadline() -> None:
    app = Application()
    app.come("job", "ann")
    app.known["job"] = taking(1_000.0, 10)
    app.plan(0)
    before = dict(app.deadlines)
    app.known["job"] = taking(1_050.0, 10)
    app.plan(0)
    assert app.deadlines == before
    app.known["job"] = taking(1_200.0, 10)
    app.plan(0)
    assert app.deadlines[0] == pytest.approx(12_000.0)


def test_a_user_is_charged_what_a_job_took_and_not_what_was_guessed() -> None:
    # ann's first job is guessed at 40 s of slots and took 1 s. Her second one, of 50 s, begins behind that.
    app = Application()
    app.come("guessed", "ann")
    app.come("other", "bob")
    app.known = {"guessed": taking(1_000.0, 40), "other": taking(1_000.0, 60)}
    app.plan(0)
    app.ran("guessed", 0, 1_000)
    app.state.apply(JobEnded(1_000, "guessed", "ended"))
    app.come("next", "ann", 1_000)
    app.known["next"] = taking(1_000.0, 50)
    assert app.plan(1_000) == ["next", "other"]
    # In the fluid system both users have had 2 s by then.
    assert app.deadlines == pytest.approx({1: 60_000.0, 2: 52_000.0})
    assert set(app.assumed) == {1, 2}


def test_runs_of_other_names_stand_for_the_first_job() -> None:
    app = Application()
    app.come("job", "ann")
    latest = LatestRuns()
    (run,) = taking(1_000.0, 7).own_runs
    latest.add(run, 20)
    app.known["job"] = Forecast(latest=latest)
    app.plan(0)
    assert app.deadlines[0] == pytest.approx(7_000.0)


def test_one_job_does_not_wait_for_a_users_many_where_nothing_is_known() -> None:
    jobs = [JobSpec("first", 0, (StageSpec([50] * 6),))]
    jobs += [JobSpec(f"ann{i}", 1, (StageSpec([100] * 6),), user="ann") for i in range(10)]
    jobs += [JobSpec("bob", 700, (StageSpec([100] * 6),), user="bob")]

    def ended_before_bob(policy: str, predictor: str) -> int:
        result = simulate(ClusterSpec(uniform_nodes(6, 1)), jobs, policy, predictor=predictor, check=True)
        ends = dict(zip(result.jobs["job"], result.jobs["end_ms"], strict=True))
        return sum(end < ends["bob"] for key, end in ends.items() if key.startswith("ann"))

    assert ended_before_bob("fifo", "none") == 10
    # Six are over when Bob's job comes, and one runs.
    assert ended_before_bob("uwfq", "none") <= 8
    assert ended_before_bob("uwfq", "history") <= 8


# ---- the work of a job ----


def test_the_work_of_a_job_is_that_of_its_latest_run_else_of_its_stages_so_far() -> None:
    app = Application()
    app.come("job", "ann", tasks=10)
    assert estimated_work_slot_ms(app.state.snapshot().jobs["job"], UNKNOWN) is None
    app.ran("job", 0, 200)
    view = app.state.snapshot().jobs["job"]
    assert estimated_work_slot_ms(view, UNKNOWN) == pytest.approx(2_000.0)
    ended = EarlierStage("earlier", 3, DurationSummary(2, 100, 2 * float(np.log(100.0))))
    assert estimated_work_slot_ms(view, Forecast(so_far=((0, ended),))) == pytest.approx(2_300.0)
    assert estimated_work_slot_ms(view, taking(50.0, 4, 6)) == pytest.approx(500.0)
    waiting = replace(view, stages=tuple(replace(stage, durations=NO_TIMES) for stage in view.stages))
    assert estimated_work_slot_ms(waiting, Forecast(alpha=2.0, t_m_ms=50.0)) == pytest.approx(1_000.0)


NO_TIMES = DurationSummary(0, None, 0.0)


# ---- works that are revised in the fluid system ----


def test_a_job_that_still_runs_in_the_fluid_system_needs_more_or_less() -> None:
    virtual = VirtualTime()
    virtual.arrive(0, "ann", 1.0, 400.0, estimate_of="a")
    virtual.arrive(1, "ann", 1.0, 800.0)
    virtual.revise({0: 1_000.0}, 0.0)
    assert virtual.deadlines == {1: 800.0, 0: 1_800.0}
    # Both have had 200 after 100 ms on four slots. It cannot give them back.
    virtual.advance(100.0, 4)
    virtual.revise({0: 50.0}, 0.0)
    assert virtual.deadlines == {0: 200.0, 1: 1_000.0}


def test_a_job_that_has_left_the_fluid_system_comes_back_with_the_rest_of_its_work() -> None:
    virtual = VirtualTime()
    virtual.arrive(0, "ann", 1.0, 400.0, estimate_of="a")
    virtual.arrive(1, "ann", 1.0, 2_000.0)
    virtual.advance(300.0, 4)  # both have had 400, and ann's second 400 more
    virtual.revise({0: 1_000.0}, 0.0)
    # 600 beside 1,200: it ends first, after the 400 that it has had.
    assert virtual.deadlines == {0: 1_000.0, 1: 3_000.0}
    virtual.revise({0: 200.0}, 0.0, final=True)
    assert not virtual.assumed
    assert virtual.deadlines == {0: 400.0, 1: 2_400.0}


@pytest.mark.parametrize(
    ("grace", "begin"), [(200.0, 400.0), (199.0, 600.0), (0.0, 600.0)], ids=["within", "beyond", "none"]
)
def test_more_work_within_the_grace_period_begins_when_its_user_left(grace: float, begin: float) -> None:
    virtual = VirtualTime()
    virtual.arrive(0, "ann", 1.0, 400.0, estimate_of="a")
    virtual.arrive(1, "bob", 1.0, 5_000.0)
    # ann leaves after 200 ms, at 400; bob alone has four slots.
    virtual.advance(250.0, 4)
    virtual.revise({0: 1_000.0}, grace)
    assert virtual.deadlines[0] == pytest.approx(begin + 600.0)


def test_a_new_job_gets_no_grace() -> None:
    virtual = VirtualTime()
    virtual.arrive(0, "ann", 1.0, 400.0, estimate_of="a")
    virtual.arrive(1, "bob", 1.0, 5_000.0)
    virtual.advance(250.0, 4)
    virtual.arrive(2, "ann", 1.0, 100.0)
    assert virtual.deadlines[2] == pytest.approx(700.0)


@pytest.mark.parametrize(("period", "first"), [("3s", "ann"), ("0s", "bob")])
def test_the_grace_period_is_an_option(period: str, first: str) -> None:
    # ann's job was to take 400 ms of slots. Her share is used up when it turns out to take 4 s of them.
    app = Application(gracePeriod=period)
    app.come("ann", "ann")
    app.come("busy", "cat")
    app.known = {"ann": taking(100.0, 4), "busy": taking(1_000.0, 100)}
    app.plan(0)
    app.plan(1_000)
    app.come("bob", "bob", 1_000)
    app.known |= {"ann": taking(1_000.0, 4), "bob": taking(100.0, 30)}
    assert app.plan(1_000)[0] == first


works = st.floats(1.0, 10_000.0)


@example(first=[("a", 7622.3), ("a", 22.1)], second=[4.6] * 6, at_ms=0.0)
@given(
    first=st.lists(st.tuples(st.sampled_from("ab"), works), min_size=1, max_size=6),
    second=st.lists(works, min_size=6, max_size=6),
    at_ms=st.floats(0.0, 1_000.0),
)
def test_revised_before_any_service_a_job_is_as_if_it_had_come_so(
    first: list[tuple[str, float]], second: list[float], at_ms: float
) -> None:
    revised, direct = VirtualTime(), VirtualTime()
    for virtual in (revised, direct):
        virtual.arrive(100, "c", 1.0, 500.0)
    for number, (user, work) in enumerate(first):
        revised.arrive(number, user, 1.0, work, estimate_of=str(number))
        direct.arrive(number, user, 1.0, second[number])
    revised.revise({number: second[number] for number in range(len(first))}, 0.0, final=True)
    assert revised.deadlines == pytest.approx(direct.deadlines)
    for virtual in (revised, direct):
        virtual.advance(at_ms, 3)
        virtual.arrive(200, "a", 1.0, 300.0)
    assert revised.deadlines[200] == pytest.approx(direct.deadlines[200])
