"""Forty jobs of five users in queues, looked at with a browser.

Run like those of `scenarios`, with the UI switched on and the queues of `QUEUES`.
"""

from __future__ import annotations

import contextlib
from urllib.parse import quote

from pyspark import InheritableThread
from pyspark.sql import SparkSession

import spark_sched
from spark_sched.config.queues import Amount, PlacementRule, QueueSpec, QueueTree
from spark_sched.view.overview import is_at_risk
from tests.integration import tab_pages
from tests.integration.browser import CHROMIUM, browser
from tests.integration.scenarios import Result, release, sleeper_after, wait_until, warm_up
from tests.integration.status_scenarios import command, page

USERS = ("ana", "ben", "cho", "dia", "eve")
QUEUES = QueueTree(
    (
        QueueSpec("etl", floor=Amount(percent=25.0), ceiling=Amount(percent=75.0)),
        QueueSpec("etl.nightly", weight=3.0),
        QueueSpec("etl.hourly", max_running_jobs=6),
        QueueSpec("bi", ceiling=Amount(2), max_running_jobs=10),
        QueueSpec("adhoc"),
    ),
    (
        PlacementRule("etl.nightly", user="ana"),
        PlacementRule("etl.hourly", user="ben"),
        PlacementRule("bi", user="cho"),
        PlacementRule("bi", user="dia"),
    ),
    "adhoc",
)
JOBS = 40
#: The first of every so many jobs has a deadline that passes while it waits.
LATE_EVERY = 8
LATE = JOBS // LATE_EVERY
#: What Prometheus is to read of a queue while all wait.
FIGURE = 'spark_sched_queue_etl_hourly_admission_waiting_jobs_Value{type="gauges"} 2.0'
#: Jobs that ended before, so that there are two pages.
ENDED = 15


def queued_crowd(spark: SparkSession) -> Result:
    """Forty jobs, eight of each user, wait beside one of the application's user that has all slots."""
    sc = spark.sparkContext
    warm_up(sc, 4)
    for n in range(ENDED):
        with spark_sched.job(spark, f"extract-{n}", user=USERS[n % 5]):
            sc.parallelize(range(2), 2).map(lambda x: x).count()
    with contextlib.suppress(Exception), spark_sched.job(spark, "fails", user="eve"):
        sc.parallelize(range(1), 1).map(lambda x: 1 // x).count()
    with release() as end:

        def run(user: str, name: str, tasks: int, priority: int = 0, deadline: str | None = None) -> None:
            body = sleeper_after(end, lambda _: 0.0)
            with spark_sched.job(
                spark, name, user=user, priority=priority, deadline=deadline, job_class=user
            ):
                sc.parallelize(range(tasks), tasks).map(body).count()

        threads = [InheritableThread(target=run, args=("owner", "month-end-close", 4, 9))]
        threads[0].start()
        wait_until(lambda: _slots(spark) == 4, "it was to have all slots")
        for n in range(JOBS):
            deadline = {0: "1s", 1: "1h"}.get(n % LATE_EVERY)
            threads.append(
                InheritableThread(target=run, args=(USERS[n % 5], f"report-{n}", 2 + n % 3, n % 4, deadline))
            )
            threads[-1].start()
        wait_until(lambda: len(spark_sched.status(spark).jobs) == JOBS + 1, "all were to come")
        wait_until(
            lambda: all(
                job.slots.waiting > 0 or job.slots.running > 0 for job in spark_sched.status(spark).jobs
            ),
            "all were to want slots",
        )
        wait_until(lambda: _at_risk(spark) == LATE, "their deadlines were to pass")
        url = f"{sc.uiWebUrl}/scheduling/"
        found: Result = {
            "queues": [
                (each.queue, each.running_jobs, each.waiting_jobs, each.sums and each.sums.jobs)
                for each in spark_sched.status(spark).queues
            ],
            "metrics": _scraped(f"{sc.uiWebUrl}/metrics/prometheus/"),
            "browser": None if CHROMIUM is None else _browsed(url),
        }
        end.touch()
        for thread in threads:
            thread.join()
    wait_until(lambda: not spark_sched.status(spark).jobs, "all were to end")
    found["usage"] = command("usage", "--json", "--by", "queue", str(sc.uiWebUrl))
    return found


def _slots(spark: SparkSession) -> int:
    return sum(job.slots.running for job in spark_sched.status(spark).jobs)


def _at_risk(spark: SparkSession) -> int:
    status = spark_sched.status(spark)
    return sum(is_at_risk(job, status.now_ms) for job in status.jobs)


def _scraped(url: str) -> str:
    """What Prometheus reads: figures may be some seconds old."""
    answers: list[str] = []

    def told() -> bool:
        answers.append(page(url))
        return FIGURE in answers[-1]

    wait_until(told, "metrics were to tell of the queue")
    return answers[-1]


def _browsed(url: str) -> Result:
    with browser() as tab:
        tab.resize(*tab_pages.WIDE)
        tab.open(url)
        found: Result = {
            "pages": tab_pages.all_pages(tab),
            "of_dia": tab_pages.choose(tab, user="dia"),
            "waiting_of_dia": tab_pages.choose(tab, state="waiting"),
            "named": tab_pages.choose(tab, name="REPORT-1"),
            "address": tab.run("window.location.search"),
        }
        tab_pages.follow(tab, "show all")
        found["of_etl"] = tab_pages.choose(tab, queue="etl")
        found["of_hourly"] = tab_pages.choose(tab, queue="etl.hourly")
        found["ended"] = tab_pages.choose(tab, queue="", state="ended")
        found["queues"] = tab_pages.rows(tab, "Queue")
        found["users"] = tab_pages.rows(tab, "User")
        found["counters_shown"] = tab.run(_COUNTERS_SHOWN)
        found["widths"] = tab_pages.widths(
            tab, {"live": url, "live-story": f"{url}job/?name={quote('report-1')}"}
        )
        tab.resize(*tab_pages.PHONE)
        tab.open(url)
        found["phone"] = tab.run(_BLOCKS)
    return found


_COUNTERS_SHOWN = (
    "[...document.querySelectorAll('details.sched')].find("
    "part => part.querySelector('summary').textContent.startsWith('Counters')).open"
)
#: Of the first job: whether its name, its user and its reason are below each other, and which of its cells
#: are shown.
_BLOCKS = """(() => {
  const row = document.querySelector('.sched-rows tbody tr');
  const cells = [...row.cells].filter(cell => cell.offsetHeight > 0);
  const boxes = Object.fromEntries(cells.map(cell => [cell.dataset.label, cell.getBoundingClientRect()]));
  const {Job: job, User: user, Why: why} = boxes;
  return {lines: job.bottom <= user.top && user.bottom <= why.top, shown: Object.keys(boxes)};
})()"""
