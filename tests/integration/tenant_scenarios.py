"""Two users each on a Spark Connect server and on a Thrift server, and marks inside micro-batches.

Run like those of `scenarios`. The servers listen in the driver's own JVM; their clients are real ones.
"""

from __future__ import annotations

import contextlib
import socket
import tempfile
import uuid
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from pyspark import InheritableThread
from pyspark.sql import DataFrame, SparkSession

import spark_sched
from tests.integration.scenarios import Result, all_told, release, sleeper_after, wait_until, warm_up
from tests.integration.status_scenarios import command, page
from tests.spark_lines import has_connect

_QUERY = "SELECT count(*) FROM range(0, 8, 1, 2)"
Run = Callable[..., str | None]


def connect_tenants(spark: SparkSession) -> Result:
    """Alice and Eve on Spark Connect: Eve tries to become Alice, to join others, and to end Alice's job."""
    with _connect(spark) as client:
        alice, eve = client("alice"), client("eve")

        def as_eve(*statements: str) -> str | None:
            return _refusal(lambda: [eve.sql(statement).collect() for statement in statements])

        with _tagged(alice, "id=nightly", "name=nightly", "priority=3", "isolation=0.5"):
            alice.sql(_QUERY).collect()
        found = _attacks(spark, as_eve)
        with _tagged(eve, "user=alice", "name=claimed"):
            eve.sql(_QUERY).collect()
        found["claimed"] = _jobs(spark, "claimed")
        # Spark looks into the file before it executes anything: in no SQL execution, and with the settings.
        file = Path(tempfile.mkdtemp()) / "rows.json"
        file.write_text('{"a": 1}\n')
        as_eve(*_forged("alice"), "SET spark.sched.job.name=looked")
        assert eve.read.json(str(file)).columns == ["a"]
        found["looked"] = _jobs(spark, "looked")
        as_eve("RESET")
        with spark_sched.job(alice, "block", priority=2):
            alice.sql(_QUERY).collect()
            found["in_block"] = _jobs(spark, "block")
        wait_until(lambda: not _jobs(spark, "block"), "the end of the block was to end its job")
    return found


def thrift_tenants(spark: SparkSession) -> Result:
    """The same on a Thrift server."""
    with _thrift(spark) as client:
        alice, eve = client("alice"), client("eve")
        alice("SET spark.sched.job.id=nightly", "SET spark.sched.job.name=nightly")
        alice("SET spark.sched.job.priority=3", "SET spark.sched.job.isolation=0.5", _QUERY)
        found = _attacks(spark, eve)
        eve("SET spark.sched.job.user=alice", "SET spark.sched.job.name=claimed", _QUERY)
        found["claimed"] = _jobs(spark, "claimed")
        eve("RESET spark.sched.job.user", "RESET spark.sched.job.name")
        for run in (alice, eve):
            run()
    return found


USERS = ("ana", "ben", "cho", "dia", "eve")
#: What no session may set, and what a client that sets it hears of it.
_WRONG = {
    "unread": ("spark.sched.job.priority", "high"),
    "unknown": ("spark.sched.jobs.priority", "1"),
    "of_the_application": ("spark.sched.planner.policy", "fifo"),
    "past": ("spark.sched.job.deadline", "2001-01-01T00:00"),
}


def crowd(spark: SparkSession) -> Result:
    """Forty jobs of five users wait for one that has all slots, until it lets go of them.

    The users are those of a Spark Connect server; where Spark comes without it, blocks name them.
    """
    sc = spark.sparkContext
    warm_up(sc, 4)
    # Other scenarios of this application had jobs, too.
    found: Result = {"users_before": _jobs_ended(spark)}
    with contextlib.ExitStack() as server, release() as end:
        jobs = [(USERS[n % 5], f"report-{n}") for n in range(40)]
        sessions: list[tuple[Any, str | None]]
        if has_connect():
            connect = server.enter_context(_connect(spark))
            connect("ana").sql(_QUERY).collect()
            found["unmarked"] = page(f"{sc.uiWebUrl}/scheduling/?user=ana&state=ended")
            sessions = [(connect(user), None) for user, _ in jobs]
        else:
            sessions = [(spark.newSession(), user) for user, _ in jobs]

        def holder() -> None:
            with spark_sched.job(spark, "holder", priority=9, user="owner"):
                sc.parallelize(range(4), 4).map(sleeper_after(end, lambda _: 0.1)).count()

        def run(session: Any, user: str | None, name: str) -> None:
            with spark_sched.job(session, name, user=user):
                session.sql(_QUERY).collect()

        threads = [InheritableThread(target=holder)]
        threads[0].start()
        wait_until(lambda: _running(spark) == {"holder": 4}, "the holder was to have all slots")
        for (session, user), (_, name) in zip(sessions, jobs, strict=True):
            threads.append(InheritableThread(target=run, args=(session, user, name)))
            threads[-1].start()
        wait_until(lambda: _waiting(spark) == 40, "forty jobs were to wait")
        found["whys"] = sorted(
            {each.notes.why.split(", about")[0] for each in spark_sched.status(spark).jobs}
        )
        found["waiting"] = page(f"{sc.uiWebUrl}/scheduling/")
        found["of_dia"] = page(f"{sc.uiWebUrl}/scheduling/?user=dia&state=waiting&name=REPORT")
        found["top"] = _answered("top", "--once", "--user", "dia", sc.uiWebUrl)
        end.touch()
        for thread in threads:
            thread.join()
    wait_until(lambda: not spark_sched.status(spark).jobs, "all jobs were to end")
    found["pages"] = [
        page(f"{sc.uiWebUrl}/scheduling/?state=ended&name=report-&user={user}") for user in USERS
    ]
    found["users"] = _jobs_ended(spark)
    found["usage"] = _answered("usage", "--json", "--by", "user", sc.uiWebUrl)
    stories = [spark_sched.explain(spark, name) for _, name in jobs]
    found["ended"] = [each.state for each in stories]
    found["stages"] = sorted(
        {
            entry.text.split(": ", 1)[1]
            for each in stories
            for entry in each.story
            if "is ready: " in entry.text
        }
    )
    return found


