"""Names that tenants choose to do harm, and requests of other sites' pages, on one live application."""

from __future__ import annotations

import re
from typing import Any

import pytest

from spark_sched.plain_text import bounded
from tests.integration.harness import Driver
from tests.integration.hostile_scenarios import LONG, NAME, SHOWN
from tests.integration.test_status import SETTINGS

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def hostile(driver: Driver) -> dict[str, Any]:
    return driver.run("hostile", "spark-sched:local[4]", *SETTINGS)


def test_a_page_of_another_site_changes_nothing(hostile):
    for what, (status, said) in hostile["requests"]["changes"].items():
        assert status == 403, what
        assert '"code":"not_allowed"' in said, what
    assert "evil.example" in hostile["requests"]["changes"]["rebound"][1]
    assert "spark.sched.ui.hosts" in hostile["requests"]["changes"]["rebound"][1]
    assert hostile["paused"] is False


def test_a_page_of_another_site_reads_nothing(hostile):
    reads = hostile["requests"]["reads"]
    assert [reads[path][0] for path in ("/sched/api/v1/status", "/sched/api/v1/jobs?name=x")] == [403, 403]
    for path in ("/scheduling/", "/scheduling/job/?name=x"):
        assert "spark.sched.ui.hosts" in reads[path][1]
        assert "Planner" not in reads[path][1]


def test_the_machine_and_forwarded_ports_are_no_other_site(hostile):
    assert set(hostile["requests"]["allowed"].values()) == {200}


@pytest.mark.parametrize(
    "view",
    ["held", "resumed", "unknown", "status", "html", "job", "job_html", "top", "explain", "usage", "tab"],
)
def test_a_name_controls_nothing_where_people_see_it(hostile, view):
    shown = hostile["names"][view]
    text = shown if isinstance(shown, str) else shown[1]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text), view
    assert "\nspark_sched audit" not in text
    assert "red\ufffd[31m spark_sched audit" in re.sub(r"\s*\n\s*", " ", text)


def test_a_hostile_name_is_steered_and_told_exactly(hostile):
    names = hostile["names"]
    assert names["held"] == f"job {SHOWN}: on hold: it starts no further task"
    assert names["resumed"][0] == 0
    assert names["unknown"][0] == 2
    assert f"mark-name-{NAME}" in names["keys"]
    assert "no such job is known: now there are" in names["unknown"][1]
    assert NAME not in names["tab"]
    assert all("<b>" not in names[page] for page in ("html", "tab"))


def test_a_name_forges_no_line_of_the_log(hostile):
    lines = hostile["log"].splitlines()
    assert not [line for line in lines if line.startswith("spark_sched audit")]
    audits = [line for line in lines if "spark_sched audit: " in line and "on hold" in line]
    assert any(SHOWN in line for line in audits)


def test_metrics_have_plain_names(hostile):
    names = [line.split("{")[0] for line in hostile["names"]["metrics"].splitlines()]
    assert any("class_red__31m_spark_sched_audit" in name for name in names)
    assert all(re.fullmatch(r"[A-Za-z0-9_]*", name) for name in names if "spark_sched" in name)


def test_a_job_named_like_anothers_key_does_not_stand_for_it(hostile):
    shadowed = hostile["shadowed"]
    assert list(shadowed["hold"]) == [0, "job victim: on hold: it starts no further task\n"]
    assert shadowed["explain"][1].startswith("victim (mark-name-victim): ")
    assert shadowed["python"] == "victim"
    assert shadowed["other"].startswith("job mark-name-victim: on hold")


def test_names_of_two_million_characters_leave_everything_small(hostile):
    long = hostile["long"]
    for what, size in long["bytes"].items():
        assert size < 100_000, what
    assert long["bytes"]["refusal"] < 2_000
    name = bounded("n" * LONG)
    assert (long["job"]["name"], long["job"]["user"], long["job"]["class"]) == (name, name, name)
    assert len(long["job"]["stages"][0]["name"]) == 256
    assert long["found"] == [long["job"]["job"]]
    assert long["too_much"][0] == 400
    assert "more than 65536 bytes" in long["too_much"][1]
    assert long["warned"] == [
        f"name has 2,000,000 characters but at most 256 count: it is {bounded('p' * LONG)!r}"
    ]
    assert "spark.sched.job.name has 2000000 characters but at most 256 count" in hostile["log"]
    assert "n" * 300 not in hostile["log"]
