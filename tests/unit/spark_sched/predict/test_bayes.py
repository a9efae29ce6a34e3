"""History as the prior, pilots as the evidence."""

from __future__ import annotations

import math
from dataclasses import replace
from operator import attrgetter

import numpy as np
import pytest

from spark_sched.policies.slearn.sizing import BayesSizing, PilotSizing
from spark_sched.predict.runtimes.distribution import RuntimeDistribution
from spark_sched.predict.runtimes.features import JobAttributes
from spark_sched.predict.runtimes.points import inverse_square_s, median_s
from spark_sched.predict.tasks.bayes import pilots_needed, posterior
from spark_sched.predict.tasks.expectation import StageExpectation
from spark_sched.predict.tasks.times import Spreads, log_spread
from tests.normal import normal_posterior


def expects(runtime: RuntimeDistribution, spread: float = 0.1, tasks: int = 100) -> StageExpectation:
    return StageExpectation(tasks, runtime, spread, calibrated=runtime)


def test_a_sure_history_is_believed_over_one_odd_pilot_but_not_over_many():
    prior = RuntimeDistribution.normal_s(100.0, 5.0)
    one = posterior(prior, 0.5, [160.0])
    many = posterior(prior, 0.5, [160.0] * 60)
    assert one.task_s == pytest.approx(100.0, rel=0.05)
    assert many.task_s > 130.0


def test_pilots_that_history_never_saw_the_like_of_are_believed():
    prior = RuntimeDistribution.normal_s(100.0, 5.0)
    belief = posterior(prior, 0.05, [900.0, 950.0])
    assert belief.task_s == pytest.approx(925.0, rel=0.05)


def test_without_pilots_it_is_history_and_pilots_make_it_surer():
    prior = RuntimeDistribution.uniform_s(50.0, 150.0)
    before = posterior(prior, 0.2, [])
    after = posterior(prior, 0.2, [80.0, 90.0])
    assert before.task_s == pytest.approx(median_s(prior), rel=0.05)
    assert after.log_sd < before.log_sd
    assert before.low_s == pytest.approx(55.0, rel=0.1)
    assert before.high_s == pytest.approx(145.0, rel=0.1)
    assert before.low_s < after.low_s < after.task_s < after.high_s < before.high_s


def test_a_history_of_one_constant_is_a_point():
    belief = posterior(RuntimeDistribution.point_s(30.0), 0.1, [30.5])
    assert belief.task_s == pytest.approx(30.0, rel=0.1)


@pytest.mark.parametrize(
    ("log_sd", "spread", "pilots"),
    [(0.05, 0.3, 0), (0.09, 0.3, 0), (0.2, 0.1, 1), (0.2, 0.3, 7), (1.0, 0.3, 9), (1.0, 9.0, 20)],
)
def test_the_surer_history_is_the_fewer_pilots_it_takes(log_sd: float, spread: float, pilots: int):
    z = np.linspace(-4.0, 4.0, 801)
    cdf = np.array([0.5 * math.erfc(-v / math.sqrt(2.0)) for v in z.tolist()])
    cdf[-1] = 1.0
    prior = RuntimeDistribution.from_knots(np.exp(3.0 + log_sd * z), cdf)
    assert pilots_needed(prior, spread, 0.1, 20) == pilots


def test_no_pilots_where_history_is_sure_of_the_queue_and_some_where_it_is_not():
    sizing = BayesSizing()
    # 100 tasks of 40 to 60 s: 4e6 to 6e6 ms, well within the second queue.
    assert sizing.pilots(100, expects(RuntimeDistribution.uniform_s(40.0, 60.0)), 3) == 0
    # Of 80 to 120 s: on either side of 1e7 ms.
    assert sizing.pilots(100, expects(RuntimeDistribution.uniform_s(80.0, 120.0)), 3) > 0


def test_without_history_it_is_slearn():
    sizing, slearn = BayesSizing(), PilotSizing(inverse_square_s)
    nothing = StageExpectation(100)
    for expected in (None, nothing):
        assert sizing.pilots(100, expected, 3) == slearn.pilots(100, expected, 3) == 3
        assert sizing.task_ms([10.0, 20.0], expected) == slearn.task_ms([10.0, 20.0], expected) == 15.0
        assert sizing.task_ms([], expected) is None


def test_it_never_takes_more_pilots_than_slearn():
    wild = expects(RuntimeDistribution.uniform_s(0.001, 1e6), spread=3.0)
    assert BayesSizing().pilots(100, wild, 3) == 3


def test_a_posterior_of_nothing_is_refused():
    with pytest.raises(ValueError, match="needs samples or a prior"):
        normal_posterior([], 1.0, 0.0, math.inf)


def test_the_inverse_squares_mean_of_two_runtimes():
    both = RuntimeDistribution.from_knots([10.0, 10.0, 20.0, 20.0], [0.0, 0.5, 0.5, 1.0])
    assert inverse_square_s(both) == pytest.approx((0.5 / 100.0 + 0.5 / 400.0) ** -0.5)
    assert inverse_square_s(RuntimeDistribution.point_s(7.0)) == pytest.approx(7.0)


