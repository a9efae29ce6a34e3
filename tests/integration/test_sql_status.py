"""Whoever has a SQL session, and nothing else of the driver, reads the status if the view ACLs allow it."""

from __future__ import annotations

import getpass
import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.integration.harness import Scenario, on
from tests.integration.sql_status_scenarios import HOSTILE
from tests.spark_lines import has_connect

pytestmark = pytest.mark.integration

SCHEMA = Path(__file__).parents[2] / "protocol" / "status.schema.json"
SERVERS = ("spark.connect.grpc.binding.port=0", "spark.sql.shuffle.partitions=2")
OPEN = on("spark-sched:local[2]", *SERVERS)
WITH_ACLS = on("spark-sched:local[2]", *SERVERS, "spark.acls.enable=true", "spark.ui.view.acls=alice")


@pytest.fixture
def connect() -> None:
    if not has_connect():
        pytest.skip("this Spark comes without Spark Connect")


@OPEN
@pytest.mark.usefixtures("connect")
def test_a_client_of_spark_connect_reads_the_status_without_a_spark_job(scenario: Scenario) -> None:
    found = scenario("connect_status")
    assert found["jobs"] == [[HOSTILE, 2]]
    name, entries, running = found["story"]
    assert (name, running) == (HOSTILE, 2)
    assert entries > 0
    assert "nightly'" in found["unknown"]
    assert found["spark_jobs"] == 0
    assert found["schema"] == "struct<document:string>"
    Draft202012Validator(json.loads(SCHEMA.read_text())).validate(found["document"])
    for same in ("schema", "application", "policy"):
        assert found["document"][same] == found["in_driver"][same], same


@OPEN
def test_sql_of_a_thrift_server_and_of_the_application_reads_it_too(scenario: Scenario) -> None:
    found = scenario("thrift_status")
    schema = Draft202012Validator(json.loads(SCHEMA.read_text()))
    for door in ("thrift", "classic"):
        for document in found[door]:
            schema.validate(document)
            assert [job["name"] for job in document["jobs"]] == ["nightly's"], door
        status, explained = found[door]
        assert "story" not in status["jobs"][0], door
        assert explained["jobs"][0]["story"], door
    assert found["spark_jobs"] == 0
    for call, errors in found["wrong"].items():
        wanted = "takes no argument" if call.startswith("status") else "takes one argument"
        assert all(wanted in str(error) for error in errors), (call, errors)
    assert sorted(found["listed"]) == ["spark_sched_explain", "spark_sched_status"]


@WITH_ACLS
@pytest.mark.usefixtures("connect")
def test_a_client_of_spark_connect_outside_the_view_acls_is_refused(scenario: Scenario) -> None:
    found = scenario("connect_acls")
    assert found["alice"] == getpass.getuser()
    refused = "user eve may not see the application's scheduling: ask to be added to spark.ui.view.acls"
    assert found["eve"] == [f"the Spark Connect server refuses the status: {refused}"] * 2
    assert len(found["eves_attacks"]) == 9
    assert all(refused in str(error) for error in found["eves_attacks"]), found["eves_attacks"]
    assert found["eve_works"] == 8


@WITH_ACLS
def test_a_user_of_a_thrift_server_outside_the_view_acls_is_refused(scenario: Scenario) -> None:
    found = scenario("thrift_acls")
    assert found["alice"] == found["alices_view"] == found["application"] == getpass.getuser()
    refused = "user eve may not see the application's scheduling: ask to be added to spark.ui.view.acls"
    assert len(found["eves_attacks"]) == 9
    refusals = (*found["eve"], *found["eves_attacks"])
    assert all(refused in str(error) for error in refusals), refusals
    assert "no server names the user of this SQL session" in found["nobody"]


@on("local[1]", "spark.connect.grpc.binding.port=0")
@pytest.mark.usefixtures("connect")
def test_a_server_without_the_scheduler_is_named_as_the_reason(scenario: Scenario) -> None:
    found = scenario("status_without_scheduler")
    for asked in ("status", "explain"):
        assert "a Spark Connect server that runs without spark_sched" in found[asked], asked
    assert found["listed"] == 0
