"""Publishes the bridge to a folder that is a Maven repository: an artifact for each line of Spark.

    python tools/publish.py FOLDER [--spark-home HOME]… [--all-lines] [--gpg-key KEY]
    python tools/publish.py FOLDER --wheel [--spark-home HOME]…

A ``HOME`` is a Spark of the line to compile for; without one it is the installed pyspark. ``--all-lines``
compiles for each line in ``jvm-bridge/lines.json``: for the Spark that is given, else for the newest that was
tried, which the first run downloads (about 450 MB each) unless it is installed. An artifact
``spark-sched-bridge_LINE_SCALA`` has its jar, which carries the package's wheel for the planner, sources,
POM, a bill of materials (CycloneDX), checksums and, with a key, signatures. The version is the package's.
What is there already with other contents is refused, since those who use a version keep it. Spark reads the
folder as ``--repositories file:///FOLDER``.

With ``--wheel`` the folder gets the wheel for PyPI instead, with a compiled bridge for each line.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import uuid
import zipfile
from collections.abc import Iterable
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from spark_sched import __version__  # noqa: E402 - from this checkout
from spark_sched.attach import BridgeError, build  # noqa: E402
from spark_sched.attach.compiler import Build, pack, plan_build, spark_lines  # noqa: E402
from spark_sched.errors import BadInputError  # noqa: E402
from tests.spark_lines import home  # noqa: E402

GROUP = "io.github.spark-sched"
#: Name in the jar of the package's wheel, of which a driver's Python without the package runs the planner.
PLANNER = "spark-sched-planner.whl"
DESCRIPTION = "Keeps jobs of one Apache Spark application fair, deadline-aware and isolated from each other"
_CHECKSUMS = ("md5", "sha1", "sha256", "sha512")
_POM = """<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>{group}</groupId>
  <artifactId>{artifact}</artifactId>
  <version>{version}</version>
  <packaging>jar</packaging>
  <name>spark_sched for Spark {line}, Scala {scala}</name>
  <description>{description}</description>
  <licenses>
    <license>
      <name>Apache-2.0</name>
      <url>https://www.apache.org/licenses/LICENSE-2.0.txt</url>
    </license>
  </licenses>
</project>
"""


def artifact_of(planned: Build) -> str:
    """Its Maven id, such as ``spark-sched-bridge_4.3_2.13``."""
    return f"spark-sched-bridge_{planned.spark.line}_{planned.spark.scala}"


def publish(planned: Build, repository: Path, gpg_key: str | None = None) -> Path:
    """Add the artifact of this build to the repository; returns the folder of its version.

    Raises BadInputError if this version is there with other contents, BridgeError if it cannot be compiled.
    """
    artifact = artifact_of(planned)
    folder = repository.joinpath(*GROUP.split("."), artifact, __version__)
    with tempfile.TemporaryDirectory(prefix="publish-") as scratch:
        made = Path(scratch)
        name = f"{artifact}-{__version__}"
        jar = made / f"{name}.jar"
        shutil.copyfile(build(planned.spark.home), jar)
        carried = planner_wheel()
        _add(jar, PLANNER, carried)
        scala = {path.as_posix().partition("/src/main/scala/")[2]: path for path in planned.scala}
        pack({**scala, **{name: path for path, name in planned.resources}}, made / f"{name}-sources.jar")
        pom = _POM.format(
            group=GROUP, artifact=artifact, version=__version__, line=planned.spark.line,
            scala=planned.spark.scala, description=escape(DESCRIPTION),
        )  # fmt: skip
        (made / f"{name}.pom").write_text(pom, encoding="utf-8")
        (made / f"{name}-cyclonedx.json").write_text(
            bill_of_materials(artifact, jar, carried), encoding="utf-8"
        )
        files = sorted(made.iterdir())
        _refuse_other_contents(files, folder)
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            if gpg_key is not None:
                _sign(file, gpg_key)
            for each in (file, file.with_name(f"{file.name}.asc")):
                if each.exists():
                    _write(folder / each.name, each.read_bytes())
    return folder


def wheel(planned: Iterable[Build], folder: Path) -> Path:
    """Build the package's wheel into the folder, with the bridge of each of these builds.

    Raises BridgeError if one cannot be compiled, or the wheel cannot be built, and BadInputError as
    `Build.require_tried` does.
    """
    with tempfile.TemporaryDirectory(prefix="wheel-") as scratch:
        jars, made = Path(scratch, "jars"), Path(scratch, "made")
        jars.mkdir()
        for each in planned:
            each.require_tried()
            shutil.copyfile(build(each.spark.home), jars / each.line_jar_name)
        _hatch(made, SPARK_SCHED_WITH_BRIDGE=str(jars))
        (file,) = made.iterdir()
        folder.mkdir(parents=True, exist_ok=True)
        return Path(shutil.move(file, folder / file.name))


def _hatch(folder: Path, **variables: str) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise BridgeError(f"hatchling cannot build the wheel:\n{(done.stdout + done.stderr).strip()}")


def all_lines(homes: Iterable[Path]) -> list[Build]:
    """What to compile for each line: for the Spark that is given, else the newest that was tried.

    Raises BadInputError if pip cannot download a Spark.
    """
    found = {each.spark.line: each for each in map(plan_build, homes)}
    for line in spark_lines():
        if line.name not in found:
            found[line.name] = plan_build(home(line.newest))
    return [found[line.name] for line in spark_lines()]


@functools.cache
def planner_wheel() -> bytes:
    """The package's wheel without compiled bridges; of equal sources its bytes are equal."""
    with tempfile.TemporaryDirectory(prefix="planner-") as scratch:
        _hatch(Path(scratch), SPARK_SCHED_WITH_BRIDGE="0")
        (file,) = Path(scratch).glob("*.whl")
        return file.read_bytes()


