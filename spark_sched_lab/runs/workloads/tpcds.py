"""TPC-DS: data by ``tpcgen-cli``, and queries from a folder of the user's.

The queries' texts are TPC's, under a licence of its own, so that none is here (docs/adr/0028-tpc-ds.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spark_sched.files import read_text
from spark_sched_lab.runs.workloads.sparkbench import checksum
from spark_sched_lab.runs.workloads.tpch import generate, open_tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = (
    *("call_center", "catalog_page", "catalog_returns", "catalog_sales", "customer", "customer_address"),
    *("customer_demographics", "date_dim", "household_demographics", "income_band", "inventory", "item"),
    *("promotion", "reason", "ship_mode", "store", "store_returns", "store_sales", "time_dim", "warehouse"),
    *("web_page", "web_returns", "web_sales", "web_site"),
)


def run_generate_tpcds(spark: SparkSession, parameters: Mapping[str, Any], seed: int) -> tuple[float, ...]:
    """Write the tables as Parquet into the folder ``output``; returns the number of tables.

    The data depend on the scale factor only. Raises RuntimeError as `generate` does.
    """
    generate("tpcds", parameters)
    return (float(len(TABLES)),)


def run_tpcds(spark: SparkSession, parameters: Mapping[str, Any], seed: int) -> tuple[float, ...]:
    """The query ``queries/QUERY.sql`` over the tables of ``input``; returns what `checksum` says of its rows.

    A file of several statements gives the numbers of each. Raises RuntimeError if there is no such file.
    """
    session = spark.newSession()
    path = Path(parameters["queries"]) / f"{parameters['query']}.sql"
    if not path.is_file():
        raise RuntimeError(
            f"there is no query {path}: docs/how-to/run-a-suite.md says where queries come from"
        )
    text = read_text(path)
    open_tables(session, Path(parameters["input"]), TABLES, text)
    return tuple(value for one in statements(text) for value in checksum(session.sql(one)))


def statements(text: str) -> list[str]:
    """The statements of a file, which end with a semicolon at the end of a line, without comments."""
    bare = re.sub(r"^\s*--.*$", "", text, flags=re.MULTILINE)
    return [part for one in re.split(r";\s*$", bare, flags=re.MULTILINE) if (part := one.strip())]
