"""Keeps the jobs of one Spark application fair, deadline-aware and isolated from each other.

>>> import spark_sched
>>> with spark_sched.job(spark, "nightly-kmeans", priority=10, isolation=0.9):  # doctest: +SKIP
...     model = KMeans(k=8).fit(points)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0.dev0"
__all__ = ["__version__", "admission", "conf", "explain", "job", "propagate", "status", "steer"]

if TYPE_CHECKING:
    from spark_sched.api import steer
    from spark_sched.api.admission import admission
    from spark_sched.api.job import job
    from spark_sched.api.propagate import propagate
    from spark_sched.api.status import explain, status
    from spark_sched.attach import conf

# Imported on first use: the planner and executors import this package and need neither.
_LAZY = {
    "admission": "spark_sched.api.admission",
    "conf": "spark_sched.attach",
    "explain": "spark_sched.api.status",
    "job": "spark_sched.api.job",
    "propagate": "spark_sched.api.propagate",
    "status": "spark_sched.api.status",
}


def __getattr__(name: str) -> object:
    if name == "steer":
        return importlib.import_module("spark_sched.api.steer")
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
