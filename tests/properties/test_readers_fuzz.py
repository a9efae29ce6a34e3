"""Truncated and corrupted real files: a clear message or counted bad rows, never a job that is not in the
file."""

from __future__ import annotations

import gzip
from collections import Counter
from functools import cache
from itertools import islice
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_sched.errors import BadInputError
from spark_sched_lab.traces import open_trace, write_trace
from spark_sched_lab.traces.lines import lines
from spark_sched_lab.traces.read_report import ReadReport

pytestmark = pytest.mark.shared

#: File and how many of its lines make a sample: enough for DAGs and evictions, few enough to read it often.
SAMPLES = {
    "hawk": ("hawk_traces/GOOG_subtrace.tr", 40),
    "swf": ("swf/NASA-iPSC-1993-3.1-cln.swf.gz", 80),
    "swim": ("swim_facebook/FB-2010_samples_24_times_1hr_withInputPaths_0.tsv", 60),
    "alibaba2018": ("alibaba2018_dags/alibaba_set_0_6600_dags.csv.gz", 120),
    "google2011 tasks": ("google2011/task_events/part-00001-of-00500.csv.gz", 400),
    "google2011 jobs": ("google2011/job_events/part-00001-of-00500.csv.gz", 200),
    "google2011_jobs": ("google2011/jobs_derived.csv.gz", 100),
    "tpch_profiles": ("tpch_spark_profiles/profiles.jsonl.gz", 3),
    "spark_eventlog": ("spark_eventlogs/kubeflow-mcp/application_1713000000000_0001_1.zstd", 10_000),
}

fuzzed = settings(
    # The file is written anew for each example.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
formats = pytest.mark.parametrize("name", sorted(SAMPLES))


@pytest.fixture(scope="module")
def sample(shared):
    @cache
    def of(name: str) -> bytes:
        file, count = SAMPLES[name]
        found = lines(shared / "data" / file, ReadReport())
        return b"".join(line + b"\n" for _, line in islice(found, count))

    return of


@pytest.fixture(scope="module")
def intact(sample, tmp_path_factory):
    @cache
    def of(name: str) -> frozenset[str]:
        path = tmp_path_factory.mktemp("intact") / "file"
        path.write_bytes(sample(name))
        ids, _ = read(path)
        assert ids
        return frozenset(ids)

    return of


def read(path: Path) -> tuple[list[str], ReadReport]:
    """The ids of the jobs."""
    reader = open_trace(path)
    trace = reader.read()
    ids = trace.jobs["source_id"].to_pylist()
    assert len(set(ids)) == len(ids)
    return ids, reader.report


def read_or_refusal(path: Path) -> tuple[list[str], ReadReport] | None:
    """None for a file that was refused by its name."""
    try:
        return read(path)
    except BadInputError as refusal:
        sentence = str(refusal)
    assert str(path) in sentence
    return None


@formats
def test_empty_lines_before_the_first_row_change_nothing(name, sample, intact, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"\n\r\n" + sample(name))
    ids, report = read(path)
    # Hawk's jobs are named by their lines, so the names may differ.
    assert len(ids) == len(intact(name))
    assert not report.bad_rows


@formats
@fuzzed
@given(share=st.floats(0, 1))
def test_a_cut_file_has_only_jobs_of_the_whole_file(name, sample, intact, tmp_path, share):
    data = sample(name)
    path = tmp_path / "file"
    path.write_bytes(data[: int(len(data) * share)])
    found = read_or_refusal(path)
    if found is None:
        return
    ids, _ = found
    assert set(ids) <= intact(name)
    if name in ("hawk", "swf", "swim", "google2011_jobs", "tpch_profiles"):
        assert len(ids) <= path.read_bytes().count(b"\n") + 1


@formats
@pytest.mark.parametrize("codec", ["gzip", "zstd"])
@fuzzed
@given(share=st.floats(0, 1))
def test_a_cut_compressed_file_has_only_jobs_of_the_whole_and_says_that_it_is_cut(
    name, codec, sample, intact, tmp_path, share
):
    packed = compressed(sample(name), codec)
    kept = int(len(packed) * share)
    path = tmp_path / "file"
    path.write_bytes(packed[:kept])
    found = read_or_refusal(path)
    if found is None:
        return
    ids, report = found
    assert set(ids) <= intact(name)
    assert bool(report.truncated) == (kept < len(packed))


@formats
@fuzzed
@given(data=st.data())
def test_a_corrupted_gzip_file_is_refused_or_gives_the_jobs_it_has(name, sample, intact, tmp_path, data):
    packed = bytearray(compressed(sample(name), "gzip"))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "file"
    path.write_bytes(bytes(packed))
    found = read_or_refusal(path)
    if found is None:
        return
    ids, _ = found
    assert set(ids) <= intact(name)


@formats
@fuzzed
@given(data=st.data())
def test_a_corrupted_text_file_has_no_job_that_no_damaged_row_names(name, sample, intact, tmp_path, data):
    text = bytearray(sample(name))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(text) - 1))
        length = data.draw(st.integers(0, 8))
        text[at : at + length] = data.draw(
            st.one_of(
                st.binary(max_size=8),
                st.sampled_from([b"\n", b"0", b"-1", b"nan", b",", b'"', b"9" * 30, b"}"]),
            )
        )
    path = tmp_path / "file"
    path.write_bytes(bytes(text))
    found = read_or_refusal(path)
    if found is None:
        return
    ids, _ = found
    damaged = Counter(bytes(text).split(b"\n")) - Counter(sample(name).split(b"\n"))
    # A row that another job's number was written into names that job: that is all a reader can know.
    assert len(set(ids) - intact(name)) <= damaged.total()


@fuzzed
@given(data=st.data())
def test_a_corrupted_trace_file_is_refused_or_gives_the_jobs_it_has(sample, intact, tmp_path, data):
    whole = tmp_path / "whole"
    whole.write_bytes(sample("spark_eventlog"))
    target = tmp_path / "trace.parquet"
    write_trace(open_trace(whole).read(), target)
    packed = bytearray(target.read_bytes())
    if data.draw(st.booleans()):
        del packed[data.draw(st.integers(0, len(packed) - 1)) :]
    else:
        # Pages have check sums; the footer is pyarrow's own to guard.
        footer = int.from_bytes(packed[-8:-4], "little") + 8
        packed[data.draw(st.integers(4, len(packed) - footer - 1))] ^= data.draw(st.integers(1, 255))
    target.write_bytes(bytes(packed))
    found = read_or_refusal(target)
    if found is None:
        return
    ids, _ = found
    assert set(ids) <= intact("spark_eventlog")


def compressed(data: bytes, codec: str) -> bytes:
    if codec == "gzip":
        return gzip.compress(data, mtime=0)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()
