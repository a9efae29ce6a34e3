"""The ``spark-sched`` command: argument parsing and printing only."""

from __future__ import annotations


def main() -> None:
    from spark_sched.cli.app import app

    app(prog_name="spark-sched")
