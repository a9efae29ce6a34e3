"""Files of strangers: pipes, links, lines and archives made to fill a memory, documents of others."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from rich.console import Console

from spark_sched import terminal
from spark_sched.cli.app import app
from spark_sched.errors import BadInputError
from spark_sched.files import open_regular, read_text
from spark_sched_lab.traces import lines as lines_module
from spark_sched_lab.traces import open_trace
from spark_sched_lab.traces.lines import blocks, lines, parse_json
from spark_sched_lab.traces.parquet_io import META_KEY, read_meta
from spark_sched_lab.traces.read_report import ReadReport
from spark_sched_lab.whatif import logs_under
from spark_sched_lab.whatif.changes import read_changes
from tests.unit.spark_sched_lab.traces.event_log import T0, Log, read, two_jobs
from tests.unit.spark_sched_lab.traces.spark_frames import FRAMED, lz4_blocks
from tests.unit.spark_sched_lab.traces.test_trace_lines import zstd


def test_a_folder_is_read_without_what_is_no_regular_file_and_that_is_said(tmp_path):
    two_jobs().write(tmp_path / "log")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "nothing").symlink_to("absent")
    (tmp_path / "null").symlink_to("/dev/null")
    (tmp_path / "again").symlink_to(tmp_path)
    (tmp_path / "broken.gz").write_bytes(gzip.compress(b"{}")[:5] + b"xxxxxxxxxx")
    found = CliRunner().invoke(app, ["usage", str(tmp_path), "--json"])
    assert json.loads(found.stdout)["attempts"] == 6
    for name, why in (
        ("fifo", "is a pipe"),
        ("loop", "is not accessible (Too many levels of symbolic links)"),
        ("nothing", "is a link to nothing"),
        ("null", "is a device"),
        ("again", "is a link to a folder that is read already"),
        ("broken.gz", "is a damaged gzip file"),
    ):
        assert f"left out: {tmp_path / name} {why}" in found.stderr
    _, reader = read(tmp_path)
    assert len(reader.report.left_out) == 6


@pytest.mark.parametrize(
    "command",
    [
        ["usage"], ["whatif"], ["recommend"], ["trace", "stats"], ["predict", "eval"],
        ["bench"], ["simulate"], ["ab", "run"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_pipe_is_refused_at_once_by_every_reader(tmp_path, command):
    os.mkfifo(tmp_path / "pipe.toml")
    refused = CliRunner().invoke(app, [*command, str(tmp_path / "pipe.toml")])
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert f"{tmp_path / 'pipe.toml'} is a pipe" in refused.stderr
    assert refused.stderr.count("\n") == 1


#: Escapes, marks that turn text around, and a style's beginning for Rich.
_HOSTILE = "evil\x1b[31m[bold]\u202e\x07\n"


def test_names_of_files_control_no_terminal(tmp_path):
    two_jobs().write(tmp_path / "log")
    os.mkfifo(tmp_path / _HOSTILE)
    (tmp_path / f"{_HOSTILE}2").write_text(two_jobs().text()[:-9])
    for command in (["usage"], ["whatif"], ["trace", "stats"], ["recommend"]):
        found = CliRunner().invoke(app, [*command, str(tmp_path), "--json"], color=True)
        assert "evil\ufffd[31m[bold]\ufffd\ufffd" in found.stderr, command
        assert re.search("[\x00-\x09\x0b-\x1f\u202e]", found.stderr) is None, command


@pytest.mark.parametrize("bar", [terminal.reading_bar, terminal.counting_bar])
def test_a_bar_shows_the_name_of_any_file(monkeypatch, bar):
    out = io.StringIO()
    shown = Console(file=out, force_terminal=True, width=100, color_system=None)
    monkeypatch.setattr("rich.console.Console", lambda **_: shown)
    with bar() as made:
        if bar is terminal.reading_bar:
            made.add_task(f"{_HOSTILE}[/bold]", total=1)
            made.refresh()
        else:
            made(f"{_HOSTILE}[/bold]", 0, 1)
    assert "evil\ufffd[31m[bold]\ufffd\ufffd [/bold]" in out.getvalue()
    assert "\x1b[31m" not in out.getvalue()
    assert "\u202e" not in out.getvalue()


def nested(levels=100_000):
    return "[" * levels + "]" * levels


_STARTED = '{"Event":"org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart","executionId":'


@pytest.mark.parametrize(
    "event",
    [
        _STARTED + '1,"description":"x","modifiedConfigs":{"spark.job.tags":' + nested() + "}}",
        _STARTED + '1,"description":"x","modifiedConfigs":{"a":"b"},"modifiedConfigs":5}',
        _STARTED
        + '1,"description":"x","jobTags":[[1]],"modifiedConfigs":{"spark.job.tags":"a"},"jobTags":[1]}',
        _STARTED + "9" * 5000 + ',"description":"x"}',
        _STARTED.replace("Start", "End") + "9" * 5000 + "}",
        '{"Event":"org.apache.spark.scheduler.sparksched.SchedulingEvent","schema":1,"kind":"change","timeMs":1,'
        '"body":{"what":"x","by":"y","event":' + nested() + "}}",
    ],
    ids=["deep settings", "no settings", "no tags", "long id", "long id at the end", "deep change"],
)
def test_an_event_that_cannot_be_read_is_counted_and_the_others_are_read(tmp_path, event):
    (tmp_path / "log").write_text(two_jobs().text() + event + "\n")
    trace, reader = read(tmp_path / "log")
    assert trace.jobs.num_rows == 2
    assert reader.report.bad_rows == 1
    assert list(read_changes([tmp_path / "log"])) == []


def test_the_start_of_a_log_may_be_any_number(tmp_path):
    log = two_jobs()
    (tmp_path / "log").write_text(
        log.text().replace(f'"Timestamp":{T0},"User"', f'"Timestamp":{"9" * 5000},"User"')
    )
    trace, reader = read(tmp_path / "log")
    assert (trace.jobs.num_rows, reader.report.bad_rows) == (2, 1)


def test_a_trace_whose_description_is_too_deep_is_refused(tmp_path):
    table = pa.table({"x": [1]}).replace_schema_metadata({META_KEY: nested()})
    pq.write_table(table, tmp_path / "deep.parquet")
    with pytest.raises(BadInputError, match="deep.parquet is a damaged trace"):
        read_meta(tmp_path / "deep.parquet")


def test_configurations_are_regular_files_of_a_bounded_size(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInputError, match="pipe is a pipe, and only regular files are read: give a file"):
        open_regular(tmp_path / "pipe")
    with pytest.raises(BadInputError, match="null is a device"):
        read_text(type(tmp_path)("/dev/null"))
    with open(tmp_path / "large", "wb") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(BadInputError, match="large is larger than 64 MB"):
        read_text(tmp_path / "large")


def peak_mb_of(*arguments):
    """The greatest memory of a command, and what it said."""
    program = (
        "import pathlib, re, sys; from click.testing import CliRunner; from spark_sched.cli.app import app\n"
        "said = CliRunner().invoke(app, sys.argv[1:])\n"
        # Unlike getrusage it does not count what the process was at first: a copy of the tests' own.
        "status = pathlib.Path('/proc/self/status').read_text()\n"
        "print(int(re.search(r'VmHWM:\\s*(\\d+) kB', status)[1]) // 1024, said.exit_code, said.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
    )
    peak, status, said = done.stdout.split(" ", 2)
    return int(peak), int(status), said.strip()


@pytest.mark.parametrize("begin", [b'{"Event":"SparkListenerJobStart","x":"', b""], ids=["event", "zeros"])
def test_a_vast_line_is_refused_in_bounded_memory(tmp_path, begin):
    with open(tmp_path / "log", "wb") as file:
        file.write(begin)
        file.truncate(450 << 20)  # a file with holes takes no place on the disk
    peak_mb, status, said = peak_mb_of("usage", str(tmp_path / "log"))
    assert status == 2
    assert "log" in said
    if begin:
        assert "line 1 is longer than 64 MB, the most that is read" in said
    assert peak_mb < 512


def test_a_line_of_too_many_values_is_not_parsed(tmp_path):
    log = two_jobs()
    text = log.text() + '{"Event":"SparkListenerJobStart","x":[' + "{}," * 1_500_000 + "{}]}\n"
    (tmp_path / "log").write_text(text)
    trace, reader = read(tmp_path / "log")
    assert trace.jobs.num_rows == 2
    assert "it has more than 1,000,000 values, the most that is read" in reader.report.examples[0].reason
    with pytest.raises(ValueError, match="more than 1,000,000 values"):
        parse_json(b"[" + b"1," * 1_000_001 + b"1]")


@pytest.mark.parametrize("packed", [gzip.compress, zstd, *FRAMED.values()], ids=["gzip", "zstd", *FRAMED])
def test_data_that_unpacks_to_much_more_than_its_size_is_refused(tmp_path, monkeypatch, packed):
    monkeypatch.setattr(lines_module, "FREE_BYTES", 1 << 20)
    monkeypatch.setattr(lines_module, "MAX_RATIO", 20)
    path = tmp_path / "bomb"
    path.write_bytes(packed(b"\n" * (3 << 20)))
    with pytest.raises(
        BadInputError, match=r"unpacks to more than . MB \(20 times its size, at least 1 MB\)"
    ):
        list(lines(path, ReadReport()))
    monkeypatch.setattr(lines_module, "MAX_RATIO", 10**6)
    assert sum(map(len, blocks(path))) == 3 << 20
    monkeypatch.setattr(lines_module, "MAX_UNPACKED_BYTES", 2 << 20)
    with pytest.raises(BadInputError, match="if you trust the file, unpack it and give the result"):
        list(lines(path, ReadReport()))


def test_a_gzip_bomb_is_refused_before_it_is_unpacked(tmp_path):
    member = gzip.compress(b"\0" * (64 << 20), compresslevel=1)
    (tmp_path / "bomb.gz").write_bytes(member * 40)  # 2.5 GB out of less than 12 MB
    peak_mb, status, said = peak_mb_of("usage", str(tmp_path / "bomb.gz"))
    assert status == 2
    assert "unpacks to more than" in said
    assert "\n" not in said
    assert peak_mb < 512


def test_a_zstd_window_of_gigabytes_is_refused_by_its_name(tmp_path):
    # A frame's header: no sizes, a window of 2 GB.
    (tmp_path / "log").write_bytes(b"\x28\xb5\x2f\xfd\x00\xa8" + b"\x01\x00\x00" * 3)
    with pytest.raises(BadInputError, match="needs more than 128 MB of memory to be unpacked"):
        list(lines(tmp_path / "log", ReadReport()))


def test_a_parquet_file_of_runs_is_refused_by_the_number_of_its_values(tmp_path):
    table = pa.table({"x": pa.DictionaryArray.from_arrays(pa.array([0] * 40_000_000, pa.int8()), [1])})
    table = table.replace_schema_metadata({"spark_sched": "{}", "spark-sched": "{}"})
    pq.write_table(table, tmp_path / "runs.parquet")
    assert (tmp_path / "runs.parquet").stat().st_size < 1 << 20
    from spark_sched_lab.traces import parquet_io

    with pytest.raises(BadInputError, match="runs.parquet unpacks to 305 MB, and 256 MB is the most"):
        parquet_io._check_unpacked(tmp_path / "runs.parquet", pq.read_metadata(tmp_path / "runs.parquet"))


def pretty(events):
    return "".join(json.dumps(event, indent=2, sort_keys=True) + "\n" for event in events)


@pytest.mark.parametrize(
    "written",
    [
        pytest.param(pretty, id="as jq -S writes it"),
        pytest.param(lambda events: json.dumps(events, indent=4), id="a list"),
        pytest.param(json.dumps, id="a list in one line"),
        pytest.param(lambda events: ",\n".join(json.dumps(e, indent=1) for e in events), id="with commas"),
    ],
)
def test_events_that_span_lines_are_events(tmp_path, written):
    log = two_jobs()
    whole, _ = read(log.write(tmp_path / "log"))
    (tmp_path / "pretty").write_text(written(log.events))
    trace, reader = read(tmp_path / "pretty")
    assert trace.jobs.equals(whole.jobs)
    assert trace.tasks.equals(whole.tasks)
    assert (reader.report.bad_rows, reader.report.rows) == (0, len(log.events))


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (
            [{"id": "app-1", "name": "x", "attempts": [{"startTime": "2026"}]}],
            "list of applications of Spark",
        ),
        (
            [{"jobId": 1, "name": "x", "stageIds": [1]}],
            "REST API about jobs.*applications/<id>/logs",
        ),
        ({"capacity_slot_s": 1, "rows": [], "total": {}}, "the result of 'spark-sched usage --json'"),
        ({"logs": [], "left_out": [], "together": None}, "the result of 'spark-sched whatif --json'"),
        ({"b": {"Event": 1}, "a": [1]}, "a JSON document of several lines with the keys a, b"),
    ],
)
def test_another_json_document_is_refused_by_what_it_is(tmp_path, document, words):
    (tmp_path / "x.json").write_text(json.dumps(document, indent=2))
    with pytest.raises(BadInputError, match=words):
        open_trace(tmp_path / "x.json", "spark_eventlog")


def test_the_hourly_parts_of_databricks_are_one_log_and_its_property_is_the_user(tmp_path):
    tagged = {"user": "ana@example.org", "spark.databricks.clusterUsageTags.clusterName": "c"}
    log = Log().executor(0, "1", 2).job(0, 0, {0: []}, **tagged).stage(0, 0, 10, tasks=2).job_end(0, 10)
    log.job(1, 10, {1: []}, user="nobody").stage(1, 10, 20).job_end(1, 20)
    events = log.text().splitlines(keepends=True)
    (tmp_path / "eventlog-2026-01-01--09-00.gz").write_bytes(gzip.compress("".join(events[:5]).encode()))
    (tmp_path / "eventlog-2026-01-01--10-00.gz").write_bytes(gzip.compress("".join(events[5:7]).encode()))
    (tmp_path / "eventlog").write_text("".join(events[7:]))
    trace, reader = read(tmp_path)
    assert [p.name[8:] for p in reader.files()] == ["-2026-01-01--09-00.gz", "-2026-01-01--10-00.gz", ""]
    users = dict(zip(trace.jobs["source_id"].to_pylist(), trace.jobs["user"].to_pylist(), strict=True))
    assert users == {"spark-0": "ana@example.org", "spark-1": "anna"}
    assert trace.tasks.num_rows == 3
    assert logs_under(tmp_path) == [tmp_path]


def test_the_parts_of_several_applications_in_a_folder_are_joined_by_application(tmp_path):
    for name in ("app-1", "app-2"):
        events = two_jobs().text().replace("app-1", name).splitlines(keepends=True)
        (tmp_path / f"events_1_{name}").write_text("".join(events[:9]))
        (tmp_path / f"events_3_{name}.lz4").write_bytes(lz4_blocks("".join(events[9:]).encode()))
    logs = logs_under(tmp_path)
    assert [log.name for log in logs] == ["events_*_app-1", "events_*_app-2"]
    document = json.loads(CliRunner().invoke(app, ["usage", str(tmp_path), "--json"]).stdout)
    assert document["attempts"] == 12
    assert document["missing"]["parts of rolled logs"] == 2  # number 2 of each
    trace, _ = read(logs[1])
    assert trace.tasks.num_rows == 6


def test_the_tails_of_two_applications_keep_their_jobs_apart(tmp_path):
    tail = two_jobs().events[3:]
    for name in "ab":
        log = Log()
        log.events = tail
        log.write(tmp_path / name)
    trace, _ = read(tmp_path)
    ids = trace.jobs.column("source_id").to_pylist()
    assert len(set(ids)) == len(ids) == 4
