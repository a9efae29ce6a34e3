"""3Sigma's comparison in small: half an hour of one seed has the order of §6.1."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.papers.three_sigma import e2e

# One process makes what both tests look at.
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, Any]]:
    policies = ("3sigma", "point-perf-est", "point-real-est", "prio")
    return {policy: e2e.run(policy=policy, seed=1, hours=0.5, load=1.4) for policy in policies}


def test_distributions_miss_far_fewer_deadlines_than_points_and_priorities(found: dict[str, dict[str, Any]]):
    misses = {policy: run["slo_miss_percent"] for policy, run in found.items()}
    assert misses["3sigma"] <= 0.5 * misses["point-real-est"]
    assert misses["3sigma"] < misses["prio"]
    assert misses["3sigma"] <= misses["point-perf-est"] + 2.0


def test_best_effort_jobs_do_not_pay_for_it(found: dict[str, dict[str, Any]]):
    assert found["3sigma"]["be_latency_s"] <= 1.1 * min(run["be_latency_s"] for run in found.values())
    assert found["3sigma"]["goodput_machine_h"] > found["prio"]["goodput_machine_h"]


def test_no_plan_is_refused(found: dict[str, dict[str, Any]]):
    assert all(run["status"].get("refused", 0) == 0 for run in found.values())
