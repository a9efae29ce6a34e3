"""TPC-H: data by ``tpcgen-cli`` and the 22 queries."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_sched_lab.runs.workloads.sparkbench import checksum

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = 22
TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
GENERATOR = "tpcgen-cli"


@cache
def queries() -> tuple[str, ...]:
    """The queries' texts; query n is at n - 1."""
    text = (
        resources.files("spark_sched_lab.runs.workloads")
        .joinpath("data/tpch.sql")
        .read_text(encoding="utf-8")
    )
    return tuple(part.strip() for part in re.split(r"^-- query \d+$", text, flags=re.MULTILINE)[1:])


def generator() -> str | None:
    """The path of the generator of TPC tables, beside this Python or on PATH; None if it is not installed."""
    beside = Path(sys.executable).with_name(GENERATOR)
    return str(beside) if beside.is_file() else shutil.which(GENERATOR)


def run_generate_tpch(spark: SparkSession, parameters: Mapping[str, Any], seed: int) -> tuple[float, ...]:
    """Write the tables as Parquet into the folder ``output``; returns the number of tables.

    The data depend on the scale factor only. Raises RuntimeError as `generate` does.
    """
    generate("tpch", parameters)
    return (float(len(TABLES)),)


def generate(benchmark: str, parameters: Mapping[str, Any]) -> None:
    """Write the tables of ``tpch`` or ``tpcds`` at a scale factor; the folder appears when it is complete.

    Raises RuntimeError if the generator is missing or fails, or the folder exists and may not be replaced.
    """
    program = generator()
    if program is None:
        raise RuntimeError(f"TPC data need {GENERATOR}: run pip install 'spark-sched[tpc]'")
    folder, mode = Path(parameters["output"]), parameters["save-mode"]
    if folder.exists() and mode in ("errorifexists", "error"):
        raise RuntimeError(f"{folder} exists: set save-mode to overwrite or ignore")
    if folder.exists() and mode != "overwrite":
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as name:
        made = Path(name) / "tables"
        whole = [program, benchmark, "parquet", "-s", f"{parameters['scale']:g}", f"--output-dir={made}"]
        done = subprocess.run(whole, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{GENERATOR} failed: {done.stderr.strip()}")
        shutil.rmtree(folder, ignore_errors=True)
        made.rename(folder)


def run_tpch(spark: SparkSession, parameters: Mapping[str, Any], seed: int) -> tuple[float, ...]:
    """One query over the tables of ``input``; returns what `checksum` says of its rows."""
    # Views belong to a session: queries side by side may read different data.
    session = spark.newSession()
    query = queries()[parameters["query"] - 1]
    open_tables(session, Path(parameters["input"]), TABLES, query)
    return checksum(session.sql(query))


def open_tables(session: SparkSession, folder: Path, tables: Iterable[str], query: str) -> None:
    """Make the tables that a query names its views.

    To open a table is a Spark job, which reads its schema, so that the others are left out.
    """
    for table in tables:
        if re.search(rf"\b{table}\b", query, re.IGNORECASE):
            session.read.parquet(str(folder / f"{table}.parquet")).createOrReplaceTempView(table)
