"""What one application says about itself, in its own Python, over its UI and on the command line.

Run like those of `scenarios`, with the UI switched on.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterable
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

from click.testing import CliRunner
from pyspark import InheritableThread, SparkContext
from pyspark.sql import SparkSession

import spark_sched
from spark_sched.cli.app import app
from spark_sched.view.status import JobStatus
from tests.integration.scenarios import (
    Result,
    release,
    settled,
    sleeper,
    straggling,
    wait_until,
    warm_up,
)

#: A name that a page must not take for its own markup.
MARKUP = "<script>alert('a & b')</script>"


def shown(spark: SparkSession) -> Result:
    """A job that holds three slots for itself beside its straggler, two that it holds back, and a planner
    that is killed; each looked at in every way."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    wait_until(lambda: spark_sched.status(spark).planner.alive, "the planner was to come")
    with release() as end:

        def holder() -> None:
            with spark_sched.job(spark, "holder", priority=5, isolation=1.0, copies="never", job_class="etl"):
                sc.parallelize(range(4), 4).map(straggling(end)).collect()

        def waiter() -> None:
            with spark_sched.job(spark, "waiter", priority=1, deadline="1h", user="grace"):
                sc.parallelize(range(2), 2).map(sleeper(lambda _: 0.1)).collect()

        def last() -> None:
            with spark_sched.job(spark, MARKUP, priority=0):
                sc.parallelize(range(2), 2).map(sleeper(lambda _: 0.1)).collect()

        threads = [InheritableThread(target=run) for run in (holder, waiter, last)]
        threads[0].start()
        wait_until(lambda: is_so(spark, "holder", lambda j: j.slots.held == 3), "three slots were to be held")
        threads[1].start()
        wait_until(lambda: is_so(spark, "waiter", held_back_by_plan), "the waiter was to be held back")
        threads[2].start()
        wait_until(lambda: is_so(spark, MARKUP, held_back_by_plan), "the last one was to be held back")
        wait_until(lambda: told_of_the_wait(spark), "the story was to tell of the wait")
        held = everywhere(sc, spark, "waiter")
        planner = without_planner(spark)
        end.touch()
        for thread in threads:
            thread.join()
    settled(sc)
    wait_until(lambda: spark_sched.status(spark).plan is not None, "another planner was to plan")
    wait_until(lambda: spark_sched.explain(spark, "waiter").state == "ended", "the waiter was to end")
    spark_sched.steer.pause(spark)
    spark_sched.steer.unpause(spark)
    # A policy that plans no starts answers, too; whether its planner saw an end of this name is open.
    answer = spark_sched.admission(spark, "waiter", tasks=2, deadline="1h", user="grace", timeout_s=300)
    return {
        "admission": (answer.start_s, answer.probability, answer.runtime_s, str(answer)),
        **held,
        **planner,
        "again": raw(sc),
        "over": raw(sc, "waiter"),
        "holder_over": raw(sc, "holder"),
        "unknown": unknown(spark, sc),
    }


def is_so(spark: SparkSession, name: str, condition: Callable[[JobStatus], bool]) -> bool:
    """Whether a job of this name is there and meets the condition."""
    return any(each.name == name and condition(each) for each in spark_sched.status(spark).jobs)


def held_back_by_plan(waiting: JobStatus) -> bool:
    return waiting.state == "held_back" and waiting.order.rank is not None


def told_of_the_wait(spark: SparkSession) -> bool:
    """Whether the waiter's story tells that it waits, and the plan's reason: looks are a second apart."""
    told = [entry.text for entry in spark_sched.explain(spark, "waiter").story]
    return any("held back" in text for text in told) and any(text.startswith("plan ") for text in told)


def raw(sc: SparkContext, name: str | None = None) -> Any:
    """The document as the driver gives it."""
    entry: Any = sc._jvm.org.apache.spark.scheduler.sparksched.SparkSched
    context = sc._jsc.sc()
    return json.loads(entry.status(context) if name is None else entry.explain(context, name))


def get(url: str) -> tuple[int, Any]:
    try:
        with urlopen(url, timeout=60) as answer:
            return answer.status, json.loads(answer.read())
    except HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def page(url: str) -> str:
    with urlopen(url, timeout=60) as answer:
        text: str = answer.read().decode()
        return text


#: What Prometheus is to read while three slots are held, two jobs wait and a plan is in force.
FIGURES = {
    "total_slots_held": 3, "class_etl_slots_held": 3, "total_waiting_jobs": 2, "class_none_waiting_jobs": 2,
    "plan_in_force": 1, "policy_reservation_in_force": 1, "planner_alive": 1,
}  # fmt: skip


#: Counters that are not among the metrics' counters, since the planner's figures and the total have them.
ELSEWHERE = {
    "slots_held_now", "planner_pid", "planner_restarts", "planner_stalls", "plans_accepted", "plans_rejected",
    "plan_fallbacks",
}  # fmt: skip


