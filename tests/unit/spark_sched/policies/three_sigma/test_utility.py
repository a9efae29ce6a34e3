"""Utilities, equation 1, equation 2 and under-estimates, by hand and against plain numerical integration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_sched.errors import BadInputError
from spark_sched.policies.three_sigma.jobs import Worth
from spark_sched.policies.three_sigma.utility import Utility, best_effort, piecewise, slo, slo_with_decay
from spark_sched.predict import RuntimeDistribution
from tests.unit.spark_sched.policies.three_sigma.expectation import (
    Knots,
    expected_consumption,
    expected_utility,
    overrun_s,
    remaining,
)


def test_an_slo_job_that_ends_at_its_deadline_meets_it():
    assert slo(10, 2.0)([9.9, 10, 10.1]).tolist() == [2, 2, 0]


def test_past_the_deadline_utility_decays_to_nothing():
    assert slo_with_decay(10, 20)([5, 10, 15, 30, 99]).tolist() == [1, 1, 0.75, 0, 0]


def test_best_effort_utility_falls_to_its_floor_and_stays():
    assert best_effort(100, 50, weight=2, floor=0.25)([0, 100, 125, 150, 900]).tolist() == [
        2,
        2,
        1.25,
        0.5,
        0.5,
    ]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: piecewise([(0, 1), (5, 2)]), "a utility rises from 1 at 0 s to 2 at 5 s: ending later must"),
        (lambda: piecewise([(0, 1), (5, -1)]), "a utility is -1 at 5 s but must not be negative"),
        (
            lambda: piecewise([(5, 1), (0, 1)]),
            "a utility has 0 s after 5 s: give its points in order of time",
        ),
        (lambda: piecewise([]), "a utility has no point"),
        (lambda: piecewise([(0, float("nan"))]), "give finite numbers"),
        (lambda: slo(10, -1), "the weight of a utility is -1 but must be 0 or more"),
        (lambda: best_effort(0, 0), "the horizon of a best-effort utility is 0 s but must be above 0"),
        (
            lambda: best_effort(0, 1, floor=2),
            "the floor of a best-effort utility is 2 but must lie from 0 to 1",
        ),
        (lambda: slo_with_decay(0, 0), "the decay after a deadline is 0 s but must be above 0"),
        (lambda: Worth(slo=-1.0), "the weight of a utility is -1"),
        (lambda: Worth(threshold=1.5), "the over-estimate threshold is 1.5 but must lie from 0 to 1"),
        (lambda: Worth(by_class={"x": [(0, 1), (9, 2)]}), "a utility rises from 1 at 0 s to 2 at 9 s"),
    ],
)
def test_a_utility_that_cannot_be_is_refused_in_one_sentence(make, sentence):
    with pytest.raises(BadInputError) as caught:
        make()
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


@st.composite
def utilities(draw: st.DrawFn) -> Utility:
    times = sorted(draw(st.lists(st.floats(-50, 150), min_size=1, max_size=5)))
    values = sorted(draw(st.lists(st.floats(0, 3), min_size=len(times), max_size=len(times))), reverse=True)
    return piecewise(zip(times, values, strict=True))


@st.composite
def runtimes(draw: st.DrawFn) -> RuntimeDistribution:
    samples = draw(st.lists(st.floats(0.5, 100), min_size=1, max_size=6))
    return RuntimeDistribution.from_samples_s(samples)


@given(utility=utilities(), runtime=runtimes(), start=st.floats(-20, 120))
def test_expected_utility_is_the_mean_over_quantiles(
    utility: Utility, runtime: RuntimeDistribution, start: float
):
    # Equation 1 by the midpoint rule over the quantiles, which knows nothing of integration by parts.
    draws = runtime.quantile((np.arange(20_000) + 0.5) / 20_000)
    exact = expected_utility(utility, Knots(runtime), np.array([start]))[0]
    assert exact == pytest.approx(utility(start + draws).mean(), abs=2e-3 * (1 + utility.most))


@given(utility=utilities(), runtime=runtimes())
def test_starting_later_is_never_worth_more(utility: Utility, runtime: RuntimeDistribution):
    worth = expected_utility(utility, Knots(runtime), np.linspace(-20, 150, 40))
    assert (np.diff(worth) <= 1e-9).all()


def test_a_slower_place_scales_every_runtime():
    runtime = Knots(RuntimeDistribution.uniform_s(2, 6), scale=1.5)
    assert runtime.survival(np.array([3.0, 6.0, 9.0])).tolist() == [1, 0.5, 0]
    assert runtime.mean_s == pytest.approx(6)


def test_a_job_uses_its_slots_for_certain_when_it_starts():
    # Even one whose shortest runtime is 0.
    runtime = Knots(RuntimeDistribution.from_samples_s([0.0, 4.0]))
    assert expected_consumption(runtime, np.array([0.0]))[0] == 1.0


def test_equation_2_renormalises_what_is_left():
    runtime = Knots(RuntimeDistribution.uniform_s(0, 10))
    assert remaining(runtime, 6, np.array([0.0, 1, 2, 4]), 1.0) == pytest.approx([1, 0.75, 0.5, 0])
    assert runtime.mean_left_s(6, 1.0) == pytest.approx(2)


def test_an_under_estimate_grows_by_powers_of_two():
    """§4.2.1: each time the estimate is reached it grows by 1, 2, 4, … cycles."""
    ends = [over + overrun_s(over, 1.0) for over in (0, 0.5, 0.999, 1, 2.5, 3, 6.9, 7, 15)]
    assert ends == pytest.approx([1, 1, 1, 3, 3, 7, 7, 15, 31])
    runtime = Knots(RuntimeDistribution.point_s(10))
    assert remaining(runtime, 10, np.array([0.0, 1.9, 2.0]), 2.0).tolist() == [1, 1, 0]
    assert remaining(runtime, 12, np.array([0.0, 3.9, 4.0]), 2.0).tolist() == [1, 1, 0]
