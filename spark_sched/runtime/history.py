"""Earlier runs in a SQLite file, shared by planners of several applications and safe to kill at any
moment."""

from __future__ import annotations

import contextlib
import json
import logging
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from filelock import FileLock, Timeout

from spark_sched.predict import PhaseRun, Run
from spark_sched.state import DurationSummary

__all__ = ["SqliteRuns"]

T = TypeVar("T")

_LAYOUT = 1
#: Below the driver's patience with a silent planner (spark.sched.planner.stallTimeout).
_BUSY_S = 2.0
_LOCK_S = 5.0


class SqliteRuns:
    """A :class:`~spark_sched.predict.RunStore`: the latest runs of each job name.

    Write-ahead logging keeps the file whole through ``kill -9``. A damaged file is set aside as
    ``<name>.corrupt-<n>``, never deleted, and a new one is begun. Whatever else goes wrong costs a warning
    and the history, never the planner.
    """

    def __init__(self, path: str, log: logging.Logger) -> None:
        self._path = Path(path)
        self._log = log
        self._warned: set[str] = set()
        self._db: sqlite3.Connection | None = None
        self._guarded(self._open, None)

    def load(self, name: str, limit: int) -> Sequence[Run]:
        """The latest ``limit`` runs of a job name, the oldest first; rows that cannot be read are left
        out."""

        def read(db: sqlite3.Connection) -> list[tuple[int, str]]:
            query = "SELECT ended_ms, phases FROM runs WHERE name = ? ORDER BY id DESC LIMIT ?"
            return db.execute(query, (name, limit)).fetchall()

        nothing: list[tuple[int, str]] = []
        rows = self._with_db(read, nothing)
        runs = []
        for ended_ms, phases in reversed(rows):
            try:
                runs.append(Run(int(ended_ms), tuple(_phase(item) for item in json.loads(phases))))
            except (TypeError, ValueError):
                self._warn(f"a run of {name!r} in {self._path} cannot be read and is left out")
        return runs

    def save(self, name: str, run: Run, limit: int) -> None:
        """Keep a run, and no more than the latest ``limit`` of its name."""
        phases = [
            [p.name, p.tasks, p.durations.count, p.durations.min_ms, p.durations.sum_log_ms]
            for p in run.phases
        ]
        text = json.dumps(phases, separators=(",", ":"))

        def write(db: sqlite3.Connection) -> None:
            db.execute("BEGIN IMMEDIATE")
            try:
                db.execute(
                    "INSERT INTO runs (name, ended_ms, phases) VALUES (?, ?, ?)", (name, run.ended_ms, text)
                )
                db.execute(
                    "DELETE FROM runs WHERE name = ?1 AND id NOT IN "
                    "(SELECT id FROM runs WHERE name = ?1 ORDER BY id DESC LIMIT ?2)",
                    (name, limit),
                )
                db.execute("COMMIT")
            except sqlite3.Error:
                with contextlib.suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
                raise

        self._with_db(write, None)

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None

    # -- opening and mending
    # -------------------------------------------------------------------------------------

    def _open(self) -> None:
        # The lock keeps two planners from setting aside each other's new file.
        with FileLock(f"{self._path}.lock", timeout=_LOCK_S):
            try:
                self._db = self._connect()
            except sqlite3.DatabaseError as error:
                if not _is_damage(error):
                    raise
                self._set_aside(error)
                self._db = self._connect()

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, timeout=_BUSY_S, isolation_level=None)
        try:
            (found,) = db.execute("PRAGMA quick_check(1)").fetchone()
            if found != "ok":
                raise sqlite3.DatabaseError(f"malformed: {found}")
            (layout,) = db.execute("PRAGMA user_version").fetchone()
            if layout > _LAYOUT:
                raise sqlite3.OperationalError(f"its layout {layout} is from a later version of spark-sched")
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute(
                "CREATE TABLE IF NOT EXISTS runs (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, "
                "ended_ms INTEGER NOT NULL, phases TEXT NOT NULL)"
            )
            db.execute("CREATE INDEX IF NOT EXISTS runs_by_name ON runs (name, id)")
            db.execute(f"PRAGMA user_version = {_LAYOUT}")
        except BaseException:
            db.close()
            raise
        return db

    def _set_aside(self, error: Exception) -> None:
        n = 1
        while (aside := self._path.with_name(f"{self._path.name}.corrupt-{n}")).exists():
            n += 1
        # The write-ahead log goes along under the name SQLite looks for, so that the file can still be
        # rescued.
        for suffix in ("-wal", "-shm", ""):
            with contextlib.suppress(FileNotFoundError):
                Path(f"{self._path}{suffix}").rename(f"{aside}{suffix}")
        self._warn(f"{self._path} is damaged ({error}): it is kept as {aside}, a new history begins")

    def _with_db(self, use: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        def once() -> T:
            return otherwise if self._db is None else use(self._db)

        def mend_and_retry() -> T:
            self.close()
            self._open()
            return once()

        try:
            return once()
        except sqlite3.DatabaseError as error:
            if _is_damage(error):
                return self._guarded(mend_and_retry, otherwise)
            self._warn_unusable(error)
            return otherwise

    def _guarded(self, act: Callable[[], T], otherwise: T) -> T:
        try:
            return act()
        except (sqlite3.Error, OSError, Timeout) as error:
            self._warn_unusable(error)
            return otherwise

    def _warn_unusable(self, error: Exception) -> None:
        self._warn(f"spark.sched.history.path is {str(self._path)!r} but cannot be used now ({error})")

    def _warn(self, sentence: str) -> None:
        if sentence not in self._warned:
            self._warned.add(sentence)
            self._log.warning("%s", sentence)


def _is_damage(error: sqlite3.DatabaseError) -> bool:
    # Error codes came with Python 3.11; the words are SQLite's own.
    return "malformed" in str(error) or "not a database" in str(error)


def _phase(item: list[object]) -> PhaseRun:
    name, tasks, count, min_ms, sum_log_ms = item
    good = (
        isinstance(name, str)
        and type(tasks) is int
        and tasks >= 0
        and type(count) is int
        and count >= 0
        and ((type(min_ms) is int and min_ms >= 1) if count else min_ms is None)
        and isinstance(sum_log_ms, (int, float))
    )
    if not good:
        raise ValueError(item)
    return PhaseRun(name, tasks, DurationSummary(count, min_ms, float(sum_log_ms)))  # type: ignore[arg-type]
