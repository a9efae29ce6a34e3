"""What pilots of one stage tell of a job's other stages."""

from __future__ import annotations

import numpy as np
import pytest

from spark_sched.policies.slearn.sizing import BayesSizing, HistorySizing, PilotSizing, others_ms
from spark_sched.predict import Forecast
from spark_sched.predict.runtimes.distribution import RuntimeDistribution
from spark_sched.predict.runtimes.features import JobAttributes
from spark_sched.predict.runtimes.points import median_s
from spark_sched.predict.tasks.expectation import StageExpectation
from spark_sched.predict.tasks.history import SubmittedStage, TaskHistory
from spark_sched.predict.tasks.likeness import Likeness
from spark_sched.protocol.events import JobStarted, StageStarted

MINE, OTHER = JobAttributes(user="u", name="mine"), JobAttributes(user="u", name="other")


def test_without_a_record_stages_are_off_by_the_same_factor_as_in_the_paper():
    assert Likeness().expect(MINE) == 1.0


@pytest.mark.parametrize("slope", [0.0, 0.3, 0.8, 1.0])
def test_the_slope_of_the_errors_is_learned_and_strangers_get_everyones(slope: float):
    rng, likeness = np.random.default_rng(1), Likeness()
    for first, noise in rng.normal(0.0, [1.0, 0.3], (400, 2)).tolist():
        likeness.add(MINE, first, slope * first + noise)
    assert likeness.expect(MINE) == pytest.approx(slope, abs=0.15)
    assert likeness.expect(OTHER) == pytest.approx(slope, abs=0.1)


def test_it_stays_between_nothing_and_all_and_a_kind_keeps_its_own():
    likeness = Likeness()
    for _ in range(50):
        likeness.add(MINE, 1.0, -2.0)
        likeness.add(OTHER, 1.0, 5.0)
    assert likeness.expect(MINE) == 0.0
    assert likeness.expect(OTHER) == 1.0


def stages(alike: float) -> list[StageExpectation]:
    """10 tasks of 2 s, then 5 of 8 s."""
    return [
        StageExpectation(tasks, runtime, 0.01, calibrated=runtime, alike=alike)
        for tasks, runtime in ((10, RuntimeDistribution.point_s(2.0)), (5, RuntimeDistribution.point_s(8.0)))
    ]


@pytest.mark.parametrize(("alike", "factor"), [(0.0, 1.0), (0.5, 2.0), (1.0, 4.0)])
def test_only_the_bayesian_sizing_asks_how_alike_stages_are(alike: float, factor: float):
    # Pilots of the first stage took four times what history says.
    bayes = others_ms(BayesSizing(), stages(alike), 0, 8_000.0, sampled=True)
    assert bayes == pytest.approx(5 * 8_000 * factor, rel=0.05)
    assert others_ms(PilotSizing(median_s), stages(alike), 0, 8_000.0, sampled=True) == 5 * 32_000
    assert others_ms(HistorySizing(median_s), stages(alike), 0, 8_000.0, sampled=False) == 5 * 8_000


def test_stages_of_which_nothing_is_known_are_like_the_sampled_one():
    unknown = [StageExpectation(10), StageExpectation(3)]
    for sizing in (BayesSizing(), PilotSizing(median_s)):
        assert others_ms(sizing, unknown, 0, 700.0, sampled=True) == 2_100.0
    assert others_ms(PilotSizing(median_s), [], 2, 700.0, sampled=True) == 0.0


def later_alike(history: TaskHistory) -> float:
    later = SubmittedStage(4, JobAttributes(user="u", name="n / stage 1"))
    return history.expectation(later, history.ask(later)[1]).alike


@pytest.mark.parametrize(("shared", "low", "high"), [(False, 0.0, 0.3), (True, 0.5, 1.0)])
def test_a_history_learns_it_from_jobs_that_ended(shared: bool, low: float, high: float):
    rng, history = np.random.default_rng(2), TaskHistory()
    stages = [SubmittedStage(4, JobAttributes(user="u", name=f"n / stage {index}")) for index in (0, 1)]
    for first, second in np.exp(rng.normal(0.0, 1.0, (120, 2))).tolist():
        asked = [history.ask(stage) for stage in stages]
        history.learn_job(asked, [[first] * 4, [3.0 * (first if shared else second)] * 4])
    assert low <= later_alike(history) <= high


@pytest.mark.parametrize(("shared", "low", "high"), [(False, 0.0, 0.3), (True, 0.5, 1.0)])
def test_live_too_by_what_was_expected_before_the_first_stage_ended(shared: bool, low: float, high: float):
    rng, history = np.random.default_rng(3), TaskHistory()
    forecast = Forecast(stage_tasks=(4, 4))
    for number, (first, second) in enumerate(np.exp(rng.normal(0.0, 1.0, (120, 2))).tolist()):
        job = f"j{number}"
        history.job_started(JobStarted(number, job, "n", "u", 0, None, None, None, True, True))
        for index, seconds in enumerate((first, 3.0 * (first if shared else second))):
            history.stage_started(
                StageStarted(number, job, f"{job}.{index}", "p", index, 4, None, False, False)
            )
            assert len(history.expected(job, forecast)) == 2
            history.stage_ended(job, index, [round(1000.0 * seconds)] * 4)
        history.job_ended(job)
    assert low <= later_alike(history) <= high
    assert not history._first_s, "of jobs that ended nothing is kept"
