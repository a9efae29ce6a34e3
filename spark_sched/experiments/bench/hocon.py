"""SparkBench's own configuration files (HOCON): what is known here runs, and the rest is named.

A file has applications, each with suites of workloads. Their suites run one after the other on this cluster;
masters, arguments and properties of applications, outputs of results and unknown workloads are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from spark_sched.errors import BadInputError
from spark_sched.experiments.bench.suite import BenchFile, bench_of
from spark_sched.experiments.simulate.fields import Fields, read_text
from spark_sched.workloads.programs import PROGRAMS

__all__ = ["read_hocon"]

_SUITE_KEYS = ("descr", "parallel", "repeat", "workloads", "benchmark-output", "save-mode")


def read_hocon(path: Path) -> tuple[BenchFile, list[str]]:
    """The suites of a file, and a clause for everything that is left out.

    Raises BadInputError if it cannot be read, is no SparkBench file, has no workload that is known here, or
    has a wrong value. Raises ModuleNotFoundError without pyhocon.
    """
    from pyhocon import ConfigFactory
    from pyhocon.exceptions import ConfigException
    from pyparsing import ParseBaseException

    text = read_text(path)
    try:
        found = ConfigFactory.parse_string(text, basedir=str(path.parent)).as_plain_ordered_dict()
    except (ConfigException, ParseBaseException) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadInputError(f"{path} is not a HOCON file ({reason}): fix that line") from None
    root = found.get("spark-bench")
    if not isinstance(root, Mapping) or not _list(root.get("spark-submit-config")):
        raise BadInputError(
            f"{path} has no spark-bench.spark-submit-config: name a configuration of SparkBench"
        )
    left_out: list[str] = []
    suites = list(_suites(root, left_out))
    if not suites:
        raise BadInputError(f"{path} has no workload that is known here: left out are {'; '.join(left_out)}")
    return bench_of(Fields(str(path), "", {"suite": suites}), path.stem), left_out


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [] if value is None else [value]


def _suites(root: Mapping[str, Any], left_out: list[str]) -> Iterator[dict[str, Any]]:
    if root.get("spark-submit-parallel"):
        left_out.append("spark-submit-parallel: applications run one after the other")
    for config in _list(root["spark-submit-config"]):
        for key, value in config.items():
            if key == "suites-parallel" and value:
                left_out.append("suites-parallel: suites run one after the other")
            elif key not in ("suites-parallel", "suites", "workload-suites"):
                left_out.append(f"{key}: the application is this machine's")
        for suite in _list(config.get("workload-suites", config.get("suites"))):
            what = str(suite.get("descr", "a suite"))
            for key in suite:
                if key not in _SUITE_KEYS[:4]:
                    left_out.append(f"{key} of {what!r}" + ("" if key in _SUITE_KEYS else ": unknown"))
            tables = [
                table for row in _list(suite.get("workloads")) for table in _tables(row, what, left_out)
            ]
            if tables:
                yield {
                    "description": what,
                    "repeat": suite.get("repeat", 1),
                    "mode": "parallel" if suite.get("parallel") else "sequence",
                    "workload": tables,
                }


def _tables(row: Mapping[str, Any], suite: str, left_out: list[str]) -> Iterator[dict[str, Any]]:
    """A table for each known name, with the parameters that are known here."""
    for name in _list(row.get("name")):
        program = PROGRAMS.get(str(name).casefold())
        if program is None:
            left_out.append(f"workload {name!r} of {suite!r}")
            continue
        known = {parameter.name for parameter in program.parameters}
        table: dict[str, Any] = {"name": program.name}
        for key, value in row.items():
            if key.casefold() in known:
                table[key.casefold()] = value
            elif key != "name":
                left_out.append(f"parameter {key!r} of {name!r} in {suite!r}")
        yield table
