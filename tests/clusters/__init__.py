"""Cluster managers on loopback for tests: Hadoop's own YARN, and a Kubernetes API with a kubelet.

A folder per manager holds a Java program and a ``pom.xml`` with the jars that it needs. Maven fetches them
the first time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import filelock

from spark_sched.attach import cache_dir, find_java
from spark_sched.errors import BadInputError
from tests.integration.processes import processes_naming, until

_HERE = Path(__file__).parent


def class_path(manager: str) -> str:
    """The class path of a manager's program; jars and classes are kept in the cache directory.

    Raises BadInputError if Maven is not installed, or cannot have a jar.
    """
    sources = [_HERE / manager / "pom.xml", *sorted((_HERE / manager).glob("*.java"))]
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    folder = cache_dir() / "clusters" / f"{manager}-{digest}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Several processes would fetch hundreds of jars at once.
    with filelock.FileLock(f"{folder}.lock"):
        if not folder.is_dir():
            _build(manager, sources, folder)
    return f"{folder}/classes:{folder}/lib/*"


def _build(manager: str, sources: list[Path], folder: Path) -> None:
    if shutil.which("mvn") is None:
        raise BadInputError(f"the {manager} cluster needs Maven, which is not installed")
    with tempfile.TemporaryDirectory(prefix=".building-", dir=folder.parent) as scratch:
        made = Path(scratch) / "made"
        lib, classes = made / "lib", made / "classes"
        copy = ["mvn", "-q", "-B", "-f", str(sources[0]), "dependency:copy-dependencies"]
        _run(manager, [*copy, f"-DoutputDirectory={lib}", f"-DbuildDirectory={scratch}/target"])
        java = [str(source) for source in sources[1:]]
        _run(manager, ["javac", "-nowarn", "-cp", f"{lib}/*", "-d", str(classes), *java])
        made.rename(folder)


def _run(manager: str, command: list[str]) -> None:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, env=dict(os.environ)
    )
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip().splitlines() or ["no message"]
        raise BadInputError(f"the {manager} cluster cannot be built: {command[0]} says {said[0]}")


@contextmanager
def running(
    words: Sequence[str | Path], directory: Path, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[str]]:
    """A manager's Java program, which answers on its output and ends when its input does.

    ``directory/log`` is its log. Afterwards no process is left that names the directory.
    """
    with open(directory / "log", "w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [find_java(), *words],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            # Not interrupted by the terminal: when this process ends, so does its input.
            start_new_session=True,
        )
        try:
            yield process
        finally:
            _end(process, directory)


def answer(process: subprocess.Popen[str]) -> str:
    """The next line that it prints."""
    assert process.stdout is not None
    return process.stdout.readline().rstrip("\n")


def _end(process: subprocess.Popen[str], directory: Path) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    try:
        process.wait(timeout=120)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    process.stdout.close()
    # Containers of a cluster that did not end by itself.
    for pid in processes_naming(str(directory)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert until(lambda: not processes_naming(str(directory)))
