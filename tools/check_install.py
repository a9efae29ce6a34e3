"""Installs the package on the oldest and the newest promised Python of this machine, and runs it there.

    python tools/check_install.py [FOLDER]

Each gets an environment of its own in the folder, a plain `pip install .`, and then `spark-sched --help` and
a simulation. Then the lab is deleted there, and `spark-sched doctor` runs a job on the Spark of the Python
that runs this: driver and planner need no module of the lab, no pyspark of their own, and no SQLAlchemy.
Interpreters are looked for on the search path and among pyenv's.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]

#: A moment's work for the simulator, which imports most of the package.
SIMULATION = """
from spark_sched_lab.simulator import ClusterSpec, JobSpec, StageSpec, simulate, uniform_nodes

jobs = [JobSpec(f"job-{n}", n * 1_000, (StageSpec([1_000] * 4),)) for n in range(4)]
for policy in ("reservation", "slearn", "3sigma"):
    result = simulate(ClusterSpec(uniform_nodes(2, 2)), jobs, policy)
    assert len(list(result.rows())) == 4
"""

#: The lab goes, and every module that is left can still be imported. The papers' figures were never there.
WITHOUT_LAB = """
import importlib, importlib.util, pkgutil, shutil
from pathlib import Path
import spark_sched, spark_sched_lab

for name in ("benchmarks", "pyspark", "sqlalchemy"):
    assert importlib.util.find_spec(name) is None, f"a plain installation has {name}"
shutil.rmtree(Path(spark_sched_lab.__file__).parent)
names = [found.name for found in pkgutil.walk_packages(spark_sched.__path__, "spark_sched.")]
assert len(names) > 100, names
for name in names:
    # A history needs its extra, and a program for spark-submit runs where Spark is.
    if not name.startswith("spark_sched.history.") and not name.endswith(("__main__", "_doctor_job")):
        importlib.import_module(name)
"""


def oldest_promised(pyproject: str) -> tuple[int, int]:
    """The Python from which on the package can be installed."""
    promise = tomllib.loads(pyproject)["project"]["requires-python"]
    found = re.fullmatch(r">=(\d+)\.(\d+)", promise)
    if found is None:
        raise SystemExit(f"requires-python is {promise!r}: this tool reads >=MAJOR.MINOR")
    return int(found[1]), int(found[2])


def interpreters() -> dict[tuple[int, int], str]:
    """Python programs by version; of one version the first on the search path."""
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    folders += sorted(pyenv.glob("versions/*/bin"))
    found: dict[tuple[int, int], str] = {}
    for folder in folders:
        for program in sorted(folder.glob("python3.*")):
            name = re.fullmatch(r"python3\.(\d+)", program.name)
            # A program of pyenv's shims exists also where no version of it is installed.
            if name and (3, int(name[1])) not in found and _runs(program):
                found[3, int(name[1])] = str(program)
    return found


def _runs(program: Path) -> bool:
    try:
        return subprocess.run([program, "-c", "import venv"], capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def chosen(
    found: Iterable[tuple[int, int]], oldest: tuple[int, int]
) -> tuple[list[tuple[int, int]], list[str]]:
    """The versions to install on, and a sentence for each one that is missing."""
    promised = sorted(version for version in found if version >= oldest)
    skipped = []
    if oldest not in promised:
        skipped.append(f"skipped: Python {_text(oldest)}, the oldest promised one, is not on this machine")
    if not promised or promised[-1] == oldest:
        skipped.append(f"skipped: no Python newer than {_text(oldest)} is on this machine")
    return sorted({*promised[:1], *promised[-1:]}), skipped


def spark_home() -> Path:
    """The Spark of this Python: for the installed package one like a cluster's own."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise SystemExit("this Python has no pyspark: install the extra spark")
    return Path(spec.origin).parent


def check(version: tuple[int, int], program: str, folder: Path) -> None:
    """Install with this Python, and run. Raises CalledProcessError."""
    place = folder / _text(version)
    subprocess.run([program, "-m", "venv", place], check=True)
    # The commands must find this environment's Python, and nothing of the checkout.
    environment = {
        **os.environ,
        "VIRTUAL_ENV": str(place),
        "PATH": f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "SPARK_HOME": str(spark_home()),
    }
    environment.pop("PYTHONPATH", None)
    commands = (
        [place / "bin" / "python", "-m", "pip", "install", "--quiet", ROOT],
        ["spark-sched", "--help"],
        [place / "bin" / "python", "-c", SIMULATION],
        [place / "bin" / "python", "-c", WITHOUT_LAB],
        ["spark-sched", "doctor", "--timeout", "900"],  # other checks keep this machine busy
    )
    for command in commands:
        done = subprocess.run(
            list(map(str, command)), cwd=folder, env=environment, text=True, capture_output=True
        )
        if done.returncode:
            print(done.stdout, done.stderr, sep="\n")
            done.check_returncode()
    print(f"Python {_text(version)}: installed, and it runs")
    shutil.rmtree(place)


def _text(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def main(arguments: list[str]) -> int:
    found = interpreters()
    versions, skipped = chosen(found, oldest_promised((ROOT / "pyproject.toml").read_text()))
    for sentence in skipped:
        print(sentence)
    with tempfile.TemporaryDirectory(dir=arguments[0] if arguments else None) as folder:
        for version in versions:
            try:
                check(version, found[version], Path(folder))
            except subprocess.CalledProcessError as error:
                print(f"Python {_text(version)}: {error}")
                return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
