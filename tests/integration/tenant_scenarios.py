"""Two users each on a Spark Connect server and on a Thrift server, and marks inside micro-batches.

Run like those of `scenarios`. The servers listen in the driver's own JVM; their clients are real ones.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark import InheritableThread
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession

import spark_sched
from tests.integration import tab_pages
from tests.integration.browser import CHROMIUM, browser
from tests.integration.scenarios import Result, all_told, release, sleeper_after, wait_until, warm_up
from tests.integration.servers import ThriftSession, connect_server, refusal, thrift_server
from tests.integration.status_scenarios import command, page
from tests.spark_lines import has_connect

_QUERY = "SELECT count(*) FROM range(0, 8, 1, 2)"
#: A server: given a user, it opens a session of that user, which runs the query as a job of a name, or
#: unmarked.
Door = Callable[
    [SparkSession],
    contextlib.AbstractContextManager[Callable[[str], Callable[[str | None], None]]],
]


def connect_tenants(spark: SparkSession) -> Result:
    """Alice and Eve on Spark Connect: Eve tries to become Alice, to join others, and to end Alice's job."""
    with connect_server(spark) as client:
        alice, eve = client("alice"), client("eve")

        def as_eve(*statements: str) -> str | None:
            return refusal(lambda: [eve.sql(statement).collect() for statement in statements])

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
    with thrift_server(spark) as client:
        alice, eve = client("alice"), client("eve")
        alice("SET spark.sched.job.id=nightly", "SET spark.sched.job.name=nightly")
        alice("SET spark.sched.job.priority=3", "SET spark.sched.job.isolation=0.5", _QUERY)
        found = _attacks(spark, eve)
        eve("SET spark.sched.job.user=alice", "SET spark.sched.job.name=claimed", _QUERY)
        found["claimed"] = _jobs(spark, "claimed")
        eve("RESET spark.sched.job.user", "RESET spark.sched.job.name")
    return found


#: Sessions that run one statement each.
FIRST_STATEMENTS = 12


class _LateBus:
    """A listener that is slow with each session of a Thrift server: what comes after it is delivered late."""

    LATE_S = 0.7

    def onOtherEvent(self, event: Any) -> None:
        if event.getClass().getName().endswith("ThriftServerSessionCreated"):
            time.sleep(self.LATE_S)

    def hashCode(self) -> int:
        return 1

    def __getattr__(self, name: str) -> Callable[..., None]:
        if not name.startswith("on"):
            raise AttributeError(name)
        return lambda *_: None

    class Java:
        implements = ("org.apache.spark.scheduler.SparkListenerInterface",)


def first_statements(spark: SparkSession) -> Result:
    """New sessions of Alice and of others on a Thrift server, each with one statement: jobs by queue. Spark's
    listener bus delivers what the server reports after the statement has begun."""
    ensure_callback_server_started(spark.sparkContext._gateway)
    bus: Any = spark.sparkContext._jsc.sc().listenerBus()
    late = _LateBus()
    with thrift_server(spark) as client, contextlib.ExitStack() as after:
        bus.addToManagementQueue(late)
        after.callback(bus.removeListener, late)
        errors = [client("alice" if n % 2 else f"user-{n}")(_QUERY) for n in range(FIRST_STATEMENTS)]
        queues = {
            each.queue: each.sums.jobs + each.sums.jobs_ended
            for each in spark_sched.status(spark).queues
            if each.sums is not None
        }
    return {"errors": errors, "queues": queues}


USERS = ("ana", "ben", "cho", "dia", "eve")
#: What no session may set, and what a client that sets it hears of it.
_WRONG = {
    "unread": ("spark.sched.job.priority", "high"),
    "unknown": ("spark.sched.jobs.priority", "1"),
    "of_the_application": ("spark.sched.planner.policy", "fifo"),
    "past": ("spark.sched.job.deadline", "2001-01-01T00:00"),
}


def crowd(spark: SparkSession) -> Result:
    """Forty jobs of five users on Spark Connect wait for one that has all slots, until it lets go of them."""
    return _crowd(spark, _connect_door, "report")


def thrift_crowd(spark: SparkSession) -> Result:
    """The same on a Thrift server."""
    return _crowd(spark, _thrift_door, "extract")


def _crowd(spark: SparkSession, door: Door, name: str) -> Result:
    sc = spark.sparkContext
    warm_up(sc, 4)
    # Other scenarios of this application had jobs, too.
    found: Result = {"users_before": _jobs_ended(spark)}
    with door(spark) as session, release() as end:
        session("ana")(None)
        found["unmarked"] = page(f"{sc.uiWebUrl}/scheduling/?user=ana&state=ended")
        jobs = [(USERS[n % 5], f"{name}-{n}") for n in range(40)]
        runs = [session(user) for user, _ in jobs]

        def holder() -> None:
            with spark_sched.job(spark, "holder", priority=9, user="owner"):
                sc.parallelize(range(4), 4).map(sleeper_after(end, lambda _: 0.1)).count()

        threads = [InheritableThread(target=holder)]
        threads[0].start()
        wait_until(lambda: _running(spark) == {"holder": 4}, "the holder was to have all slots")
        for run, (_, job) in zip(runs, jobs, strict=True):
            threads.append(InheritableThread(target=run, args=(job,)))
            threads[-1].start()
        wait_until(lambda: _waiting(spark, f"{name}-") == 40, "forty jobs were to wait")
        found["whys"] = sorted(
            {each.notes.why.split(", about")[0] for each in spark_sched.status(spark).jobs}
        )
        found["waiting"] = page(f"{sc.uiWebUrl}/scheduling/")
        found["of_dia"] = page(f"{sc.uiWebUrl}/scheduling/?user=dia&state=waiting&name={name.upper()}")
        found["browser"] = None if CHROMIUM is None else _browsed(f"{sc.uiWebUrl}/scheduling/", name)
        found["top"] = _answered("top", "--once", "--user", "dia", sc.uiWebUrl)
        end.touch()
        for thread in threads:
            thread.join()
        wait_until(lambda: not spark_sched.status(spark).jobs, "all jobs were to end")
    found["pages"] = [
        page(f"{sc.uiWebUrl}/scheduling/?state=ended&name={name}-&user={user}") for user in USERS
    ]
    found["users"] = _jobs_ended(spark)
    found["usage"] = _answered("usage", "--json", "--by", "user", sc.uiWebUrl)
    stories = [spark_sched.explain(spark, job) for _, job in jobs]
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


