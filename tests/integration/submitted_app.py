"""The program of an application that spark-submit gives to another manager:
``submitted_app.py SCENARIOS NAME FOLDER``.

``SCENARIOS`` is a module of this folder. The application is attached by configuration alone.
``FOLDER/result`` has what the scenario returns, as JSON.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

from pyspark.cloudpickle import register_pickle_by_value
from pyspark.sql import SparkSession

from tests.integration import executor_scenarios, line_scenarios, reservation_scenarios, scenarios


def main() -> None:
    module = importlib.import_module(f"tests.integration.{sys.argv[1]}")
    name, folder = sys.argv[2], Path(sys.argv[3])
    for each in (scenarios, executor_scenarios, line_scenarios, reservation_scenarios, module):
        register_pickle_by_value(each)  # executors need not find the tests
    spark = SparkSession.builder.getOrCreate()
    result = getattr(module, name)(spark, folder)
    spark.stop()
    (folder / "result").write_text(json.dumps(result), encoding="utf-8")


if __name__ == "__main__":
    main()
