"""The history of earlier runs, in a database that applications share."""

from __future__ import annotations

from importlib.util import find_spec

from spark_sched.errors import BadInputError


def check_installed() -> None:
    """Raise BadInputError if this Python lacks what a history needs. Imports nothing of it."""
    if find_spec("sqlalchemy") is None:
        raise BadInputError(
            "spark.sched.history.path is set, but a history needs sqlalchemy, which is not installed: run "
            "pip install 'spark-sched[history]', or leave it unset"
        )
