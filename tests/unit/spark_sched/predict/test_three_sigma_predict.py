"""3SigmaPredict: whose history answers, and what it makes of few, constant, drifting and unseen runtimes."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from spark_sched.predict.runtimes.calibration import Calibration, place_of
from spark_sched.predict.runtimes.distribution import RuntimeDistribution
from spark_sched.predict.runtimes.experts import EXPERTS, FeatureHistory
from spark_sched.predict.runtimes.features import EVERY_JOB, JobAttributes, feature_values
from spark_sched.predict.runtimes.histogram import MAX_BINS, StreamingHistogram
from spark_sched.predict.runtimes.predictor import (
    Prediction,
    ThreeSigmaPredict,
    likeliest_within,
    most_agreed,
)


def run(
    predictor: ThreeSigmaPredict, runtime_s: float, at_s: float = 0.0, name: str = "etl", user: str = "ana"
) -> Prediction | None:
    """One job from submission to end, with nothing else in between."""
    submission = predictor.submit(JobAttributes(submit_s=at_s, user=user, name=name))
    prediction = predictor.predict(submission)
    predictor.learn(submission, runtime_s, prediction)
    return prediction


def ask(predictor: ThreeSigmaPredict, at_s: float = 0.0, name: str = "etl", user: str = "ana") -> Prediction:
    prediction = predictor.predict(predictor.submit(JobAttributes(submit_s=at_s, user=user, name=name)))
    assert prediction is not None
    return prediction


def test_nothing_is_said_before_any_job_ended() -> None:
    predictor = ThreeSigmaPredict()
    assert predictor.predict(predictor.submit(JobAttributes(user="ana", name="etl"))) is None


def test_an_unseen_name_gets_its_users_history_and_an_unseen_user_everyones() -> None:
    predictor = ThreeSigmaPredict()
    for i in range(20):
        run(predictor, 10.0, i * 3600.0, "etl", "ana")
        run(predictor, 500.0, i * 3600.0, "train", "ben")
    of_user = ask(predictor, 100_000.0, "new", "ben")
    assert "user" in of_user.feature
    assert "name" not in of_user.feature
    assert of_user.point_s == pytest.approx(500.0, rel=0.3)
    stranger = predictor.predict(predictor.submit(JobAttributes(user="eve", name="other")))
    assert stranger is not None
    assert (stranger.feature, stranger.samples) == (EVERY_JOB, 40)


def test_an_answer_says_whose_history_which_expert_and_how_many_runs() -> None:
    predictor = ThreeSigmaPredict()
    for i in range(30):
        run(predictor, 60.0, i * 7 * 86_400.0)
    prediction = ask(predictor, 30 * 7 * 86_400.0)
    assert prediction.samples == 30
    assert prediction.expert in EXPERTS
    assert prediction.source == f"{prediction.expert} of 30 runs with the same {prediction.feature}"
    assert prediction.nmae < 0.1


def test_constant_runtimes_stay_a_narrow_distribution_around_the_constant() -> None:
    predictor = ThreeSigmaPredict()
    for i in range(400):
        run(predictor, 42.0, i * 600.0)
    prediction = ask(predictor, 400 * 600.0)
    assert prediction.estimate_s == prediction.point_s == 42.0
    assert (
        prediction.history == RuntimeDistribution.point_s(42.0)
        or prediction.history.min_s == prediction.history.max_s == 42.0
    )
    assert prediction.runtime.quantile([0.1, 0.5, 0.9]).tolist() == [42.0, 42.0, 42.0]


def test_a_runtime_that_changes_for_good_is_followed_by_point_and_distribution() -> None:
    predictor = ThreeSigmaPredict()
    rng = np.random.default_rng(1)
    for i in range(300):
        run(predictor, 100.0 * rng.uniform(0.9, 1.1), i * 600.0)
    for i in range(300, 360):
        run(predictor, 1000.0 * rng.uniform(0.9, 1.1), i * 600.0)
    prediction = ask(predictor, 360 * 600.0)
    assert prediction.point_s == pytest.approx(1000.0, rel=0.15)
    assert float(prediction.runtime.cdf(500.0)) < 0.2


def test_two_kinds_of_runs_stay_two_modes() -> None:
    predictor = ThreeSigmaPredict()
    rng = np.random.default_rng(2)
    for i in range(200):
        run(predictor, float(rng.choice([10.0, 1000.0])) * rng.uniform(0.95, 1.05), i * 600.0)
    history = ask(predictor, 200 * 600.0).history
    assert 0.2 < float(history.cdf(100.0)) < 0.8
    assert float(history.cdf(800.0) - history.cdf(20.0)) < 0.1


def test_experts_answer_for_what_they_said_at_submission() -> None:
    predictor = ThreeSigmaPredict()
    job = JobAttributes(user="ana", name="burst")
    run(predictor, 10.0, name="burst")
    burst = [predictor.submit(job) for _ in range(10)]
    for submission in burst:
        predictor.learn(submission, 100.0)
    # Every one was guessed at 10 s: an error of 90 % of the runtime, though the last ones had just been seen.
    assert ask(predictor, 0.0, "burst").nmae == pytest.approx(0.9, abs=0.03)


def test_memory_per_feature_value_is_constant() -> None:
    history = FeatureHistory()
    rng = np.random.default_rng(3)
    sizes = []
    for count in (1_000, 4_000):
        for runtime in rng.lognormal(3.0, 2.0, count).tolist():
            history.add(runtime)
        sizes.append(len(history.to_bytes()))
        assert len(history.histogram) <= MAX_BINS
    assert abs(sizes[1] - sizes[0]) <= 24 * MAX_BINS


def test_a_value_that_never_comes_again_takes_little_memory_and_is_a_history_all_the_same() -> None:
    predictor, full = ThreeSigmaPredict(), FeatureHistory()
    tracemalloc.start()
    try:
        for number in range(2_000):
            job = JobAttributes(name=f"once-{number}")
            predictor.learn(predictor.submit(job), 1.0 + number)
        taken_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Names, keys and dictionaries; a history of its own for each would be 1,300 bytes more.
    assert taken_bytes < 2_000 * 500
    full.add(8.0)
    assert predictor.value_bytes(("name", "once-7")) == full.to_bytes()
    again = predictor.submit(JobAttributes(name="once-7"))
    assert again.guesses_s[again.features.index(("name", "once-7"))] == full.guesses_s
    stored = [(feature, predictor.value_bytes(feature)) for feature in predictor.features]
    restored = ThreeSigmaPredict()
    restored.restore(predictor.jobs, predictor.calibration, stored)
    assert [(f, restored.value_bytes(f)) for f in restored.features] == stored


def test_values_unused_for_longest_are_forgotten_first() -> None:
    predictor = ThreeSigmaPredict(values_kept=50)
    for i in range(100):
        run(predictor, 10.0, name=f"name-{i}")
    assert len(predictor) <= 50
    kept = {value for feature, value in predictor._values if feature == "name"}
    assert "name-99" in kept
    assert "name-0" not in kept


def test_features_are_those_whose_attributes_are_known() -> None:
    found = dict(feature_values(JobAttributes(user="ana", name="etl", submit_s=3 * 86_400.0 + 7_200.0)))
    assert found["user × name"] == "ana\x1fetl"
    assert (found["hour"], found["weekday"], found[EVERY_JOB]) == ("2", "3", "")
    assert not any("slots" in feature or "estimate" in feature for feature in found)
    assert dict(feature_values(JobAttributes())) == {EVERY_JOB: ""}
    more = dict(feature_values(JobAttributes(user="ana", more={"queue": "long"})))
    assert (more["queue"], more["user × queue"]) == ("long", "ana\x1flong")


def test_a_name_cannot_pass_for_another_jobs_combination() -> None:
    one = feature_values(JobAttributes(user="a\x1fb", name="c"))
    two = feature_values(JobAttributes(user="a", name="b\x1fc"))
    assert not {v for v in one if v[1]} & {v for v in two if v[1] and "×" in v[0]}


def test_the_point_is_where_a_factor_of_two_misses_least() -> None:
    # Most runs take 60 s, some up to four times that: 60 would miss all above 120, 110 hits them too.
    d = RuntimeDistribution.from_samples_s([58.0] * 60 + [130.0] * 20 + [200.0] * 20)
    point = likeliest_within(d, 2.0, 60.0)
    assert 100.0 <= point <= 116.0
    # Where the whole distribution fits, the expert's own estimate stands.
    assert likeliest_within(RuntimeDistribution.uniform_s(90.0, 110.0), 2.0, 101.0) == pytest.approx(101.0)
    assert likeliest_within(RuntimeDistribution.point_s(5.0), 2.0, 7.0) == 5.0


def test_calibration_learns_how_often_and_how_far_history_is_left() -> None:
    calibration = Calibration()
    given = RuntimeDistribution.uniform_s(90.0, 110.0)
    rng = np.random.default_rng(4)
    actual = rng.uniform(50.0, 150.0, 3_000)
    for runtime in actual.tolist():
        calibration.learn(place_of(given, runtime), 20, 0.2)
    bent = calibration.calibrated(given, 20, 0.2)
    for level in (0.025, 0.1, 0.5, 0.9, 0.975):
        assert float(np.mean(actual <= float(bent.quantile(level)))) == pytest.approx(level, abs=0.03)
    # Jobs of another kind are judged by their own record.
    other = calibration.calibrated(given, 1, 2.0)
    assert float(other.quantile(0.99)) != float(bent.quantile(0.99))


def test_places_inside_outside_and_on_a_jump() -> None:
    d = RuntimeDistribution.from_samples_s([10.0] * 9 + [20.0])
    below, above, on = place_of(d, 5.0), place_of(d, 30.0), place_of(d, 10.0)
    assert (below.side, below.excess) == (-1, 1.0)
    assert (above.side, above.excess) == (1, 0.5)
    assert on.side == 0
    assert on.low <= 0.05
    assert on.high == pytest.approx(0.85)


def test_state_survives_bytes_and_damage_is_refused() -> None:
    history = FeatureHistory()
    for runtime in (3.0, 4.0, 5.0, 4.0):
        history.add(runtime, history.guesses_s)
    again = FeatureHistory.from_bytes(history.to_bytes())
    assert again.to_bytes() == history.to_bytes()
    assert (again.best, again.nmae, again.guesses_s) == (history.best, history.nmae, history.guesses_s)
    assert again.histogram.distribution() == history.histogram.distribution()
    for damaged in (b"", history.to_bytes()[:-8], b"\xff" * 200):
        with pytest.raises(ValueError, match="no hist"):
            FeatureHistory.from_bytes(damaged)
    calibration = Calibration()
    calibration.learn(place_of(RuntimeDistribution.point_s(1.0), 2.0), 1, 0.5)
    assert Calibration.from_bytes(calibration.to_bytes()).to_bytes() == calibration.to_bytes()
    with pytest.raises(ValueError, match="no calibration"):
        Calibration.from_bytes(b"12345678")


def test_short_runtimes_keep_bins_of_their_own_beside_long_ones() -> None:
    histogram = StreamingHistogram()
    rng = np.random.default_rng(5)
    values = rng.lognormal(3.0, 3.0, 5_000)
    for value in values.tolist():
        histogram.add(value)
    d = histogram.distribution()
    for level in (0.05, 0.25, 0.5, 0.75, 0.95):
        assert float(np.mean(values <= float(d.quantile(level)))) == pytest.approx(level, abs=0.02)


def test_the_point_is_where_most_good_guesses_agree() -> None:
    agreeing = [(0.1, (100.0, 110.0)), (0.1, (95.0, 105.0)), (0.2, (90.0, 100.0))]
    assert 90.0 <= most_agreed(10.0, agreeing) <= 110.0
    # Guesses of bad record do not outvote one of good record, however many they are.
    assert most_agreed(10.0, [(0.05, (10.0,)), *[(0.9, (1_000.0, 1_000.0))] * 10]) == 10.0
    assert most_agreed(10.0, []) == 10.0
    # Neighbours by ratio support each other: 8 and 12 are near to 10, 100 is near to nobody.
    assert most_agreed(100.0, [(0.1, (8.0, 10.0, 12.0, 10.0))]) == 10.0
