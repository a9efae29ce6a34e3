"""Servers in a scenario's driver, and sessions of their users: Spark Connect and Thrift."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from pyspark.sql import SparkSession

from tests.integration.scenarios import wait_until


def refusal(statements: Callable[[], object]) -> str | None:
    """How the statements fail, if they do."""
    try:
        statements()
    except Exception as error:
        return str(error)
    return None


@contextlib.contextmanager
def connect_server(spark: SparkSession) -> Iterator[Callable[[str], Any]]:
    """A Spark Connect server in this application: how to open a session of a user."""
    from pyspark.sql.connect.session import SparkSession as Client

    jvm: Any = spark.sparkContext._jvm
    none = jvm.scala.Option.empty()
    service = getattr(jvm.org.apache.spark.sql.connect.service, "SparkConnectService$").__getattr__("MODULE$")
    service.start(spark.sparkContext._jsc.sc())
    port = service.localPort()

    with contextlib.ExitStack() as clients:
        clients.callback(service.stop, none, none)

        def client(user: str) -> Any:
            session = Client.builder.remote(f"sc://127.0.0.1:{port}/;user_id={user}").create()
            clients.callback(session.stop)
            return session

        yield client


class ThriftSession:
    """A user's session with a Thrift server, over JDBC."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def __call__(self, *statements: str) -> str | None:
        """Run the statements. Returns the error of the first one that fails, or None."""
        for text in statements:
            statement = self._connection.createStatement()
            error = refusal(lambda text=text, statement=statement: statement.execute(text))  # type: ignore[misc]
            statement.close()
            if error is not None:
                return error
        return None

    def value(self, query: str) -> str:
        """The text that is the query's one row."""
        statement = self._connection.createStatement()
        rows = statement.executeQuery(query)
        assert rows.next()
        value: str = rows.getString(1)
        assert not rows.next()
        statement.close()
        return value

    def close(self) -> None:
        self._connection.close()


@cache
def _thrift_port() -> int:
    """One for all applications of this JVM: Hive keeps the first one that it is given."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def thrift_server(spark: SparkSession) -> Iterator[Callable[[str], ThriftSession]]:
    """A Thrift server in this application: how to open a session of a user."""
    jvm: Any = spark.sparkContext._jvm
    port = _thrift_port()
    hadoop = spark.sparkContext._jsc.sc().hadoopConfiguration()
    for key, value in (("port", str(port)), ("bind.host", "127.0.0.1")):
        hadoop.set(f"hive.server2.thrift.{key}", value)
        jvm.java.lang.System.setProperty(f"hive.server2.thrift.{key}", value)
    servers = getattr(jvm.org.apache.spark.sql.hive.thriftserver, "HiveThriftServer2$").__getattr__("MODULE$")
    if spark.version.startswith("3.5."):
        server = servers.startWithContext(spark._jsparkSession.sqlContext())
    else:
        server = servers.startWithSparkSession(spark._jsparkSession, False)
    driver = jvm.org.apache.hive.jdbc.HiveDriver()
    # The server listens in a thread of its own.
    wait_until(lambda: _listens(port), "the Thrift server was to listen")

    with contextlib.ExitStack() as clients:
        clients.callback(server.stop)

        def client(user: str) -> ThriftSession:
            properties = jvm.java.util.Properties()
            properties.setProperty("user", user)
            session = ThriftSession(driver.connect(f"jdbc:hive2://127.0.0.1:{port}/", properties))
            clients.callback(session.close)
            return session

        yield client