def _jobs_ended(spark: SparkSession) -> dict[str, int]:
    return {each.name: each.jobs_ended for each in spark_sched.status(spark).users}


def _answered(*arguments: str) -> tuple[int, str]:
    """A command's output: a busy driver may need more time than the command gives it."""
    done: list[tuple[int, str]] = []

    def worked() -> bool:
        done.append(command(*arguments))
        return done[-1][0] == 0

    wait_until(worked, "the driver was to answer")
    return done[-1]


def wrong_settings(spark: SparkSession) -> Result:
    """What each kind of session that this Spark has hears of settings that would not count."""
    with contextlib.ExitStack() as servers:
        sessions: dict[str, Any] = {"classic": spark}
        if has_connect():
            sessions["connect"] = servers.enter_context(_connect(spark))("ana")
        thrift = servers.enter_context(_thrift(spark))
        errors = _errors(sessions, thrift("ben"))
        return {"errors": errors, "passed": {door: _passed(each) for door, each in sessions.items()}}


def _passed(session: Any) -> int:
    """The rows of a cached plan, for which Spark copies the settings of a session with a past deadline."""
    key, value = _WRONG["past"]
    session.conf.set(key, value)
    try:
        cached = session.range(3).cache()
        rows = cached.count()
        cached.unpersist()
        return int(rows)
    finally:
        session.conf.unset(key)


def _errors(sessions: dict[str, Any], thrift: Run) -> Result:
    found: Result = {}
    for what, (key, value) in _WRONG.items():
        statement = f"SET {key}={value}"
        found[what] = {"thrift": thrift(statement)}
        for door, session in sessions.items():
            found[what][door] = _refusal(
                lambda session=session, statement=statement: session.sql(statement).collect()  # type: ignore[misc]
            )
            if what == "unread":
                found[what][f"{door} conf"] = _refusal(
                    lambda session=session, key=key, value=value: session.conf.set(key, value)  # type: ignore[misc]
                )
    return found


def _running(spark: SparkSession) -> dict[str, int]:
    return {each.name: each.slots.running for each in spark_sched.status(spark).jobs if each.slots.running}


def _waiting(spark: SparkSession) -> int:
    jobs = spark_sched.status(spark).jobs
    return sum(each.state in ("waiting", "held_back") and each.name.startswith("report-") for each in jobs)


def _attacks(spark: SparkSession, eve: Run) -> Result:
    """What Eve's session may try with `SET`, and what becomes of it; Alice's job `nightly` is there."""
    sc = spark.sparkContext
    found: Result = {"before": _jobs(spark, "nightly")}

    # 1. Become Alice.
    eve(*_forged("alice"), "SET spark.sched.job.id=stolen", "SET spark.sched.job.priority=99", _QUERY)
    found["stolen"] = _jobs(spark, "stolen")
    eve("RESET spark.job.tags", "RESET spark.sched.job.id")

    # 2. Join the job of the application's own group.
    group = f"victims-{uuid.uuid4().hex}"
    sc.setJobGroup(group, "of the application")
    sc.parallelize(range(2), 2).count()
    sc.setLocalProperty("spark.jobGroup.id", None)
    sc.setLocalProperty("spark.job.description", None)
    eve(f"SET spark.jobGroup.id={group}", _QUERY)
    found["stages_of_group"] = _stages(spark, f"group-{group}")
    eve("RESET spark.jobGroup.id")

    # 3. End Alice's job, with and without a Spark job of her own under the mark.
    for query in ("SELECT 1", _QUERY):
        eve("SET spark.sched.job.id=5-alice-nightly", query, "RESET spark.sched.job.id", query)
        all_told(sc)
    found["after"] = _jobs(spark, "nightly")

    # 4. Claim another's SQL execution.
    found["refused"] = eve("SET spark.sql.execution.id=0")

    # 5. The same name as Alice's; RESET ends the whole mark.
    eve("SET spark.sched.job.name=nightly", "SET spark.sched.job.priority=8", _QUERY)
    found["same_name"] = _jobs(spark, "nightly")
    eve("RESET spark.sched.job.name")
    all_told(sc)
    found["after_reset"] = _jobs(spark, "nightly")
    eve("SET spark.sched.job.name=plain", _QUERY)
    found["plain"] = _jobs(spark, "plain")
    eve("RESET spark.sched.job.name")
    return found