def test_the_inverse_squares_mean_of_an_even_spread():
    # (1 / (ab))^-1/2: the geometric mean of the ends.
    assert inverse_square_s(RuntimeDistribution.uniform_s(10.0, 40.0)) == pytest.approx(20.0)


def test_spreads_are_each_names_own_and_everyones_for_a_stranger():
    spreads = Spreads()
    known, stranger = JobAttributes(user="u", name="a"), JobAttributes(user="u", name="b")
    for _ in range(50):
        spreads.add(known, 0.5)
        spreads.add(JobAttributes(user="v", name="c"), 0.1)
    assert spreads.expect(known) == pytest.approx(0.5, rel=0.1)
    assert 0.1 < spreads.expect(stranger) < 0.5


def test_how_far_stages_differ_in_their_spread_is_learned():
    spreads = Spreads()
    even, uneven = JobAttributes(user="u", name="even"), JobAttributes(user="u", name="uneven")
    for number in range(50):
        spreads.add(even, 0.2)
        spreads.add(uneven, 0.2 * (2.0 if number % 2 else 0.5))
    assert spreads.log_sd(even) < 0.3
    assert spreads.log_sd(uneven) == pytest.approx(math.log(2.0), rel=0.3)


def test_where_stages_differ_in_their_spread_the_interval_is_wider_and_the_pilots_tell_which():
    prior = RuntimeDistribution.uniform_s(1.0, 1000.0)
    sure, unsure = posterior(prior, 0.2, [100.0]), posterior(prior, 0.2, [100.0], spread_log_sd=1.0)
    assert unsure.high_s / unsure.low_s > 2.0 * sure.high_s / sure.low_s
    alike = posterior(prior, 0.2, [100.0, 101.0, 99.0, 100.0], spread_log_sd=1.0)
    unlike = posterior(prior, 0.2, [50.0, 200.0, 80.0, 125.0], spread_log_sd=1.0)
    assert alike.task_s == pytest.approx(100.0, rel=0.01)
    assert alike.high_s / alike.low_s < 1.1
    assert unlike.high_s / unlike.low_s > 1.5


@pytest.mark.parametrize("pilots", [1, 4])
def test_nine_intervals_in_ten_hold_where_stages_differ_in_their_spread(pilots: int):
    rng = np.random.default_rng(5)
    prior = RuntimeDistribution.uniform_s(50.0, 150.0)
    runs, held = 1500, 0
    for mean_s, spread in zip(
        rng.uniform(50.0, 150.0, runs), 0.2 * np.exp(0.7 * rng.normal(size=runs)), strict=True
    ):
        tasks_s = mean_s * np.exp(spread * rng.normal(size=pilots) - 0.5 * spread**2)
        belief = posterior(prior, 0.2, tasks_s.tolist(), spread_log_sd=0.7)
        held += belief.low_s <= mean_s <= belief.high_s
    # Three standard errors either way.
    assert held / runs == pytest.approx(0.9, abs=3.0 * math.sqrt(0.09 / runs))


def test_a_spread_needs_two_tasks():
    assert log_spread([3.0]) is None
    assert log_spread([3.0, 3.0]) == 0.0
    assert log_spread([1.0, math.e]) == pytest.approx(math.sqrt(0.5))


def test_an_unsure_size_leans_to_the_small_side_but_not_as_a_part_of_a_sum():
    prior = expects(RuntimeDistribution.uniform_s(10.0, 190.0))
    alone_ms, part_ms = BayesSizing().task_ms((), prior), BayesSizing().later_ms(prior, 1.0)
    assert part_ms == pytest.approx(100_000.0, rel=0.05)
    assert alone_ms is not None
    assert alone_ms < 0.95 * part_ms
    sure = expects(RuntimeDistribution.normal_s(100.0, 1.0))
    assert BayesSizing().task_ms([100_000.0] * 9, sure) == pytest.approx(100_000.0, rel=0.03)


def test_a_doubt_leans_what_jobs_are_ordered_by_but_not_the_likeliest_size():
    prior = replace(expects(RuntimeDistribution.normal_s(100.0, 1.0)), doubt=0.1)
    likeliest = BayesSizing(point=attrgetter("task_s"))
    assert likeliest.task_ms((), prior) == pytest.approx(100_000.0, rel=0.03)
    by_order_ms = BayesSizing().task_ms((), prior)
    assert by_order_ms is not None
    assert by_order_ms < 80_000.0


def test_pilots_that_history_leaves_no_chance_are_believed_even_where_nobody_doubts_it():
    found = posterior(RuntimeDistribution.uniform_s(10.0, 20.0), 0.05, [1000.0, 1000.0], doubt=0.0)
    assert found.task_s == pytest.approx(1000.0, rel=0.01)
