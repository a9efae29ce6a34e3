"""Traces made of traces, and the statistics the papers print."""

from __future__ import annotations

import json

import numpy as np
import pytest

from spark_sched.errors import BadInputError
from spark_sched.traces import Trace, TraceMeta
from spark_sched.traces import transform as tf
from spark_sched.traces.jobs import JobRecord, StageRecord, TaskRows, chunked
from spark_sched.traces.stats import burstiness, hill, trace_stats


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


def test_taken_jobs_keep_their_stages_and_tasks_and_get_new_numbers():
    trace = tf.take(small(), [3, 1, 3])
    assert trace.jobs["job"].to_pylist() == [0, 1, 2]
    assert trace.jobs["source_id"].to_pylist() == ["j3", "j1", "j3#2"]
    assert trace.stages["job"].to_pylist() == [0, 0, 0, 1, 2, 2, 2]
    assert trace.stages["parents"].to_pylist() == [[], [0], [1], [], [], [0], [1]]
    assert np.bincount(trace.tasks["job"].to_numpy()).tolist() == [6, 2, 6]


def test_a_job_that_is_not_there_cannot_be_taken():
    with pytest.raises(BadInputError, match="jobs 0 to 4"):
        tf.take(small(), [5])


def test_jobs_sorted_by_submission_have_those_without_one_last():
    assert tf.by_submission(small()).jobs["source_id"].to_pylist() == ["j3", "j2", "j1", "j0", "no arrival"]


def test_other_arrivals_move_deadlines_and_forget_what_the_source_recorded():
    trace = tf.with_arrivals(small(), np.arange(5.0))
    assert trace.jobs["submit_s"].to_pylist() == [0, 1, 2, 3, 4]
    assert trace.jobs["deadline_s"].to_pylist() == [40, 42, 44, 46, None]
    assert trace.stages["submit_s"].null_count == trace.stages.num_rows
    assert trace.tasks["start_s"].null_count == trace.tasks.num_rows
    assert trace.tasks["duration_s"].null_count == 0


def test_columns_are_set_for_all_jobs_or_one_by_one():
    trace = tf.with_columns(small(), priority=5, job_class=["a", "b", "c", "d", None])
    assert trace.jobs["priority"].to_pylist() == [5] * 5
    assert trace.jobs["class"].to_pylist() == ["a", "b", "c", "d", None]


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        pytest.param({"colour": 1}, "no column 'colour'", id="no such column"),
        pytest.param({"job": 1}, "no column 'job'", id="the key"),
        pytest.param({"priority": [1]}, "1 values for 5 jobs", id="too few values"),
        pytest.param({"priority": "high"}, "give int32", id="another type"),
    ],
)
def test_columns_that_cannot_be_set_are_refused(columns, words):
    with pytest.raises(BadInputError, match=words):
        tf.with_columns(small(), **columns)


def test_only_jobs_that_can_run_are_complete_and_the_others_are_counted_in_a_note():
    trace = tf.complete(small())
    assert trace.jobs["source_id"].to_pylist() == ["j1", "j2", "j3"]
    assert trace.meta.notes == ("2 jobs without arrival, stages or durations dropped",)


def test_pareto_tasks_keep_every_stages_mean_and_number_of_tasks():
    big = tf.take(small(), np.tile([2, 4], 5000))
    trace = tf.pareto_tasks(rng(), big, 3.0)
    assert trace.tasks.num_rows == int(np.nansum(big.stages["tasks"].to_numpy()))
    durations = trace.tasks["duration_s"].to_numpy()
    first = np.isin(trace.tasks["job"].to_numpy() % 2, [0])
    assert durations[first].mean() == pytest.approx(2.0, rel=0.03)
    assert durations.min() == pytest.approx(2.0 * 2 / 3, rel=1e-3)


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