def _forged(user: str) -> tuple[str]:
    some = str(uuid.uuid4())
    tag = f"SparkConnect_OperationTag_User_{user}_Session_{some}_Operation_{some}"
    return (f"SET spark.job.tags={tag}",)


def _jobs(spark: SparkSession, name: str) -> list[list[Any]]:
    """Key, user, priority and isolation of the jobs that are there and have this name or id in their key."""
    jobs = (job for job in spark_sched.status(spark).jobs if name in job.job or job.name == name)
    return sorted([job.job, job.marks.user, job.marks.priority, job.marks.isolation] for job in jobs)


def _stages(spark: SparkSession, job: str) -> int:
    return sum("is ready" in entry.text for entry in spark_sched.explain(spark, job).story)


def _refusal(statements: Callable[[], object]) -> str | None:
    """How the statements fail, if they do."""
    try:
        statements()
    except Exception as error:
        return str(error)
    return None


@contextlib.contextmanager
def _tagged(session: Any, *marks: str) -> Iterator[None]:
    for mark in marks:
        session.addTag(f"sched:{mark}")
    yield
    for mark in marks:
        session.removeTag(f"sched:{mark}")


@contextlib.contextmanager
def _connect(spark: SparkSession) -> Iterator[Callable[[str], Any]]:
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
def _thrift(spark: SparkSession) -> Iterator[Callable[[str], Run]]:
    """A Thrift server in this application: how to open a session of a user, over JDBC.

    A session runs statements and gives the error of the first one that fails, or the last one's last row;
    without statements it closes.
    """
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

    def client(user: str) -> Run:
        properties = jvm.java.util.Properties()
        properties.setProperty("user", user)
        connection = driver.connect(f"jdbc:hive2://127.0.0.1:{port}/", properties)

        def run(*statements: str) -> str | None:
            if not statements:
                connection.close()
            for text in statements:
                statement = connection.createStatement()
                error = _refusal(lambda text=text, statement=statement: statement.execute(text))  # type: ignore[misc]
                statement.close()
                if error is not None:
                    return error
            return None

        return run

    try:
        yield client
    finally:
        server.stop()


# ---- micro-batches ----


def marks_in_micro_batches(spark: SparkSession) -> Result:
    """A stream in a block writes twice per batch, each with a mark of its own, by API and by properties."""
    sc = spark.sparkContext
    source = Path(tempfile.mkdtemp())
    for number in range(2):
        (source / f"{number}.txt").write_text("a\nb\n")
    seen: list[list[Any]] = []

    def look(what: str, number: int, batch: DataFrame) -> None:
        assert batch.rdd.count() == 2
        jobs = spark_sched.status(spark).jobs
        mine = [job for job in jobs if job.name == what and job.outcome is None]
        keys = [job.job.split("-")[0] for job in mine]
        seen.append([what, number, keys, [job.marks.priority for job in mine]])

    def sink(batch: DataFrame, number: int) -> None:
        look("stream", number, batch)
        with spark_sched.job(batch.sparkSession, "archive", priority=1):
            look("archive", number, batch)
        with spark_sched.job(batch.sparkSession, "alerts", priority=10):
            look("alerts", number, batch)
        before = {key: sc.getLocalProperty(f"spark.sched.job.{key}") for key in ("name", "priority")}
        for key, value in (("name", "plain"), ("priority", "4")):
            sc.setLocalProperty(f"spark.sched.job.{key}", value)
        look("plain", number, batch)
        for key, old in before.items():
            sc.setLocalProperty(f"spark.sched.job.{key}", old)
        look("stream", number, batch)

    with spark_sched.job(spark, "stream", priority=3):
        query = (
            spark.readStream.option("maxFilesPerTrigger", 1)
            .text(str(source))
            .writeStream.foreachBatch(sink)
            .trigger(availableNow=True)
            .option("checkpointLocation", tempfile.mkdtemp())
            .start()
        )
        query.awaitTermination()
    all_told(sc)
    wait_until(lambda: not spark_sched.status(spark).jobs, "the end of the stream was to end its jobs")
    return {"seen": seen}
