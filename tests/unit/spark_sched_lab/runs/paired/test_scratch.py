"""Temporary folders of experiments, also of those that were killed."""

from __future__ import annotations

import subprocess
import sys
import tempfile

import pytest

from spark_sched_lab.runs.paired.scratch import scratch_folder

PREFIX = "spark-sched-test-"
KILLED = """
import os, signal, sys, tempfile
from spark_sched_lab.runs.paired.scratch import scratch_folder
tempfile.tempdir = sys.argv[1]
with scratch_folder("spark-sched-test-") as folder:
    (folder / "application.log").write_text("half a line")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_goes_with_its_block_also_after_an_error(temporary):
    with pytest.raises(RuntimeError), scratch_folder(PREFIX) as folder:
        (folder / "application.log").write_text("text")
        raise RuntimeError
    assert list(temporary.iterdir()) == []


def test_the_next_experiment_removes_the_folder_of_a_killed_one_and_no_other(temporary):
    subprocess.run([sys.executable, "-c", KILLED, str(temporary)], check=False)
    (abandoned,) = temporary.iterdir()
    assert (abandoned / "application.log").exists()
    foreign = temporary / f"{PREFIX}foreign"
    foreign.mkdir()  # made by something else: it has no owner's file
    with scratch_folder(PREFIX) as first, scratch_folder(PREFIX) as second:
        assert {*temporary.iterdir()} == {foreign, first, second}
    assert list(temporary.iterdir()) == [foreign]
