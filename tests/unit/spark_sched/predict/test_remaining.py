"""What remains of a job, by earlier runs of its name."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from spark_sched.predict import EarlierRun, EarlierStage, Forecast
from spark_sched.predict.remaining import Rests
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
