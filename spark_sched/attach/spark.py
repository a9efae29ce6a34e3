"""The Spark and the Java this process would use."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from spark_sched.errors import BadInputError

MIN_JAVA = 17

_CORE_JAR = re.compile(r"spark-core_(\d+\.\d+)-(\d+\.\d+)\.(.+)\.jar")
_PYSPARK_VERSION = re.compile(r"""^__version__[^=]*=\s*["']([^"']+)""", re.MULTILINE)
_JAVA_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


@dataclass(frozen=True)
class SparkInstall:
    """An unpacked Spark: its directory, version (``4.3.0``), line (``4.3``) and Scala line (``2.13``).

    ``source`` says what named the directory: an argument, ``SPARK_HOME`` or the installed pyspark.
    """

    home: Path
    version: str
    line: str
    scala: str
    source: str = "spark_home"

    @property
    def jars(self) -> Path:
        """Directory of Spark's own jars, the Scala compiler among them."""
        return self.home / "jars"


def find_spark(spark_home: Path | None = None) -> SparkInstall:
    """The Spark at ``spark_home``, else at ``SPARK_HOME``, else the one of this Python's pyspark, else the
    one whose ``spark-submit`` is on PATH.

    Raises BadInputError naming the place that was tried and the remedy.
    """
    if spark_home is not None:
        home, source = spark_home, "spark_home"
    elif os.environ.get("SPARK_HOME"):
        home, source = Path(os.environ["SPARK_HOME"]), "SPARK_HOME"
    else:
        home, source = _spark_around()
    jars = home / "jars"
    names = sorted(path.name for path in jars.glob("spark-core_*.jar")) if jars.is_dir() else []
    found = next((match for match in map(_CORE_JAR.fullmatch, names) if match), None)
    if found is None:
        raise BadInputError(
            f"{source} is {str(home)!r}, which holds no jars/spark-core_*.jar: point SPARK_HOME at a whole "
            "Spark, or unset it to use the installed pyspark"
        )
    return SparkInstall(home, f"{found[2]}.{found[3]}", found[2], found[1], source)


def _spark_around() -> tuple[Path, str]:
    spec = find_spec("pyspark")
    if spec is not None and spec.origin is not None:
        package = Path(spec.origin).parent
        # A Spark of its own has the package in its folder python.
        whole = [folder for folder in (package, *package.parents[1:3]) if (folder / "jars").is_dir()]
        return (whole or [package])[0], "the installed pyspark"
    submit = shutil.which("spark-submit")
    # pip puts a program of this name beside Python, away from its Spark.
    if submit is not None and (Path(submit).resolve().parents[1] / "jars").is_dir():
        return Path(submit).resolve().parents[1], "the Spark of the spark-submit on PATH"
    raise BadInputError(
        "no Spark was found (SPARK_HOME unset, no pyspark, no spark-submit on PATH): set SPARK_HOME, or run "
        "pip install 'spark-sched[spark]'"
    )


def pyspark_version() -> str | None:
    """The version of the pyspark that this process imports, or has imported; None without one."""
    if "pyspark" in sys.modules:
        return str(sys.modules["pyspark"].__version__)
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    # By the loader: spark-submit puts the package into the search path as an archive.
    text: bytes = spec.loader.get_data(str(Path(spec.origin).with_name("version.py")))  # type: ignore[union-attr]
    found = _PYSPARK_VERSION.search(text.decode())
    return found[1] if found else None


def check_same_version(spark: SparkInstall) -> None:
    """Raise BadInputError where pyspark of this Python would drive a JVM of another version."""
    python_side = pyspark_version()
    if python_side is not None and python_side != spark.version:
        raise BadInputError(
            f"{spark.source} is {str(spark.home)!r}, which is Spark {spark.version}, but pyspark of this "
            f"Python is {python_side}: unset SPARK_HOME or install pyspark=={spark.version}"
        )


def find_java() -> Path:
    """The Java of ``JAVA_HOME``, else the one on PATH, as Spark's own scripts choose it.

    Raises BadInputError if there is none.
    """
    if java_home := os.environ.get("JAVA_HOME"):
        java = Path(java_home) / "bin" / "java"
        if not os.access(java, os.X_OK):
            raise BadInputError(
                f"JAVA_HOME is {java_home!r}, which holds no bin/java: point it at a Java {MIN_JAVA} or newer"
            )
        return java
    found = shutil.which("java")
    if found is None:
        raise BadInputError(
            f"no Java was found (JAVA_HOME unset, no java on PATH): install Java {MIN_JAVA} or newer"
        )
    return Path(found)


def java_version(java: Path) -> int:
    """Major version of a Java, 17 for 17.0.15. Raises BadInputError if it does not run or is too old."""
    try:
        # An interpreter that hangs here would hang every later step too.
        report = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise BadInputError(
            f"{java} does not run ({error}): install Java {MIN_JAVA} or newer or correct JAVA_HOME"
        ) from None
    found = _JAVA_VERSION.search(report.stderr + report.stdout)
    if found is None or int(found[1]) < MIN_JAVA:
        version = found[1] if found else "unknown"
        raise BadInputError(
            f"{java} is Java {version}, but Spark needs {MIN_JAVA} or newer: set JAVA_HOME to a newer one"
        )
    return int(found[1])
