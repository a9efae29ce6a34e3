"""Compiles and runs the simulated lifecycles (the Scala files beside this one)."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from filelock import FileLock

from spark_sched.attach import build, cache_dir, find_java, find_spark
from spark_sched.policies import kind_of

_SOURCES = Path(__file__).parent
_SERVICES = "META-INF/services/org.apache.spark.scheduler.ExternalClusterManager"
_MAIN = "org.apache.spark.scheduler.sparksched.lifecycles.Program"
_ROUND = "ROUND "
_SMALL = {"firstStep": "20ms", "window": "10s"}
#: In so short a run optimising costs more than it gains, and so do several threads for a small heap.
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def jars() -> tuple[Path, Path]:
    """The bridge's jar, and one of the lifecycles, compiled against it once per state of both."""
    bridge = build()
    scala, services = sorted(_SOURCES.glob("*.scala")), _SOURCES / "services"
    digest = hashlib.sha256()
    for path in (*scala, services):
        digest.update(path.read_bytes())
    target = cache_dir() / f"lifecycles-{digest.hexdigest()[:16]}-{bridge.name}"
    target.parent.mkdir(parents=True, exist_ok=True)
    # Another process of the tests may want it at the same time.
    with FileLock(f"{target}.lock"):
        if not target.is_file():
            _compile(scala, bridge, services, target)
    return bridge, target


def _compile(scala: Sequence[Path], bridge: Path, services: Path, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / target.name
        command = [str(find_java()), "-Xss8m", *_JAVA_OPTIONS.split(), "-cp", f"{find_spark().jars}{os.sep}*"]
        command += ["scala.tools.nsc.Main", "-usejavacp", "-classpath", str(bridge), "-nobootcp"]
        command += ["-encoding", "UTF-8", "-d", str(made), *map(str, scala)]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        with zipfile.ZipFile(made, "a") as archive:
            archive.write(services, _SERVICES)
        os.replace(made, target)


def _options(policies: Sequence[str]) -> Iterator[str]:
    """Options that fit the policies to jobs of milliseconds."""
    for policy in policies:
        for option in kind_of(policy).options.declared:
            if option.name in _SMALL:
                yield from ("--conf", f"{option.key(policy).name}={_SMALL[option.name]}")


def run(
    seed: int, count: int, policies: Sequence[str], ledger_steps: Path | None = None
) -> list[dict[str, Any]]:
    """What became of ``count`` lifecycles under each policy, a round each; the folder ``ledger_steps`` gets a
    recording of each round's ledger."""
    timeout_s = 1800.0 + count * len(policies)
    bridge, compiled = map(str, jars())
    command = [str(find_spark().home / "bin" / "spark-submit"), "--class", _MAIN]
    command += ["--driver-java-options", _JAVA_OPTIONS]
    # The scheduler's packages must have one class loader.
    command += ["--driver-class-path", f"{bridge}{os.pathsep}{compiled}", "--driver-memory", "1g"]
    if ledger_steps is not None:
        command += ["--conf", f"spark.testing.schedLedgerSteps={ledger_steps}"]
    command += [*_options(policies), compiled]
    command += [str(seed), str(count), sys.executable, ",".join(policies)]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    if done.returncode != 0:
        raise AssertionError(f"exit status {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-60000:]}")
    lines = (line for line in done.stdout.splitlines() if line.startswith(_ROUND))
    return [json.loads(line.removeprefix(_ROUND)) for line in lines]
