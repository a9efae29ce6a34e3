"""``spark-sched ab run`` on a real cluster: killed in the middle, then continued."""

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.environment import clean_environment
from tests.integration.processes import until

STARTS_WITHIN_S = 500
pytestmark = [pytest.mark.integration, pytest.mark.slow]

SUITE = """
name = "short"
seed = 3
baseline = "P = 0"
[cluster]
workers = 1
slots = 3
[runs]
blocks = 2
looks = 1
warm_up = 0
[settings]
# Without a planner there are fewer processes to start.
"spark.sched.planner.enabled" = false
[background]
source = "sleep"
jobs = 2
mean = "300ms"
gap = "100ms"
[[workload]]
name = "sleep"
sleepms = 200
stages = 2
tasks = 2
[[arm]]
name = "P = 0"
isolation = 0
[[arm]]
name = "P = 1"
isolation = 1
"""


def test_a_killed_test_continues_and_nothing_is_lost_or_repeated(tmp_path):
    suite, out = tmp_path / "suite.toml", tmp_path / "out"
    suite.write_text(SUITE)
    runs = out / "runs.jsonl"
    command = [sys.executable, "-m", "spark_sched", "ab", "run", str(suite), "--out", str(out), "--json"]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    environment = {**clean_environment(), "TMPDIR": str(scratch)}
    first = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert until(lambda: first.poll() is not None or _lines(runs) >= 2, STARTS_WITHIN_S)
    finally:
        os.kill(first.pid, signal.SIGKILL)
        _, problem = first.communicate()
    before = runs.read_bytes()
    assert _lines(runs) >= 2, problem.decode()

    assert list(scratch.glob("spark-sched-runs-*"))  # its applications' logs
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not list(scratch.glob("spark-sched-runs-*"))
    assert runs.read_bytes().startswith(before[: before.rfind(b"\n") + 1])
    rows = [json.loads(line) for line in runs.read_text().splitlines()]
    keys = [(row["block"], row["setting"]) for row in rows]
    settings = ("alone", "P = 0", "P = 1", "P = 0 (again)")
    assert sorted(keys) == sorted((block, setting) for block in range(2) for setting in settings)
    document = json.loads(done.stdout)
    assert (document["blocks"], document["runs"]) == (2, 8)
    assert document["results_equal"] is True
    for row in rows:
        assert row["jct_s"] > 0.4  # two stages of 200 ms
        assert (row["background_jct_s"] is None) == (row["setting"] == "alone")
        assert row["values"] == [800.0]
    assert (out / "report.html").read_text().count("<svg ") == 2


def _lines(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0