def counted(document: Any) -> list[str]:
    """The counters that metrics have: those that have ever counted something."""
    return [name for name, count in document["counters"].items() if count and name not in ELSEWHERE]


def scraped(url: str, counted: Iterable[str]) -> str:
    """What Prometheus reads, once it tells of all that: figures are a second old, and can be of two looks."""
    figures = [f'_sched_{name}_Value{{type="gauges"}} {value:.1f}' for name, value in FIGURES.items()]
    figures += [f"_sched_counters_{name}_Count{{" for name in counted]
    answers: list[str] = []

    def told() -> bool:
        answers.append(page(url))
        return all(figure in answers[-1] for figure in figures)

    wait_until(told, "metrics were to tell of it")
    return answers[-1]


def frame_options(url: str) -> str | None:
    """A header that Spark's security filter sets, which checks the view ACLs."""
    with urlopen(url, timeout=60) as answer:
        options: str | None = answer.headers["X-Frame-Options"]
        return options


def command(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, arguments, env={"COLUMNS": "300"})
    return done.exit_code, done.output


def everywhere(sc: SparkContext, spark: SparkSession, name: str) -> Result:
    """The same moment through each view: nothing happens meanwhile.

    Where the plan ran out, as that of a planner that is not let run does, all is looked at again.
    """
    found: Result = {}

    def under_one_plan() -> bool:
        before = raw(sc)
        if any(each["rank"] is None for each in before["jobs"]):
            return False
        found.update(seen(sc, spark, name, before))
        return planning(raw(sc)) == planning(before)

    wait_until(under_one_plan, "all views were to be of one plan")
    return found


def planning(document: Any) -> Any:
    """Of a document what other plans could change, and whether one ran out."""
    planner = document["planner"]
    jobs = [(each["job"], each["rank"], each["reason"]) for each in document["jobs"]]
    return planner["restarts"], planner["plan_fallbacks"], jobs


def seen(sc: SparkContext, spark: SparkSession, name: str, document: Any) -> Result:
    url = sc.uiWebUrl
    return {
        "driver": document,
        "rest": get(f"{url}/sched/api/v1/status"),
        "guarded": [
            frame_options(f"{url}{path}") for path in ("/sched/api/v1/status", "/scheduling/", "/jobs/")
        ],
        "tab": page(f"{url}/scheduling/"),
        "story_page": page(f"{url}/scheduling/job/?name={name}"),
        "rest_markup": get(f"{url}/sched/api/v1/jobs?name={quote(MARKUP, safe='')}"),
        "rest_jobs": [get(f"{url}/sched/api/v1/jobs{query}") for query in (f"/{name}", f"?name={name}")],
        "python": str(spark_sched.status(spark)),
        "html": spark_sched.status(spark)._repr_html_(),
        "top": command("top", "--once", url),
        "top_json": command("top", "--json", f"{url}/jobs/"),
        "usage": command("usage", "--json", "--by", "class", url),
        "explain": command("explain", url, name),
        "story": raw(sc, name),
        "metrics": scraped(f"{url}/metrics/prometheus/", counted(document)),
    }


def unknown(spark: SparkSession, sc: SparkContext) -> Result:
    """Answers about a job that nobody knows."""
    try:
        spark_sched.explain(spark, "nobody")
        said = ""
    except ValueError as error:
        said = str(error)
    return {
        "python": said,
        "rest": get(f"{sc.uiWebUrl}/sched/api/v1/jobs/nobody"),
        "command": command("explain", sc.uiWebUrl, "nobody"),
    }


def without_planner(spark: SparkSession) -> Result:
    """Kill the planner, look, and look again when its plan ran out; another one comes later.

    If that one came before both was seen, it is killed, too.
    """
    found: Result | None = None
    while found is None:
        found = _without_planner(spark)
    return found


def _without_planner(spark: SparkSession) -> Result | None:
    """What is seen after one kill; None: another planner came too early."""
    sc = spark.sparkContext
    wait_until(lambda: spark_sched.status(spark).planner.alive, "a planner was to be there")
    killed = spark_sched.status(spark).planner
    if killed.pid is None:
        return None
    os.kill(killed.pid, signal.SIGKILL)
    wait_until(lambda: spark_sched.status(spark).planner.pid != killed.pid, "the planner was to be missed")
    dead = command("top", "--once", sc.uiWebUrl)
    documents: list[Any] = []

    def another_came() -> bool:
        return bool(documents[-1]["planner"]["restarts"] > killed.restarts)

    def ran_out_or_too_late() -> bool:
        documents.append(raw(sc))
        return documents[-1]["plan"] is None or another_came()

    documents.append(raw(sc))
    if another_came():
        return None
    wait_until(ran_out_or_too_late, "its plan was to run out")
    return None if another_came() else {"dead": dead, "without_plan": documents[-1]}
