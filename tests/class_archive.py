"""A class-data archive for the drivers that tests start: what it has of Spark need not be parsed again.

``python -m tests.class_archive`` writes it once for each state of the bridge, for three times the processor
time of such a driver; each that reads it takes a quarter less. A JVM reads it if its class path begins like
that of an attached driver. Others, and those that start before it is there, run as without it.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from spark_sched.bridge import build, cache_dir, find_java
from spark_sched.bridge.compiler import plan_build
from spark_sched.errors import BadInputError
from tests.environment import QUICK_JAVA, QUICK_JVMS, clean_environment

# Two stages in Python under a mark and a query: most of what an application loads.
_PROGRAM = """
import spark_sched
from pyspark.sql import SparkSession

settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
spark = SparkSession.builder.config(map=spark_sched.conf("local[2]", settings)).getOrCreate()
with spark_sched.job(spark, "archive", priority=5):
    pairs = spark.sparkContext.parallelize(range(10), 2).map(lambda n: (n % 3, n))
    pairs.reduceByKey(lambda a, b: a + b).collect()
spark.range(10).selectExpr("id % 3 AS k").groupBy("k").count().collect()
spark.stop()
"""
# Whatever a JVM has to say about an archive, no program prints it.
_SILENT = "-Xlog:disable -Xlog:all=error:stderr"


def driver_options() -> dict[str, str]:
    """The environment with which drivers read it, as soon as it is there."""
    archive = path()
    if archive is None:
        return {}
    name = "SPARK_SUBMIT_OPTS"
    return {name: f'{QUICK_JVMS[name]} "-XX:SharedArchiveFile={archive}" {_SILENT}'}


def path() -> Path | None:
    """Where the archive for this state of the bridge, Spark and Java is will be; None if one is missing."""
    try:
        planned, java = plan_build(), find_java()
    except BadInputError:
        return None
    state = (planned.jar_name, str(planned.spark.home), str(java.resolve()), java.stat().st_mtime_ns)
    return cache_dir() / f"{_family()}{_digest(*state, QUICK_JAVA)}.jsa"


def _family() -> str:
    """How the names of this checkout's archives begin."""
    return f"tests-{_digest(Path(__file__))}-"


def _digest(*state: object) -> str:
    return hashlib.sha256(repr(state).encode()).hexdigest()[:16]


def write(archive: Path) -> None:
    """Write it, and remove those of earlier states."""
    build()  # also makes the folder
    with tempfile.TemporaryDirectory(dir=archive.parent, ignore_cleanup_errors=True) as folder:
        made = Path(folder) / archive.name
        java = f"{QUICK_JAVA} -XX:ArchiveClassesAtExit={made} {_SILENT}"
        # The JVM ends, and writes the archive, after the program.
        with subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            env={**clean_environment(), "SPARK_SUBMIT_OPTS": java},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        ) as program:
            assert program.stdout is not None
            try:
                program.stdout.read()  # until nobody has it open, that JVM included
            finally:
                program.kill()
        if made.is_file():
            for earlier in archive.parent.glob(f"{_family()}*.jsa"):
                earlier.unlink(missing_ok=True)
            os.replace(made, archive)


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    archive = path()
    if archive is not None and not archive.is_file():
        write(archive)


if __name__ == "__main__":
    main()
