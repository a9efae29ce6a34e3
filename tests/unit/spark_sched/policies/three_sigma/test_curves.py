"""Many jobs at once against one job at a time, which the paper's worked example and enumeration hold."""

from __future__ import annotations

import numpy as np
import pytest

from spark_sched.policies.three_sigma.curves import (
    conditional,
    consumption,
    curves,
    means,
    survivals,
    utilities,
)
from spark_sched.policies.three_sigma.utility import Utility, best_effort, piecewise, slo, slo_with_decay
from spark_sched.predict import RuntimeDistribution
from tests.unit.spark_sched.policies.three_sigma.expectation import (
    GONE,
    Knots,
    expected_consumption,
    expected_utility,
    remaining,
)

ELAPSED_S = np.array([0, 1, 2, 5, 7.5, 10, 20, 49, 50, 60, 100.0])
STARTS_S = np.linspace(-7, 40, 13)
UTILITIES = (
    slo(20.0),
    slo_with_decay(10.0, 30.0),
    best_effort(-5.0, 40.0),
    piecewise([(0, 5), (10, 5), (10, 3), (20, 1), (20, 0)]),
)


def runtimes() -> list[RuntimeDistribution]:
    rng = np.random.default_rng(0)
    # Whole seconds, so that samples tie and runtimes of 0 occur.
    drawn = [
        RuntimeDistribution.from_samples_s(rng.integers(0, 50, rng.integers(1, 8)).astype(float))
        for _ in range(60)
    ]
    return [*drawn, RuntimeDistribution.point_s(5), RuntimeDistribution.uniform_s(0, 10)]


def test_every_row_is_what_that_job_alone_would_get():
    given = runtimes()
    known, count = curves(given), len(given)
    which, factor = np.arange(count), np.where(np.arange(count) % 2, 1.5, 1.0)
    wanted = [UTILITIES[n % len(UTILITIES)] for n in range(count)]
    held = consumption(known, which, factor, ELAPSED_S)
    worth = utilities(known, which, factor, wanted, STARTS_S)
    stays, left_s, alive = conditional(known, factor, np.full(count, 6.0), ELAPSED_S)
    for n, runtime in enumerate(given):
        alone = Knots(runtime, factor[n])
        assert held[n] == pytest.approx(expected_consumption(alone, ELAPSED_S), abs=1e-12)
        # Starts are rounded to µs at drops.
        assert worth[n] == pytest.approx(expected_utility(wanted[n], alone, STARTS_S), abs=1e-6)
        assert alive[n] == pytest.approx(alone.survival(6.0), abs=1e-12)
        if alive[n] > GONE:
            assert stays[n] == pytest.approx(remaining(alone, 6.0, ELAPSED_S, 1.0), abs=1e-12)
            assert left_s[n] == pytest.approx(alone.mean_left_s(6.0, 1.0))


def test_a_jobs_row_does_not_depend_on_the_others():
    given = runtimes()
    alone = curves(given[7:8])
    together = curves(given)
    at = np.array([3.3])
    assert survivals(alone, at)[0] == survivals(together, np.full(len(given), 3.3))[7]
    assert means(alone)[0] == means(together)[7]


def test_clock_times_since_1970_lose_no_digits():
    known = curves([RuntimeDistribution.uniform_s(2.5, 7.5)])
    now_s = 1.7e9
    shifted = Utility((now_s + 15.0, now_s + 15.0), (1.0, 0.0))
    starts = np.array([0, 7.5, 10.0, 12.5])
    found = utilities(known, np.zeros(1, dtype=np.int64), np.ones(1), [shifted], now_s + starts)
    assert found[0].tolist() == [1, 1, 0.5, 0]


def test_no_jobs_make_no_rows():
    none = np.empty(0, dtype=np.int64)
    known = curves([])
    assert utilities(known, none, np.empty(0), [], STARTS_S).shape == (0, len(STARTS_S))
    assert conditional(known, np.empty(0), np.empty(0), ELAPSED_S)[0].shape == (0, len(ELAPSED_S))
