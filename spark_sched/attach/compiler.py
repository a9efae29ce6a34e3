"""From ``jvm-bridge/`` to a jar, with the Scala compiler that Spark itself carries.

Nothing but the standard library is imported here: the wheel build uses this module too.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import subprocess
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from spark_sched.attach.spark import SparkInstall, find_java, find_spark, java_version
from spark_sched.errors import BadInputError

_PACKAGE = Path(__file__).parents[1]
# In a checkout the sources are beside the package, in an installed wheel inside it.
_SOURCE_PLACES = (_PACKAGE.parent / "jvm-bridge", _PACKAGE / "_jvm")
_LINES = "lines.json"
_LINKS = "org.apache.spark.scheduler.sparksched.SparkLinks"
_HASH_DIGITS = 16
_RELEASE = re.compile(r"\d+")
_OLDEST_ZIP_TIME = (1980, 1, 1, 0, 0, 0)


class BridgeError(RuntimeError):
    """The bridge could not be compiled; the message contains the compiler's output."""


@dataclass(frozen=True)
class Build:
    """What to compile: for which Spark, and files as (path, name inside its source root).

    ``newest`` is the newest release of Spark's line that was tried.
    """

    spark: SparkInstall
    scala: tuple[Path, ...]
    resources: tuple[tuple[Path, str], ...]
    source_hash: str
    newest: str

    @property
    def jar_name(self) -> str:
        """File name of the jar; equal names mean equal contents. A vendor's Spark may have the version of a
        release, but not its jars."""
        digest = hashlib.sha256(self.source_hash.encode())
        for jar in sorted(self.spark.jars.glob("spark-*.jar")):
            digest.update(f"\n{jar.name} {jar.stat().st_size}".encode())
        return f"spark-sched-bridge_{self.spark.version}_{digest.hexdigest()[:_HASH_DIGITS]}.jar"

    @property
    def line_jar_name(self) -> str:
        """File name of a jar for all releases of the line, as wheels have it."""
        return f"spark-sched-bridge_{self.spark.line}_{self.spark.scala}_{self.source_hash}.jar"

    @property
    def is_tried_release(self) -> bool:
        """Whether a jar of the line fits. Patch versions do not differ; a vendor's build may, and so may a
        patch version that is newer than those that were tried."""
        patch, newest = (
            _RELEASE.fullmatch(version.removeprefix(f"{self.spark.line}."))
            for version in (self.spark.version, self.newest)
        )
        return patch is not None and newest is not None and int(patch[0]) <= int(newest[0])

    def require_tried(self) -> None:
        """Raise BadInputError unless a jar for this Spark can be one for all releases of its line."""
        if not self.is_tried_release:
            raise BadInputError(
                f"Spark {self.spark.version} at {str(self.spark.home)!r} is no release of line "
                f"{self.spark.line} that was tried, and a wheel's bridge is for all: use Spark {self.newest}"
            )


