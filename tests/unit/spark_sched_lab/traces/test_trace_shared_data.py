"""Readers on the real traces: the numbers that the data's own descriptions give."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from spark_sched_lab.traces import open_trace, read_trace
from spark_sched_lab.traces.stats import trace_stats

pytestmark = pytest.mark.shared


@pytest.fixture(scope="session")
def data(shared):
    return shared / "data"


def test_the_hawk_subtrace_has_its_jobs_and_durations(data):
    trace = read_trace(data / "hawk_traces" / "GOOG_subtrace.tr")
    assert (trace.jobs.num_rows, trace.tasks.num_rows) == (10_000, 312_558)


@pytest.mark.parametrize(
    ("file", "jobs"),
    [
        pytest.param("CTC-SP2-1996-3.1-cln.swf.gz", 77_222, id="CTC"),
        pytest.param("NASA-iPSC-1993-3.1-cln.swf.gz", 18_239, id="NASA"),
    ],
)
def test_swf_logs_are_read_without_a_bad_row(data, file, jobs):
    reader = open_trace(data / "swf" / file)
    assert reader.read().jobs.num_rows == jobs
    assert reader.report.bad_rows == 0


@pytest.mark.parametrize(
    ("file", "jobs"),
    [
        pytest.param("FB-2009_samples_24_times_1hr_0_first50jobs.tsv", 50, id="first 50"),
        pytest.param("FB-2010_samples_24_times_1hr_withInputPaths_0.tsv", 25_428, id="with input paths"),
    ],
)
def test_swim_samples_are_read_without_a_bad_row(data, file, jobs):
    reader = open_trace(data / "swim_facebook" / file)
    assert reader.read().jobs.num_rows == jobs
    assert reader.report.bad_rows == 0


def test_tpch_profiles_are_88_dags(data):
    trace = read_trace(data / "tpch_spark_profiles" / "profiles.jsonl.gz")
    assert trace.jobs.num_rows == 88
    assert trace.stages.num_rows == 808


def test_polimi_runs_are_333_sequences_of_the_executed_stages(data):
    reader = open_trace(data / "spark_polimi_stages" / "stage_job_app_csv.tar.gz")
    trace = reader.read()
    assert (trace.jobs.num_rows, trace.stages.num_rows) == (333, 7411)
    assert reader.report.bad_rows == 0


def test_alibaba_dags_are_whole_and_broken_ones_are_counted(data):
    reader = open_trace(data / "alibaba2018_dags" / "alibaba_set_0_6600_dags.csv.gz")
    assert reader.read().jobs.num_rows == 6_600
    reader = open_trace(data / "alibaba2018_dags" / "alibaba_straight_chain_10K_dags_set1.csv.gz")
    assert reader.read().jobs.num_rows + reader.report.bad_rows == 10_000


def test_one_part_of_googles_task_events_is_read_in_whole(data):
    part = data / "google2011" / "task_events" / "part-00001-of-00500.csv.gz"
    reader = open_trace(part)
    trace = reader.read()
    assert reader.report.bad_rows == 0
    outcomes = Counter(trace.tasks["outcome"].to_pylist())
    assert outcomes["evicted"] > 0
    finished = trace.tasks.filter(np.array(trace.tasks["outcome"].to_pylist()) == "finished")[
        "duration_s"
    ].to_numpy()
    assert np.nanmin(finished) >= 0


@pytest.mark.slow
def test_googles_derived_table_has_the_runtimes_its_description_gives(data):
    stats = trace_stats(open_trace(data / "google2011" / "jobs_derived.csv.gz").chunks())
    assert stats["jobs"] == 672_074
    assert stats["runtime_s"]["p50"] == pytest.approx(109, abs=1)
    assert stats["runtime_s"]["p90"] == pytest.approx(1058, abs=1)
    assert stats["runtime_s"]["p99"] == pytest.approx(10_300, rel=0.01)


def test_every_event_log_is_read_without_a_bad_row(data):
    reader = open_trace(data / "spark_eventlogs")
    trace = reader.read()
    assert reader.report.bad_rows == 0
    # Broadcasts of Spark 3.1 are part of their queries, and tails of logs have jobs of their own.
    assert trace.jobs.num_rows == 310
    assert len(set(trace.jobs["source_id"].to_pylist())) == 310
    assert {"3.5.3", "4.1.0"} <= set(reader.meta.parameters["spark_versions"])
    parents = trace.stages["parents"].to_pylist()
    assert all(p < i for ps, i in zip(parents, trace.stages["stage"].to_pylist(), strict=True) for p in ps)
