"""``spark-sched ab`` without Spark: output, exit statuses, refusals."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner

from spark_sched.cli.app import app

SUITE = """
name = "two levels"
[cluster]
workers = 1
slots = 4
[runs]
blocks = 10
[background]
source = "sleep"
jobs = 3
[[workload]]
name = "sleep"
sleepms = 200
stages = 3
tasks = 3
[[arm]]
name = "stock"
scheduler = "fair"
[[arm]]
name = "P = 0"
isolation = 0
[[arm]]
name = "P = 1"
isolation = 1
"""


def call(*arguments):
    return CliRunner().invoke(app, arguments, prog_name="spark-sched", catch_exceptions=False)


@pytest.fixture
def suite(tmp_path):
    path = tmp_path / "suite.toml"
    path.write_text(SUITE)
    return path


def test_a_simulated_test_prints_one_document_and_writes_its_files(suite, tmp_path):
    out = tmp_path / "out"
    done = call("ab", "run", str(suite), "--simulate", "--out", str(out), "--json")
    assert done.exit_code == 0
    document = json.loads(done.stdout)
    assert document == json.loads((out / "results.json").read_text())
    assert document["verdict"]["winner"] == "P = 1"
    assert document["monotone"] is True
    assert document["on"] == "the simulator"
    assert "<svg " in (out / "report.html").read_text()
    runs = (out / "runs.jsonl").read_bytes()
    assert runs.count(b"\n") == document["runs"]
    again = call("ab", "report", str(out))
    assert again.exit_code == 0
    verdict = document["verdict"]["text"]
    assert verdict in again.stdout
    (held,) = (
        row["utilization_loss"]["mean"]
        for row in document["rows"]
        if (row["arm"], row["workload"]) == ("P = 1", None)
    )
    assert re.match(
        rf"P = 1 is fastest: \d+% shorter JCT .*; .*{held:.0%} of slots held idle; on the simulator\.",
        verdict,
    )
    assert call("ab", "run", str(suite), "--simulate", "--out", str(out)).exit_code == 0
    assert (out / "runs.jsonl").read_bytes() == runs  # nothing was repeated


def test_a_bad_suite_is_refused_in_one_sentence_and_leaves_no_folder(suite, tmp_path):
    suite.write_text(SUITE.replace('"sleep"\nsleepms', '"slep"\nsleepms'))
    done = call("ab", "run", str(suite), "--out", str(tmp_path / "out"))
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")
    assert "unknown workload 'slep' (did you mean 'sleep'?)" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        (("--master", "spark://"), "--master is 'spark://' but must be written as spark://HOST:PORT"),
        (("--simulate", "--hours", "3"), "--hours has an effect only with --on ec2"),
    ],
)
def test_a_wrong_option_leaves_no_folder(suite, tmp_path, option, sentence):
    done = call("ab", "run", str(suite), "--out", str(tmp_path / "out"), *option)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"error: {sentence}")
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_missing_suite_and_a_folder_without_runs_are_refused(tmp_path):
    assert "cannot be read" in call("ab", "run", str(tmp_path / "none.toml")).stderr
    done = call("ab", "report", str(tmp_path))
    assert (done.exit_code, done.stdout) == (2, "")
    assert "has no suite.toml" in done.stderr
