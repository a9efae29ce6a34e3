"""The statistics of traces that the papers print."""

from __future__ import annotations

import json

import numpy as np
import pytest

from spark_sched_lab.traces import Trace, TraceMeta
from spark_sched_lab.traces.jobs import JobRecord, StageRecord, TaskRows, chunked
from spark_sched_lab.traces.stats import burstiness, hill, trace_stats


def rng(seed=1):
    return np.random.default_rng(seed)


def small() -> Trace:
    records = []
    for number in range(4):
        stages = []
        for index in range(number):
            rows = TaskRows()
            for task in range(2):
                rows.add(task, 1.0 + 2 * task, start_s=5.0)
            stages.append(
                StageRecord(tasks=2, parents=(index - 1,) if index else (), rows=rows, submit_s=1.0)
            )
        job = JobRecord(
            f"j{number}", "finished", "malleable", stages, user=f"u{number % 2}", submit_s=10.0 - number
        )
        job.runtime_s, job.slots, job.deadline_s = 10.0 * (number + 1), number + 1, 50.0
        records.append(job)
    records.append(JobRecord("no arrival", "finished", "malleable", [StageRecord(tasks=1, mean_task_s=2.0)]))
    return Trace.from_chunks(chunked(records), TraceMeta("test", "small"))


def test_stats_are_those_computed_by_hand():
    stats = trace_stats(small().chunks())
    assert (stats["jobs"], stats["stages"], stats["task_attempts"], stats["users"]) == (5, 7, 12, 2)
    assert stats["runtime_s"]["p50"] == 25.0
    assert stats["task_cov_within_stage"]["p50"] == pytest.approx(0.5)
    # u0 has 10 and 30 s, u1 20 and 40 s: CoV 10/20 and 10/30.
    assert stats["runtime_cov_by_user"]["groups"] == 2
    assert stats["runtime_cov_by_user"]["max"] == pytest.approx(0.5)
    assert stats["runtime_cov_by_slots"] is None
    assert stats["work_slot_s"] == pytest.approx(6 * 4 + 2)
    assert stats["arrivals"]["c2"] == 0
    json.dumps(stats, allow_nan=False)


def test_stats_of_runtimes_of_zero_have_no_variation_and_stay_json():
    records = [
        JobRecord(f"{i}", "finished", "gang", runtime_s=0.0, user="u", submit_s=float(i)) for i in range(4)
    ]
    stats = trace_stats(chunked(records))
    assert stats["runtime_s"]["max"] == 0.0
    assert stats["runtime_cov"] is None
    json.dumps(stats, allow_nan=False)


def test_stats_of_chunks_are_those_of_the_whole():
    records = [
        JobRecord(f"{i}", "finished", "gang", runtime_s=float(i + 1), user="u", submit_s=float(i * i))
        for i in range(50)
    ]
    whole = trace_stats(chunked(records))
    parts = trace_stats(chunked(records, chunk_jobs=7))
    assert parts == whole


def test_stats_of_an_empty_trace_are_nulls():
    stats = trace_stats([])
    assert stats["jobs"] == 0
    assert stats["runtime_s"] is stats["arrivals"] is stats["span_s"] is stats["work_slot_s"] is None


def test_poisson_arrivals_have_c2_of_one_and_hills_estimate_finds_the_shape():
    found = burstiness(np.cumsum(rng().exponential(1.0, 50_000)))
    assert found is not None
    assert found["c2"] == pytest.approx(1.0, rel=0.05)
    assert hill(1 + rng().pareto(1.5, 100_000)) == pytest.approx(1.5, rel=0.05)