def thousand(spark: SparkSession) -> Result:
    """A thousand jobs of five users, half of them on Spark Connect and half on a Thrift server."""
    sc = spark.sparkContext
    found: Result = {"users_before": _jobs_ended(spark)}

    def many(run: Callable[[str | None], None], names: list[str]) -> None:
        for name in names:
            run(name)

    with _connect_door(spark) as connect, _thrift_door(spark) as thrift:
        threads = [
            InheritableThread(target=many, args=(session(user), [f"{door}-{user}-{n}" for n in range(100)]))
            for door, session in (("connect", connect), ("thrift", thrift))
            for user in USERS
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wait_until(lambda: not spark_sched.status(spark).jobs, "all jobs were to end")
    found["users"] = _jobs_ended(spark)
    url = f"{sc.uiWebUrl}/scheduling/?state=ended"
    found["pages"] = [page(f"{url}&name=-dia-&page={number}") for number in range(1, 5)]
    found["first"] = page(url)
    found["browser"] = None if CHROMIUM is None else _turned(url)
    found["stories"] = [
        spark_sched.explain(spark, f"{door}-{user}-{n}").state
        for door in ("connect", "thrift")
        for user in USERS
        for n in (0, 99)
    ]
    found["usage"] = _answered("usage", "--json", "--by", "user", sc.uiWebUrl)
    found["counters"] = dict(spark_sched.status(spark).counters)
    return found


def _browsed(url: str, name: str) -> Result:
    """The waiting jobs of one user as a person sees them, and what makes the page scroll sideways."""
    with browser() as tab:
        tab.resize(*tab_pages.WIDE)
        tab.open(url)
        jobs = tab_pages.choose(tab, user="dia", state="waiting", name=name.upper())
        tab.resize(*tab_pages.PHONE)
        tab.open(url)
        return {"of_dia": [job["Job"] for job in jobs], "too_wide": tab_pages.too_wide(tab)}


def _turned(url: str) -> Result:
    """The names of one user's jobs on each page that a person turns to."""
    with browser() as tab:
        tab.resize(*tab_pages.PHONE)
        tab.open(url)
        tab_pages.choose(tab, user="dia", name="-dia-")
        pages = tab_pages.all_pages(tab)
        return {
            "pages": [[job["Job"] for job in page] for page in pages],
            "too_wide": tab_pages.too_wide(tab),
        }


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
            sessions["connect"] = servers.enter_context(connect_server(spark))("ana")
        thrift = servers.enter_context(thrift_server(spark))
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


def _errors(sessions: dict[str, Any], thrift: ThriftSession) -> Result:
    found: Result = {}
    for what, (key, value) in _WRONG.items():
        statement = f"SET {key}={value}"
        found[what] = {"thrift": thrift(statement)}
        for door, session in sessions.items():
            found[what][door] = refusal(
                lambda session=session, statement=statement: session.sql(statement).collect()  # type: ignore[misc]
            )
            if what == "unread":
                found[what][f"{door} conf"] = refusal(
                    lambda session=session, key=key, value=value: session.conf.set(key, value)  # type: ignore[misc]
                )
    return found


def _running(spark: SparkSession) -> dict[str, int]:
    return {each.name: each.slots.running for each in spark_sched.status(spark).jobs if each.slots.running}


def _waiting(spark: SparkSession, prefix: str) -> int:
    jobs = spark_sched.status(spark).jobs
    return sum(each.state in ("waiting", "held_back") and each.name.startswith(prefix) for each in jobs)


def _attacks(spark: SparkSession, eve: Callable[..., str | None]) -> Result:
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


@contextlib.contextmanager
def _tagged(session: Any, *marks: str) -> Iterator[None]:
    for mark in marks:
        session.addTag(f"sched:{mark}")
    yield
    for mark in marks:
        session.removeTag(f"sched:{mark}")


@contextlib.contextmanager
def _connect_door(spark: SparkSession) -> Iterator[Callable[[str], Callable[[str | None], None]]]:
    with connect_server(spark) as client:

        def session(user: str) -> Callable[[str | None], None]:
            mine = client(user)

            def run(name: str | None) -> None:
                with contextlib.nullcontext() if name is None else spark_sched.job(mine, name):
                    mine.sql(_QUERY).collect()

            return run

        yield session


@contextlib.contextmanager
def _thrift_door(spark: SparkSession) -> Iterator[Callable[[str], Callable[[str | None], None]]]:
    with thrift_server(spark) as client:

        def session(user: str) -> Callable[[str | None], None]:
            mine = client(user)

            def run(name: str | None) -> None:
                key = "spark.sched.job.name"
                error = mine(_QUERY) if name is None else mine(f"SET {key}={name}", _QUERY, f"RESET {key}")
                assert error is None, error

            return run

        yield session


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
