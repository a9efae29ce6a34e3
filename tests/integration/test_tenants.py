"""Tenants of one application: whose a job is, on real servers, and which mark of several counts."""

from __future__ import annotations

from typing import Any

import pytest

from spark_sched.attach import find_spark
from tests.integration.harness import Scenario, on

pytestmark = pytest.mark.integration

SERVERS = on(
    "spark-sched:local[2]",
    "spark.sched.reservation.gap=10min",
    "spark.connect.grpc.binding.port=0",
    "spark.sql.shuffle.partitions=2",
)


@SERVERS
@pytest.mark.parametrize("server", ["connect", "thrift"])
def test_no_tenant_becomes_joins_or_ends_another(scenario: Scenario, server: str) -> None:
    if server == "connect" and not any(find_spark().jars.glob("spark-connect_*.jar")):
        pytest.skip("this Spark comes without Spark Connect")
    found: dict[str, Any] = scenario(f"{server}_tenants")
    alices = ["mark-5-alice-nightly", "alice", 3, 0.5]
    assert found["before"] == [alices]
    assert [job[:3] for job in found["stolen"]] == [["mark-3-eve-stolen", "eve", 99]]
    assert found["stages_of_group"] == 1
    assert found["after"] == [alices]
    # Spark 3.5 has no name for it.
    refusals = ("CANNOT_MODIFY_STATIC_CONFIG", "Cannot modify the value of a static config")
    assert any(each in found["refused"] for each in refusals), found["refused"]
    assert [job[:3] for job in found["same_name"]] == [alices[:3], ["mark-name-3-eve-nightly", "eve", 8]]
    assert found["after_reset"] == [alices]
    assert [job[:3] for job in found["plain"]] == [["mark-name-3-eve-plain", "eve", 0]]
    assert [job[:2] for job in found["claimed"]] == [["mark-name-3-eve-claimed", "eve"]]
    if server == "connect":
        assert [job[:2] for job in found["looked"]] == [["mark-name-3-eve-looked", "eve"]]
        ((key, user, priority, _),) = found["in_block"]
        assert key.startswith("mark-5-alice-")
        assert (user, priority) == ("alice", 2)


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
