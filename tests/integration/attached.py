"""A program of an attached application, and what it must report."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from tests.conftest import Outcome

# Two stages under a mark, then what the JVM says about itself, as the last line of standard output.
_PROGRAM = """
import json, os, sys
from operator import add
import spark_sched
from pyspark.sql import SparkSession

def attach(builder):
    spark = builder.getOrCreate()
    context = spark.sparkContext
    with spark_sched.job(spark, "attach", priority=5):
        pairs = context.range(1000, numSlices=8).map(lambda n: (n % 3, n))
        sums = sorted(pairs.reduceByKey(add, 4).collect())
    where = context.range(4, numSlices=4).map(lambda _: os.environ["SPARK_LOCAL_IP"])
    entry = context._jvm.org.apache.spark.scheduler.sparksched.SparkSched
    found = {
        "sums": sums,
        "hosts": sorted(set(where.collect())),
        "attached": entry.attached(context._jsc.sc()),
        "counters": json.loads(entry.counters(context._jsc.sc())),
        # Not the conf of Python's, which also has the system properties.
        "plugins": context._jsc.sc().conf().get("spark.plugins", None),
        "argument": sys.argv[1:],
    }
    spark.stop()
    return found

"""
ONCE = _PROGRAM + "print(json.dumps(attach(SparkSession.builder)))"
EACH = (
    _PROGRAM
    + """
builders = (SparkSession.builder.config(map=spark_sched.conf(master)) for master in sys.argv[1:])
print(json.dumps([attach(builder) for builder in builders]))
"""
)
HARD_CODED = (
    _PROGRAM
    + """
print(json.dumps([attach(SparkSession.builder.master("local[2]")) for _ in range(2)]))
"""
)
# Of each of its arguments, a JSON object of properties: the report, or why the application was refused.
EACH_OR_REFUSAL = (
    _PROGRAM
    + """
def outcome(properties):
    try:
        return attach(SparkSession.builder.config(map=properties))
    except Exception as error:
        return str(error)

print(json.dumps([outcome(json.loads(properties)) for properties in sys.argv[1:]]))
"""
)
SUMS = [[0, 166833], [1, 166167], [2, 166500]]


def last_line(outcome: Outcome) -> Any:
    """The report that it printed at its end."""
    assert outcome.status == 0, outcome.output[-3000:]
    return json.loads(outcome.stdout.strip().splitlines()[-1])


def assert_attached(report: dict[str, Any], argument: Sequence[str] = ()) -> None:
    """Results are right, and slots were held and none is left."""
    assert report["sums"] == SUMS
    assert report["attached"] is True
    assert report["argument"] == list(argument)
    counters = report["counters"]
    assert counters["holds_total"] > 0
    assert counters["slots_held_now"] == 0
    assert counters["invariant_violations"] == 0
