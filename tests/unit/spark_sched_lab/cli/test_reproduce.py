"""Where ``spark-sched reproduce`` looks for the papers' figures."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

COMMAND = [sys.executable, "-m", "spark_sched", "reproduce", "nopaper"]


@pytest.fixture
def installed(root, tmp_path):
    """A folder for the search path that has what a wheel has, without the checkout that this one is in."""
    for house in ("spark_sched", "spark_sched_lab"):
        shutil.copytree(root / house, tmp_path / "site" / house, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "site"


def called(installed, folder):
    folder.mkdir(exist_ok=True)
    program = (
        f"import sys; sys.path.insert(0, {str(installed)!r})\n"
        "sys.argv = ['spark-sched', 'reproduce', 'nopaper']\n"
        "from spark_sched.cli import main; main()"
    )
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_wheels_command_says_in_one_sentence_where_the_figures_are(installed, tmp_path):
    done = called(installed, tmp_path / "elsewhere")
    assert done.returncode == 2
    (sentence,) = done.stderr.splitlines()
    assert "run this in the root folder of a checkout of spark_sched" in sentence
    assert "benchmarks/papers" in sentence


def test_a_wheels_command_finds_them_in_the_checkout_that_it_is_called_in(installed, root, tmp_path):
    shutil.copytree(root / "benchmarks" / "papers", tmp_path / "checkout" / "benchmarks" / "papers")
    done = called(installed, tmp_path / "checkout")
    assert done.returncode == 2
    assert "PAPER is 'nopaper'" in done.stderr


def test_a_checkouts_command_finds_its_own_from_anywhere(run):
    done = run(*COMMAND)
    assert done.status == 2
    assert "PAPER is 'nopaper'" in done.stderr
