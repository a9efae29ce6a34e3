import numpy as np
import pytest

from spark_sched.experiments.paired.statistics import paired_ratios, spread


def rng():
    return np.random.default_rng(0)


def test_ratios_are_formed_inside_pairs():
    assert paired_ratios([2.0, 9.0], [1.0, 3.0]) == [2.0, 3.0]


@pytest.mark.parametrize(
    ("treatment", "control", "sentence"),
    [
        pytest.param([1.0], [1.0, 2.0], "cannot be paired", id="a run without its partner"),
        pytest.param([1.0], [0.0], "no ratio", id="a control that took no time"),
    ],
)
def test_what_cannot_be_paired_is_refused(treatment, control, sentence):
    with pytest.raises(ValueError, match=sentence):
        paired_ratios(treatment, control)


def test_one_run_has_a_mean_and_no_spread():
    assert spread([3.0], rng()).as_json() == {"mean": 3.0, "sd": None, "low": None, "high": None, "runs": 1}


def test_two_runs_have_a_deviation_but_no_interval():
    two = spread([1.0, 3.0], rng())
    assert two.sd == pytest.approx(np.sqrt(2))
    assert two.low is None
    assert two.high is None


def test_equal_runs_have_an_interval_of_no_width():
    same = spread([2.0] * 5, rng())
    assert (same.low, same.mean, same.high) == (2.0, 2.0, 2.0)


def test_the_interval_covers_the_mean_and_the_same_seed_gives_the_same_one():
    values = [1.0, 1.2, 0.9, 1.4, 1.1, 1.05]
    first = spread(values, rng())
    assert first.low < first.mean < first.high
    assert first == spread(values, rng())


def test_the_interval_holds_the_true_mean_about_as_often_as_it_says():
    draws = np.random.default_rng(1)
    held = [
        s.low <= 5.0 <= s.high for s in (spread(draws.normal(5.0, 1.0, size=30), draws) for _ in range(60))
    ]
    assert np.mean(held) > 0.8


def test_no_runs_are_a_bug_of_the_caller():
    with pytest.raises(ValueError, match="no runs"):
        spread([], rng())
