"""The history database: one SQLite file, or PostgreSQL by URL."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock, Timeout
from sqlalchemy import BigInteger, Connection, Engine, Integer, MetaData, create_engine, event, inspect
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DataError,
    DBAPIError,
    IntegrityError,
    SQLAlchemyError,
    StatementError,
)
from sqlalchemy.schema import CreateColumn

from spark_sched.errors import BadInputError
from spark_sched.files import create_private

T = TypeVar("T")

#: All tables of the history.
TABLES = MetaData()
#: Type of a key that numbers rows: SQLite does so by itself only in a plain INTEGER.
ROW_ID = BigInteger().with_variant(Integer, "sqlite")

#: Of a SQLite file, as its user_version.
_LAYOUT = 1
#: How long to wait for a lock of another client, if the caller does not say. Below the driver's patience with
#: a silent planner (spark.sched.planner.stallTimeout).
_BUSY_S = 2.0
_LOCK_S = 5.0
#: What a client may raise that cannot use the database.
_TROUBLE = (SQLAlchemyError, sqlite3.Error, OSError, Timeout)
#: PostgreSQL's code for a lock that did not come within lock_timeout.
_LOCK_NOT_AVAILABLE = "55P03"
_UNDEFINED_TABLE = "42P01"


class Database:
    """Runs transactions, one at a time. Not thread-safe. No transaction waits longer than 2 s for a lock.

    A file that was deleted, or replaced by another one, while it is open is noticed at the next transaction,
    which makes it anew.

    A SQLite file is in write-ahead mode: it survives ``kill -9``, and several processes may use it. A new
    file is readable by its owner alone. A damaged file is renamed to ``<name>.corrupt-<n>``, never deleted,
    and a new one is created.

    Args:
        where: a path, or ``postgresql://user@host/name``.
        log: gets one sentence per kind of trouble. Without one trouble is raised.
        password: of the database, where the URL has none.
    """

    def __init__(self, where: str, log: logging.Logger | None, password: str = "") -> None:
        self._path = None if "://" in where else Path(where)
        self._url = checked_url(where)
        if password and self._path is None:
            self._url = self._url.set(password=password)
        #: Without the password: for messages.
        self.title = str(self._path or self._url.set(query={}).render_as_string(hide_password=True))
        self._log = log
        self._warned: set[str] = set()
        self._engine: Engine | None = None
        self._file: tuple[int, int] | None = None  # device and inode of the open SQLite file
        self._wait_s = _BUSY_S
        #: How often a damaged file was set aside, or one that had vanished was made again.
        self.begun_anew = 0
        self._guarded(self._open, None)

    def run(self, use: Callable[[Connection], T], otherwise: T, *, write: bool = False) -> T:
        """One transaction; ``otherwise`` where the database cannot be used now.

        Args:
            use: works on the connection; called again if the file was damaged and a new one begun.
            write: takes the write lock at once, so that rows read first are still current at the write.
        """

        try:
            return self._once(use, write)
        except _TROUBLE as error:
            if self._path is None or not _is_damage(error):
                return self._trouble(error, otherwise)

        def reopen_and_retry() -> T:
            self.close()
            self._open()
            return self._once(use, write)

        return self._guarded(reopen_and_retry, otherwise)

    def attempt(self, use: Callable[[Connection], object], wait_s: float) -> Exception | None:
        """One transaction that writes. Returns why the database could not be used, without a word to anybody;
        None: it was.

        Args:
            wait_s: longest wait for a lock.
        """
        self._wait_s = wait_s
        try:
            self._once(use, True)
        except _TROUBLE as error:
            if (self._path is not None and _is_damage(error)) or _lacks_tables(error):
                self.close()  # the next attempt opens it, which makes what is missing
            return error
        finally:
            self._wait_s = _BUSY_S
        return None

    def _once(self, use: Callable[[Connection], T], write: bool) -> T:
        if self._engine is not None and self._file is not None and self._file != _identity(self._path):
            self.close()
            self.begun_anew += 1
            self._warn(f"{self._path} was deleted or replaced while it was in use: it is opened again")
        if self._engine is None:
            self._open()
        assert self._engine is not None
        with self._engine.connect() as connection:
            connection.info["write"] = write
            connection.info["wait_ms"] = round(self._wait_s * 1_000)
            with connection.begin():
                return use(connection)

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
        with FileLock(f"{self._path}.lock", timeout=min(_LOCK_S, 2.5 * self._wait_s)):
            create_private(self._path)  # SQLite gives its log and its index the same mode
            try:
                self._check_file(self._path)
            except sqlite3.DatabaseError as error:
                if not _is_damage(error):
                    raise
                self._set_aside(self._path, error)
                create_private(self._path)
            self._engine = self._connected()
            self._file = _identity(self._path)

    def _connected(self) -> Engine:
        sqlite = self._path is not None
        arguments: dict[str, Any] = {"timeout": _BUSY_S} if sqlite else {"connect_timeout": int(_LOCK_S)}
        engine = create_engine(self._url, connect_args=arguments, pool_pre_ping=not sqlite)
        if sqlite:
            event.listen(engine, "connect", _prepare_sqlite)
            event.listen(engine, "begin", _begin_sqlite)
        else:
            event.listen(engine, "connect", _prepare_postgres)
            event.listen(engine, "begin", _begin_postgres)
        try:
            with engine.connect() as connection:
                connection.info["wait_ms"] = round(self._wait_s * 1_000)
                connection.info["write"] = False
                with connection.begin():
                    complete = _is_complete(connection)
                if complete:
                    # One that others have locked, or that is read-only, can be read.
                    return engine
                connection.info["write"] = True
                with connection.begin():
                    TABLES.create_all(connection)
                    _add_missing_columns(connection, TABLES)
                    if sqlite:
                        connection.exec_driver_sql(f"PRAGMA user_version = {_LAYOUT}")
        except BaseException:
            engine.dispose()
            raise
        return engine

    def _check_file(self, path: Path) -> None:
        with contextlib.closing(sqlite3.connect(path, timeout=self._wait_s)) as db:
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
        except _TROUBLE as error:
            return self._trouble(error, otherwise)

    def _trouble(self, error: Exception, otherwise: T) -> T:
        self.report(error, "")
        return otherwise

    def report(self, error: Exception, consequence: str) -> None:
        """Log that the database cannot be used, once per reason until `recovered`. Without a log, raise."""
        title = f"the history {self.title} (spark.sched.history.path)"
        sentence = f"{title} cannot be used now ({_reason(error)})"
        if self._log is None:
            raise BadInputError(f"{sentence}: check the path or URL") from None
        self._warn(f"{sentence}{consequence}")

    def recovered(self) -> None:
        """The database can be used again: further trouble is reported again."""
        self._warned.clear()

    def _warn(self, sentence: str) -> None:
        if sentence in self._warned:
            return
        self._warned.add(sentence)
        # Without a log of one's own the sentence still has to be seen.
        (self._log or logging.getLogger("spark_sched")).warning("%s", sentence)


def _is_complete(connection: Connection) -> bool:
    """Whether the database has all tables and columns."""
    found = inspect(connection)
    present = set(found.get_table_names())
    return all(
        table.name in present
        and {column.name for column in table.columns}
        <= {column["name"] for column in found.get_columns(table.name)}
        for table in TABLES.sorted_tables
    )


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
    connection.exec_driver_sql(f"PRAGMA busy_timeout = {connection.info['wait_ms']}")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if connection.info.get("write") else "BEGIN")


def _prepare_postgres(connection: Any, _record: Any) -> None:
    # Without a limit a client that stopped inside a transaction would stop everyone who waits for its lock.
    connection.execute(f"SET lock_timeout = {round(_BUSY_S * 1_000)}")
    connection.commit()  # A rollback of the first transaction would take the setting back.


def _begin_postgres(connection: Connection) -> None:
    if "wait_ms" in connection.info:  # not SQLAlchemy's own first look at the server
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = {connection.info['wait_ms']}")


def _identity(path: Path | None) -> tuple[int, int] | None:
    """Which file this is; None: there is none."""
    try:
        found = os.stat(path or "")
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _reason(error: Exception) -> str:
    cause = getattr(error, "orig", None) or error
    if getattr(cause, "sqlstate", None) == _LOCK_NOT_AVAILABLE:
        return "another client holds a lock on it"
    lines = str(cause).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def is_bad_row(error: Exception) -> bool:
    """Whether the database refuses the rows themselves, so that no further attempt can store them."""
    return isinstance(error, (DataError, IntegrityError)) or (
        isinstance(error, StatementError) and not isinstance(error, DBAPIError)
    )


def _lacks_tables(error: Exception) -> bool:
    cause = getattr(error, "orig", None)
    return "no such table" in str(error) or getattr(cause, "sqlstate", None) == _UNDEFINED_TABLE


def _is_damage(error: Exception) -> bool:
    text = str(getattr(error, "orig", None) or error)
    return "malformed" in text or "not a database" in text
