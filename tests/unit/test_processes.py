"""In how many processes the whole suite runs, and which files each of them imports."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conftest import memory_gib, processes, pytest_ignore_collect


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


@pytest.mark.parametrize(
    ("text", "wanted", "ignored"),
    [
        ("@pytest.mark.slow\ndef test_it(): ...", "slow", None),
        ("def test_it(): ...", "slow", True),
        ("def test_it(): ...", "not slow", None),
        ("def test_it(): ...", "integration and slow", None),
    ],
)
def test_a_run_of_slow_tests_imports_no_file_without_any(
    tmp_path: Path, text: str, wanted: str, ignored: bool | None
) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(text)
    config = SimpleNamespace(option=SimpleNamespace(markexpr=wanted))
    assert pytest_ignore_collect(file, config) is ignored  # type: ignore[arg-type]
    assert pytest_ignore_collect(tmp_path, config) is None  # type: ignore[arg-type]
