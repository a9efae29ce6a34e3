"""The files of event logs: rolling and compacted ones, folders of several applications."""

from __future__ import annotations

import gzip

import pytest

from spark_sched.errors import BadInputError
from spark_sched_lab.traces import open_trace
from tests.unit.spark_sched_lab.traces.event_log import Log, read, two_jobs


def parts_of(log, count):
    events = log.text().splitlines(keepends=True)
    size = -(-len(events) // count)
    return ["".join(events[i : i + size]) for i in range(0, len(events), size)]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_rolling_directory_is_read_in_the_order_of_its_numbers(tmp_path, suffix):
    folder = tmp_path / "eventlog_v2_app-1"
    folder.mkdir()
    (folder / "appstatus_app-1").write_text("")
    for number, part in enumerate(parts_of(two_jobs(), 11), 1):
        data = part.encode()
        (folder / f"events_{number}_app-1{suffix}").write_bytes(gzip.compress(data) if suffix else data)
    trace, reader = read(folder)
    whole, _ = read(two_jobs().write(tmp_path / "log"))
    assert reader.report.bad_rows == 0
    assert trace.jobs.equals(whole.jobs)
    assert trace.tasks.equals(whole.tasks)


def test_a_compacted_part_stands_for_all_before_it(tmp_path):
    folder = tmp_path / "eventlog_v2_app-1"
    folder.mkdir()
    first, second = parts_of(two_jobs(), 2)
    (folder / "events_1_app-1").write_text(first)
    (folder / "events_2_app-1.compact").write_text(first)
    (folder / "events_3_app-1").write_text(second)
    trace, _ = read(folder)
    assert trace.jobs.column("source_id").to_pylist() == ["spark-0", "spark-1"]


def test_a_folder_of_applications_keeps_their_jobs_apart(tmp_path):
    for name, log in (
        ("a", Log("app-1", "1")),
        ("b", Log("app-1", "2")),
        ("c", Log("app-2")),
        ("d", Log("app-2")),
    ):
        log.executor(0, "1", 2).job(0, 0, {0: []}).stage(0, 1, 10).job_end(0, 11).write(tmp_path / name)
    (tmp_path / "README").write_text("not a log")
    trace, reader = read(tmp_path)
    assert trace.jobs.column("source_id").to_pylist() == [
        "app-1_1/spark-0", "app-1_2/spark-0", "app-2/spark-0", "app-2#2/spark-0",
    ]  # fmt: skip
    assert len({machine.machine for machine in reader.meta.machines}) == 4


def test_a_folder_without_event_logs_is_refused(tmp_path):
    (tmp_path / "README").write_text("hello")
    with pytest.raises(BadInputError, match="a folder without a trace.*it has README"):
        open_trace(tmp_path)
