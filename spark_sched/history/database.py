"""The history database: one SQLite file, or PostgreSQL by URL."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout
from sqlalchemy import BigInteger, Connection, Engine, Integer, MetaData, create_engine, event, inspect
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.schema import CreateColumn

from spark_sched.errors import BadInputError
from spark_sched.files import create_private

T = TypeVar("T")

#: Type of a key that numbers rows: SQLite does so by itself only in a plain INTEGER.
ROW_ID = BigInteger().with_variant(Integer, "sqlite")

#: Of a SQLite file, as its user_version.
_LAYOUT = 1
#: How long to wait for a lock of another client. Below the driver's patience with a silent planner
#: (spark.sched.planner.stallTimeout).
_BUSY_S = 2.0
_LOCK_S = 5.0
#: PostgreSQL's code for a lock that did not come within lock_timeout.
_LOCK_NOT_AVAILABLE = "55P03"


class Database:
    """Runs transactions, one at a time. Not thread-safe. No transaction waits longer than 2 s for a lock.

    A SQLite file is in write-ahead mode: it survives ``kill -9``, and several processes may use it. A new
    file is readable by its owner alone. A damaged file is renamed to ``<name>.corrupt-<n>``, never deleted,
    and a new one is created.

    Args:
        where: a path, or ``postgresql://user@host/name``.
        tables: made where they are missing.
        log: gets one sentence per kind of trouble. Without one trouble is raised.
        password: of the database, where the URL has none.
    """

    def __init__(self, where: str, tables: MetaData, log: logging.Logger | None, password: str = "") -> None:
        self._path = None if "://" in where else Path(where)
        self._url = checked_url(where)
        if password and self._path is None:
            self._url = self._url.set(password=password)
        #: Without the password: for messages.
        self.title = str(self._path or self._url.set(query={}).render_as_string(hide_password=True))
        self._tables = tables
        self._log = log
        self._warned: set[str] = set()
        self._engine: Engine | None = None
        #: How often a damaged file was set aside.
        self.begun_anew = 0
        self._guarded(self._open, None)

    def run(self, use: Callable[[Connection], T], otherwise: T, *, write: bool = False) -> T:
        """One transaction; ``otherwise`` where the database cannot be used now.

        Args:
            use: works on the connection; called again if the file was damaged and a new one begun.
            write: takes the write lock at once, so that rows read first are still current at the write.
        """

        def once() -> T:
            if self._engine is None:
                self._open()
            assert self._engine is not None
            with self._engine.connect() as connection:
                connection.info["write"] = write
                with connection.begin():
                    return use(connection)

        try:
            return once()
        except (SQLAlchemyError, sqlite3.Error, OSError, Timeout) as error:
            if self._path is None or not _is_damage(error):
                return self._trouble(error, otherwise)

        def reopen_and_retry() -> T:
            self.close()
            self._open()
            return once()

        return self._guarded(reopen_and_retry, otherwise)

    def close(self) -> None:
        if self._engine is not None:
            self._engine.dispose()
            self._engine = None

    # -- opening and repairing

    def _open(self) -> None:
        if self._path is None:
            self._engine = self._connected()
            return
        # The lock keeps two processes from setting aside each other's new file.
        with FileLock(f"{self._path}.lock", timeout=_LOCK_S):
            create_private(self._path)  # SQLite gives its log and its index the same mode
            try:
                self._check_file(self._path)
            except sqlite3.DatabaseError as error:
                if not _is_damage(error):
                    raise
                self._set_aside(self._path, error)
                create_private(self._path)
            self._engine = self._connected()

    def _connected(self) -> Engine:
        sqlite = self._path is not None
        arguments: dict[str, Any] = {"timeout": _BUSY_S} if sqlite else {"connect_timeout": int(_LOCK_S)}
        engine = create_engine(self._url, connect_args=arguments, pool_pre_ping=not sqlite)
        if sqlite:
            event.listen(engine, "connect", _prepare_sqlite)
            event.listen(engine, "begin", _begin_sqlite)
        else:
            event.listen(engine, "connect", _prepare_postgres)
        try:
            with engine.connect() as connection:
                connection.info["write"] = True
                with connection.begin():
                    self._tables.create_all(connection)
                    _add_missing_columns(connection, self._tables)
                    if sqlite:
                        connection.exec_driver_sql(f"PRAGMA user_version = {_LAYOUT}")
        except BaseException:
            engine.dispose()
            raise
        return engine

    @staticmethod
    def _check_file(path: Path) -> None:
        with contextlib.closing(sqlite3.connect(path, timeout=_BUSY_S)) as db:
            (found,) = db.execute("PRAGMA quick_check(1)").fetchone()
            if found != "ok":
                raise sqlite3.DatabaseError(f"malformed: {found}")
            (layout,) = db.execute("PRAGMA user_version").fetchone()
            if layout > _LAYOUT:
                raise sqlite3.OperationalError(f"its layout {layout} is from a later version of spark-sched")

    def _set_aside(self, path: Path, error: Exception) -> None:
        n = 1
        while (aside := path.with_name(f"{path.name}.corrupt-{n}")).exists():
            n += 1
        # The write-ahead log goes along under the name SQLite looks for: the file can still be rescued.
        for suffix in ("-wal", "-shm", ""):
            with contextlib.suppress(FileNotFoundError):
                Path(f"{path}{suffix}").rename(f"{aside}{suffix}")
        self.begun_anew += 1
        self._warn(f"{path} is damaged ({error}): it is kept as {aside}, and a new history begins")

    # -- trouble

    def _guarded(self, act: Callable[[], T], otherwise: T) -> T:
        try:
            return act()
        except (SQLAlchemyError, sqlite3.Error, OSError, Timeout) as error:
            return self._trouble(error, otherwise)

    def _trouble(self, error: Exception, otherwise: T) -> T:
        title = f"the history {self.title} (spark.sched.history.path)"
        sentence = f"{title} cannot be used now ({_reason(error)})"
        if self._log is None:
            raise BadInputError(f"{sentence}: check the path or URL") from None
        self._warn(sentence)
        return otherwise

    def _warn(self, sentence: str) -> None:
        if sentence in self._warned:
            return
        self._warned.add(sentence)
        # Without a log of one's own the sentence still has to be seen.
        (self._log or logging.getLogger("spark_sched")).warning("%s", sentence)


def _add_missing_columns(connection: Connection, tables: MetaData) -> None:
    """Files of earlier versions get the columns that came later, empty; those versions go on writing them."""
    for table in tables.sorted_tables:
        present = {column["name"] for column in inspect(connection).get_columns(table.name)}
        for column in table.columns:
            if column.name not in present:
                definition = CreateColumn(column).compile(dialect=connection.dialect)
                connection.exec_driver_sql(f"ALTER TABLE {table.name} ADD COLUMN {definition}")


def checked_url(where: str) -> URL:
    """The parsed URL of a history; connects to nothing. Raises BadInputError for an invalid URL."""
    if "://" not in where:
        return URL.create("sqlite", database=where)
    try:
        url = make_url(where)
    except (ArgumentError, ValueError):  # the latter for a port that is not a number
        raise BadInputError(
            "the history's URL cannot be read: write postgresql://user@host:port/database"
        ) from None
    if url.get_backend_name() not in ("postgresql", "postgres"):
        raise BadInputError(
            f"the history's URL begins with {url.drivername}:// but only postgresql:// and plain paths "
            "(SQLite) are known"
        )
    try:
        import psycopg  # noqa: F401  # asked for here so that the answer is a sentence
    except ImportError:
        raise BadInputError(
            "a history in PostgreSQL needs psycopg, which is not installed: run pip install "
            "'spark-sched[postgres]'"
        ) from None
    return url.set(drivername="postgresql+psycopg")


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # transactions are ours, not the driver's
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.info.get("write") else "BEGIN")


def _prepare_postgres(connection: Any, _record: Any) -> None:
    # Without a limit a client that stopped inside a transaction would stop everyone who waits for its lock.
    connection.execute(f"SET lock_timeout = {round(_BUSY_S * 1_000)}")
    connection.commit()  # A rollback of the first transaction would take the setting back.


def _reason(error: Exception) -> str:
    cause = getattr(error, "orig", None) or error
    if getattr(cause, "sqlstate", None) == _LOCK_NOT_AVAILABLE:
        return f"another client has held a lock on it for {_BUSY_S:g} s"
    lines = str(cause).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _is_damage(error: Exception) -> bool:
    text = str(getattr(error, "orig", None) or error)
    return "malformed" in text or "not a database" in text
