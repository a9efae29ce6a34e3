"""SparkBench's own configuration files (HOCON): supported workloads run, everything else is reported as left
out.

A file has applications, each with suites of workloads. The applications run one after the other on this
cluster, and their suites too, unless they are to run side by side (``suites-parallel``). Masters, arguments
and properties of applications, outputs of results and unknown workloads are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_sched.errors import BadInputError
from spark_sched.files import read_text
from spark_sched_lab.runs.bench.suite import BenchFile, translated
from spark_sched_lab.runs.workloads.programs import PROGRAMS

_ROOT_KEYS = ("spark-submit-config", "spark-submit-parallel")
#: SparkBench's sleep is a pause of its driver. That of this project has tasks; these keys ask for it.
_TASKS = {"stages", "tasks"}
_SUITE_KEYS = ("descr", "parallel", "repeat", "workloads", "benchmark-output", "save-mode")
#: HOCON may include what a server answers: a file of a stranger would make this machine ask for it.
_FETCHES = re.compile(r"\binclude\s+(?:required\s*\(\s*)?url\s*\(")
#: What HOCON's libraries read as booleans, in lower case.
_FLAGS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def read_hocon(path: Path) -> tuple[BenchFile, list[str]]:
    """The suites of a file, and a description of each part that is left out.

    Raises BadInputError if it cannot be read, is no SparkBench file, has no workload that this command
    can run, or has a wrong value. Raises ModuleNotFoundError without pyhocon.
    """
    from pyhocon import ConfigFactory, ConfigTree
    from pyhocon.exceptions import ConfigException
    from pyparsing import ParseBaseException

    text = read_text(path)
    if _FETCHES.search(text):
        raise BadInputError(
            f"{path} includes a URL, which is not fetched: save it beside the file and include that"
        )
    try:
        found = ConfigFactory.parse_string(text, basedir=str(path.parent))
        plain = found.as_plain_ordered_dict() if isinstance(found, ConfigTree) else {}
    except ParseBaseException as error:
        # Its text begins with the whole grammar.
        reason = f"line {error.lineno}, column {error.column}: {error.line.strip()[:60]!r}"
        raise BadInputError(f"{path} is not a HOCON file ({reason}): fix that line") from None
    except (ConfigException, OSError, RecursionError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise BadInputError(f"{path} is not a HOCON file ({reason}): fix that line") from None
    root = plain.get("spark-bench")
    if not isinstance(root, Mapping) or not _list(root.get("spark-submit-config")):
        raise BadInputError(
            f"{path} has no spark-bench.spark-submit-config: name a configuration of SparkBench"
        )
    left_out: list[str] = []
    return translated(path, list(_Reader(str(path), left_out).suites(root)), left_out)


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [] if value is None else [value]


@dataclass(frozen=True)
class _Reader:
    """Reads one file; ``left_out`` receives the parts that are not supported here."""

    file: str
    left_out: list[str]

    def suites(self, root: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        if self._flag(root, "spark-submit-parallel", "spark-bench"):
            self.left_out.append("spark-submit-parallel: applications run one after the other")
        self.left_out.extend(f"{key} of spark-bench: unknown" for key in root if key not in _ROOT_KEYS)
        for number, config in enumerate(self._tables(root, "spark-submit-config", "spark-bench")):
            where = "spark-submit-config"
            together = self._flag(config, "suites-parallel", where)
            if "workload-suites" in config and "suites" in config:
                self.left_out.append("suites: workload-suites is there, too")
            for key in config:
                if key not in ("suites-parallel", "suites", "workload-suites"):
                    self.left_out.append(f"{key}: the application is this machine's")
            key = "workload-suites" if "workload-suites" in config else "suites"
            for lane, suite in enumerate(self._tables(config, key, where)):
                beside = {"beside": f"application {number}", "lane": f"suite {lane}"} if together else {}
                for table in self._suite(suite):
                    yield {**table, **beside}

    def _suite(self, suite: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The suite; one for each repetition if its workloads run side by side.

        SparkBench starts the next repetition when all workloads of the one before have ended.
        """
        what = str(suite.get("descr", "a suite"))
        for key in suite:
            if key not in _SUITE_KEYS[:4]:
                self.left_out.append(f"{key} of {what!r}" + ("" if key in _SUITE_KEYS else ": unknown"))
        rows = self._tables(suite, "workloads", what)
        tables = [table for row in rows for table in self._workloads(row, what)]
        if not tables:
            return
        repeat = suite.get("repeat", 1)
        if not self._flag(suite, "parallel", what):
            yield {"description": what, "repeat": repeat, "mode": "sequence", "workload": tables}
        elif type(repeat) is int and repeat > 1:
            for number in range(1, repeat + 1):
                name = f"{what} ({number} of {repeat})"
                yield {"description": name, "mode": "parallel", "workload": tables}
        else:
            yield {"description": what, "repeat": repeat, "mode": "parallel", "workload": tables}

    def _workloads(self, row: Mapping[str, Any], suite: str) -> Iterator[dict[str, Any]]:
        """A table for each known name, with the parameters that are known here."""
        if "name" not in row:
            raise BadInputError(
                f"{self.file}: a workload of {suite!r} has no name: name it, such as one of "
                f"{', '.join(list(PROGRAMS)[:4])}"
            )
        for name in _list(row["name"]):
            program = PROGRAMS.get(str(name).casefold())
            if program is None:
                self.left_out.append(f"workload {name!r} of {suite!r}")
                continue
            if program.name == "sleep" and not _TASKS & {key.casefold() for key in row}:
                program = PROGRAMS["think"]
            known = {parameter.name for parameter in program.parameters}
            table: dict[str, Any] = {"name": program.name}
            if program.name == "think":
                table["label"] = "sleep"
            for key, value in row.items():
                if key.casefold() in known & table.keys():
                    raise BadInputError(
                        f"{self.file}: workload {name!r} of {suite!r} sets {key.casefold()} twice, in "
                        "different case: keep one"
                    )
                if key.casefold() in known:
                    table[key.casefold()] = value
                elif key != "name":
                    self.left_out.append(f"parameter {key!r} of {name!r} in {suite!r}")
            yield table

    def _tables(self, inside: Mapping[str, Any], key: str, where: str) -> list[Mapping[str, Any]]:
        rows = _list(inside.get(key))
        for row in rows:
            if not isinstance(row, Mapping):
                raise BadInputError(
                    f"{self.file}: {key} of {where!r} has {row!r} but must have objects in braces"
                )
        return rows

    def _flag(self, inside: Mapping[str, Any], key: str, where: str) -> bool:
        """A boolean as HOCON writes it; false if it is missing."""
        value = inside.get(key, False)
        found = _FLAGS.get(str(value).casefold())
        if found is None:
            raise BadInputError(f"{self.file}: {key} of {where!r} is {value!r} but must be true or false")
        return found
