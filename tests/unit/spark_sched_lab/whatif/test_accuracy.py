"""How far a replay is off, by length of job and weighted by time, and what that says of its answers."""

from __future__ import annotations

from typing import Any

import pytest

from spark_sched_lab.whatif.accuracy import by_length, doubts, errors, together


def replay(*jobs: tuple[float, float]) -> dict[str, Any]:
    """Jobs by recorded and replayed time."""
    return errors([{"job": str(n), "real_jct_s": real, "jct_s": ours} for n, (real, ours) in enumerate(jobs)])


SHORT = [(0.5, 0.5)] * 95


def test_long_jobs_are_counted_apart_and_by_their_time() -> None:
    found = replay((0.5, 0.5), (2.0, 2.0), (6.0, 6.3), (30.0, 20.0))
    assert [(g["at_least_s"], g["jobs"], g["within_10_percent"]) for g in found["by_length"]] == [
        (1, 3, pytest.approx(2 / 3)),
        (5, 2, 0.5),
        (20, 1, 0.0),
    ]
    assert found["time_within_10_percent"] == pytest.approx(8.5 / 38.5)
    assert by_length(found) == (
        "Within 10 % are 2 of 3 of at least 1 s, 1 of 2 of at least 5 s, 0 of 1 of at least 20 s; of all "
        "jobs' time 22%."
    )


@pytest.mark.parametrize(
    ("jobs", "doubt"),
    [
        ([*SHORT, (30.0, 30.0)], None),
        ([*SHORT, (30.0, 20.0)], "not reliable for jobs of 1 s or more"),
        ([*SHORT, *[(2.0, 2.0)] * 20, (30.0, 20.0)], "not reliable for jobs of 5 s or more"),
        ([*SHORT, *[(30.0, 30.0)] * 10, (100.0, 10.0)], "not reliable for long jobs"),
        ([(0.5, 0.5), (0.5, 0.9)], "are not reliable"),
    ],
)
def test_long_jobs_alone_make_answers_unreliable(jobs: list[tuple[float, float]], doubt: str | None) -> None:
    said = doubts(replay(*jobs))
    assert said is None if doubt is None else said is not None and doubt in said


def test_jobs_of_several_logs_count_together() -> None:
    found = together([replay((2.0, 2.0), (30.0, 20.0)), replay((30.0, 30.0))])
    assert found["within_10_percent"] == pytest.approx(2 / 3)
    assert found["time_within_10_percent"] == pytest.approx(32 / 62)
    assert [(g["jobs"], g["within_10_percent"]) for g in found["by_length"]] == [
        (3, pytest.approx(2 / 3)),
        (2, 0.5),
        (2, 0.5),
    ]


def test_a_replay_of_short_jobs_says_nothing_of_long_ones() -> None:
    found = replay(*SHORT)
    assert by_length(found) is None
    assert found["by_length"][0] == {
        "at_least_s": 1,
        "jobs": 0,
        "within_10_percent": None,
        "median_error": None,
    }
