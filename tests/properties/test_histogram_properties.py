"""What must hold of every streaming histogram."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_sched.predict.runtimes.histogram import StreamingHistogram

# How long an example takes says how busy the machine is.
relaxed = settings(deadline=None)

values = st.lists(st.one_of(st.floats(0.001, 1e7), st.integers(1, 9).map(float)), min_size=1, max_size=60)
bins = st.integers(2, 20)


def filled(samples: list[float], max_bins: int, memory: float = math.inf) -> StreamingHistogram:
    made = StreamingHistogram(max_bins, memory)
    for value in samples:
        made.add(value)
    return made


@relaxed
@given(values, bins)
def test_mass_and_range_are_kept_and_bins_bounded(samples: list[float], max_bins: int) -> None:
    made = filled(samples, max_bins)
    assert len(made) <= max_bins
    assert made.total == pytest.approx(len(samples))
    assert (made.min_s, made.max_s) == (min(samples), max(samples))
    d = made.distribution()
    assert (d.min_s, d.max_s) == (min(samples), max(samples))


@relaxed
@given(values, bins)
def test_mean_is_kept_through_every_merge(samples: list[float], max_bins: int) -> None:
    made = filled(samples, max_bins)
    mass = sum(c * n for c, n in zip(made._centers, made._counts, strict=True)) / made.total
    assert mass == pytest.approx(math.fsum(samples) / len(samples), rel=1e-9)


@relaxed
@given(values, bins, st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_quantiles_rise_within_the_range(samples: list[float], max_bins: int, p: float, q: float) -> None:
    d = filled(samples, max_bins).distribution()
    low, high = sorted((p, q))
    assert min(samples) <= d.quantile(low) <= d.quantile(high) <= max(samples)


@relaxed
@given(values, values, bins)
def test_merging_adds_mass_and_joins_ranges(one: list[float], two: list[float], max_bins: int) -> None:
    both = filled(one, max_bins)
    both.merge(filled(two, max_bins))
    assert len(both) <= max_bins
    assert both.total == pytest.approx(len(one) + len(two))
    assert (both.min_s, both.max_s) == (min(one + two), max(one + two))


@relaxed
@given(values, values)
def test_merging_few_values_is_as_adding_them(one: list[float], two: list[float]) -> None:
    both = filled(one, 200)
    both.merge(filled(two, 200))
    assert both.distribution() == filled(one + two, 200).distribution()


@relaxed
@given(values, st.floats(2.0, 30.0))
def test_fading_bounds_the_mass_and_forgets_the_oldest(samples: list[float], memory: float) -> None:
    made = filled(samples, 80, memory)
    assert made.total <= memory + 1e-6
    assert made.total >= min(len(samples), memory - 1.0) - 1e-6
    for _ in range(400):
        made.add(77.0)
    assert made.distribution().quantile([0.1, 0.5, 0.9]).tolist() == [77.0, 77.0, 77.0]


@relaxed
@given(values, bins)
def test_bytes_bring_it_back(samples: list[float], max_bins: int) -> None:
    made = filled(samples, max_bins, 10.0)
    again = StreamingHistogram.from_bytes(made.to_bytes(), max_bins, 10.0)
    for each in (made, again):
        each.add(5.0)
    assert again.to_bytes() == made.to_bytes()
