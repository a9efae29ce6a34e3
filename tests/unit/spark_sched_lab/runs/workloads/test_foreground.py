import time

import numpy as np
import pytest

from spark_sched_lab.runs.workloads.foreground import WORKLOADS, same_results
from spark_sched_lab.runs.workloads.storage import SlowStorage


def test_the_workloads_are_sparkbenchs_three():
    assert list(WORKLOADS) == ["kmeans", "svm", "pagerank"]


@pytest.mark.parametrize("seed", range(4))
def test_read_times_are_the_same_set_for_every_seed_dealt_differently(seed):
    times_s = SlowStorage(8, 0.8, 1.5, seed).read_times_s()
    assert sorted(times_s) == pytest.approx(np.linspace(0.8, 1.5, 8))
    assert list(times_s) == list(SlowStorage(8, 0.8, 1.5, seed).read_times_s())
    assert list(times_s) != list(SlowStorage(8, 0.8, 1.5, seed + 1).read_times_s())


def test_reading_takes_the_partitions_time_and_gives_the_partitions_data(monkeypatch):
    slept_s = []
    monkeypatch.setattr(time, "sleep", slept_s.append)
    storage = SlowStorage(4, 1.0, 2.0, 7)
    read = storage.rng(2).normal(size=3)
    assert slept_s == [storage.read_times_s()[2]]
    assert list(read) == list(storage.data_rng(2).normal(size=3))
    assert list(read) != list(storage.data_rng(3).normal(size=3))


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        pytest.param([1.0, 2.0], [1.0, 2.0 + 1e-13], True, id="the last bits may differ"),
        pytest.param([1.0, 2.0], [1.0, 2.001], False, id="a wrong value is seen"),
        pytest.param([1.0], [1.0, 2.0], False, id="a missing value is seen"),
        pytest.param([float("nan")], [float("nan")], False, id="not a number is never a result"),
    ],
)
def test_results_are_compared_up_to_the_order_of_additions(first, second, same):
    assert same_results(first, second) is same
