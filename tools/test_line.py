"""Runs tests on a line of Spark other than the installed pyspark's.

``python tools/test_line.py 3.5`` runs ``pytest tests/integration -n 2`` in an environment of its own that has
the line's newest pyspark in place of this environment's. The first run makes the environment in the cache
directory, which takes minutes and 2 GB. Arguments after the line replace those of pytest:

    python tools/test_line.py 3.5 tests/integration -m "not slow"
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from spark_sched.attach import cache_dir  # noqa: E402 - from this checkout
from spark_sched.errors import BadInputError  # noqa: E402
from tests.spark_lines import newest  # noqa: E402

_ALL = ("tests/integration", "-n", "2")
# Each of them would have programs find another Spark, or other packages, than the environment's.
_OTHER_SPARKS = (
    "SPARK_HOME",
    "PYTHONPATH",
    "PYTHONHOME",
    "VIRTUAL_ENV",
    "PYSPARK_PYTHON",
    "PYSPARK_DRIVER_PYTHON",
)


def environment(version: str) -> Path:
    """The folder of the environment with this pyspark and this checkout; what is missing is installed.

    Raises BadInputError if pip cannot install it.
    """
    # Other checkouts may share the cache directory.
    folder = cache_dir() / "lines" / f"tests-{version}-{_digest(str(ROOT).encode())}"
    installed = folder / "installed"
    wanted = _digest((ROOT / "pyproject.toml").read_bytes())
    if not installed.is_file() or installed.read_text() != wanted:
        venv.create(folder, with_pip=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        done = subprocess.run([*pip, "-e", f"{ROOT}[dev]", f"pyspark=={version}"], env=_clean(), check=False)
        if done.returncode != 0:
            raise BadInputError(f"pip cannot install pyspark {version} and this checkout in {folder}")
        installed.write_text(wanted)
    return folder


def _digest(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:8]


def _clean() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _OTHER_SPARKS}


def main() -> None:
    try:
        if len(sys.argv) < 2:
            raise BadInputError("no line is given; name one, as in: python tools/test_line.py 3.5")
        programs = environment(newest(sys.argv[1])) / "bin"
    except BadInputError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
    os.chdir(ROOT)
    variables = {**_clean(), "PATH": os.pathsep.join([str(programs), os.environ.get("PATH", os.defpath)])}
    python = str(programs / "python")
    # On a crowded machine the first tests would wait for the compiler for longer than they may.
    subprocess.run([python, "-m", "tests.class_archive"], env=variables, check=False)
    pytest = [python, "-m", "pytest", *(sys.argv[2:] or _ALL)]
    os.execve(pytest[0], pytest, variables)


if __name__ == "__main__":
    main()
