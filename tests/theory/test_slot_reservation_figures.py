"""What figures 15, 16 and 17 of "Speculative Slot Reservation" show, on 1,000 nodes with fewer jobs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from benchmarks.papers.slot_reservation.contention import (
    NO_COPIES,
    PAPERS_COPIES,
    alone,
    contended,
)
from benchmarks.papers.slot_reservation.workload import SUITES, Size

pytestmark = pytest.mark.slow


def mean_slowdowns(found: dict[str, Any], times: dict[str, int]) -> dict[str, float]:
    by_suite: dict[str, list[float]] = {}
    for job, row in found["foreground"].items():
        by_suite.setdefault(row["suite"], []).append(row["jct_ms"] / times[job])
    return {suite: float(np.mean(values)) for suite, values in by_suite.items()}


def test_reservation_keeps_the_foreground_near_its_time_alone_and_priority_does_not() -> None:
    shared: dict[str, Any] = {
        "size": asdict(Size(jobs=1_000, each=1)),
        "seed": 1,
        "suites": SUITES,
        "slowdown": 5.0,
    }
    times = alone(**shared)
    without = mean_slowdowns(contended(**shared, policy="priority", settings=NO_COPIES), times)
    kept = mean_slowdowns(contended(**shared, policy="reservation", settings=NO_COPIES), times)
    assert kept["mllib"] < 1.10
    assert kept["mllib-2x"] < 1.10
    assert kept["sql"] < 1.5
    assert without["mllib"] > 2.0 * kept["mllib"]
    assert without["mllib-2x"] > 2.0 * kept["mllib-2x"]
    assert without["sql"] > 1.3 * kept["sql"]


def test_pre_reserving_early_helps_queries_where_a_held_slot_is_as_good_as_a_near_one() -> None:
    shared: dict[str, Any] = {
        "size": asdict(Size(jobs=1_500, queries=2)),
        "seed": 1,
        "suites": ["sql"],
        "slowdown": 5.0,
        "held_is_near": True,
    }
    times = alone(**shared)
    slowdown = []
    for threshold in ("0.1", "0.9", "1"):
        settings = {**NO_COPIES, "spark.sched.reservation.preReserveThreshold": threshold}
        found = contended(**shared, policy="reservation", settings=settings)
        slowdown.append(mean_slowdowns(found, times)["sql"])
    early, late, never = slowdown
    assert early < late < never
    assert never - early > 0.1


def test_copies_on_reserved_slots_shorten_jobs_of_pareto_tasks_by_70_percent() -> None:
    jct_ms = []
    for settings in (NO_COPIES, PAPERS_COPIES):
        found = contended(
            size=asdict(Size(jobs=400, each=2)),
            seed=1,
            suites=SUITES,
            slowdown=5.0,
            policy="reservation",
            settings=settings,
            alpha=1.6,
        )
        jct_ms.append(np.mean([row["jct_ms"] for row in found["foreground"].values()]))
    assert 1.0 - jct_ms[1] / jct_ms[0] >= 0.70
