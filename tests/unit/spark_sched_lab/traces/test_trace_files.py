"""The columnar form and its file."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_sched.errors import BadInputError
from spark_sched_lab.traces import Machine, Trace, TraceMeta, open_trace, read_trace, write_trace
from spark_sched_lab.traces.docs import REGENERATE, with_section
from spark_sched_lab.traces.jobs import JobRecord, StageRecord, TaskRows, chunked
from spark_sched_lab.traces.parquet_io import write_chunks
from spark_sched_lab.traces.tables import JOB_SCHEMA, STAGE_SCHEMA, TASK_SCHEMA


def diamond(name: str = "diamond") -> JobRecord:
    stages = []
    for index, parents in enumerate([(), (0,), (0,), (1, 2)]):
        rows = TaskRows()
        for task in range(index + 1):
            rows.add(task, 1.0 + task, start_s=float(index), host=f"h{task}", copy=task == 2)
        stages.append(StageRecord(tasks=index + 1, parents=parents, rows=rows))
    return JobRecord(
        name,
        "finished",
        "malleable",
        stages,
        user="u",
        priority=7,
        submit_s=1.5,
        deadline_s=9.0,
        preferred=(0, 2),
        elsewhere_factor=1.5,
        features={"b": "2", "a": "1"},
    )


def bare(name: str) -> JobRecord:
    return JobRecord(name, "unknown", "gang")


META = TraceMeta(
    "test",
    "here",
    1234,
    notes=("n",),
    machines=(Machine("m", slots=4, added_s=0.0),),
    parameters={"x": [1, 2]},
)


@pytest.fixture
def trace() -> Trace:
    return Trace.from_chunks(chunked([bare("a"), diamond(), bare("b"), diamond("d2")], chunk_jobs=2), META)


def test_chunks_hold_whole_jobs_and_number_them_in_order():
    chunks = list(chunked([diamond(str(i)) for i in range(7)], chunk_tasks=25))
    assert [chunk.jobs.column("job").to_pylist() for chunk in chunks] == [[0, 1, 2], [3, 4, 5], [6]]
    for chunk in chunks:
        jobs = set(chunk.jobs.column("job").to_pylist())
        assert set(chunk.stages.column("job").to_pylist()) == jobs
        assert chunk.tasks.num_rows == 10 * len(jobs)
        assert chunk.jobs.schema.equals(JOB_SCHEMA)
        assert chunk.stages.schema.equals(STAGE_SCHEMA)
        assert chunk.tasks.schema.equals(TASK_SCHEMA)


def test_a_trace_comes_back_from_its_file_as_it_was(trace, tmp_path):
    write_trace(trace, tmp_path / "t.parquet")
    back = read_trace(tmp_path / "t.parquet")
    assert back.jobs.equals(trace.jobs)
    assert back.stages.equals(trace.stages)
    assert back.tasks.equals(trace.tasks)
    assert back.meta == META


def test_a_trace_without_jobs_comes_back_too(tmp_path):
    write_trace(Trace.from_chunks([], META), tmp_path / "t.parquet")
    assert read_trace(tmp_path / "t.parquet").jobs.num_rows == 0


def test_the_same_trace_gives_the_same_bytes(trace, tmp_path):
    write_trace(trace, tmp_path / "a.parquet")
    write_trace(read_trace(tmp_path / "a.parquet"), tmp_path / "b.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_a_file_is_written_whole_or_not_at_all(trace, tmp_path):
    target = tmp_path / "t.parquet"
    target.write_text("old")

    def broken():
        yield from trace.chunks()
        raise RuntimeError("disk on fire")

    with pytest.raises(RuntimeError):
        write_chunks(broken(), target, lambda: META)
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]


def test_other_parquet_files_are_refused_by_name(tmp_path):
    path = tmp_path / "other.parquet"
    pq.write_table(pa.table({"x": [1]}), path)
    with pytest.raises(BadInputError, match="is Parquet but not a trace"):
        open_trace(path)


def test_a_damaged_trace_file_is_refused(trace, tmp_path):
    path = tmp_path / "t.parquet"
    write_trace(trace, path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(BadInputError, match="damaged Parquet"):
        read_trace(path)


def test_a_trace_of_another_schema_version_is_refused():
    with pytest.raises(BadInputError, match="schema 99"):
        TraceMeta.from_json(META.to_json().replace('"schema": 1', '"schema": 99'))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(
            {"stages": [StageRecord(tasks=1, parents=(0,))]}, "depends on", id="a stage that needs itself"
        ),
        pytest.param({"stages": [StageRecord(tasks=0)]}, "0 tasks", id="a stage without tasks"),
        pytest.param({"runtime_s": -1.0}, "runtime is -1", id="a negative runtime"),
        pytest.param({"submit_s": float("nan")}, "submission is nan", id="a submission that is no number"),
        pytest.param({"outcome": "great"}, "'great'", id="an outcome that is none"),
    ],
)
def test_what_cannot_be_a_job_is_said_in_one_clause(change, reason):
    job = bare("x")
    for name, value in change.items():
        setattr(job, name, value)
    assert reason in (job.problem() or "")


def test_the_page_of_the_columns_is_what_the_declarations_generate(root):
    page = (root / "docs" / "reference" / "traces.md").read_text(encoding="utf-8")
    assert page == with_section(page), f"docs/reference/traces.md is out of date: run `{REGENERATE}`"
