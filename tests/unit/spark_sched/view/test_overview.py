"""Many jobs on one screen: one line each, whatever the width, and first what needs attention."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.cells import cell_len

from spark_sched.cli import top
from spark_sched.view import http
from spark_sched.view.overview import ORDERS, chosen, rows, summary_line
from spark_sched.view.status import Status

EXAMPLE = Path(__file__).parents[4] / "protocol" / "examples" / "status.json"
NONE = {"running": 0, "held": 0, "pilot": 0, "copied": 0, "waiting": 0, "deferred": 0}


def status(*jobs: dict[str, Any]) -> Status:
    """Jobs that arrived one second after the other; ``slots`` are those that are not 0."""
    document = json.loads(EXAMPLE.read_text())
    del document["jobs"][0]["why"], document["jobs"][0]["warnings"]  # as an older driver
    del document["jobs"][0]["queue_name"]  # as without tenants' queues
    pattern = document["jobs"][0] | {"forecast": None, "deadline_ms": None, "begun_ms": None, "held": 0}
    now_ms = document["now_ms"]
    document["jobs"] = [
        pattern
        | {"job": f"job-{n}", "name": f"job-{n}", "arrival": n, "submitted_ms": now_ms - 1000 * (100 - n)}
        | job
        | {"slots": NONE | job.get("slots", {})}
        for n, job in enumerate(jobs)
    ]
    return Status.from_json(document)


def names(found: Status, order: str, user: str | None = None) -> list[str]:
    return [job.name for job in chosen(found.jobs, found.now_ms, order, user)]


def crowd(number: int) -> Status:
    return status(
        *(
            {
                "name": f"{'漢字' if n % 2 else 'nightly-report'}-{n}" * (1 + n % 3),
                "user": f"user-{n % 5}",
                "reason": "waits for slots: " + "finance-close " * 20,
                "state": "held_back",
                "state_text": "held back by finance-close and 3 more",
                "slots": {"waiting": 10 * n, "running": n % 7},
            }
            for n in range(number)
        )
    )


@pytest.mark.parametrize("width", [40, 60, 80, 100, 140, 200, 400])
def test_each_job_has_one_line_that_fits(width):
    found = crowd(33)
    columns, lines = rows(found.jobs, found.now_ms, width)
    assert len(lines) == 34
    assert {cell_len("  ".join(line)) for line in lines} == {min(width, cell_len("  ".join(lines[0])))}
    assert columns[0].title == "job"
    assert [job.name[:4] for job in found.jobs] == [line[0][:4] for line in lines[1:]]


def test_a_wider_terminal_shows_more_columns_and_no_column_that_is_empty():
    found = crowd(33)
    titles = [[c.title for c in rows(found.jobs, found.now_ms, width)[0]] for width in (30, 60, 80, 200)]
    for fewer, more in pairwise(titles):
        assert set(fewer) <= set(more)
    assert "why" in titles[2]
    assert titles[3] == ["job", "user", "prio", "state", "done", "run", "wait", "why"]


def test_what_needs_attention_comes_first():
    now_ms = json.loads(EXAMPLE.read_text())["now_ms"]
    forecast = {"end_p10_ms": now_ms, "end_p50_ms": now_ms, "end_p90_ms": now_ms}
    found = status(
        {"name": "idle"},
        {"name": "runs", "slots": {"running": 2}, "begun_ms": now_ms},
        {"name": "runs-more", "slots": {"running": 5, "waiting": 9}, "begun_ms": now_ms},
        {"name": "waits-long", "slots": {"waiting": 1}},
        {"name": "waits", "slots": {"waiting": 8}},
        {"name": "safe", "deadline_ms": now_ms + 9, "forecast": forecast | {"deadline_probability": 0.9}},
        {"name": "at-risk", "deadline_ms": now_ms + 9, "forecast": forecast | {"deadline_probability": 0.4}},
        {"name": "past", "deadline_ms": now_ms - 1},
    )
    assert names(found, "attention") == [
        "at-risk", "past", "waits-long", "waits", "runs-more", "runs", "idle", "safe",
    ]  # fmt: skip
    assert names(found, "deadline")[:3] == ["past", "safe", "at-risk"]
    assert names(found, "wait")[:2] == ["waits-long", "waits"]
    assert names(found, "slots")[:2] == ["runs-more", "runs"]
    assert names(found, "end")[:2] == ["safe", "at-risk"]
    assert summary_line(found) == (
        "2 jobs run; 2 wait, the longest for 1 min 37 s (waits-long); 2 deadlines at risk"
    )


def test_orders_by_name_priority_and_arrival():
    found = status({"name": "b", "priority": 1}, {"name": "c", "priority": 9}, {"name": "a", "priority": 1})
    assert [names(found, order) for order in ("name", "priority", "arrival")] == [
        ["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"],
    ]  # fmt: skip


@pytest.fixture
def run(monkeypatch):
    """``spark-sched top`` on a status document."""

    def run(found: Status, *arguments: str) -> list[str]:
        monkeypatch.setattr(http, "fetch_status", lambda url: found)
        done = CliRunner().invoke(top.command, ["--once", "localhost:4040", *arguments])
        assert done.exit_code == 0, done.output
        return done.output.splitlines()

    return run


def test_the_command_shows_a_users_jobs_in_the_order_asked_for(run):
    found = status(*({"user": f"user-{n % 5}"} for n in range(33)))
    lines = run(found, "--user", "user-2", "--sort", "arrival")
    body = lines[lines.index("") + 2 :]
    assert [line.split()[0] for line in body] == [f"job-{n}" for n in range(2, 33, 5)]
    assert run(crowd(3), "--user", "nobody\x1b[31m")[-1] == "no jobs of user nobody\ufffd[31m"
    assert run(status())[-1] == "no jobs"


def test_the_command_shows_the_jobs_of_a_queue_and_of_those_below_it(run):
    queues = ("etl.hourly", "etl", "etl2", "etl.nightly", None)
    found = status(*({"queue_name": queue} if queue else {} for queue in queues))
    lines = run(found, "--queue", "etl", "--sort", "arrival")
    body = [line.split()[:3] for line in lines[lines.index("") + 2 :]]
    assert body == [["job-0", "ada", "etl.hourly"], ["job-1", "ada", "etl"], ["job-3", "ada", "etl.nightly"]]
    assert run(found, "--queue", "bi", "--user", "ann")[-1] == "no jobs of user ann of queue bi"
    assert run(crowd(3))[-4].split()[:3] == ["job", "user", "prio"], "without queues there is no column"


def test_jobs_beyond_the_limit_are_counted(run):
    lines = run(crowd(1000))
    assert lines[-1] == "+800 more"


def test_an_unknown_order_is_refused_with_those_that_there_are(run):
    done = CliRunner().invoke(top.command, ["--once", "localhost:4040", "--sort", "luck"])
    assert done.exit_code == 2
    assert all(order in done.output for order in ORDERS)


def test_a_job_behind_unknown_ones_has_their_number_in_place_of_its_end():
    found = status({"name": "behind", "slots": {"waiting": 4}, "after_jobs": 12})
    columns, (_, line) = rows(found.jobs, found.now_ms, 120)
    assert line[[column.title for column in columns].index("ends in")].strip() == "after 12 jobs"


def test_a_job_whose_end_was_expected_before_now_is_overdue():
    forecast = {"end_p10_ms": 1, "end_p50_ms": 2, "end_p90_ms": 3, "deadline_probability": None}
    found = status({"name": "late", "slots": {"waiting": 4}, "forecast": forecast})
    columns, (_, line) = rows(found.jobs, found.now_ms, 120)
    assert line[[column.title for column in columns].index("ends in")].strip() == "overdue"
    assert "overdue" in str(found)


def test_why_is_the_sentence_of_the_driver_and_the_marks_that_do_not_count():
    why = "waits for 8 slots: finance-close-3 runs, about 40 s"
    warning = "spark.sched.job.priority is 'high' but must be a whole number"
    found = status({"why": why, "title": "SELECT 1"}, {"why": why, "warnings": [warning]})
    columns, cells = rows(found.jobs, found.now_ms, 300)
    place = [column.title for column in columns].index("why")
    assert [row[place].strip() for row in cells[1:]] == [why, f"{why}; mark: {warning}"]
    assert cells[1][0].strip() == "SELECT 1"
