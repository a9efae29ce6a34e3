"""The properties that attach the scheduler to an unmodified Spark."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import spark_sched
from spark_sched.bridge.cache import build
from spark_sched.config import keys, validate, wrap_master
from spark_sched.errors import BadInputError

MASTER = "spark.master"
CLASS_PATH = "spark.driver.extraClassPath"

_PACKAGE = str(Path(spark_sched.__file__).absolute().parent)


def conf(
    master: str = "local[*]",
    overrides: Mapping[str, object] | None = None,
    *,
    spark_home: Path | None = None,
) -> dict[str, str]:
    """Properties that run an application on ``master`` under this scheduler.

    Compiles the bridge first if that was not done yet.

    Parameters
    ----------
    master
        The inner master: ``local[4]``, ``local-cluster[2,1,1024]``, ``spark://host:7077``, …
    overrides
        Further properties, ours (checked) or Spark's. A ``spark.driver.extraClassPath`` of your own is kept,
        after the bridge.
    spark_home
        The Spark to attach to; by default ``SPARK_HOME``, else the installed pyspark.

    Raises BadInputError for a wrong master, key, unit or range, and what ``build`` raises.

    >>> from pyspark.sql import SparkSession                                    # doctest: +SKIP
    >>> spark = SparkSession.builder.config(map=conf("local[4]")).getOrCreate()  # doctest: +SKIP
    """
    given = {name: _text(value) for name, value in (overrides or {}).items()}
    wrapped = wrap_master(master)
    other = given.pop(MASTER, master)
    if wrap_master(other) != wrapped:
        raise BadInputError(f"{MASTER} is {other!r} and the master is {master!r}: give it once")
    validate(given)
    class_path = os.pathsep.join(filter(None, [str(build(spark_home)), given.pop(CLASS_PATH, "")]))
    return {
        MASTER: wrapped,
        CLASS_PATH: class_path,
        keys.PLANNER_PYTHON.name: sys.executable,
        keys.PLANNER_PACKAGE.name: _PACKAGE,
        **given,
    }


def _text(value: object) -> str:
    # Java and Spark read "true", not "True".
    return str(value).lower() if isinstance(value, bool) else str(value)
