"""TPC-H: all queries, side by side in one application, give the same rows as under Spark's own scheduler.

``python -m tests.integration.test_tpch`` records what they give under Spark's own.
"""

import functools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from spark_sched_lab.runs.workloads.foreground import same_results
from spark_sched_lab.runs.workloads.tpch import QUERIES, generator
from tests.environment import clean_environment

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    pytest.mark.skipif(generator() is None, reason="needs tpcgen-cli: pip install 'spark-sched[tpc]'"),
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


STOCK, OURS = 'scheduler = "fair"', 'policy = "reservation"'
#: Of each query how many rows it gives under Spark's own scheduler, and their checksum.
RECORDED = Path(__file__).with_name("tpch_answers.json")


def test_queries_give_the_same_rows_under_both_schedulers(tmp_path):
    ours = answers(tmp_path, OURS)
    stock = json.loads(RECORDED.read_text(encoding="utf-8"))
    if differing(ours, stock):
        # Tables of another generator, or another Spark, may give other rows than those recorded.
        stock = answers(tmp_path, STOCK)
    assert len(stock) == QUERIES
    assert differing(ours, stock) == []
    counts = {name.partition("=")[2]: count for name, (count, *_) in ours.items()}
    # At any scale: four groups of line items, one sum, five priorities.
    assert (counts["1"], counts["6"], counts["4"]) == (4.0, 1.0, 5.0)
    assert len({tuple(rest) for _, *rest in ours.values()}) > 0.7 * QUERIES


def differing(ours, stock):
    """Queries that one of them lacks or that gave them different rows."""
    both = ours.keys() & stock.keys()
    return sorted((ours.keys() ^ stock.keys()) | {n for n in both if not same_results(ours[n], stock[n])})


def answers(folder, scheduler):
    """How many rows each query gave, and their checksum."""
    tables = folder / "tables"
    if not tables.exists():
        subprocess.run([generator(), "tpch", "parquet", "-s", "0.01", f"--output-dir={tables}"], check=True)
    suite = folder / "tpch.toml"
    queries = str(list(range(1, QUERIES + 1)))
    given = {"{folder}": str(tables), "{queries}": queries, "{scheduler}": scheduler}
    suite.write_text(functools.reduce(lambda text, name: text.replace(name, given[name]), given, SUITE))
    command = [sys.executable, "-m", "spark_sched", "bench", str(suite), "--json"]
    done = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (ran,) = json.loads(done.stdout)["suites"]
    return {job["workload"]: job["values"] for job in ran["jobs"]}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        stock = answers(Path(scratch), STOCK)
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(stock[name])}" for name in sorted(stock))
    RECORDED.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
