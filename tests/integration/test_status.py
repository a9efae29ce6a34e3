"""A live application answers an operator's questions: through Python, over REST and on the command line."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from prometheus_client.parser import text_string_to_metric_families

from spark_sched import attach
from spark_sched.view.status import Status
from spark_sched_lab.traces.lines import lines
from spark_sched_lab.traces.read_report import ReadReport
from tests.integration.harness import WITH_METRICS, Driver
from tests.integration.history import history_server
from tests.integration.status_scenarios import command, counted

pytestmark = pytest.mark.integration

PROTOCOL = Path(__file__).parents[2] / "protocol"
CONF = Path(__file__).parents[2] / "conf" / "grafana"
# The planner comes back after its plan has run out.
SETTINGS = (
    *WITH_METRICS,
    "spark.sched.planner.planValidity=2s",
    "spark.sched.planner.restartBackoff=5s",
    "spark.sched.reservation.maxHold=10min",
)


@pytest.fixture(scope="module")
def shown(driver: Driver, logs: Path) -> dict[str, Any]:
    """One application, looked at in every way."""
    log = ("spark.eventLog.enabled=true", f"spark.eventLog.dir={logs.as_uri()}")
    return driver.run("shown", "spark-sched:local[4]", *SETTINGS, *log)


@pytest.fixture(scope="module")
def past(shown: dict[str, Any], driver: Driver, logs: Path) -> Path:
    """Its event log, after its end."""
    driver.stop()
    (log,) = logs.iterdir()
    return log


def job(document: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in document["jobs"] if each["name"] == name)


def still(document: dict[str, Any]) -> dict[str, Any]:
    """Of a document what does not change while nothing happens."""
    jobs = [
        {k: v for k, v in each.items() if k not in ("slot_ms", "story", "forecast", "after_jobs", "why")}
        for each in document["jobs"]
    ]
    return {"application": document["application"], "policy": document["policy"], "jobs": jobs}


def test_every_document_is_valid(shown):
    schema = Draft202012Validator(json.loads((PROTOCOL / "status.schema.json").read_text()))
    documents = [shown[name] for name in ("driver", "story", "over", "without_plan", "again")]
    for document in (*documents, shown["rest"][1], *(answer for _, answer in shown["rest_jobs"])):
        schema.validate(document)


def test_why_does_my_job_wait(shown):
    waiter = job(shown["driver"], "waiter")
    assert (waiter["state"], waiter["state_text"]) == ("held_back", "held back by holder")
    assert waiter["why"].startswith("waits for 2 slots: idle ones are held for holder")
    assert waiter["slots"]["waiting"] == 2
    assert waiter["tasks_done"] == 0
    assert waiter["begun_ms"] is None
    assert (waiter["user"], waiter["priority"]) == ("grace", 1)
    assert waiter["deadline_ms"] > shown["driver"]["now_ms"]


def test_what_is_held_for_whom(shown):
    holder = job(shown["driver"], "holder")
    assert holder["slots"]["held"] == shown["driver"]["application"]["held_slots"] == 3
    assert (holder["slots"]["running"], holder["state"], holder["class"]) == (1, "running", "etl")
    assert (holder["tasks_done"], holder["tasks"]) == (3, 4)
    over = job(shown["holder_over"], "holder")
    assert over["slots"]["held"] == 0
    assert over["slot_ms"]["held_idle"] > 0
    assert over["slot_ms"]["run"] > 3 * 300


def test_which_plan_is_in_force(shown):
    plan = shown["driver"]["plan"]
    assert plan["policy"] == shown["driver"]["policy"] == "reservation"
    assert plan["number"] >= 1
    assert plan["solve_ms"] >= 0
    assert job(shown["driver"], "waiter")["rank"] > job(shown["driver"], "holder")["rank"]


def test_is_the_planner_alive(shown):
    assert shown["driver"]["planner"]["alive"] is True
    status, text = shown["dead"]
    assert status == 0
    assert "planner: not running" in text
    without = shown["without_plan"]
    assert without["plan"] is None
    assert without["planner"]["last_plan_age_ms"] > 0
    assert job(without, "waiter")["reason"].startswith("no plan in force")
    assert shown["again"]["planner"]["restarts"] > shown["driver"]["planner"]["restarts"]


def test_admission_is_answered_without_planned_starts(shown):
    start_s, probability, runtime_s, text = shown["admission"]
    assert start_s is None
    assert (probability is None) == (runtime_s is None)
    assert text.startswith("no planned start")


def test_usage_takes_the_address_of_the_application(shown):
    exit_status, text = shown["usage"]
    assert exit_status == 0
    found = json.loads(text)
    classes = {"" if each["class"] == "none" else each["class"]: each for each in shown["driver"]["classes"]}
    assert {row["class"]: row["jobs"] for row in found["rows"]} == {
        name: each["jobs"] + each["jobs_ended"] for name, each in classes.items()
    }
    assert found["total"]["run_slot_s"] > 0


def test_all_views_show_one_document(shown):
    assert shown["rest"][0] == 200
    assert still(shown["rest"][1]) == still(shown["driver"])
    exit_status, text = shown["top_json"]
    assert exit_status == 0
    assert still(json.loads(text)) == still(shown["driver"])
    for view in (shown["python"], shown["html"], shown["top"][1]):
        for part in ("holder", "waiter", "idle ones are held for holder", "planner: alive"):
            assert part in view
    for status, document in shown["rest_jobs"]:
        assert status == 200
        assert still(document) == still({**shown["driver"], "jobs": [job(shown["driver"], "waiter")]})


def test_the_filters_of_the_ui_are_in_front_of_the_document(shown):
    ours, tab, sparks = shown["guarded"]
    assert ours == tab == sparks is not None


def rows(page: str) -> list[list[str]]:
    """The text of every cell in the tables of a page."""
    found = re.findall(r"<tr[^>]*>(.*?)</tr>", page, re.DOTALL)
    cells = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL) for row in found]
    return [[unescape(re.sub(r"<[^>]*>", "", cell)).strip() for cell in row] for row in cells]


def test_the_tab_of_the_spark_ui_shows_the_document(shown):
    table = {row[0]: row for row in rows(shown["tab"]) if row}
    for each in shown["driver"]["jobs"]:
        row = table[each["name"]]
        assert row[1:5] == [
            each["user"] or "",
            each["class"] or "",
            str(each["priority"]),
            each["state"].replace("_", " "),
        ]
        assert row[5].split(", about")[0] == each["why"].split(", about")[0]
        assert row[7:10] == [str(each["slots"][kind]) for kind in ("running", "held", "waiting")]
    assert table["waiter"][11].startswith("in ")
    executor = shown["driver"]["executors"][0]
    assert table[executor["executor"]][2:] == ["4", "1", "0", "0", "3", "holder (3)"]
    assert 'aria-label="1 running, 3 held for holder of 4 slots"' in shown["tab"]
    assert table["slots_held_now"] == ["slots_held_now", "3"]
    assert "alive (pid" in shown["tab"]
    assert "of policy reservation" in shown["tab"]
    assert "held back by holder" in shown["story_page"]


def metrics(shown: dict[str, Any]) -> dict[str, float]:
    """The figures of a scrape, read as Prometheus reads them."""
    families = text_string_to_metric_families(shown["metrics"])
    return {sample.name: sample.value for family in families for sample in family.samples}


def test_prometheus_scrapes_the_figures_of_the_document(shown):
    found = metrics(shown)

    def figure(name: str) -> float:
        return found[f"metrics_spark_driver_spark_sched_{name}_Value"]

    def total(name: str) -> float:
        return found[f"metrics_spark_driver_spark_sched_{name}_Count"]

    document = shown["driver"]
    assert figure("application_slots") == document["application"]["slots"]
    assert figure("total_slots_held") == figure("class_etl_slots_held") == 3
    assert figure("class_none_waiting_jobs") == figure("total_waiting_jobs") == 2
    assert figure("policy_reservation_in_force") == figure("plan_in_force") == figure("planner_alive") == 1
    assert total("policy_reservation_in_force_ms") > 0
    assert total("total_slot_ms_held_idle") > 0
    assert total("planner_plans_accepted") > 0
    assert not any("holder" in name or "waiter" in name for name in found)


def test_a_scrape_has_a_line_of_each_sum_and_none_of_what_never_happened(shown):
    """Each line costs time in every scrape."""
    ours = {name for name in metrics(shown) if name.startswith("metrics_spark_driver_spark_sched_")}
    counters = {name for name in ours if "_counters_" in name}
    assert counters >= {
        f"metrics_spark_driver_spark_sched_counters_{each}_Count" for each in counted(shown["driver"])
    }
    # Only what is yet to be stored goes down again, and a busy planner may have left something of it.
    gauges = {name for name in counters if name.endswith(("_Number", "_Value"))}
    assert gauges <= {
        f"metrics_spark_driver_spark_sched_counters_jobs_unstored_{end}" for end in ("Number", "Value")
    }
    assert shown["driver"]["counters"]["evictions"] == 0
    assert not any("evictions" in name for name in counters)
    assert not any("_application_held_slots_" in name for name in ours)


def test_the_dashboard_and_the_alerts_name_metrics_that_there_are(shown):
    found = set(metrics(shown))
    # A counter becomes a metric when it first counts something.
    found |= {
        f"metrics_spark_driver_spark_sched_counters_{name}_Count" for name in shown["driver"]["counters"]
    }
    texts = [path.read_text(encoding="utf-8") for path in (CONF / "dashboard.json", CONF / "alerts.yaml")]
    for text in texts:
        named = set(re.findall(r"metrics_spark_driver_\w+_(?:Value|Count)\b", text))
        assert named
        assert named <= found
    dashboard = json.loads(texts[0])
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            patterns = re.findall(r'__name__=~"([^"]+)"', target["expr"])
            assert all(any(re.fullmatch(pattern, name) for name in found) for pattern in patterns)


def test_names_are_text_in_the_tab(shown):
    assert any("<script>alert" in each["name"] for each in shown["driver"]["jobs"])
    assert "<script>alert" not in shown["tab"]
    assert "&lt;script&gt;alert" in shown["tab"]


def test_a_job_is_found_by_a_name_that_html_would_escape(shown):
    status, document = shown["rest_markup"]
    assert status == 200
    assert "<script>alert('a & b')" in document["jobs"][0]["name"]


def test_the_document_says_whom_the_slots_of_an_executor_are_held_for(shown):
    (executor,) = shown["driver"]["executors"]
    holder = job(shown["driver"], "holder")
    assert (executor["slots"], executor["running"]) == (4, 1)
    assert (executor["copied"], executor["pilot"]) == (0, 0)
    assert executor["held"] == [{"job": holder["job"], "name": "holder", "slots": 3}]
    assert shown["driver"]["counters"]["slots_held_now"] == 3


def test_the_story_of_a_job(shown):
    exit_status, text = shown["explain"]
    assert exit_status == 0
    assert "submitted" in text
    assert "held back by holder, wants 2 slots" in text
    over = Status.from_json(shown["over"]).jobs[0]
    assert (over.state, over.outcome) == ("ended", "ended")
    told = [entry.text for entry in over.story]
    assert told[0] == "submitted"
    assert any(re.match(r"plan \d+ of \S+: ", entry) for entry in told)
    assert told[-1].startswith("ended after")
    # It was looked at while the first three tasks ended, or after that.
    told = [entry["text"] for entry in shown["holder_over"]["jobs"][0]["story"]]
    assert any(re.fullmatch(r"holds [123] idle slots", text) for text in told)


def test_the_event_log_tells_of_every_job_once(past):
    ours = [event for event in events(past) if event["Event"].endswith(".SchedulingEvent")]
    assert {event["schema"] for event in ours} == {1}
    assert [event["kind"] for event in ours][-1] == "end"
    jobs = {event["body"]["name"]: event["body"] for event in ours if event["kind"] == "job"}
    assert {"holder", "waiter"} <= set(jobs)
    assert len(jobs) == sum(event["kind"] == "job" for event in ours)
    assert jobs["waiter"]["outcome"] == "ended"
    assert jobs["waiter"]["story"][-1]["text"].startswith("ended after")
    assert jobs["holder"]["slot_ms"]["held_idle"] > 0
    changes = [event["body"] for event in ours if event["kind"] == "change"]
    assert [(body["what"], body["event"]["reservations_paused"]) for body in changes] == [
        ("reservations are paused: no job holds slots", True),
        ("reservations are in force again", False),
    ]
    planners = [event["body"]["planner"]["alive"] for event in ours if event["kind"] == "plan"]
    assert {True, False} <= set(planners)


def test_commands_that_read_event_logs_tell_of_what_was_held(past):
    held_s = {
        event["body"]["name"]: event["body"]["slot_ms"]["held_idle"] / 1000
        for event in events(past)
        if event["Event"].endswith(".SchedulingEvent") and event["kind"] == "job"
    }
    _, text = command("usage", "--json", str(past))
    usage = json.loads(text)
    rows = {row["name"]: row for row in usage["rows"]}
    assert usage["held_is_recorded"] is True
    assert rows["holder"]["held_slot_s"] == pytest.approx(held_s["holder"])
    charged = usage["total"]["total_slot_s"] + usage["idle_slot_s"] - usage["excess_slot_s"]
    assert charged == pytest.approx(usage["capacity_slot_s"])
    _, text = command("whatif", "--json", str(past))
    (replayed,) = json.loads(text)["logs"]
    assert replayed["measured"]["held_idle_slot_s"] == pytest.approx(sum(held_s.values()))
    assert replayed["measured"]["complete"] is True
    assert any(line.startswith("Measured live: ") for line in replayed["answer"])
    _, text = command("trace", "stats", "--json", str(past))
    assert json.loads(text)["measured"] == replayed["measured"]


def test_a_history_server_with_the_jar_shows_the_tab(past):
    with history_server(past.parent, attach.build().as_posix()) as server:
        (application,) = json.loads(server.get("/api/v1/applications"))
        page = server.get(f"/history/{application['id']}/scheduling/")
        story = server.get(f"/history/{application['id']}/scheduling/job/?name=waiter")
    table = {row[0]: row for row in rows(page) if row}
    assert (table["waiter"][1], table["waiter"][3], table["waiter"][4]) == ("grace", "1", "ended")
    assert table["waiter"][8].startswith("met, ")
    assert table["holder"][2] == "etl"
    assert "reservations are in force again" in page
    assert "at the application&#39;s end" in page or "at the application's end" in page
    assert "<script>alert" not in page
    assert "held back by holder, wants 2 slots" in story


@pytest.mark.slow
def test_a_stock_history_server_shows_the_application_without_the_tab(past):
    with history_server(past.parent) as server:
        (application,) = json.loads(server.get("/api/v1/applications"))
        assert application["attempts"][0]["completed"] is True
        page = server.get(f"/history/{application['id']}/jobs/")
        assert "Completed Jobs" in page
        assert "/scheduling/" not in page
        assert "SchedulingEvent" in server.said  # a warning: it skips them


def events(log: Path) -> list[dict[str, Any]]:
    """Of an event log, whichever way Spark wrote it."""
    parts = sorted(log.glob("events_*")) if log.is_dir() else [log]
    return [json.loads(line) for part in parts for _, line in lines(part, ReadReport())]


def test_a_job_that_nobody_knows(shown):
    unknown = shown["unknown"]
    assert "no such job is known" in unknown["python"]
    status, document = unknown["rest"]
    assert (status, document["jobs"]) == (404, [])
    exit_status, said = unknown["command"]
    assert exit_status == 2
    assert "no such job is known" in said
