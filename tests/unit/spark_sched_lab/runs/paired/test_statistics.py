"""Statistics of paired runs against data whose truth is known."""

import numpy as np
import pytest

from spark_sched_lab.runs.ab.looks import NULL_LEVEL, adjusted, blocks_needed, look_blocks, width
from spark_sched_lab.runs.paired.statistics import (
    LEVEL,
    difference,
    intervals,
    mean,
    paired_ratios,
    ratio,
    spread,
)

REPETITIONS = 2_000
TRUTH = 0.8  # the treated run takes 80 % of the time


def paired_logs(pairs, noise, rng, truth=TRUTH):
    """Differences of logarithms: runs of a block share the block's own, large effect."""
    shape = (REPETITIONS, pairs)
    block = rng.normal(3.0, 1.0, shape)
    control = block + 0.1 * noise(rng, shape)
    treated = block + np.log(truth) + 0.1 * noise(rng, shape)
    return treated - control


NOISES = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "heavy tails": lambda rng, shape: rng.standard_t(4, size=shape),
    "skewed": lambda rng, shape: rng.gamma(2.0, size=shape),
    "sometimes very slow": lambda rng, shape: rng.exponential(size=shape),
}


@pytest.mark.parametrize("pairs", [5, 6, 8, 12, 20])
@pytest.mark.parametrize("noise", NOISES)
def test_intervals_hold_the_truth_in_93_to_97_percent(pairs, noise):
    rng = np.random.default_rng([pairs, len(noise)])
    low, high = intervals(paired_logs(pairs, NOISES[noise], rng), LEVEL, rng)
    covered = np.mean((low <= np.log(TRUTH)) & (np.log(TRUTH) <= high))
    # 2,000 repetitions of a probability of 0.93 or 0.97 scatter by 0.006 (one standard deviation).
    assert 0.93 - 0.006 <= covered <= 0.97 + 0.006


def test_over_all_noises_and_sizes_intervals_hold_the_truth_in_93_to_97_percent():
    rng = np.random.default_rng(7)
    covered = []
    for noise in NOISES.values():
        for pairs in (5, 8, 12, 20):
            low, high = intervals(paired_logs(pairs, noise, rng), LEVEL, rng)
            covered.append(np.mean((low <= np.log(TRUTH)) & (np.log(TRUTH) <= high)))
    assert 0.93 <= np.mean(covered) <= 0.97


@pytest.mark.parametrize("pairs", [6, 8, 12, 20])
@pytest.mark.parametrize("noise", NOISES)
def test_the_null_arm_raises_false_alarms_in_at_most_5_percent(pairs, noise):
    rng = np.random.default_rng([pairs, 1])
    low, high = intervals(paired_logs(pairs, NOISES[noise], rng, truth=1.0), NULL_LEVEL, rng)
    assert np.mean((low > 0) | (high < 0)) <= 0.05


def test_the_null_arm_finds_interference_that_is_as_large_as_the_noise():
    rng = np.random.default_rng(2)
    low, high = intervals(paired_logs(12, NOISES["normal"], rng, truth=1.2), NULL_LEVEL, rng)
    assert np.mean((low > 0) | (high < 0)) > 0.9


@pytest.mark.parametrize("noise", NOISES)
def test_stopping_at_a_narrow_interval_keeps_the_error_below_5_percent(noise):
    rng = np.random.default_rng([3, len(noise)])
    data = paired_logs(32, NOISES[noise], rng)
    looks = look_blocks(8, 32, 4)
    level = adjusted(LEVEL, len(looks))
    stopped = np.zeros(REPETITIONS, dtype=bool)
    covered = np.zeros(REPETITIONS, dtype=bool)
    for blocks in looks:
        low, high = intervals(data[:, :blocks], level, rng)
        now = ~stopped & (((high - low) / 2 <= 0.1) | (blocks == looks[-1]))
        covered[now] = ((low <= np.log(TRUTH)) & (np.log(TRUTH) <= high))[now]
        stopped |= now
    assert stopped.all()
    assert np.mean(covered) >= 0.95


def test_a_ratio_is_the_geometric_mean_inside_pairs():
    found = ratio([2.0, 9.0, 8.0], [1.0, 3.0, 2.0], np.random.default_rng(0))
    assert found.mean == pytest.approx((2 * 3 * 4) ** (1 / 3))
    assert (found.low, found.high, found.pairs) == (None, None, 3)