def bill_of_materials(artifact: str, jar: Path, carried: bytes) -> str:
    """The jar and the wheel in it. It brings nothing else: Spark is there already. Deterministic."""
    digest = hashlib.sha256(jar.read_bytes()).hexdigest()
    url = f"pkg:maven/{GROUP}/{artifact}@{__version__}?type=jar"
    component = {"group": GROUP, **_component(artifact, url, digest)}
    package = f"pkg:pypi/spark-sched@{__version__}"
    wheel_inside = _component("spark-sched", package, hashlib.sha256(carried).hexdigest())
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, url + digest)}",
        "version": 1,
        "metadata": {"component": component},
        "components": [wheel_inside],
        "dependencies": [{"ref": url, "dependsOn": [package]}, {"ref": package, "dependsOn": []}],
    }
    return json.dumps(document, indent=2) + "\n"


def _component(name: str, url: str, digest: str) -> dict[str, object]:
    return {
        "type": "library",
        "bom-ref": url,
        "name": name,
        "version": __version__,
        "purl": url,
        "licenses": [{"license": {"id": "Apache-2.0"}}],
        "hashes": [{"alg": "SHA-256", "content": digest}],
    }


def _add(jar: Path, name: str, content: bytes) -> None:
    """A wheel is compressed already."""
    with zipfile.ZipFile(jar, "a") as archive:
        archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), content)


def _refuse_other_contents(files: Iterable[Path], folder: Path) -> None:
    for file in files:
        there = folder / file.name
        if there.exists() and there.read_bytes() != file.read_bytes():
            raise BadInputError(
                f"{there} is there with other contents: give another folder, or raise the version "
                f"{__version__} in spark_sched/__init__.py"
            )


def _write(path: Path, content: bytes) -> None:
    """The file and its checksums; nobody sees a part of one."""
    written = {path.name: content}
    written |= {f"{path.name}.{each}": hashlib.new(each, content).hexdigest().encode() for each in _CHECKSUMS}
    for name, data in written.items():
        part = path.with_name(f".{name}.part")
        part.write_bytes(data)
        part.replace(path.with_name(name))


def _sign(file: Path, key: str) -> None:
    command = ["gpg", "--batch", "--yes", "--local-user", key, "--armor", "--detach-sign", str(file)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise BadInputError("--gpg-key needs gpg, which is not installed") from None
    if done.returncode != 0:
        raise BadInputError(f"gpg cannot sign with {key!r}: {done.stderr.strip().splitlines()[-1]}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--spark-home", type=Path, action="append", default=[], metavar="HOME")
    parser.add_argument("--all-lines", action="store_true")
    parser.add_argument("--wheel", action="store_true")
    parser.add_argument("--gpg-key", metavar="KEY")
    given = parser.parse_args()
    folder = given.folder.absolute()
    try:
        if given.wheel:
            print(wheel(all_lines(given.spark_home), folder))
            return
        for planned in (
            all_lines(given.spark_home) if given.all_lines else map(plan_build, given.spark_home or [None])
        ):
            publish(planned, folder, given.gpg_key)
            print(f"{GROUP}:{artifact_of(planned)}:{__version__}")
    except (BadInputError, BridgeError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, BadInputError) else 1)


if __name__ == "__main__":
    main()
