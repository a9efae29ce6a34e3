"""The properties that attach the scheduler to an unmodified Spark."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, get_args

from spark_sched.attach.cache import build
from spark_sched.attach.spark import SparkInstall, check_same_version, find_spark
from spark_sched.config import check_inner_master, keys, read_properties, validate, wrap_master
from spark_sched.config.queue_file import read_queues
from spark_sched.errors import BadInputError

MASTER = "spark.master"
CLASS_PATH = "spark.driver.extraClassPath"
PLUGINS = "spark.plugins"
PLUGIN = "org.apache.spark.scheduler.sparksched.SchedPlugin"

#: How the scheduler gets into the driver: a plugin of Spark's, or a prefix of the master.
Door = Literal["plugin", "master"]
DOORS: tuple[Door, ...] = get_args(Door)

_PACKAGE = str(Path(__file__).absolute().parents[1])


def conf(
    master: str = "local[*]",
    overrides: Mapping[str, object] | None = None,
    *,
    door: Door = "plugin",
    spark_home: Path | None = None,
    queues: str | Path | None = None,
) -> dict[str, str]:
    """Return the properties that run an application on ``master`` under this scheduler.

    The first call compiles the bridge. The properties are for a session that this process starts: plugins and
    class path of its ``spark-defaults.conf`` are kept.

    Args:
        master: the master to run on: ``local[4]``, ``local-cluster[2,1,1024]``, ``spark://host:7077``, …
        overrides: further properties. ``spark.sched.*`` entries are checked, others are Spark's. An existing
            ``spark.driver.extraClassPath`` is kept, after the bridge, and ``spark.plugins``, before ours.
        door: ``plugin`` adds a plugin and leaves the master as it is, so a master that the program sets
            itself is attached, too. ``master`` puts ``spark-sched:`` before the master, which works on local,
            local-cluster and standalone masters.
        spark_home: the Spark to attach to; by default ``SPARK_HOME``, else the installed pyspark.
        queues: a TOML file of the tenants' queues (docs/how-to/queues.md); by default there are none.

    Raises:
        BadInputError: a wrong master, door, key, unit or range, a fault in the file of queues, no usable
            Spark or Java, or a ``SPARK_HOME`` of another version than pyspark.
        BridgeError: the bridge does not compile.

    Examples:
        >>> from pyspark.sql import SparkSession  # doctest: +SKIP
        >>> spark = SparkSession.builder.config(map=conf("local[4]")).getOrCreate()  # doctest: +SKIP
    """
    spark = find_spark(spark_home)
    check_same_version(spark)
    given = {name: _text(value) for name, value in (overrides or {}).items()}
    if queues is not None:
        given[keys.QUEUES.name] = read_queues(Path(queues)).to_json()
        given.setdefault(keys.QUEUES_FILE.name, str(Path(queues).absolute()))
    defaults = default_properties(spark)
    for name in (PLUGINS, CLASS_PATH):
        if name in defaults:
            given.setdefault(name, defaults[name])
    return attached_properties(master, given, spark, door)


def attached_properties(
    master: str, given: Mapping[str, str], spark: SparkInstall, door: Door = "plugin"
) -> dict[str, str]:
    """Return the properties that attach to ``spark``, for whatever starts it; see `conf`."""
    if door not in DOORS:
        raise BadInputError(f"door is {door!r} but must be one of {' or '.join(map(repr, DOORS))}")
    inner, kind = check_inner_master(master)
    given = dict(given)
    other = given.pop(MASTER, master)
    if check_inner_master(other)[0] != inner:
        raise BadInputError(f"{MASTER} is {other!r} but the master is {master!r}: give only one of them")
    if door == "master" and kind in ("yarn", "k8s"):
        raise BadInputError(
            f"door is 'master' but the master is {inner!r}, for which spark-submit does more than for a "
            "master that it does not know: use the door 'plugin'"
        )
    validate(given)
    bridge = str(build(spark.home))
    class_path = [part for part in given.pop(CLASS_PATH, "").split(os.pathsep) if part and part != bridge]
    plugins = [name.strip() for name in given.pop(PLUGINS, "").split(",")]
    plugins = [name for name in plugins if name and name != PLUGIN]
    if door == "plugin":
        plugins.append(PLUGIN)
    return {
        MASTER: inner if door == "plugin" else wrap_master(inner),
        **({PLUGINS: ",".join(plugins)} if plugins else {}),
        CLASS_PATH: os.pathsep.join([bridge, *class_path]),
        keys.PLANNER_PYTHON.name: sys.executable,
        keys.PLANNER_PACKAGE.name: _PACKAGE,
        **given,
    }


def default_properties(spark: SparkInstall) -> dict[str, str]:
    """The entries of ``spark-defaults.conf``, which may be absent."""
    file = Path(os.environ.get("SPARK_CONF_DIR") or spark.home / "conf") / "spark-defaults.conf"
    return read_properties(file) if file.is_file() else {}


def _text(value: object) -> str:
    # Java and Spark read "true", not "True".
    return str(value).lower() if isinstance(value, bool) else str(value)
