"""The ``spark-sched`` command: argument parsing and printing only."""

from __future__ import annotations


def main() -> None:
    """Entry point of the installed command."""
    from spark_sched.cli.app import app

    app(prog_name="spark-sched")
