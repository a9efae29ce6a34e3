"""Results as files: Parquet for jobs and tasks, written atomically."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_sched.errors import BadInputError
from spark_sched_lab.engine.results import Result


class TableFile:
    """A Parquet file that grows run by run and appears at ``path`` when it is complete.

    Every run's rows get the columns ``arm`` and ``seed`` before their own. Use as a context manager; after an
    exception nothing is left. Raises BadInputError where the folder cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: pq.ParquetWriter | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        except OSError as error:
            raise BadInputError(f"{path} cannot be written ({error.strerror}): check the folder") from None
        os.close(handle)
        self._temporary = Path(name)

    def __enter__(self) -> TableFile:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if self._writer is not None:
            self._writer.close()
        if error is None and self._writer is not None:
            self._temporary.chmod(0o644)
            os.replace(self._temporary, self._path)
        else:
            self._temporary.unlink(missing_ok=True)

    def add(self, arm: str, seed: int, columns: Mapping[str, Sequence[Any]]) -> None:
        rows = len(next(iter(columns.values())))
        table = pa.table(
            {"arm": pa.array([arm] * rows, pa.string()), "seed": [seed] * rows, **_typed(columns)}
        )
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._temporary, table.schema)
        self._writer.write_table(table.cast(self._writer.schema))

    def add_tasks(self, arm: str, seed: int, result: Result) -> None:
        columns = dict(result.tasks)
        columns["node"] = [result.nodes[node] for node in columns["node"]]
        self.add(arm, seed, columns)


_TEXT = ("job", "name", "user", "class", "outcome", "node")


def _typed(columns: Mapping[str, Sequence[Any]]) -> dict[str, pa.Array]:
    """Columns with explicit types, since a column of nulls has none."""
    typed = {}
    for name, values in columns.items():
        text = name in _TEXT and not (name == "job" and "task" in columns)
        kind = pa.string() if text else pa.bool_() if name == "copy" else pa.int64()
        typed[name] = pa.array(values, kind)
    return typed
