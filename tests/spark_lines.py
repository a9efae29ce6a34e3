"""Sparks of other lines, unpacked from their packages on PyPI, for tests.

``python -m tests.spark_lines 3.5`` prints the folder with that line's newest pyspark, which it downloads the
first time. Programs that import from it run on that line. `tools/test_line.py` runs the suite on one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import filelock

from spark_sched.attach import cache_dir, find_spark
from spark_sched.attach.compiler import spark_lines
from spark_sched.errors import BadInputError

# What the package's installation moves into the module.
_MOVED = ("bin", "sbin", "jars", "examples", "data", "licenses")


def newest(line: str) -> str:
    """The newest version of the line that was tried. Raises BadInputError for a line that is not listed."""
    listed = {each.name: each.newest for each in spark_lines()}
    if line not in listed:
        raise BadInputError(f"the line is {line!r} but must be one of {', '.join(listed)}")
    return listed[line]


def has_connect() -> bool:
    """Whether the Spark that tests run on has Spark Connect: pyspark 3.5 comes without it."""
    return any(find_spark().jars.glob("spark-connect_*.jar"))


def unpacked(version: str) -> Path:
    """The folder with this pyspark; it is kept in the cache directory.

    Raises BadInputError if pip cannot have the package.
    """
    folder = cache_dir() / "lines" / f"pyspark-{version}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Tests of several processes want the same one at once, and it is 450 MB.
    with filelock.FileLock(f"{folder}.lock"):
        if not folder.is_dir():
            _unpack(version, folder)
    return folder


def _unpack(version: str, folder: Path) -> None:
    # To install it would build a wheel of 400 MB first.
    with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=folder.parent) as scratch:
        download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary=pyspark"]
        done = subprocess.run(
            [*download, f"--dest={scratch}", f"pyspark=={version}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            said = (done.stdout + done.stderr).strip().splitlines() or ["no message"]
            raise BadInputError(f"pip cannot download pyspark {version}: {said[-1]}")
        with tarfile.open(next(Path(scratch).glob("pyspark-*.tar.gz"))) as archive:
            # Python 3.11 has filters from 3.11.4 on.
            archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
            archive.extractall(scratch)
        found = Path(scratch) / f"pyspark-{version}"
        for name in _MOVED:
            if (found / "deps" / name).is_dir():
                (found / "pyspark" / name).symlink_to(Path(os.pardir, "deps", name))
        # YARN takes Python's modules from there.
        (found / "pyspark" / "python" / "lib").symlink_to(Path(os.pardir, os.pardir, "lib"))
        found.rename(folder)


def home(version: str) -> Path:
    """A Spark of this version: the installed one, else an unpacked one, with the errors of `unpacked`."""
    try:
        installed = find_spark()
    except BadInputError:
        return unpacked(version) / "pyspark"
    return installed.home if installed.version == version else unpacked(version) / "pyspark"


def environment(folder: Path) -> dict[str, str]:
    """With which a program imports that pyspark, and runs its Spark."""
    paths = filter(None, [str(folder), os.environ.get("PYTHONPATH")])
    return {"PYTHONPATH": os.pathsep.join(paths), "SPARK_HOME": str(folder / "pyspark")}


def main() -> None:
    try:
        print(unpacked(newest(sys.argv[1])))
    except BadInputError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
