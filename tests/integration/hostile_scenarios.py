"""One application whose tenants choose names to do harm, and whose UI gets requests of other sites' pages.

Run like those of `scenarios`, with the UI switched on.
"""

from __future__ import annotations

import json
import warnings
from http.client import HTTPConnection
from threading import Event
from typing import Any
from urllib.parse import urlsplit

from pyspark import InheritableThread, SparkContext
from pyspark.sql import SparkSession

import spark_sched
from spark_sched.errors import SparkSchedWarning
from tests.integration.scenarios import Result, release, settled, straggling, wait_until, warm_up
from tests.integration.status_scenarios import command, is_so, page, raw

#: Starts a line of its own, colours what follows, turns it around, and looks like markup of rich and of HTML.
NAME = "red\x1b[31m\nspark_sched audit: root at 127.0.0.1: job x: cancelled\u202e[/]<b>"
#: What `NAME` is for people.
SHOWN = "red\ufffd[31m spark_sched audit: root at 127.0.0.1: job x: cancelled\ufffd[/]<b>"
LONG = 2_000_000
CHANGE = {"X-Spark-Sched": "1", "Content-Type": "application/json"}


def hostile(spark: SparkSession) -> Result:
    sc = spark.sparkContext
    warm_up(sc, 4)
    found: Result = {"requests": requests(sc), "paused": raw(sc)["reservations_paused"]}
    return found | {"names": names(spark), "shadowed": shadowed(spark), "long": long_names(spark)}


def asked(url: str, path: str, headers: dict[str, str], body: str | None = None) -> tuple[int, str]:
    """Status and body of an answer to a request with exactly these headers."""
    parts = urlsplit(url)
    connection = HTTPConnection(str(parts.hostname), parts.port, timeout=60)
    try:
        connection.putrequest("GET" if body is None else "POST", path, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name, value)
        if body is not None:
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(None if body is None else body.encode())
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def requests(sc: SparkContext) -> Result:
    """Reads and changes under several names of this machine."""
    url = sc.uiWebUrl
    assert url is not None
    port, name = urlsplit(url).port, str(urlsplit(url).hostname)
    evil, local = {"Host": f"evil.example:{port}"}, {"Host": f"localhost:{port}"}
    reads = "/sched/api/v1/status /sched/api/v1/jobs?name=x /scheduling/ /scheduling/job/?name=x"

    def of(url: str, site: str) -> dict[str, str]:
        return {"Origin": url, "Sec-Fetch-Site": site}

    def change(headers: dict[str, str]) -> tuple[int, str]:
        return asked(url, "/sched/api/v1/steer/pause", CHANGE | headers, "{}")

    def unpaused(headers: dict[str, str]) -> int:
        return asked(url, "/sched/api/v1/steer/unpause", CHANGE | headers, "{}")[0]

    return {
        "changes": {
            "rebound": change(evil | of(f"http://evil.example:{port}", "same-origin")),
            "rebound, as if forwarded": change(
                evil | {"X-Forwarded-Host": f"localhost:{port}", "Forwarded": f"host=localhost:{port}"}
            ),
            "another site": change(local | {"Sec-Fetch-Site": "cross-site"}),
            "another origin": change(local | {"Origin": "http://evil.example"}),
            "another server here": change(local | of("http://localhost:1", "same-site")),
            "no origin": change(local | {"Origin": "null"}),
        },
        "reads": {path: asked(url, path, evil) for path in reads.split()},
        "allowed": {
            "this UI": unpaused(local | of(f"http://localhost:{port}", "same-origin")),
            # kubectl port-forward and ssh -L.
            "a forwarded port": unpaused({"Host": "localhost:9999", "Origin": "http://localhost:9999"}),
            "the driver's name": unpaused({"Host": f"{name}:{port}"}),
            "an address": asked(url, "/sched/api/v1/status", {"Host": f"127.0.0.1:{port}"})[0],
            # YARN's proxy asks for the driver's own address.
            "the tab": asked(url, "/scheduling/", {"Host": f"{name}:{port}"})[0],
        },
    }  # fmt: skip


class Running:
    """A job of four tasks, marked by local properties alone, of which three end at once."""

    def __init__(self, sc: SparkContext, end: Any, properties: dict[str, str]) -> None:
        def run() -> None:
            for name, value in properties.items():
                sc.setLocalProperty(name, value)
            sc.parallelize(range(4), 4).map(straggling(end)).count()

        self.thread = InheritableThread(target=run)
        self.thread.start()


def marks(**fields: str) -> dict[str, str]:
    return {f"spark.sched.job.{name}": value for name, value in fields.items()}


