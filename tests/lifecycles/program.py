"""Compiles and runs the simulated lifecycles (the Scala files beside this one)."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from spark_sched.bridge import cache_dir, find_spark
from spark_sched.bridge.compiler import compile_bridge, plan_build
from spark_sched.policies import kind_of

_SOURCES = Path(__file__).parent
_MAIN = "org.apache.spark.scheduler.sparksched.lifecycles.Program"
_ROUND = "ROUND "
_SMALL = {"firstStep": "20ms", "window": "10s"}
#: In so short a run optimising costs more than it gains, and so do several threads for a small heap.
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def jar() -> Path:
    """A jar with the bridge and the lifecycles in it, compiled once per state of the sources."""
    bridge = plan_build()
    scala, services = tuple(sorted(_SOURCES.glob("*.scala"))), _SOURCES / "services"
    digest = hashlib.sha256(bridge.source_hash.encode())
    for path in (*scala, services):
        digest.update(path.read_bytes())
    resources = tuple(
        (services if name.startswith("META-INF/services/") else path, name) for path, name in bridge.resources
    )
    build = dataclasses.replace(
        bridge, scala=bridge.scala + scala, resources=resources, source_hash=digest.hexdigest()[:16]
    )
    target = cache_dir() / f"lifecycles-{build.jar_name}"
    if not target.is_file():
        compile_bridge(build, target)
    return target


def _options(policies: Sequence[str]) -> Iterator[str]:
    """Options that fit the policies to jobs of milliseconds."""
    for policy in policies:
        for option in kind_of(policy).options.declared:
            if option.name in _SMALL:
                yield from ("--conf", f"{option.key(policy).name}={_SMALL[option.name]}")


def run(seed: int, count: int, policies: Sequence[str]) -> list[dict[str, Any]]:
    """What became of ``count`` lifecycles under each policy: two rounds of half of them each."""
    timeout_s = 1800.0 + count * len(policies)
    compiled = str(jar())
    command = [str(find_spark().home / "bin" / "spark-submit"), "--class", _MAIN]
    command += ["--driver-java-options", _JAVA_OPTIONS]
    # The scheduler's packages must have one class loader.
    command += ["--driver-class-path", compiled, "--driver-memory", "1g", *_options(policies), compiled]
    command += [str(seed), str(count), sys.executable, ",".join(policies)]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    if done.returncode != 0:
        raise AssertionError(f"exit status {done.returncode}:\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}")
    lines = (line for line in done.stdout.splitlines() if line.startswith(_ROUND))
    return [json.loads(line.removeprefix(_ROUND)) for line in lines]
