"""Scenarios of applications that run on Kubernetes; `kubernetes_app` runs one of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from tests.integration.line_scenarios import duties_of_a_line
from tests.integration.reservation_scenarios import across_barriers
from tests.integration.scenarios import (
    Result,
    attached,
)


def duties(spark: SparkSession, _folder: Path) -> Result:
    """Those of a line."""
    return {**_of_kubernetes(spark.sparkContext), **duties_of_a_line(spark)}


def isolation(spark: SparkSession, _folder: Path) -> Result:
    """A job keeps its slots between its stages."""
    return {**_of_kubernetes(spark.sparkContext), **across_barriers(spark)}


def _of_kubernetes(sc: SparkContext) -> Result:
    return {
        "application": sc.applicationId,
        "attached": attached(sc),
        "master": sc.master,
        "executors": len(_executors(sc)),
        "cores": sc.defaultParallelism,
        "plugins": sc._jsc.sc().conf().get("spark.plugins", ""),
    }


def _executors(sc: SparkContext) -> set[str]:
    backend: Any = sc._jsc.sc().schedulerBackend()
    return set(backend.getExecutorIds().mkString(" ").split())
