"""A tiny job of the doctor's, run by spark-submit: two stages, a mark and what the scheduler counted."""

from __future__ import annotations

import json
import sys
import time
from operator import add
from pathlib import Path

from pyspark import SparkContext

import spark_sched

_PLANNER_WAIT_S = 20.0


def _main(report: Path) -> None:
    context = SparkContext(appName="spark-sched doctor")
    scheduler = context._jvm.org.apache.spark.scheduler.sparksched.SparkSched  # type: ignore[union-attr]
    jvm_context = context._jsc.sc()
    with spark_sched.job(context, "doctor", priority=1):
        pairs = context.range(100, numSlices=4).map(lambda n: (n % 2, n))
        total = dict(pairs.reduceByKey(add).collect())
    deadline_s = time.monotonic() + _PLANNER_WAIT_S
    counters = json.loads(scheduler.counters(jvm_context))
    while counters["plans_accepted"] == 0 and time.monotonic() < deadline_s:
        time.sleep(0.1)
        counters = json.loads(scheduler.counters(jvm_context))
    report.write_text(
        json.dumps(
            {"right": total == {0: 2450, 1: 2500}, "attached": scheduler.attached(jvm_context), **counters}
        )
    )
    context.stop()


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
