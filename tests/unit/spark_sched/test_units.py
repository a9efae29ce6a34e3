"""Times with units."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_sched.units import format_time_ms, parse_length_ms, parse_time_ms


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


@pytest.mark.parametrize(
    ("text", "length_ms"),
    [
        ("15 minutes", 900_000),
        ("1 minute", 60_000),
        ("1 hour 2 mins 3 seconds", 3_723_000),
        ("2 days 1hr 1sec", 176_401_000),
        ("1h30m", 5_400_000),
        ("250 ms", 250),
    ],
)
def test_lengths_have_parts_and_units_in_words(text, length_ms):
    assert parse_length_ms(text) == length_ms


@pytest.mark.parametrize("text", ["15 minutess", "1 month", "minutes", "1 h x", ""])
def test_other_lengths_are_refused(text):
    with pytest.raises(ValueError, match="is not a length of time"):
        parse_length_ms(text)


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
