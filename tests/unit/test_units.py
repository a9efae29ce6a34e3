"""Times with units."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_sched.units import format_time_ms, parse_time_ms


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("100ms", 100),
        ("10s", 10_000),
        ("2m", 120_000),
        ("10min", 600_000),
        ("1h", 3_600_000),
        ("1d", 86_400_000),
        (" 15 MIN ", 900_000),
        ("0s", 0),
    ],
)
def test_times_are_read_in_milliseconds(text, time_ms):
    assert parse_time_ms(text) == time_ms


@pytest.mark.parametrize("text", ["", "10", "s", "1.5s", "-1s", "1 week", "1s2", "٣s"])
def test_other_texts_are_refused(text):
    with pytest.raises(ValueError, match="is not a time such as"):
        parse_time_ms(text)


@given(st.integers(0, 10**15))
def test_a_formatted_time_is_read_back(time_ms):
    assert parse_time_ms(format_time_ms(time_ms)) == time_ms


def test_a_negative_length_is_refused():
    with pytest.raises(ValueError, match="negative"):
        format_time_ms(-1)
