"""Tenants of one application: whose a job is, on real servers, and which mark of several counts."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from spark_sched.config.queues import PlacementRule, QueueSpec, QueueTree
from tests.integration.harness import Scenario, on
from tests.integration.test_status import rows
from tests.spark_lines import has_connect

pytestmark = pytest.mark.integration

SERVERS = on(
    "spark-sched:local[2]",
    "spark.sched.reservation.gap=10min",
    "spark.connect.grpc.binding.port=0",
    "spark.sql.shuffle.partitions=2",
)
WITH_UI = on(
    "spark-sched:local[4]",
    "spark.sched.reservation.gap=10min",
    "spark.connect.grpc.binding.port=0",
    "spark.sql.shuffle.partitions=2",
    "spark.ui.enabled=true",
    "spark.ui.port=0",
)
BY_USER = QueueTree(
    (QueueSpec("alice"), QueueSpec("others"), QueueSpec("rest")),
    (PlacementRule("alice", user="alice"), PlacementRule("others", user="user-*")),
    "rest",
)
# In the words of Spark 3.5, of 4.0, and of 4.1 and later.
_REFUSED = re.compile(
    r'Cannot modify the value of (a static|the Spark|the static Spark) config: "?spark\.sql\.execution\.id\b'
)


def needs_connect() -> None:
    if not has_connect():
        pytest.skip("this Spark comes without Spark Connect")


@SERVERS
@pytest.mark.parametrize("server", ["connect", "thrift"])
def test_no_tenant_becomes_joins_or_ends_another(scenario: Scenario, server: str) -> None:
    if server == "connect":
        needs_connect()
    found: dict[str, Any] = scenario(f"{server}_tenants")
    alices = ["mark-5-alice-nightly", "alice", 3, 0.5]
    assert found["before"] == [alices]
    assert [job[:3] for job in found["stolen"]] == [["mark-3-eve-stolen", "eve", 99]]
    assert found["stages_of_group"] == 1
    assert found["after"] == [alices]
    assert _REFUSED.search(found["refused"]), found["refused"]
    assert [job[:3] for job in found["same_name"]] == [alices[:3], ["mark-name-3-eve-nightly", "eve", 8]]
    assert found["after_reset"] == [alices]
    assert [job[:3] for job in found["plain"]] == [["mark-name-3-eve-plain", "eve", 0]]
    assert [job[:2] for job in found["claimed"]] == [["mark-name-3-eve-claimed", "eve"]]
    if server == "connect":
        assert [job[:2] for job in found["looked"]] == [["mark-name-3-eve-looked", "eve"]]
        ((key, user, priority, _),) = found["in_block"]
        assert key.startswith("mark-5-alice-")
        assert (user, priority) == ("alice", 2)


@on("spark-sched:local[2]", f"spark.sched.queues={BY_USER.to_json()}", "spark.sched.planner.enabled=false")
def test_the_first_statement_of_a_thrift_session_is_its_users(scenario: Scenario) -> None:
    found = scenario("first_statements")
    assert found["errors"] == [None] * 12
    assert found["queues"] == {"alice": 6, "others": 6, "rest": 0}


@WITH_UI
@pytest.mark.parametrize(("crowd", "name"), [("crowd", "report"), ("thrift_crowd", "extract")])
def test_forty_jobs_of_five_users_are_seen_and_found(scenario: Scenario, crowd: str, name: str) -> None:
    if crowd == "crowd":
        needs_connect()
    found: dict[str, Any] = scenario(crowd)
    # 1. While they wait.
    assert found["whys"][0] == "runs on 4 slots"
    assert all(
        why.startswith("waits for ") and why.endswith(" slots: holder runs") for why in found["whys"][1:]
    )
    assert "40 wait, 1 run" in found["waiting"]
    assert "Longest wait" in found["waiting"]
    names = {f"{name}-{n}" for n in range(40)}
    shown = {row[0] for row in rows(found["waiting"]) if row} & {*names, "holder"}
    assert len(shown) == 41  # a page has 50
    assert {row[0] for row in rows(found["of_dia"]) if row} & names == {
        f"{name}-{n}" for n in range(3, 40, 5)
    }
    dias = {f"{name}-{n}" for n in range(3, 40, 5)}
    assert found["browser"] is None or (set(found["browser"]["of_dia"]), found["browser"]["too_wide"]) == (
        dias,
        [],
    )
    exit_status, text = found["top"]
    assert exit_status == 0
    assert sum(f"{name}-" in line for line in text.splitlines()) >= 8
    # 2. When they are over.
    assert found["ended"] == ["ended"] * 40
    for number, page in enumerate(found["pages"]):
        cells = {row[0]: row for row in rows(page) if row and row[0] in names}
        assert set(cells) == {f"{name}-{n}" for n in range(number, 40, 5)}
        assert all(row[4] == "ended" and row[5].startswith("ended after ") for row in cells.values())
    before = found["users_before"]
    assert {u: found["users"][u] - before.get(u, 0) for u in ("ana", "ben", "cho", "dia", "eve")} == {
        "ana": 9, "ben": 8, "cho": 8, "dia": 8, "eve": 8,
    }  # fmt: skip
    exit_status, text = found["usage"]
    usage = json.loads(text)
    assert usage["ended"] is None
    assert {row["user"]: row["jobs"] for row in usage["rows"]} == found["users"]
    # 3. Work without a name, and stages, are called by what they do.
    unnamed = [name for name in found["stages"] if "$anonfun$" in name or "Spark Connect" in name]
    assert unnamed == []
    assert "SELECT count(*) FROM range(0, 8, 1, 2)" in found["unmarked"]
    assert any("SELECT count(*)" in name for name in found["stages"])


@pytest.mark.slow
@WITH_UI
def test_a_thousand_jobs_of_five_users_are_counted_and_found(scenario: Scenario) -> None:
    needs_connect()
    found: dict[str, Any] = scenario("thousand")
    before = found["users_before"]
    users = ("ana", "ben", "cho", "dia", "eve")
    assert {u: found["users"][u] - before.get(u, 0) for u in users} == dict.fromkeys(users, 200)
    # Fifty on each of four pages.
    shown = [{row[0] for row in rows(page) if row and "-dia-" in row[0]} for page in found["pages"]]
    assert [len(each) for each in shown] == [50] * 4
    assert set().union(*shown) == {f"{door}-dia-{n}" for door in ("connect", "thrift") for n in range(100)}
    assert len(rows(found["first"])) < 200
    if found["browser"] is not None:
        assert found["browser"]["too_wide"] == []
        turned = found["browser"]["pages"]
        assert [len(each) for each in turned] == [50] * 4
        assert {name for each in turned for name in each} == set().union(*shown)
    assert found["stories"] == ["ended"] * 20
    exit_status, text = found["usage"]
    assert exit_status == 0
    assert {row["user"]: row["jobs"] for row in json.loads(text)["rows"]} == found["users"]
    assert found["counters"]["invariant_violations"] == 0
    assert found["counters"]["slots_held_now"] == 0


@WITH_UI
def test_a_session_that_sets_what_does_not_count_hears_of_it(scenario: Scenario) -> None:
    found = scenario("wrong_settings")
    errors = found["errors"]
    wanted = {
        "unread": "spark.sched.job.priority is 'high' but must be a whole number",
        "unknown": "unknown setting spark.sched.jobs.priority: did you mean spark.sched.job.priority?",
        "of_the_application": "spark.sched.planner.policy is a setting of the application",
        "past": "spark.sched.job.deadline is '2001-01-01T00:00', which is past",
    }
    sessions = ("classic", "connect") if has_connect() else ("classic",)
    for what, sentence in wanted.items():
        for door in ("thrift", *sessions):
            assert sentence in errors[what][door], (what, door)
    for door in sessions:
        assert wanted["unread"] in errors["unread"][f"{door} conf"], door
    assert found["passed"] == dict.fromkeys(sessions, 3)


@on("spark-sched:local[2]", "spark.sched.reservation.gap=10min")
def test_a_mark_inside_a_micro_batch_is_a_job_of_its_own(scenario: Scenario) -> None:
    seen = scenario("marks_in_micro_batches")["seen"]
    for batch in (0, 1):
        assert [each for each in seen if each[1] == batch] == [
            ["stream", batch, ["stream"], [3]],
            ["archive", batch, ["mark"], [1]],
            ["alerts", batch, ["mark"], [10]],
            ["plain", batch, ["stream"], [4]],
            ["stream", batch, ["stream"], [3]],
        ]
