"""What remains of a job, by earlier runs of its name."""

from __future__ import annotations

from types import MappingProxyType

import numpy as np
import pytest

from spark_sched.predict import EarlierRun, EarlierStage, Forecast
from spark_sched.predict.remaining import Rests, longest_rest_ms
from spark_sched.state import DurationSummary, JobMarks, JobView, RunningTask, StageView

_MARKS = JobMarks("n", "u", 0, None, None, None, copies=True, marked=True)
_TIMES = DurationSummary(40, 10_000, 40 * 9.210340371976184)  # 40 tasks of 10 s
_RUN = EarlierRun(0, (EarlierStage("p", 40, _TIMES),))


def _waits(tasks: int) -> JobView:
    stage = StageView("0.0", "p", 0, tasks, None, True, False, 0, 0, DurationSummary(0, None, 0.0), ())
    return JobView("j", _MARKS, 0, 0, (stage,), MappingProxyType({}), 0)


def _runs(for_ms: int) -> float:
    """Slot-ms that a job of one task has left, if that has run for so long."""
    task = RunningTask(1, 0, "e", 0, copy=False)
    stage = StageView("0.0", "p", 0, 1, None, True, False, 0, 0, DurationSummary(0, None, 0.0), (task,))
    job = JobView("j", _MARKS, 0, 0, (stage,), MappingProxyType({}), 1)
    return Rests().of(job, Forecast(own_runs=(_RUN,), stages_begun=1), 64, for_ms, 0).slot_ms


def test_a_task_that_has_outlived_its_expectation_runs_on_for_a_part_of_its_age() -> None:
    assert _runs(for_ms=4_000) == pytest.approx(6_000, rel=1e-6)
    assert _runs(for_ms=10_000) == pytest.approx(2_000, rel=1e-6)
    assert _runs(for_ms=100_000) == pytest.approx(20_000, rel=1e-6)


@pytest.mark.parametrize("asked_first", [False, True])
def test_a_job_that_is_only_asked_about_has_the_stages_of_its_runs_once(asked_first: bool):
    """And it shares nothing with a job of that name that waits with its first stage."""
    rests = Rests()
    forecasts = [Forecast(own_runs=(_RUN,), stages_begun=begun) for begun in (0, 1)]
    for forecast in forecasts if asked_first else reversed(forecasts):
        rest = rests.of(_waits(40), forecast, 64, 0, None)
        assert rest.slot_ms == pytest.approx(40 * 10_000, rel=1e-6)
    # Of the asked job the runs know more than the question; of the other, its own stage counts.
    works = [rests.of(_waits(20), forecast, 64, 0, None).slot_ms for forecast in forecasts]
    assert works == pytest.approx([400_000, 200_000], rel=1e-6)


def test_a_run_without_stages_says_nothing() -> None:
    empty = EarlierRun(1, ())
    known = Forecast(own_runs=(_RUN, empty), stages_begun=1)
    assert Rests().of(_waits(40), known, 64, 0, None).slot_ms == pytest.approx(40 * 10_000, rel=1e-6)
    assert not Rests().of(_waits(40), Forecast(own_runs=(empty,)), 64, 0, None).known


@pytest.mark.parametrize("tasks", [1, 4, 12])
@pytest.mark.parametrize("age", [0.3, 0.8, 1.0])
@pytest.mark.parametrize("spread", [0.3, 0.6])
def test_the_last_of_running_tasks_runs_as_long_as_the_longest_of_those_that_outlived_their_age(
    tasks: int, age: float, spread: float
) -> None:
    """Of lognormal times, in seconds; without the condition the rest of twelve tasks would be half of it."""
    times = np.exp(spread * np.random.default_rng(1).normal(size=400_000))
    alive = times[times > age]
    longest = alive[: alive.size // tasks * tasks].reshape(-1, tasks).max(axis=1) - age
    mean_ms = 1_000.0 * float(np.exp(0.5 * spread**2))
    found = longest_rest_ms([1_000.0 * age] * tasks, 1_000.0, spread, mean_ms)
    low, high = np.quantile(longest, (0.4, 0.65))
    assert 1_000.0 * low < found < 1_000.0 * high


def test_a_young_task_may_be_the_last_and_an_old_one_says_nothing() -> None:
    assert longest_rest_ms([], 1_000.0, 0.3, 1_046.0) == 0.0
    assert longest_rest_ms([5_000.0, 0.0], 1_000.0, 0.3, 1_046.0) == pytest.approx(1_046.0)
    assert longest_rest_ms([100_000.0], 1_000.0, 0.3, 1_046.0) == 0.0
