"""Workloads of the UWFQ benchmark tool (JSON): supported workloads run, everything else is reported as left
out.

The tool (github.com/kazemaksOG/spark-benchmark-tool) measured the schedulers of arXiv 2510.15485. A file has
users, each with workloads: a class, a data set, a start, and iterations that arrive as a Poisson process.
Users become users of one suite, and every iteration one job. With the frequency ``SEQ`` iterations follow one
another. Classes are translated as follows:

* ``LoopCustom`` burns ``job_runtime_s`` of processor time: sleeping tasks, equal parts of it on all slots;
* ``SuperShortOperation``, ``ShortOperation``, ``LongOperation``: the same queries as SQL, on the file's data.

How long the loops of a fixed length (``Loop100``) take follows from machine and data, so they are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from spark_sched.errors import BadInputError
from spark_sched.files import read_text
from spark_sched_lab.runs.bench.suite import BenchFile, translated
from spark_sched_lab.runs.paired.arms import read_cluster
from spark_sched_lab.runs.simulate.fields import Fields

_BY_LICENSE = "from input group by hvfhs_license_num"
_QUERIES = {
    "SuperShortOperation": f"select hvfhs_license_num, sum(tips) as total {_BY_LICENSE}",
    "ShortOperation": f"select hvfhs_license_num, sum(sqrt(tips + driver_pay)) as total {_BY_LICENSE}",
    "LongOperation": "select * from input a join input b on a.pickup_datetime = b.dropoff_datetime limit 10",
}
_WORKLOAD_KEYS = (
    "workloadName",
    "inputPath",
    "inputType",
    "className",
    "totalIterations",
    "startTimeMs",
    "poissonRateInMinutes",
    "frequency",
    "params",
    "partitioning",
    # Of the tool's own results, which repeat the configuration.
    "benchStartTime",
    "results",
)


def read_uwfq(path: Path) -> tuple[BenchFile, list[str]]:
    """The suite of a file, and a description of each part that is left out.

    Raises BadInputError if it cannot be read, is no such file, has no workload that this command can run, or
    has a wrong value.
    """
    try:
        found = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"{path} is not a JSON document ({error}): fix that line") from None
    left_out: list[str] = []
    if isinstance(found, Mapping):
        left_out += [f"{key}: the application is this machine's" for key in found if key != "users"]
        found = found.get("users")
    if not isinstance(found, list) or not all(isinstance(user, Mapping) and "user" in user for user in found):
        raise BadInputError(f"{path} has no list of users: name workloads of the UWFQ benchmark tool")
    slots = read_cluster(Fields(str(path), "cluster", {})).all_slots
    tables = [table for user in found for table in _user(Fields(str(path), "user", user), slots, left_out)]
    suite = {"description": path.stem, "mode": "parallel", "workload": tables}
    return translated(path, [suite] if tables else [], left_out)


def _user(fields: Fields, slots: int, left_out: list[str]) -> Iterator[dict[str, Any]]:
    user = fields.need("user", str, "text in quotes")
    for workload in fields.tables("workloads"):
        name = workload.need("workloadName", str, "text in quotes")
        table = _table(workload, slots)
        what = f"workload {name!r} of {user!r}"
        if isinstance(table, str):
            left_out.append(f"{what}: {table}")
            continue
        left_out += [f"{key} of {what}: unknown" for key in workload.rest() if key not in _WORKLOAD_KEYS]
        params = workload.table("params").rest()
        partitioning = params.get("partitioning", workload.text("partitioning", "NONE"))
        if partitioning != "NONE":
            left_out.append(f"partitioning {partitioning} of {what}")
        table |= {"label": name, "user": user}
        if workload.text("frequency", "PARA") == "SEQ":
            yield {**table, "start_s": _milliseconds(workload) / 1000, "iterations": _iterations(workload)}
            continue
        for start_s in _starts_s(workload, f"{user}{name}"):
            yield {**table, "start_s": start_s}


def _table(workload: Fields, slots: int) -> dict[str, Any] | str:
    """The equivalent workload of this project, or the reason why there is none."""
    kind = workload.need("className", str, "text in quotes").rpartition(".")[2]
    in_turn = workload.choice("frequency", ("PARA", "SEQ"), "PARA") == "SEQ"
    if in_turn and workload.number("poissonRateInMinutes", 0.0) and _iterations(workload) > 1:
        return "frequency SEQ with a rate: iterations that wait for one another and for a time"
    if kind == "LoopCustom":
        params = workload.table("params")
        work_s = params.need("job_runtime_s", float, "a number of seconds above 0", least=0.001)
        return {"name": "sleep", "tasks": slots, "sleepms": max(1, round(1000 * work_s / slots))}
    if kind not in _QUERIES:
        return f"class {kind}"
    if workload.text("inputType", "PARQUET") != "PARQUET":
        return "data that are not Parquet"
    data = workload.need("inputPath", str, "text in quotes")
    return {"name": "sql", "input": data, "query": _QUERIES[kind]}


def _starts_s(workload: Fields, name: str) -> Iterator[float]:
    """When each iteration arrives, in seconds; the name is the seed, as in the tool, of other draws."""
    rng = np.random.default_rng(crc32(name.encode()))
    rate = workload.number("poissonRateInMinutes", 0.0)
    start_s = _milliseconds(workload) / 1000
    for _ in range(_iterations(workload)):
        yield round(start_s, 3)
        start_s += float(rng.exponential(60.0 / rate)) if rate else 0.0


def _iterations(workload: Fields) -> int:
    return workload.get("totalIterations", int, 1, "a whole number from 1", least=1)


def _milliseconds(workload: Fields) -> int:
    """``startTimeMs``, which the tool's files have as a number or as text."""
    raw = workload.rest().get("startTimeMs", 0)
    try:
        found = -1 if isinstance(raw, bool) else int(raw)
    except (TypeError, ValueError, OverflowError):
        found = -1
    if found < 0:
        raise workload.wrong("startTimeMs", raw, "a whole number of milliseconds from 0")
    return found