def plan_build(
    spark_home: Path | None = None, sources: Path | None = None, line: SparkLine | None = None
) -> Build:
    """The files to compile for this Spark: its line's, or those of the given line. Starts no process.

    Raises BadInputError if there is no Spark, no source, or no shim for Spark's line.
    """
    spark = find_spark(spark_home)
    root = sources or _sources()
    lines = {each.name: each for each in spark_lines(root)}
    chosen = line or lines.get(spark.line)
    if chosen is None:
        newest = list(lines)[-1]
        raise BadInputError(
            f"Spark {spark.version} at {str(spark.home)!r} is not supported: "
            f"use a Spark of line {' or '.join(lines)} (`pip install 'pyspark~={newest}.0'`)"
        )
    if spark.scala != chosen.scala_line:
        raise BadInputError(
            f"Spark {spark.version} at {str(spark.home)!r} is built for Scala {spark.scala}, but of its "
            f"line only Scala {chosen.scala_line} is supported: use such a Spark"
        )
    modules = [root / folder / "src" / "main" for folder in chosen.folders]
    scala = tuple(path for module in modules for path in sorted((module / "scala").rglob("*.scala")))
    resources = tuple(
        (path, path.relative_to(module / "resources").as_posix())
        for module in modules
        for path in sorted((module / "resources").rglob("*"))
        if path.is_file()
    )
    digest = hashlib.sha256()
    for path in (*scala, *(path for path, _ in resources)):
        content = path.read_bytes()
        digest.update(f"\n{path.relative_to(root).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return Build(spark, scala, resources, digest.hexdigest()[:_HASH_DIGITS], chosen.newest)


@dataclass(frozen=True)
class SparkLine:
    """A line of Spark that the bridge is compiled for.

    Attributes:
        name: ``4.3``.
        scala: version of its Scala compiler.
        newest: its newest version when the line was last tried.
        folders: of ``jvm-bridge``, with the sources for this line.
    """

    name: str
    scala: str
    newest: str
    folders: tuple[str, ...]

    @property
    def scala_line(self) -> str:
        """``2.13`` of ``2.13.18``."""
        return self.scala.rpartition(".")[0]


def spark_lines(root: Path | None = None) -> list[SparkLine]:
    """The lines in ``lines.json`` under the sources, oldest first."""
    entries = json.loads(((root or _sources()) / _LINES).read_text(encoding="utf-8"))
    return [SparkLine(e["line"], e["scala"], e["newest"], tuple(e["folders"])) for e in entries]


def _sources() -> Path:
    for place in _SOURCE_PLACES:
        if (place / _LINES).is_file():
            return place
    raise BadInputError(f"the bridge's sources are missing from {_SOURCE_PLACES[1]}: reinstall spark-sched")


def compile_bridge(build: Build, jar: Path) -> Path:
    """Compile to ``jar``, which is written atomically; returns it.

    Raises BadInputError if there is no usable Java, BridgeError if the compiler refuses the sources, OSError
    if the jar or its classes cannot be written.
    """
    java = find_java()
    java_version(java)
    jar.parent.mkdir(parents=True, exist_ok=True)
    # Beside the jar, so that the final move stays within one file system.
    with tempfile.TemporaryDirectory(prefix=".building-", dir=jar.parent) as scratch:
        classes = Path(scratch) / "classes"
        classes.mkdir()
        command = [str(java), "-Xss8m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        command += ["-cp", f"{build.spark.jars}{os.sep}*", "scala.tools.nsc.Main", "-usejavacp"]
        # Without a class path of its own the compiler takes folders of the working directory for packages:
        # `/sys` then hides Scala's `sys` where a container starts in `/`.
        command += ["-classpath", str(classes)]
        command += ["-nobootcp", "-encoding", "UTF-8", "-d", str(classes), *map(str, build.scala)]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
        )
        if done.returncode != 0:
            said = (done.stdout + done.stderr).strip()
            full = os.strerror(errno.ENOSPC)
            if full in said:
                raise OSError(errno.ENOSPC, full, str(jar.parent))
            raise BridgeError(
                f"the Scala compiler of Spark {build.spark.version} refused the bridge's sources "
                f"(exit status {done.returncode}):\n{said}"
            )
        _list_links(java, build.spark, classes)
        packed = Path(scratch) / jar.name
        files = [path for path in classes.rglob("*") if path.is_file()]
        entries = {path.relative_to(classes).as_posix(): path for path in files}
        pack({**entries, **{name: path for path, name in build.resources}}, packed)
        os.replace(packed, jar)
    return jar


def _list_links(java: Path, spark: SparkInstall, classes: Path) -> None:
    """Add the list of what the classes need of Spark, by which a bridge recognises another Spark."""
    if not (classes / f"{_LINKS.replace('.', '/')}.class").is_file():
        return
    command = [str(java), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    command += ["-cp", f"{classes}{os.pathsep}{spark.jars}{os.sep}*", _LINKS, str(classes), spark.version]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode != 0:
        raise BridgeError(
            f"the bridge's needs of Spark {spark.version} cannot be listed:\n{done.stderr.strip()}"
        )


def pack(entries: Mapping[str, Path], jar: Path) -> None:
    """Write a jar of files by their names in it; its bytes depend on nothing else, such as times."""
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        manifest = "Manifest-Version: 1.0\nCreated-By: spark-sched\n\n"
        archive.writestr(zipfile.ZipInfo("META-INF/MANIFEST.MF", _OLDEST_ZIP_TIME), manifest)
        for name, path in sorted(entries.items()):
            info = zipfile.ZipInfo(name, _OLDEST_ZIP_TIME)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, path.read_bytes())
