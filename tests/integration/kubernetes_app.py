"""The program of an application that spark-submit gives to Kubernetes: ``kubernetes_app.py SCENARIO FOLDER``.

It is attached by configuration alone. ``FOLDER/result`` has what the scenario returns, as JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql import SparkSession

from tests.integration import (
    executor_scenarios,
    kubernetes_scenarios,
    line_scenarios,
    reservation_scenarios,
    scenarios,
)


def main() -> None:
    name, folder = sys.argv[1], Path(sys.argv[2])
    for module in (
        scenarios,
        executor_scenarios,
        line_scenarios,
        reservation_scenarios,
        kubernetes_scenarios,
    ):
        register_pickle_by_value(module)  # executors need not find the tests
    spark = SparkSession.builder.getOrCreate()
    result = getattr(kubernetes_scenarios, name)(spark, folder)
    spark.stop()
    (folder / "result").write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
