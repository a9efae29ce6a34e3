"""Each line of Spark that the bridge is compiled for: it attaches, holds slots, gives results and learns.

The other tests run on the installed pyspark; `tools/test_line.py` runs them on another line.
"""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from spark_sched.attach import conf, find_spark
from spark_sched.attach.compiler import SparkLine, spark_lines
from spark_sched.config import format_properties
from spark_sched.errors import BadInputError
from tests import spark_lines as sparks
from tests.conftest import Run
from tests.integration.harness import Driver
from tests.integration.test_reservation import CLUSTER, nothing_leaked

pytestmark = [pytest.mark.integration, pytest.mark.slow]


# An RDD, and a query since SQL finds a class of the bridge by itself; then whether it is attached.
_STOCK = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
print(spark.sparkContext.parallelize(range(10), 2).sum(), spark.range(10).groupBy("id").count().count())
context = spark.sparkContext
entry = context._jvm.org.apache.spark.scheduler.sparksched.SparkSched
print(context.version, entry.attached(context._jsc.sc()))
"""


def environment_of(line: SparkLine) -> dict[str, str]:
    """With which programs run on the line; skips the test if pip cannot have it."""
    if line.name == find_spark().line:
        return {}
    try:
        return sparks.environment(sparks.unpacked(line.newest))
    except BadInputError as error:
        pytest.skip(str(error))


def all_duties_done(result: dict[str, Any], line: SparkLine, history: Path) -> None:
    """Of the scenario ``duties_of_a_line``, on that line and with that history."""
    assert result["version"].startswith(f"{line.name}.")
    assert result["background_tasks"] == 16
    assert result["intruders"] == 0
    assert result["sums"] == [[0, 166833], [1, 166167], [2, 166500]]
    assert result["rows"] == [[k, 200, 10 * k] for k in range(5)]
    assert result["restarts"] >= 1
    assert result["counters"]["holds_total"] > 0
    nothing_leaked(result)
    with sqlite3.connect(history) as db:
        names = {name for (name,) in db.execute("SELECT DISTINCT name FROM runs")}
    assert {"foreground", "summed", "queried"} <= names


@pytest.mark.parametrize("line", spark_lines(), ids=lambda line: line.name)
def test_a_line_attaches_holds_slots_gives_equal_results_and_learns(line: SparkLine, tmp_path: Path) -> None:
    history = tmp_path / "history.db"
    driver = Driver(environment_of(line))
    try:
        result = driver.run(
            *("duties_of_a_line", *CLUSTER),
            f"spark.sched.history.path={history}",
            "spark.sched.planner.restartBackoff=100ms",
        )
    finally:
        driver.stop()
    all_duties_done(result, line, history)


@pytest.mark.parametrize("line", [each.name for each in spark_lines() if each.name != find_spark().line])
def test_the_bridge_of_another_line_leaves_the_application_to_spark(
    run: Run, tmp_path: Path, line: str
) -> None:
    """A jar of one line in an application of another, as after an upgrade of one of the two."""
    found = find_spark()
    there = environment_of(next(each for each in spark_lines() if each.name == line))
    script, properties = tmp_path / "app.py", tmp_path / "app.conf"
    script.write_text(_STOCK)
    properties.write_text(format_properties(conf("local[2]", {"spark.ui.enabled": "false"})))
    submit = Path(there["SPARK_HOME"]) / "bin" / "spark-submit"
    outcome = run(submit, "--properties-file", properties, script, environment=there)
    assert outcome.status == 0, outcome.output[-3000:]
    *_, results, state = outcome.stdout.splitlines()
    assert results == "45 10"
    assert re.fullmatch(rf"{re.escape(line)}\.\d+ False", state)
    (said,) = [each for each in outcome.stderr.splitlines() if "spark_sched is not attached" in each]
    assert f"its bridge is compiled for Spark {found.version} and this is Spark {line}." in said