def test_swapping_the_sides_inverts_a_ratio_and_its_interval():
    rng = np.random.default_rng(5)
    a, b = rng.lognormal(size=8), rng.lognormal(size=8)
    there, back = ratio(a, b, rng), ratio(b, a, rng)
    assert (there.low, there.high) == pytest.approx((1 / back.high, 1 / back.low))
    assert there.effect == pytest.approx(-back.effect)


def test_equal_differences_have_an_interval_of_no_width_and_no_effect_size():
    found = difference([1.5] * 6, [1.0] * 6, np.random.default_rng(0))
    assert (found.low, found.mean, found.high, found.effect) == (0.5, 0.5, 0.5, None)
    zero = mean([0.0] * 6, np.random.default_rng(0))
    assert (zero.low, zero.high) == (0.0, 0.0)


def test_too_few_pairs_have_no_interval_and_a_higher_level_needs_more():
    rng = np.random.default_rng(0)
    assert mean([1.0, 2.0, 3.0, 4.0], rng).low is None
    assert mean([1.0, 2.0, 3.0, 4.0, 6.0], rng).low is not None
    assert mean([1.0, 2.0, 3.0, 4.0, 6.0], rng, level=0.998).low is None


def test_the_same_seed_gives_the_same_interval():
    values = np.random.default_rng(1).normal(size=15)
    assert mean(values, np.random.default_rng(4)) == mean(values, np.random.default_rng(4))


@pytest.mark.parametrize(
    ("treatment", "control", "sentence"),
    [
        pytest.param([1.0], [1.0, 2.0], "cannot be paired", id="a run without its partner"),
        pytest.param([1.0], [0.0], "took no time", id="a control that took no time"),
        pytest.param([], [], "no runs", id="nothing"),
    ],
)
def test_what_cannot_be_paired_is_refused(treatment, control, sentence):
    with pytest.raises(ValueError, match=sentence):
        ratio(treatment, control, np.random.default_rng(0))


def test_looks_grow_by_a_factor_and_end_at_the_last_block():
    assert look_blocks(8, 64, 4) == (8, 16, 32, 64)
    assert look_blocks(8, 8, 4) == (8,)
    assert look_blocks(6, 20, 1) == (20,)


def test_the_number_of_blocks_needed_gives_the_precision():
    rng = np.random.default_rng(6)
    few = ratio(rng.lognormal(0, 0.3, 10), np.ones(10), rng)
    needed = blocks_needed(few, 0.05)
    assert needed > 10
    more = ratio(rng.lognormal(0, 0.3, needed), np.ones(needed), rng)
    assert width(more) == pytest.approx(0.05, rel=0.6)
    assert blocks_needed(few, 10.0) == 10
    assert blocks_needed(ratio([1.0], [2.0], rng), 0.1) is None


def test_plain_ratios_are_formed_inside_pairs():
    assert paired_ratios([2.0, 9.0], [1.0, 3.0]) == [2.0, 3.0]


@pytest.mark.parametrize(
    ("treatment", "control", "sentence"),
    [
        pytest.param([1.0], [1.0, 2.0], "cannot be paired", id="a run without its partner"),
        pytest.param([1.0], [0.0], "no ratio", id="a control that took no time"),
    ],
)
def test_plain_ratios_need_pairs_and_times(treatment, control, sentence):
    with pytest.raises(ValueError, match=sentence):
        paired_ratios(treatment, control)


def test_one_run_has_a_mean_and_no_spread():
    alone = spread([3.0], np.random.default_rng(0))
    assert alone.as_json() == {"mean": 3.0, "sd": None, "low": None, "high": None, "runs": 1}


def test_few_runs_have_a_deviation_but_no_interval():
    two = spread([1.0, 3.0], np.random.default_rng(0))
    assert two.sd == pytest.approx(np.sqrt(2))
    assert (two.low, two.high) == (None, None)


def test_a_spread_has_the_interval_of_the_mean():
    values = [1.0, 1.2, 0.9, 1.4, 1.1, 1.05]
    found, estimate = spread(values, np.random.default_rng(0)), mean(values, np.random.default_rng(0))
    assert (found.mean, found.low, found.high) == (estimate.mean, estimate.low, estimate.high)
    assert found.low < found.mean < found.high


def test_a_spread_of_nothing_is_a_bug_of_the_caller():
    with pytest.raises(ValueError, match="no runs"):
        spread([], np.random.default_rng(0))
