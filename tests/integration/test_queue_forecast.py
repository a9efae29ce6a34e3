"""Starts and ends that are forecast of jobs that wait for others, in a live application."""

from __future__ import annotations

import re
from html import unescape

import pytest

from tests.integration.harness import Scenario, on

pytestmark = pytest.mark.integration


@on("spark-sched:local[4]", "spark.ui.enabled=true", "spark.ui.port=0")
def test_ten_equal_jobs(scenario: Scenario) -> None:
    found = scenario("ten_equal_jobs")
    # 1. Behind a job of which nothing is known, an operator reads how many are before it.
    words = found["words"]
    assert words["forecast"]
    assert "expected end: after 1 job: too little is known" in words["explain"]
    for view in ("status", "top"):
        assert "after 1 job" in words[view]
    assert "after 1 job" in unescape(words["tab"])
    # 2. The tenth of ten waits for nine: the forecast is right within a factor, and says when it starts.
    assert found["took_s"] / 3 < found["ends_in_s"] < found["took_s"] * 3
    assert found["ends_in_s"] > found["starts_in_s"] > 0.5 * found["ends_in_s"]
    assert re.search(r"expected start: \S+ \(80 % interval: ", found["text"])
    assert "Starts in" in found["story"]
