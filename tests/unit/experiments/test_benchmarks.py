"""The benchmarks' own arithmetic; their measurements need a machine and time."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from spark_sched.experiments.demo.timeline import Span, Timeline

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if str(BENCHMARKS) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def test_the_papers_formula_for_copies_gives_the_papers_gain(benchmark):
    mean, ratio_of_means = benchmark("copies").formula(20, 1.6, np.random.default_rng(0))
    assert mean == pytest.approx(0.48, abs=0.01)
    assert ratio_of_means == pytest.approx(0.72, abs=0.03)


def test_copies_gain_more_from_a_heavier_tail(benchmark):
    gains = [benchmark("copies").formula(20, alpha, np.random.default_rng(0))[0] for alpha in (1.2, 1.6, 2.5)]
    assert gains == sorted(gains, reverse=True)


def test_a_share_counts_the_slots_in_use_at_each_moment(benchmark):
    kinds = [(0, 1000, "foreground"), (500, 1000, "foreground"), (0, 900, "background")]
    timeline = Timeline(0, 1000, {"0": ""}, {"0": 4}, tuple(Span("0", *kind) for kind in kinds))
    times_s, used = benchmark("fair_pools").share(timeline, "foreground", 4)
    assert times_s == [0.0, 0.25, 0.5, 0.75]
    assert used == [0.25, 0.25, 0.5, 0.5]


def test_both_arms_of_the_fair_share_benchmark_do_the_same_work(benchmark):
    jobs = benchmark("fair_pools").jobs
    stock = jobs(8, np.random.default_rng(3), marked=False)
    ours = jobs(8, np.random.default_rng(3), marked=True)
    assert [job.stages for job in stock] == [job.stages for job in ours]
    assert [job.mark is None for job in stock] == [True, True]
    assert [job.mark is None for job in ours] == [False, True]