def names(spark: SparkSession) -> Result:
    """The job with the hostile name, in each view for people."""
    sc = spark.sparkContext
    url = str(sc.uiWebUrl)
    with release() as end:
        running = Running(sc, end, marks(name=NAME, user=NAME, **{"class": NAME}) | {"callSite.short": NAME})
        wait_until(lambda: is_so(spark, NAME, lambda j: j.slots.running == 1), "it was to run")
        key = f"mark-name-{NAME}"
        held = spark_sched.steer.hold(spark, key)
        resumed = command("resume", url, NAME)
        unknown = command("hold", url, NAME + "x")
        job = spark_sched.explain(spark, NAME)
        found: Result = {
            "held": held, "resumed": resumed, "unknown": unknown,
            "keys": [each["job"] for each in raw(sc)["jobs"]],
            "status": str(spark_sched.status(spark)), "html": spark_sched.status(spark)._repr_html_(),
            "job": str(job), "job_html": job._repr_html_(), "top": command("top", "--once", url),
            "explain": command("explain", url, NAME), "tab": page(f"{url}/scheduling/"),
            "usage": command("usage", "--by", "user,name", url),
            "metrics": metrics_of_class(url, "class_red"),
        }  # fmt: skip
        end.touch()
        running.thread.join()
    settled(sc)
    spark_sched.steer.end(spark, key)
    return found


def metrics_of_class(url: str, name: str) -> str:
    """What a scrape has, once the look at all jobs, about one each second, has found a job of the class."""
    scrapes: list[str] = []

    def there() -> bool:
        scrapes.append(page(f"{url}/metrics/prometheus/"))
        return name in scrapes[-1]

    wait_until(there, f"the metrics were to have {name}")
    return scrapes[-1]


def shadowed(spark: SparkSession) -> Result:
    """A job whose name is the key of another one."""
    sc = spark.sparkContext
    url = str(sc.uiWebUrl)
    victim, key = "victim", "mark-name-victim"
    with release() as end:
        jobs = [Running(sc, end, marks(name=name)) for name in (victim, key)]
        for name in (victim, key):
            wait_until(lambda name=name: is_so(spark, name, lambda j: True), "both were to come")
        found: Result = {
            "hold": command("hold", url, key),
            "explain": command("explain", url, key),
            "python": spark_sched.explain(spark, key).name,
            "other": spark_sched.steer.hold(spark, f"mark-name-{key}"),
        }
        for each in (key, f"mark-name-{key}"):
            spark_sched.steer.resume(spark, each)
        end.touch()
        for job in jobs:
            job.thread.join()
    settled(sc)
    for each in (f"mark-name-{key}", key):
        spark_sched.steer.end(spark, each)
    return found


def long_names(spark: SparkSession) -> Result:
    """Jobs with names of two million characters, as local properties and from `spark_sched.job`."""
    sc = spark.sparkContext
    url = str(sc.uiWebUrl)
    warned: list[str] = []
    long = dict.fromkeys(("name", "user", "class"), "n" * LONG)
    began = Event()
    with release() as end:
        running = Running(sc, end, marks(**long) | {"callSite.short": "s" * LONG})

        def marked() -> None:
            with warnings.catch_warnings(record=True, action="always", category=SparkSchedWarning) as caught:
                with spark_sched.job(spark, "p" * LONG):
                    began.set()
                    sc.parallelize(range(4), 4).map(straggling(end)).count()
                warned.extend(str(each.message) for each in caught)

        thread = InheritableThread(target=marked)
        thread.start()
        began.wait()
        wait_until(lambda: len(jobs_of(sc, "n")) == len(jobs_of(sc, "p")) == 1, "both jobs were to come")
        document = raw(sc)
        (job,) = jobs_of(sc, "n")
        found: Result = {
            "bytes": {
                "status": len(json.dumps(document)),
                "story": len(json.dumps(raw(sc, "n" * LONG))),
                "tab": len(page(f"{url}/scheduling/")),
                "top": len(command("top", "--once", url)[1]),
                "metrics": len(page(f"{url}/metrics/prometheus/")),
                "refusal": len(spark_sched_refusal(spark)),
            },
            "job": job,
            "found": [each["job"] for each in raw(sc, "n" * LONG)["jobs"]],
            "too_much": asked(url, "/sched/api/v1/steer/hold", CHANGE, json.dumps({"job": "n" * LONG})),
        }
        end.touch()
        thread.join()
        running.thread.join()
    settled(sc)
    spark_sched.steer.end(spark, job["job"])
    return found | {"warned": warned}


def jobs_of(sc: SparkContext, letter: str) -> list[Any]:
    return [each for each in raw(sc)["jobs"] if each["name"].startswith(letter * 100)]


def spark_sched_refusal(spark: SparkSession) -> str:
    """The sentence about a job that nobody has, whose name is long."""
    try:
        spark_sched.steer.hold(spark, "x" * LONG)
    except ValueError as error:
        return str(error)
    return ""
