"""The status that sessions of servers read with SQL, and who may not. Run like those of `scenarios`."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Iterator
from typing import Any

from pyspark import InheritableThread
from pyspark.sql import SparkSession

import spark_sched
from tests.integration.scenarios import Result, release, sleeper_after, wait_until, warm_up
from tests.integration.servers import connect_server, refusal, thrift_server

#: A name that must reach the driver as it is.
HOSTILE = "it''s \"a\" \\' \\u0027 `job`'); SELECT 1; -- ${spark.app.name} :job ? \n\t/* \u2028 \U0001f600"
_STATUS = "SELECT * FROM spark_sched_status()"
_EXPLAIN = "SELECT * FROM spark_sched_explain('{}')"
_QUERY = "SELECT count(*) FROM range(0, 8, 1, 2)"


def connect_status(spark: SparkSession) -> Result:
    """A client of Spark Connect asks about a job of the application, and about none."""
    with _running(spark, HOSTILE), connect_server(spark) as client:
        ana = client("ana")
        before = _jobs_so_far(spark)
        status, story = spark_sched.status(ana), spark_sched.explain(ana, HOSTILE)
        found = {
            "jobs": [[each.name, each.slots.running] for each in status.jobs],
            "story": [story.name, len(story.story), story.slots.running],
            "unknown": refusal(lambda: spark_sched.explain(ana, "nightly'")),
            "spark_jobs": _jobs_so_far(spark) - before,
        }
        found["document"] = json.loads(ana.sql(_STATUS).collect()[0].document)
        found["in_driver"] = json.loads(_driver_document(spark))
        found["schema"] = ana.sql(_STATUS).schema.simpleString()
    return found


def thrift_status(spark: SparkSession) -> Result:
    """Sessions of a Thrift server and of the application ask the same in SQL."""
    with _running(spark, "nightly's"), thrift_server(spark) as client:
        ana = client("ana")
        readers: dict[str, Callable[[str], str]] = {
            "thrift": ana.value,
            "classic": lambda query: str(spark.sql(query).collect()[0][0]),
        }
        before = _jobs_so_far(spark)
        found: Result = {
            name: [json.loads(read(query)) for query in (_STATUS, _EXPLAIN.format("nightly\\'s"))]
            for name, read in readers.items()
        }
        found["spark_jobs"] = _jobs_so_far(spark) - before
        select = "SELECT * FROM spark_sched_"
        calls = ("status(1)", "explain()", "explain(1)", "explain(NULL)", "explain('a', 'b')")
        found["wrong"] = {
            call: [run(f"{select}{call}") for run in (ana, functools.partial(_classic, spark))]
            for call in calls
        }
        found["listed"] = [row[0] for row in spark.sql("SHOW FUNCTIONS LIKE 'spark_sched*'").collect()]
    return found


def connect_acls(spark: SparkSession) -> Result:
    """Alice is in the view ACLs. Eve is not, and tries to be Alice."""
    with connect_server(spark) as client:
        alice, eve = client("alice"), client("eve")
        # What a session asks first: nothing that it did has told the driver whose it is.
        found: Result = {
            "eve": [
                refusal(lambda: spark_sched.status(eve)),
                refusal(lambda: spark_sched.explain(eve, "nightly")),
            ],
            "alice": spark_sched.status(alice).application.user,
        }
        alice.sql(_QUERY).collect()
        found["eves_attacks"] = _attacks(lambda statement: eve.sql(statement).collect(), alice.session_id)
        for tag in ("sched:user=alice", _operation_of("alice")):
            eve.addTag(tag)
        found["eves_attacks"].append(refusal(lambda: spark_sched.status(eve)))
        found["eve_works"] = eve.sql(_QUERY).collect()[0][0]
    return found


def thrift_acls(spark: SparkSession) -> Result:
    """The same on a Thrift server; and Eve reads a view that Alice made."""
    with thrift_server(spark) as client:
        alice, eve = client("alice"), client("eve")
        found: Result = {
            "eve": [eve(_STATUS), eve(_EXPLAIN.format("nightly"))],
            "alice": json.loads(alice.value(_STATUS))["application"]["user"],
        }
        assert alice(f"CREATE GLOBAL TEMPORARY VIEW seen AS {_STATUS}") is None
        seen = json.loads(alice.value("SELECT * FROM global_temp.seen"))
        found["alices_view"] = seen["application"]["user"]

        def as_eve(statement: str) -> None:
            error = eve(statement)
            if error is not None:
                raise PermissionError(error)

        found["eves_attacks"] = _attacks(as_eve, "0" * 32)
        found["eves_attacks"].append(eve("SELECT * FROM global_temp.seen"))
        found["nobody"] = _classic(spark, _STATUS)
        found["application"] = spark_sched.status(spark).application.user
        assert alice("DROP VIEW global_temp.seen") is None
    return found


def status_without_scheduler(spark: SparkSession) -> Result:
    """The server's application runs with Spark's own scheduler."""
    with connect_server(spark) as client:
        ana = client("ana")
        return {
            "status": refusal(lambda: spark_sched.status(ana)),
            "explain": refusal(lambda: spark_sched.explain(ana, "nightly")),
            "listed": ana.sql("SHOW FUNCTIONS LIKE 'spark_sched*'").count(),
        }


@contextlib.contextmanager
def _running(spark: SparkSession, name: str) -> Iterator[None]:
    """A job of this name has all slots."""
    sc = spark.sparkContext
    warm_up(sc, 2)
    with release() as end:

        def hold() -> None:
            with spark_sched.job(spark, name, priority=3):
                sc.parallelize(range(2), 2).map(sleeper_after(end, lambda _: 0.0)).count()

        thread = InheritableThread(target=hold)
        thread.start()
        try:
            wait_until(
                lambda: any(each.slots.running == 2 for each in spark_sched.status(spark).jobs),
                "the job was to have all slots",
            )
            yield
        finally:
            end.touch()
            thread.join()


def _attacks(run: Callable[[str], object], session: str) -> list[str | None]:
    """What a tenant may try with `SET` before it asks, and what it hears then."""
    settings = {
        "spark.job.tags": f"{_operation_of('alice')},spark-session-{session}",
        "spark.jobGroup.id": session,
        "spark.sched.job.user": "alice",
        "spark.ui.view.acls": "eve",
        "spark.acls.enable": "false",
    }
    heard = []
    for key, value in settings.items():
        refusal(lambda key=key, value=value: run(f"SET {key}={value}"))  # type: ignore[misc]
        heard.append(refusal(lambda: run(_STATUS)))
    # An execution has copied the settings when it analyses these.
    for prefix in ("CACHE TABLE mine AS", "CREATE TABLE mine AS", "CREATE TEMPORARY VIEW mine AS"):
        heard.append(refusal(lambda prefix=prefix: run(f"{prefix} {_STATUS}")))  # type: ignore[misc]
    run("RESET")
    return heard


def _operation_of(user: str) -> str:
    some = "01234567-89ab-cdef-0123-456789abcdef"
    return f"SparkConnect_OperationTag_User_{user}_Session_{some}_Operation_{some}"


def _classic(spark: SparkSession, statement: str) -> str | None:
    return refusal(lambda: spark.sql(statement).collect())


def _jobs_so_far(spark: SparkSession) -> int:
    """Spark jobs of the application."""
    scheduler: Any = spark.sparkContext._jsc.sc().dagScheduler()
    return int(scheduler.numTotalJobs())


def _driver_document(spark: SparkSession) -> str:
    context = spark.sparkContext
    jvm: Any = context._jvm
    return str(jvm.org.apache.spark.scheduler.sparksched.SparkSched.status(context._jsc.sc()))
