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
    """Return the properties that run an application on ``master`` under this scheduler.

    The first call compiles the bridge.

    Args:
        master: the inner master: ``local[4]``, ``local-cluster[2,1,1024]``, ``spark://host:7077``, …
        overrides: further properties. ``spark.sched.*`` entries are checked, others are Spark's. An existing
            ``spark.driver.extraClassPath`` is kept, after the bridge.
        spark_home: the Spark to attach to; by default ``SPARK_HOME``, else the installed pyspark.

    Raises:
        BadInputError: a wrong master, key, unit or range, or no usable Spark or Java.
        BridgeError: the bridge does not compile.

    Examples:
        >>> from pyspark.sql import SparkSession  # doctest: +SKIP
        >>> spark = SparkSession.builder.config(map=conf("local[4]")).getOrCreate()  # doctest: +SKIP
    """
    given = {name: _text(value) for name, value in (overrides or {}).items()}
    wrapped = wrap_master(master)
    other = given.pop(MASTER, master)
    if wrap_master(other) != wrapped:
        raise BadInputError(f"{MASTER} is {other!r} but the master is {master!r}: give only one of them")
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
