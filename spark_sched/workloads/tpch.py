"""TPC-H: data by ``tpchgen-cli`` and the 22 queries."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_sched.workloads.sparkbench import checksum

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["QUERIES", "TABLES", "generator", "queries", "run_generate_tpch", "run_tpch"]

QUERIES = 22
TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")


@cache
def queries() -> tuple[str, ...]:
    """The queries' texts; query n is at n - 1."""
    text = resources.files("spark_sched.workloads").joinpath("data/tpch.sql").read_text(encoding="utf-8")
    return tuple(part.strip() for part in re.split(r"^-- query \d+$", text, flags=re.MULTILINE)[1:])


def generator() -> str | None:
    """The path of ``tpchgen-cli``, beside this Python or on PATH; None if it is not installed."""
    beside = Path(sys.executable).with_name("tpchgen-cli")
    return str(beside) if beside.is_file() else shutil.which("tpchgen-cli")


def run_generate_tpch(spark: SparkSession, parameters: Mapping[str, Any], seed: int) -> tuple[float, ...]:
    """Write the tables as Parquet into the folder ``output``; returns the number of tables.

    The data depend on the scale factor only. Raises RuntimeError if the generator is missing or fails, or the
    folder exists and may not be replaced.
    """
    program, folder, mode = generator(), Path(parameters["output"]), parameters["save-mode"]
    if program is None:
        raise RuntimeError("TPC-H data need tpchgen-cli: run pip install 'spark-sched[tpch]'")
    if folder.exists() and mode == "errorifexists":
        raise RuntimeError(f"{folder} exists: set save-mode to overwrite or ignore")
    if not folder.exists() or mode == "overwrite":
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as name:
            made = Path(name) / "tables"
            command = [program, "parquet", "-s", f"{parameters['scale']:g}", f"--output-dir={made}"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"tpchgen-cli failed: {done.stderr.strip()}")
            # The folder appears when it is complete.
            shutil.rmtree(folder, ignore_errors=True)
            made.rename(folder)
    return (float(len(TABLES)),)


def run_tpch(spark: SparkSession, parameters: Mapping[str, Any], seed: int) -> tuple[float, ...]:
    """One query over the tables of ``input``; returns what `checksum` says of its rows."""
    # Views belong to a session: queries side by side may read different data.
    session = spark.newSession()
    folder, query = Path(parameters["input"]), queries()[parameters["query"] - 1]
    # To open a table is a Spark job, which reads its schema: only those that the query names.
    for table in TABLES:
        if re.search(rf"\b{table}\b", query):
            session.read.parquet(str(folder / f"{table}.parquet")).createOrReplaceTempView(table)
    return checksum(session.sql(query))
