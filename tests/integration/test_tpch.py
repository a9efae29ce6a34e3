"""TPC-H: queries give the same rows under Spark's own scheduler and under spark_sched.

Each query is an application for each of three settings. ``SPARK_SCHED_TEST_ALL_QUERIES`` runs all of them
instead of a sample with subqueries, views, and semi-, anti- and self-joins.
"""

import functools
import json
import os
import subprocess
import sys

import pytest

from spark_sched.workloads.tpch import QUERIES, generator
from tests.environment import clean_environment

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.skipif(generator() is None, reason="needs tpchgen-cli: pip install 'spark-sched[tpch]'"),
]

SUITE = """
seed = 1
baseline = "stock"
[cluster]
workers = 1
slots = 2
[runs]
blocks = 1
looks = 1
warm_up = 0
[settings]
# Without a planner there are fewer processes to start.
"spark.sched.planner.enabled" = false
{quick}
[[workload]]
name = "tpch"
input = "{folder}"
query = {queries}
[[arm]]
name = "stock"
scheduler = "fifo"
[arm.settings]
{quick}
[[arm]]
name = "spark_sched"
"""
#: Of tables this small a shuffle of 200 partitions is empty files, and compiled operators compile longer than
#: they run.
QUICK = """
"spark.sql.shuffle.partitions" = 4
"spark.sql.codegen.wholeStage" = false
"spark.sql.codegen.factoryMode" = "NO_CODEGEN"
"""


SAMPLE = [1, 4, 6, 11, 15, 16, 21, 22]


def test_queries_give_the_same_rows_under_both_schedulers(tmp_path):
    tables = tmp_path / "tables"
    subprocess.run([generator(), "parquet", "-s", "0.01", f"--output-dir={tables}"], check=True)
    suite = tmp_path / "tpch.toml"
    numbers = list(range(1, QUERIES + 1)) if os.environ.get("SPARK_SCHED_TEST_ALL_QUERIES") else SAMPLE
    given = {"{folder}": str(tables), "{queries}": str(numbers), "{quick}": QUICK}
    suite.write_text(functools.reduce(lambda text, name: text.replace(name, given[name]), given, SUITE))
    out = tmp_path / "out"
    command = [sys.executable, "-m", "spark_sched", "ab", "run", str(suite), "--out", str(out), "--json"]
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["results_equal"] is True
    rows = [json.loads(line) for line in (out / "runs.jsonl").read_text().splitlines()]
    assert len(rows) == len(numbers) * 3
    answers = {row["workload"]: tuple(row["values"]) for row in rows if row["setting"] == "spark_sched"}
    counts = {name.partition("=")[2]: count for name, (count, _) in answers.items()}
    # At any scale: four groups of line items, one sum, five priorities.
    assert (counts["1"], counts["6"], counts["4"]) == (4.0, 1.0, 5.0)
    assert len({checksum for _, checksum in answers.values()}) > 0.7 * len(numbers)
