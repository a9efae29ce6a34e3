"""``spark-sched bench`` on a real cluster: every workload of SparkBench once, on small data."""

import json
import subprocess
import sys

import pytest

from tests.environment import clean_environment

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SUITE = """
seed = 2
[cluster]
workers = 1
slots = 4
[scheduler]
# Without a planner there are fewer processes to start.
settings = { "spark.sched.planner.enabled" = false }

[[suite]]
description = "generate"
mode = "parallel"
[[suite.workload]]
name = "data-generation-kmeans"
rows = 400
cols = 3
k = 2
scaling = 0.1
output = "{folder}/kmeans.parquet"
[[suite.workload]]
name = "data-generation-lr"
rows = 400
cols = 3
eps = 0.0
partitions = 2
output = "{folder}/lr.csv"
[[suite.workload]]
name = "graph-data-generator"
vertices = 50
mu = 1.0
sigma = 0.5
partitions = 2
output = "{folder}/graph.txt"

[[suite]]
description = "run"
mode = "parallel"
[[suite.workload]]
name = "kmeans"
input = "{folder}/kmeans.parquet"
k = 2
maxiterations = 3
[[suite.workload]]
name = "lr-bml"
input = "{folder}/lr.csv"
testfile = "{folder}/lr.csv"
numpartitions = 2
maxiterations = 5
[[suite.workload]]
name = "pagerank"
input = "{folder}/graph.txt"
partitions = 2
maxiterations = 2
[[suite.workload]]
name = "sql"
input = "{folder}/kmeans.parquet"
query = "select count(*) as n, sum(c0) as c from input"
cache = true
partitions = 3
output = "{folder}/rows.parquet"
[[suite.workload]]
name = "cachetest"
input = "{folder}/kmeans.parquet"
user = "ana"
sleepms = 10
[[suite.workload]]
name = "sparkpi"
slices = 2
[[suite.workload]]
name = "terasort"
rows = 2000
partitions = 3
[[suite.workload]]
name = "sleep"
sleepms = 50
iterations = 2
[[suite.workload]]
name = "timedsleep"
partitions = 2
sleepms = 1

[[suite]]
description = "fail"
[[suite.workload]]
name = "cachetest"
input = "{folder}/none.parquet"
"""


def test_every_workload_runs_and_a_failure_does_not_stop_the_others(tmp_path):
    path = tmp_path / "suite.toml"
    path.write_text(SUITE.replace("{folder}", str(tmp_path)))
    command = [sys.executable, "-m", "spark_sched", "bench", str(path), "--json"]
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    document = json.loads(done.stdout)
    generate, run, fail = (suite["jobs"] for suite in document["suites"])
    assert [job["error"] for job in (*generate, *run)] == [""] * 13, done.stderr
    first, second = (job for job in run if job["workload"] == "sleep")
    assert second["began_s"] >= first["began_s"] + first["jct_s"] - 0.001  # times are rounded
    assert [job["values"] for job in generate] == [[400.0], [400.0], [50.0]]
    values = {job["workload"]: job["values"] for job in run}
    assert len(values["kmeans"]) == 2 * 3
    right, rows = values["lr-bml"]
    assert right > 0.9
    assert rows == 400
    assert values["pagerank"][0] > 0
    assert values["sql"][0] == 1.0
    assert values["cachetest"] == [400.0] * 3
    assert values["sparkpi"][0] == pytest.approx(3.14, abs=0.03)
    assert values["terasort"] == [2000.0, 0.0]  # nothing is out of order
    assert values["sleep"] == [50.0]
    assert values["timedsleep"] == [2 * 100.0 + 2 * 1.0]
    # The last suite's only job fails: it is named, and the exit status says so.
    assert done.returncode == 1
    assert "none.parquet" in fail[0]["error"]
    assert "failed jobs: 1; the first, cachetest" in done.stderr
