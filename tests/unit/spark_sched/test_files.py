"""Files that others see whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_sched.errors import BadInputError
from spark_sched.files import write_whole


def test_a_file_is_replaced_and_nothing_stays_beside_it(tmp_path: Path) -> None:
    target = tmp_path / "results.json"
    target.write_text("old")
    write_whole(target, "néw")
    assert target.read_text(encoding="utf-8") == "néw"
    assert list(tmp_path.iterdir()) == [target]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "results.json"
    target.write_text("old")

    def full_disk(source: Path, destination: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full_disk)
    with pytest.raises(BadInputError, match=r"results.json' cannot be written \(No space left"):
        write_whole(target, "new")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_folder_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="check the folder"):
        write_whole(tmp_path / "missing" / "file", "text")
