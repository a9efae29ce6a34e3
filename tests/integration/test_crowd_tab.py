"""The tab "Scheduling" with forty jobs of five users in queues, in a browser: live, and of the past."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from spark_sched import attach
from tests.integration import tab_pages
from tests.integration.browser import CHROMIUM, browser
from tests.integration.crowd_scenarios import ENDED, FIGURE, JOBS, LATE_EVERY, QUEUES, USERS
from tests.integration.harness import WITH_METRICS, Driver
from tests.integration.history import history_server

pytestmark = pytest.mark.integration

ROWS = 50
MINE = {f"report-{n}": USERS[n % 5] for n in range(JOBS)}
QUEUE_OF = {"ana": "etl.nightly", "ben": "etl.hourly", "cho": "bi", "dia": "bi", "eve": "adhoc"}
SETTINGS = (
    *WITH_METRICS,
    f"spark.sched.queues={QUEUES.to_json()}",
)


@pytest.fixture(scope="module")
def crowd(driver: Driver, logs: Path) -> dict[str, Any]:
    log = ("spark.eventLog.enabled=true", f"spark.eventLog.dir={logs.as_uri()}")
    return driver.run("queued_crowd", "spark-sched:local[4]", *SETTINGS, *log)


@pytest.fixture(scope="module")
def browsed(crowd: dict[str, Any]) -> dict[str, Any]:
    if crowd["browser"] is None:
        pytest.skip("there is no chromium here (apt-get install chromium)")
    found: dict[str, Any] = crowd["browser"]
    return found


def names(rows: list[dict[str, str]]) -> set[str]:
    return {row["Job"] for row in rows}


def of(*users: str) -> set[str]:
    return {name for name, user in MINE.items() if user in users}


def test_queues_are_counted_live_in_the_document_in_prometheus_and_by_usage(crowd):
    assert {queue: jobs for queue, _, _, jobs in crowd["queues"]} == {
        "etl": 16, "etl.nightly": 8, "etl.hourly": 8, "bi": 16, "adhoc": 9,
    }  # fmt: skip
    assert {queue: (runs, waits) for queue, runs, waits, _ in crowd["queues"]}["etl.hourly"] == (6, 2)
    assert FIGURE in crowd["metrics"]
    assert 'spark_sched_queue_etl_ceiling_slots_Value{type="gauges"} 3.0' in crowd["metrics"]
    exit_status, text = crowd["usage"]
    assert exit_status == 0
    found = json.loads(text)
    assert found["ended"] is None
    rows = {row["queue"]: row["jobs"] for row in found["rows"]}
    # What warmed the slots up, and the job that failed, are of the default queue.
    before = Counter(QUEUE_OF[USERS[n % 5]] for n in range(ENDED))
    for queue, jobs in {"etl.nightly": 8, "etl.hourly": 8, "bi": 16}.items():
        assert rows[queue] == jobs + before[queue]


def test_every_job_is_on_one_page_and_what_needs_attention_is_first(browsed):
    first, *others = browsed["pages"]
    assert len(first) == ROWS
    shown = [row["Job"] for page in browsed["pages"] for row in page]
    assert len(others) == 1
    assert len(shown) == len(set(shown))
    assert {*MINE, "month-end-close", *(f"extract-{n}" for n in range(ENDED)), "fails"} <= set(shown)
    late = {f"report-{n}" for n in range(0, JOBS, LATE_EVERY)}
    assert set(shown[: len(late)]) == late
    (close,) = (row for row in first if row["Job"] == "month-end-close")
    assert (close["User"], close["Queue"], close["Why"]) == ("owner", "adhoc", "runs on 4 slots")
    for row in first:
        if row["Job"] in MINE:
            assert (row["User"], row["Queue"]) == (MINE[row["Job"]], QUEUE_OF[MINE[row["Job"]]])
            assert row["Why"].startswith("waits")
            assert row["State"] == "waiting"


def test_jobs_are_chosen_by_user_queue_state_and_name(browsed):
    assert names(browsed["of_dia"]) == of("dia") | {f"extract-{n}" for n in range(3, ENDED, 5)}
    assert names(browsed["waiting_of_dia"]) == of("dia")
    assert names(browsed["named"]) == {"report-13", "report-18"}
    assert {"user=dia", "state=waiting", "name=REPORT-1"} <= set(browsed["address"].lstrip("?").split("&"))
    assert {name for name in names(browsed["of_etl"]) if name in MINE} == of("ana", "ben")
    assert {name for name in names(browsed["of_hourly"]) if name in MINE} == of("ben")
    assert names(browsed["ended"]) >= {"fails", *(f"extract-{n}" for n in range(ENDED))}
    assert not names(browsed["ended"]) & {*MINE, "month-end-close"}


def test_the_tables_of_queues_and_users_have_their_sums(browsed):
    queues = {row["Queue"]: row for row in browsed["queues"]}
    assert list(queues) == ["etl", "etl.nightly", "etl.hourly", "bi", "adhoc"]
    limits = [(row["Floor"], row["Ceiling"], row["Weight"]) for row in queues.values()]
    assert limits == [("1", "3", "1"), ("", "", "3"), ("", "", "1"), ("", "2", "1"), ("", "", "1")]
    assert (queues["adhoc"]["Slots running"], queues["etl.hourly"]["To be admitted"]) == ("4", "2")
    wanted = {user: sum(2 + n % 3 for n in range(JOBS) if USERS[n % 5] == user) for user in USERS}
    assert queues["etl"]["Waiting"] == str(wanted["ana"] + wanted["ben"])
    assert {row["User"]: row["Jobs"] for row in browsed["users"] if row["User"] in USERS} == dict.fromkeys(
        USERS, "8"
    )
    assert browsed["counters_shown"] is False


def test_no_page_scrolls_sideways_and_jobs_are_blocks_on_a_phone(browsed):
    assert browsed["widths"] == {name: [] for name in browsed["widths"]}
    assert browsed["phone"]["lines"] is True
    assert {"Job", "User", "Queue", "Why", "Change"} <= set(browsed["phone"]["shown"])
    assert "Priority" not in browsed["phone"]["shown"]


def test_the_history_server_pages_and_chooses_likewise(crowd, driver, logs):
    if CHROMIUM is None:
        pytest.skip("there is no chromium here (apt-get install chromium)")
    driver.stop()
    with history_server(logs, attach.build().as_posix()) as server, browser() as tab:
        (application,) = json.loads(server.get("/api/v1/applications"))
        url = f"{server.url}/history/{application['id']}/scheduling/"
        tab.resize(*tab_pages.WIDE)
        tab.open(url)
        pages = tab_pages.all_pages(tab)
        chosen = tab_pages.choose(tab, user="dia", state="ended", name="report-")
        tab_pages.follow(tab, "show all")
        of_etl = tab_pages.choose(tab, queue="etl", name="report-")
        late = tab_pages.choose(tab, queue="", state="late")
        queues = {row["Queue"]: row for row in tab_pages.rows(tab, "Queue")}
        story = f"{url}job/?name=report-1"
        wide = tab_pages.widths(tab, {"history": url, "history-story": story})
    assert len(pages[0]) == ROWS
    assert {*MINE, "month-end-close", "fails"} <= {row["Job"] for page in pages for row in page}
    assert names(chosen) == of("dia")
    assert names(of_etl) == of("ana", "ben")
    assert {row["Queue"] for row in of_etl} == {"etl.nightly", "etl.hourly"}
    assert names(late) == {f"report-{n}" for n in range(0, JOBS, LATE_EVERY)}
    assert (queues["etl"]["Floor"], queues["etl"]["Ceiling"], queues["bi"]["Weight"]) == ("1", "3", "1")
    assert int(queues["etl"]["Jobs ended"]) == int(queues["etl.nightly"]["Jobs ended"]) + int(
        queues["etl.hourly"]["Jobs ended"]
    )
    assert wide == {name: [] for name in wide}
