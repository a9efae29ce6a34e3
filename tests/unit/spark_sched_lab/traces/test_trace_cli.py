"""``spark-sched trace``: what it prints, writes and refuses."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from spark_sched.cli.app import app
from spark_sched_lab.traces import read_trace

HAWK = "".join(f"{i} 2 3.0 2.0 4.0\n" for i in range(20))


@pytest.fixture
def trace_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hawk.tr").write_text(HAWK + "rubbish\n")

    def call(*arguments: str):
        return CliRunner().invoke(app, ["trace", *arguments], prog_name="spark-sched", catch_exceptions=False)

    return call


def test_stats_prints_one_json_document_and_what_was_left_out_on_standard_error(trace_command):
    result = trace_command("stats", "hawk.tr", "--json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["format"] == "hawk"
    assert document["stats"]["jobs"] == 20
    assert document["report"]["bad_rows"] == 1
    assert "1 of 21 rows could not be read" in result.stderr
    assert "hawk.tr:21: 1 columns instead of" in result.stderr


def test_stats_prints_tables(trace_command):
    result = trace_command("stats", "hawk.tr")
    assert result.exit_code == 0
    for words in ("task duration, s", "c² of the gaps", "rows skipped"):
        assert words in result.stdout


def test_priorities_runs_settings_and_rules_on_any_trace(trace_command):
    given = ("priorities", "hawk.tr", "--demand", "0.01")
    document = json.loads(trace_command(*given, "--setting", "S11", "--rule", "mrs5", "--json").stdout)
    assert document["tasks"] == 40
    assert [(run["name"], run["rule"], run["slots"], run["memory_eviction"]) for run in document["runs"]] == [
        ("S11", "mrs", "SC3", "LSF"),
        ("mrs5", "mrs5", "SC3", "LSF"),
    ]
    assert all(run["R"] > 0 and run["dropped"] == 0 for run in document["runs"])
    every = json.loads(trace_command(*given, "--json").stdout)["runs"]
    assert [run["name"] for run in every] == [f"S{n}" for n in range(1, 12)]
    shown = trace_command(*given, "--setting", "S1")
    assert shown.exit_code == 0
    assert "S1: lrs" in shown.stdout
    assert "1 of 21 rows could not be read" in shown.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param(("--setting", "S12"), "setting 'S12' is unknown", id="setting"),
        pytest.param(("--rule", "msr"), "rule 'msr' is unknown", id="rule"),
        pytest.param(("--rule", "hybrid99999"), "sticky_slots is 99999 but the servers have", id="sticky"),
        pytest.param(("--rule", "mrs", "--slots", "SC9"), "configuration 'SC9' is unknown", id="slots"),
        pytest.param(("--slots", "SC1"), "--slots has an effect only with --rule", id="slots without a rule"),
        pytest.param(("--demand", "0"), "--demand is 0 but must be a number above 0", id="demand"),
        pytest.param(("--demand", "1e300"), "must be a number above 0, at most 1000", id="large demand"),
    ],
)
def test_priorities_refuses_what_it_does_not_know(trace_command, arguments, message):
    result = trace_command("priorities", "hawk.tr", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_convert_writes_parquet_that_stats_reads(trace_command, tmp_path):
    assert trace_command("convert", "hawk.tr", "out.parquet").exit_code == 0
    assert read_trace(tmp_path / "out.parquet").tasks.num_rows == 40
    again = trace_command("stats", "out.parquet", "--json")
    assert (
        json.loads(again.stdout)["stats"]
        == json.loads(trace_command("stats", "hawk.tr", "--json").stdout)["stats"]
    )


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("e2e", "--hours", "1", "--slack", "0.5"), id="e2e"),
        pytest.param(("thesis", "--workload", "W-E", "--hours", "0.2", "--low"), id="thesis"),
        pytest.param(("pareto", "--jobs", "3", "--alpha", "1.3"), id="pareto"),
    ],
)
def test_generate_writes_the_same_bytes_for_the_same_seed(trace_command, tmp_path, arguments):
    for out in ("a", "b"):
        result = trace_command("generate", *arguments, out, "--seed", "5", "--json")
        assert result.exit_code == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    document = json.loads(result.stdout)
    assert document["parameters"]["seed"] == 5
    assert document["jobs"] == read_trace(tmp_path / "a").jobs.num_rows


def test_e2e_classes_can_be_fitted_to_another_trace(trace_command):
    trace_command("generate", "e2e", "first.parquet", "--hours", "1")
    result = trace_command(
        "generate", "e2e", "second.parquet", "--hours", "1", "--classes-from", "first.parquet"
    )
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(("stats", "none"), "none does not exist", id="no such file"),
        pytest.param(("stats", "hawk.tr", "--format", "swf"), "but looks like a Hawk", id="another format"),
        pytest.param(
            ("stats", "hawk.tr", "--executors", "3"), "no option executors", id="an option it lacks"
        ),
        pytest.param(
            ("convert", "hawk.tr", "none/out"), "the folder none does not exist", id="no such folder"
        ),
        pytest.param(("convert", "hawk.tr", "hawk.tr"), "is also the input", id="onto itself"),
        pytest.param(
            ("generate", "pareto", "x", "--alpha", "0.5"), "alpha is 0.5", id="a parameter out of range"
        ),
        pytest.param(("generate", "e2e", "x", "--slack", "nan"), "slacks are [nan]", id="no number"),
        pytest.param(
            ("generate", "pareto", "x", "--priority", str(2**31)), "priority is 2147483648", id="33 bits"
        ),
        pytest.param(("stats", "/dev/null"), "/dev/null is a device", id="a device"),
        pytest.param(
            ("generate", "pareto", "x", "--jobs", "many"), "--jobs", id="a parameter of another type"
        ),
    ],
)
def test_bad_input_is_one_sentence_and_exit_status_two_and_leaves_no_file(
    trace_command, tmp_path, arguments, words
):
    result = trace_command(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["hawk.tr"]
    assert (tmp_path / "hawk.tr").read_text() == HAWK + "rubbish\n"
