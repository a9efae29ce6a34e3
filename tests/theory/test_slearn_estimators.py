"""SLearn §4.1: two normal levels, the mean task time x ~ N(µ, σ₀²) of a job and its tasks ~ N(x, σ₁²).

Draws are fixed by their seed; margins are five standard errors of a variance of so many draws.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from spark_sched.policies.slearn.sizing import HistorySizing, PilotSizing
from spark_sched.predict.runtimes.distribution import RuntimeDistribution
from spark_sched.predict.runtimes.points import median_s
from spark_sched.predict.tasks.bayes import posterior
from spark_sched.predict.tasks.expectation import StageExpectation
from tests.normal import normal_posterior

MU_MS = 100_000.0
JOBS = 20_000
#: Of a variance estimated from so many normal draws, five standard errors, relative.
MARGIN = 5.0 * math.sqrt(2.0 / JOBS)

GRID = [(s0, s1, m) for s0 in (500.0, 2_000.0, 8_000.0) for s1 in (1_000.0, 5_000.0) for m in (1, 3, 9)]
levels = pytest.mark.parametrize(("sigma0", "sigma1", "m"), GRID, ids=str)


def draw(sigma0: float, sigma1: float, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean task times of jobs, shape (JOBS,), and their pilots' times, shape (JOBS, m), in ms."""
    rng = np.random.default_rng([round(sigma0), round(sigma1), m])
    x = MU_MS + sigma0 * rng.standard_normal(JOBS)
    return x, x[:, None] + sigma1 * rng.standard_normal((JOBS, m))


@levels
def test_historys_error_has_the_job_wise_variance(sigma0: float, sigma1: float, m: int) -> None:
    x, _ = draw(sigma0, sigma1, m)
    expected = StageExpectation(10, RuntimeDistribution.normal_s(MU_MS / 1000.0, sigma0 / 1000.0))
    guess = HistorySizing(median_s).task_ms((), expected)
    assert guess == pytest.approx(MU_MS, rel=1e-6)
    assert np.mean((x - guess) ** 2) == pytest.approx(sigma0**2, rel=MARGIN)


@levels
def test_the_pilots_error_has_the_task_wise_variance_over_their_number(
    sigma0: float, sigma1: float, m: int
) -> None:
    x, y = draw(sigma0, sigma1, m)
    sizing = PilotSizing(median_s)
    guesses = np.array([sizing.task_ms(row, None) for row in y.tolist()])
    assert np.mean((guesses - x) ** 2) == pytest.approx(sigma1**2 / m, rel=MARGIN)


@levels
def test_the_posteriors_mean_and_variance_are_the_papers_and_its_error_has_that_variance(
    sigma0: float, sigma1: float, m: int
) -> None:
    x, y = draw(sigma0, sigma1, m)
    belief = [normal_posterior(row, sigma1**2, MU_MS, sigma0**2) for row in y[:3].tolist()]
    for row, (mean, variance) in zip(y[:3], belief, strict=True):
        # Bayes' rule by numbers: prior times likelihood over a grid.
        grid = np.linspace(MU_MS - 9 * (sigma0 + sigma1), MU_MS + 9 * (sigma0 + sigma1), 200_001)
        exponent = -0.5 * ((grid - MU_MS) / sigma0) ** 2
        exponent = exponent - 0.5 * (((row[:, None] - grid) / sigma1) ** 2).sum(axis=0)
        weight = np.exp(exponent - exponent.max())
        weight /= weight.sum()
        by_grid = float(weight @ grid)
        assert mean == pytest.approx(by_grid, abs=1e-3 * sigma0)
        assert variance == pytest.approx(float(weight @ (grid - by_grid) ** 2), rel=1e-3)
    means = np.array([normal_posterior(row, sigma1**2, MU_MS, sigma0**2)[0] for row in y.tolist()])
    assert np.mean((means - x) ** 2) == pytest.approx(1.0 / (m / sigma1**2 + 1.0 / sigma0**2), rel=MARGIN)


@levels
def test_without_a_prior_the_posterior_is_the_pilots_mean(sigma0: float, sigma1: float, m: int) -> None:
    _, y = draw(sigma0, sigma1, m)
    mean, variance = normal_posterior(y[0].tolist(), sigma1**2, MU_MS, math.inf)
    assert mean == pytest.approx(y[0].mean())
    assert variance == pytest.approx(sigma1**2 / m)


@levels
def test_pilots_are_better_exactly_where_jobs_vary_more_than_their_mean_does(
    sigma0: float, sigma1: float, m: int
) -> None:
    x, y = draw(sigma0, sigma1, m)
    by_history = np.mean((x - MU_MS) ** 2)
    by_pilots = np.mean((y.mean(axis=1) - x) ** 2)
    assert sigma0**2 != sigma1**2 / m
    assert (by_pilots < by_history) == (sigma0**2 > sigma1**2 / m)


@pytest.mark.parametrize("ratio", [0.9, 1.1])
def test_near_the_boundary_too(ratio: float) -> None:
    sigma1, m = 4_000.0, 4
    sigma0 = ratio * sigma1 / math.sqrt(m)
    x, y = draw(sigma0, sigma1, m)
    assert (np.mean((y.mean(axis=1) - x) ** 2) < np.mean((x - MU_MS) ** 2)) == (ratio > 1.0)


@pytest.mark.parametrize(("spread", "m"), [(0.05, 1), (0.2, 3), (0.5, 2)])
def test_the_predictors_posterior_is_the_normal_one_in_logarithms(spread: float, m: int) -> None:
    """For a log-normal history and no surprises: the same formula, of logarithms."""
    rng = np.random.default_rng([round(100 * spread), m])
    sigma0 = 0.3
    levels = np.linspace(-5.0, 5.0, 4_001)
    cdf = np.array([0.5 * math.erfc(-z / math.sqrt(2.0)) for z in levels.tolist()])
    cdf = (cdf - cdf[0]) / (cdf[-1] - cdf[0])
    prior = RuntimeDistribution.from_knots(np.exp(math.log(60.0) + sigma0 * levels), cdf)
    pilots = np.exp(math.log(80.0) + spread * rng.standard_normal(m))
    belief = posterior(prior, spread, pilots.tolist(), doubt=0.0)
    logs = (np.log(pilots) + 0.5 * spread**2).tolist()
    mean, variance = normal_posterior(logs, spread**2, math.log(60.0), sigma0**2)
    assert math.log(belief.task_s) == pytest.approx(mean, abs=0.02 * math.sqrt(variance) + 1e-3)
    assert belief.log_sd == pytest.approx(math.sqrt(variance), rel=0.03)
