"""In how many processes the whole suite runs."""

from __future__ import annotations

import pytest

from tests.conftest import memory_gib, processes


@pytest.mark.parametrize(
    ("cores", "gib", "wanted"),
    [(1, 24.0, 2), (2, 24.0, 4), (2, 12.0, 4), (2, 8.0, 3), (1, 4.0, 2), (64, 500.0, 4)],
)
def test_there_are_two_for_each_core_and_as_many_as_memory_allows(
    cores: int, gib: float, wanted: int
) -> None:
    assert processes(cores, gib) == wanted


def test_the_memory_is_that_of_a_machine() -> None:
    assert 0.5 < memory_gib() < 100_000.0
