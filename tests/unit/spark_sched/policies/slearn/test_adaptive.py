"""Figure 3 of SLearn, step for step, on histories written out."""

from __future__ import annotations

import pytest

from spark_sched.policies.slearn.adaptive import AdaptiveRatio, pilot_count


def after(scores: dict[int, list[float]], window: int = 2) -> AdaptiveRatio:
    """Past the first 3 T jobs, with these normalised JCTs by ratio."""
    ratio = AdaptiveRatio(window=window)
    for _ in range(3 * window):
        ratio = ratio.next_job()
    for percent, values in scores.items():
        for value in values:
            ratio = ratio.ended(percent, value)
    return ratio


def test_the_first_3_t_jobs_try_3_then_2_then_4_percent():
    ratio, tried = AdaptiveRatio(window=2), []
    for _ in range(6):
        tried.append(ratio.percent())
        ratio = ratio.next_job()
    assert tried == [3, 3, 2, 2, 4, 4]


def test_the_window_is_100_jobs_unless_said_otherwise():
    ratio = AdaptiveRatio()
    tried = []
    for _ in range(301):
        tried.append(ratio.percent())
        ratio = ratio.next_job()
    assert tried == [3] * 100 + [2] * 100 + [4] * 100 + [3]


@pytest.mark.parametrize(
    ("scores", "percent"),
    [
        ({3: [1.0], 2: [1.2], 4: [1.1]}, 3),
        ({3: [1.05], 2: [1.0], 4: [1.3]}, 2),
        ({3: [1.11], 2: [1.0], 4: [1.3]}, 1),
        ({3: [1.1], 2: [1.0], 4: [1.3]}, 2),
        ({3: [1.05], 2: [1.3], 4: [1.0]}, 4),
        ({3: [1.2], 2: [1.3], 4: [1.0]}, 5),
        ({3: [1.2], 2: [1.1], 4: [1.3], 1: [0.9]}, 1),
        ({3: [1.2], 2: [1.1], 4: [1.0], 5: [0.9]}, 5),
        ({3: [1.2], 2: [1.0], 4: [1.3], 1: [1.1]}, 1),
        ({3: [1.0], 2: [1.0], 4: [1.0]}, 2),
        ({3: [1.0], 4: [1.0]}, 3),
        ({2: [1.0], 4: [0.9]}, 4),
        ({}, 3),
    ],
    ids=[
        "3 is best",
        "2 is best, by less than a tenth",
        "2 is best by more than a tenth: 1 is probed",
        "exactly a tenth is not more",
        "4 is best, by less than a tenth",
        "4 is best by more than a tenth: 5 is probed",
        "1 was probed and is best",
        "5 was probed and is best",
        "1 was probed and is worse, but 2 still beats 3 by a tenth",
        "of equals the smallest, and no probe",
        "of two equals the smaller",
        "nothing is known of 3: no probe",
        "no job ended yet",
    ],
)
def test_the_ratio_for_the_next_job(scores: dict[int, list[float]], percent: int):
    assert after(scores).percent() == percent


def test_a_score_is_the_mean_of_the_latest_jobs_of_its_ratio():
    ratio = after({3: [9.0, 2.0, 2.0, 2.0], 2: [3.9]})
    # Lines 21-23: one is dropped only when there are more than T = 2, so the last three count.
    assert ratio.scores[3] == (2.0, 2.0, 2.0)
    assert ratio.percent() == 3
    assert ratio.ended(3, 8.0).scores[3] == (2.0, 2.0, 8.0)
    assert ratio.ended(3, 8.0).percent() == 2


def test_a_step_changes_nothing_of_the_one_before():
    ratio = after({3: [1.0]})
    ratio.ended(3, 5.0).next_job()
    assert (ratio.started, ratio.scores) == (6, {3: (1.0,)})


@pytest.mark.parametrize(("tasks", "percent", "pilots"), [(3, 3, 1), (50, 3, 2), (49, 3, 1), (1000, 1, 10)])
def test_pilots_are_that_share_and_one_at_least(tasks: int, percent: int, pilots: int):
    assert pilot_count(tasks, percent) == pilots
