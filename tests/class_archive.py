"""Class-data archives for the JVMs that tests start: what they have of Spark need not be parsed again.

``python -m tests.class_archive`` writes both once for each state of the bridge, each for three times the
processor time of such a JVM. Each JVM that reads one takes a quarter less. A JVM reads an archive if its
class path begins like that of the driver that wrote it. Others, and those that start before it is there, run
as without it.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from spark_sched.attach import build, cache_dir, find_java
from spark_sched.attach.compiler import plan_build
from spark_sched.errors import BadInputError
from tests.environment import QUICK_JAVA, clean_environment, quick_jvms

# Two stages in Python and a query: most of what an application loads.
_WORK = """
import spark_sched
from pyspark.sql import SparkSession

settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}

def work(spark):
    pairs = spark.sparkContext.parallelize(range(10), 2).map(lambda n: (n % 3, n))
    pairs.reduceByKey(lambda a, b: a + b).collect()
    spark.range(10).selectExpr("id % 3 AS k").groupBy("k").count().collect()
"""
#: The drivers that write the archives, by whose JVMs read them.
_PROGRAMS = {
    "attached": f"""{_WORK}
spark = SparkSession.builder.config(map=spark_sched.conf("local[2]", settings)).getOrCreate()
with spark_sched.job(spark, "archive", priority=5):
    work(spark)
spark.stop()
""",
    # Executors and the daemons of a cluster. A local driver runs what an executor runs.
    "stock": f"""{_WORK}
spark = SparkSession.builder.config(map=settings).master("local[2]").getOrCreate()
work(spark)
spark.stop()
""",
}
# Whatever a JVM has to say about an archive, no program prints it.
_SILENT = "-Xlog:disable -Xlog:all=error:stderr"


def options() -> dict[str, str]:
    """The environment with which JVMs read the archives, as soon as these are there."""
    attached, stock = path("attached"), path("stock")
    if attached is None or stock is None:
        return {}
    drivers = f'{QUICK_JAVA} "-XX:SharedArchiveFile={attached}" {_SILENT}'
    others = f"{QUICK_JAVA} -XX:SharedArchiveFile={stock} {_SILENT}"
    # Quotes inside quotes are beyond spark-submit.
    return quick_jvms(drivers, QUICK_JAVA if " " in str(stock) else others)


def path(kind: str) -> Path | None:
    """Where the archive for this state of the bridge, Spark and Java will be; None if one is missing."""
    try:
        planned, java = plan_build(), find_java()
    except BadInputError:
        return None
    state = (planned.jar_name, str(planned.spark.home), str(java.resolve()), java.stat().st_mtime_ns)
    return cache_dir() / f"{_family(kind, planned.spark.home)}{_digest(*state, QUICK_JAVA)}.jsa"


def _family(kind: str, spark: Path) -> str:
    """How the names of this checkout's archives of this kind begin; each Spark has its own."""
    return f"tests-{kind}-{_digest(Path(__file__), spark)}-"


def _digest(*state: object) -> str:
    return hashlib.sha256(repr(state).encode()).hexdigest()[:16]


def write(kind: str, archive: Path) -> None:
    """Write it, and remove those of earlier states."""
    build()  # also makes the folder
    with tempfile.TemporaryDirectory(dir=archive.parent, ignore_cleanup_errors=True) as folder:
        made = Path(folder) / archive.name
        java = f"{QUICK_JAVA} -XX:ArchiveClassesAtExit={made} {_SILENT}"
        # The JVM ends, and writes the archive, after the program.
        with subprocess.Popen(
            [sys.executable, "-c", _PROGRAMS[kind]],
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
            family, _, _ = archive.name.rpartition("-")
            for earlier in archive.parent.glob(f"{family}-*.jsa"):
                earlier.unlink(missing_ok=True)
            os.replace(made, archive)


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    for kind in _PROGRAMS:
        archive = path(kind)
        if archive is not None and not archive.is_file():
            write(kind, archive)


if __name__ == "__main__":
    main()
