"""Distributions whose values can be worked out by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from spark_sched.errors import BadInputError
from spark_sched.predict import RuntimeDistribution


def test_uniform_runtimes_of_the_papers_example() -> None:
    d = RuntimeDistribution.uniform_s(0.0, 10.0)
    assert d.survival([0.0, 2.5, 5.0, 7.5, 10.0]).tolist() == [1.0, 0.75, 0.5, 0.25, 0.0]
    narrow = RuntimeDistribution.uniform_s(2.5, 7.5)
    assert narrow.survival([0.0, 2.5, 5.0, 7.5]).tolist() == [1.0, 1.0, 0.5, 0.0]
    assert (d.mean_s, narrow.mean_s) == (5.0, 5.0)


def test_a_point_jumps() -> None:
    d = RuntimeDistribution.point_s(7.0)
    assert d.cdf([6.999, 7.0, 7.001]).tolist() == [0.0, 1.0, 1.0]
    assert (d.mean_s, float(d.quantile(0.5))) == (7.0, 7.0)
    assert d.conditional(3.0) == d
    assert d.conditional(9.0) == RuntimeDistribution.point_s(9.0)


def test_conditional_renormalises_what_is_left() -> None:
    d = RuntimeDistribution.uniform_s(0.0, 10.0).conditional(5.0)
    assert d == RuntimeDistribution.uniform_s(5.0, 10.0)
    assert d.conditional(10.0) == RuntimeDistribution.point_s(10.0)


def test_a_repeated_value_keeps_its_mass_in_place() -> None:
    d = RuntimeDistribution.from_samples_s([10.0] * 90 + [100.0] * 10)
    assert float(d.quantile(0.5)) == 10.0
    assert float(d.cdf(10.0)) == pytest.approx(0.895)
    assert float(d.cdf(99.999)) == pytest.approx(0.905, abs=1e-5)
    assert RuntimeDistribution.from_samples_s([4.0] * 5) == RuntimeDistribution.from_histogram(
        [4.0], [5], exact=True
    )
    constant = RuntimeDistribution.from_samples_s([4.0] * 5)
    assert (constant.min_s, constant.max_s, constant.mean_s) == (4.0, 4.0, 4.0)


def test_merged_bins_are_trapezoids_between_their_centers() -> None:
    # Ben-Haim and Tom-Tov: as much as half of either bin lies between two centers.
    d = RuntimeDistribution.from_histogram([10.0, 20.0], [4, 4], min_s=5.0, max_s=30.0)
    assert float(d.cdf(10.0)) == pytest.approx(0.25)
    assert float(d.cdf(20.0)) == pytest.approx(0.75)
    assert float(d.cdf(30.0)) == 1.0
    assert float(d.cdf(4.9)) == 0.0


def test_normal_runtimes_are_cut_off_at_zero() -> None:
    d = RuntimeDistribution.normal_s(100.0, 10.0)
    assert d.mean_s == pytest.approx(100.0)
    assert float(d.cdf(110.0)) == pytest.approx(0.8413, abs=1e-3)
    wide = RuntimeDistribution.normal_s(1.0, 5.0)
    assert (wide.min_s, float(wide.cdf(0.0))) == (0.0, 0.0)
    assert RuntimeDistribution.normal_s(3.0, 0.0) == RuntimeDistribution.point_s(3.0)


def test_shapes_follow_the_argument_and_nothing_can_be_changed() -> None:
    d = RuntimeDistribution.uniform_s(0.0, 1.0)
    assert d.cdf(np.zeros((2, 3))).shape == d.quantile(np.zeros((2, 3))).shape == (2, 3)
    assert d.cdf(0.5).shape == ()
    with pytest.raises(ValueError, match="read-only"):
        d.t_s[0] = 1.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        d.t_s = np.zeros(2)  # type: ignore[misc]
    assert len({d, RuntimeDistribution.uniform_s(0.0, 1.0)}) == 1


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: RuntimeDistribution.point_s(-1.0), "not negative"),
        (lambda: RuntimeDistribution.point_s(float("nan")), "finite"),
        (lambda: RuntimeDistribution.uniform_s(2.0, 1.0), "rising"),
        (lambda: RuntimeDistribution.from_knots([1.0, 2.0], [0.5, 0.9]), "to 1"),
        (lambda: RuntimeDistribution.from_knots([1.0], [0.5, 1.0]), "one probability for each time"),
        (lambda: RuntimeDistribution.from_samples_s([]), "one sample"),
        (lambda: RuntimeDistribution.from_histogram([1.0], [0.0]), "above 0"),
        (lambda: RuntimeDistribution.normal_s(0.0, 1.0), "mean"),
        (lambda: RuntimeDistribution.point_s(1.0).scaled(0.0), "factor"),
    ],
)
def test_what_is_no_distribution_is_refused(make, words: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(BadInputError, match=words):
        make()
