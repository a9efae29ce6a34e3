"""TPC-H: all queries, side by side in one application, give the same rows as under Spark's own scheduler."""

import functools
import json
import subprocess
import sys

import pytest

from spark_sched.workloads.foreground import same_results
from spark_sched.workloads.tpch import QUERIES, generator
from tests.environment import clean_environment

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.skipif(generator() is None, reason="needs tpchgen-cli: pip install 'spark-sched[tpch]'"),
]

#: Of tables this small a shuffle of 200 partitions is empty files, and compiled operators compile longer than
#: they run.
SUITE = """
seed = 1
[cluster]
workers = 1
slots = 4
[scheduler]
{scheduler}
[scheduler.settings]
"spark.sql.shuffle.partitions" = 4
"spark.sql.codegen.wholeStage" = false
"spark.sql.codegen.factoryMode" = "NO_CODEGEN"
[[suite]]
mode = "parallel"
[[suite.workload]]
name = "tpch"
input = "{folder}"
query = {queries}
"""


def test_queries_give_the_same_rows_under_both_schedulers(tmp_path):
    tables = tmp_path / "tables"
    subprocess.run([generator(), "parquet", "-s", "0.01", f"--output-dir={tables}"], check=True)
    stock = answers(tmp_path, tables, 'scheduler = "fair"')
    ours = answers(tmp_path, tables, 'policy = "reservation"')
    assert len(stock) == QUERIES
    assert ours.keys() == stock.keys()
    assert [name for name in stock if not same_results(ours[name], stock[name])] == []
    counts = {name.partition("=")[2]: count for name, (count, *_) in ours.items()}
    # At any scale: four groups of line items, one sum, five priorities.
    assert (counts["1"], counts["6"], counts["4"]) == (4.0, 1.0, 5.0)
    assert len({tuple(rest) for _, *rest in ours.values()}) > 0.7 * QUERIES


def answers(folder, tables, scheduler):
    """How many rows each query gave, and their checksum."""
    suite = folder / "tpch.toml"
    queries = str(list(range(1, QUERIES + 1)))
    given = {"{folder}": str(tables), "{queries}": queries, "{scheduler}": scheduler}
    suite.write_text(functools.reduce(lambda text, name: text.replace(name, given[name]), given, SUITE))
    command = [sys.executable, "-m", "spark_sched", "bench", str(suite), "--json"]
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (ran,) = json.loads(done.stdout)["suites"]
    return {job["workload"]: job["values"] for job in ran["jobs"]}
