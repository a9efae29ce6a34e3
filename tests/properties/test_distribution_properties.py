"""What must hold of every runtime distribution."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from spark_sched.predict import RuntimeDistribution

# How long an example takes says how busy the machine is.
relaxed = settings(deadline=None)

runtimes = st.floats(0.001, 1e6)
samples = st.lists(st.one_of(runtimes, st.integers(1, 5).map(float)), min_size=1, max_size=20)
levels = st.floats(0.0, 1.0)


@st.composite
def histograms(draw: st.DrawFn) -> RuntimeDistribution:
    centers = sorted(set(draw(samples)))
    rng = np.random.default_rng(draw(st.integers(0, 1_000)))
    counts = rng.lognormal(0.0, 3.0, len(centers))
    exact = rng.random(len(centers)) < 0.5
    low = centers[0] * draw(st.floats(0.0, 1.0))
    high = centers[-1] * draw(st.floats(1.0, 3.0))
    return RuntimeDistribution.from_histogram(centers, counts, min_s=low, max_s=high, exact=exact)


distributions = st.one_of(
    histograms(),
    samples.map(RuntimeDistribution.from_samples_s),
    runtimes.map(RuntimeDistribution.point_s),
    st.builds(lambda a, b: RuntimeDistribution.uniform_s(min(a, b), max(a, b)), runtimes, runtimes),
    st.builds(RuntimeDistribution.normal_s, runtimes, st.floats(0.0, 1e6)),
)


@relaxed
@example(RuntimeDistribution.uniform_s(1.77226026, 524289.9937437299), 0.0, 1.0)
@given(distributions, levels, levels)
def test_quantiles_rise_and_stay_in_range(d: RuntimeDistribution, p: float, q: float) -> None:
    low, high = sorted((p, q))
    assert d.min_s <= d.quantile(low) <= d.quantile(high) <= d.max_s


@relaxed
@given(distributions, levels)
def test_a_quantile_is_the_least_time_that_reaches_its_level(d: RuntimeDistribution, p: float) -> None:
    t = float(d.quantile(p))
    # Knots may be one rounding error apart, and a quantile between them is one of the two.
    assert d.cdf(t + 1e-12 * t) >= p - 1e-9
    before = t - 1e-6 * t
    if before > d.min_s:
        assert d.cdf(before) <= p + 1e-9


@relaxed
@given(distributions, runtimes, runtimes)
def test_cdf_rises_and_mirrors_survival(d: RuntimeDistribution, s: float, t: float) -> None:
    low, high = sorted((s, t))
    assert 0.0 <= d.cdf(low) <= d.cdf(high) <= 1.0
    assert d.survival(t) == pytest.approx(1.0 - d.cdf(t))
    assert d.cdf(d.max_s) == 1.0
    assert d.cdf(np.nextafter(d.min_s, -1.0)) == 0.0


@relaxed
@given(distributions, st.floats(0.0, 1.2), runtimes)
def test_conditional_survival_is_equation_2(d: RuntimeDistribution, share: float, t: float) -> None:
    elapsed = share * d.max_s
    given_that = d.conditional(elapsed)
    if d.survival(elapsed) <= 1e-9:
        return
    assert given_that.survival(max(t, elapsed)) == pytest.approx(
        d.survival(max(t, elapsed)) / d.survival(elapsed), abs=1e-6
    )
    assert given_that.min_s >= min(elapsed, d.min_s)


@relaxed
@given(distributions)
def test_mean_is_the_area_under_survival(d: RuntimeDistribution) -> None:
    # Survival is piecewise linear, so the trapezoid rule between knots is exact; jumps have no width.
    at_left = 1.0 - d.p[:-1]
    at_right = 1.0 - d.p[1:]
    area = d.min_s + float(np.dot(np.diff(d.t_s), (at_left + at_right) / 2))
    assert d.mean_s == pytest.approx(area, rel=1e-6, abs=1e-9)


@relaxed
@given(samples)
def test_the_empirical_distribution_keeps_range_and_mean_of_its_samples(values: list[float]) -> None:
    d = RuntimeDistribution.from_samples_s(values)
    assert (d.min_s, d.max_s) == (min(values), max(values))
    assert d.mean_s == pytest.approx(float(np.mean(values)), rel=1e-9)


@relaxed
@given(distributions, st.floats(0.01, 100.0), levels)
def test_scaling_scales_quantiles(d: RuntimeDistribution, factor: float, p: float) -> None:
    assert d.scaled(factor).quantile(p) == pytest.approx(factor * d.quantile(p), rel=1e-9)
