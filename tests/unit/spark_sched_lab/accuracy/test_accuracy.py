"""Accuracy on traces: causal order, the second half scored, bad input in a sentence."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from spark_sched.cli.app import app
from spark_sched.errors import BadInputError
from spark_sched.history.store import History
from spark_sched.predict.runtimes.features import JobAttributes
from spark_sched_lab.accuracy.runtimes import TraceJob, evaluate

HEADER = "job_id,user,logical_name,sched_class,submit_us,schedule_us,end_us,end_event,n_schedules"


def job(submit_s: float, runtime_s: float, name: str = "etl", *, finished: bool = True) -> TraceJob:
    attributes = JobAttributes(submit_s=submit_s, user="ana", name=name)
    return TraceJob(attributes, submit_s, submit_s + runtime_s, runtime_s, finished)


def test_a_constant_program_is_predicted_and_covered() -> None:
    found = evaluate([job(i * 100.0, 50.0) for i in range(200)])
    assert (found["jobs"], found["scored"]) == (200, 100)
    assert found["point"]["off_by_two_pct"] == found["last_20_of_user_and_name"]["off_by_two_pct"] == 0.0
    assert found["coverage_pct"]["calibrated"] == {"80": 100.0, "95": 100.0}


def test_no_job_is_known_before_it_ended() -> None:
    # All are submitted before the first one ends: nobody can be predicted.
    found = evaluate([job(float(i), 1_000.0) for i in range(20)])
    assert found["point"]["answered_pct"] == 0.0
    assert found["point"]["off_by_two_pct"] == 100.0


def test_an_end_at_the_instant_of_a_submission_counts_before_it() -> None:
    found = evaluate([job(0.0, 10.0), job(10.0, 10.0), job(20.0, 0.0), job(20.0, 0.0)])
    assert found["learned"] == 4
    assert found["point"]["answered_pct"] == 100.0


def test_calibrated_intervals_hold_as_often_as_they_say() -> None:
    rng = np.random.default_rng(7)
    jobs = [
        job(i * 60.0, float(rng.lognormal(3.0 + i % 40 / 10, 0.8)), f"program-{i % 40}") for i in range(1_600)
    ]
    found = evaluate(jobs)
    for level in (80, 95):
        assert found["coverage_pct"]["calibrated"][str(level)] == pytest.approx(level, abs=3.0)


def test_jobs_that_did_not_finish_are_neither_learned_nor_scored() -> None:
    found = evaluate([job(i * 100.0, 50.0, finished=i % 2 == 0) for i in range(40)])
    assert (found["learned"], found["scored"]) == (20, 10)
    with pytest.raises(BadInputError, match="no finished job"):
        evaluate([job(0.0, 1.0), job(5.0, 1.0, finished=False)])


def write_trace(path: Path, rows: int) -> Path:
    lines = [HEADER]
    for i in range(rows):
        at = (1_000 + 60 * i) * 1_000_000
        lines.append(f"{i},{i % 3},{i % 5},1,{at},{at + 1_000_000},{at + 31_000_000},4,1")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_command_prints_one_document(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "jobs.csv", 120)
    result = CliRunner().invoke(app, ["predict", "eval", "--json", str(trace)])
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["format"] == "google2011_jobs"
    assert document["scored"] == 60
    assert document["point"]["off_by_two_pct"] == 0.0
    table = CliRunner().invoke(app, ["predict", "eval", str(trace)])
    assert table.exit_code == 0
    assert "off by 2×" in table.stdout


def test_bad_traces_are_refused_in_a_sentence(tmp_path: Path) -> None:
    missing = CliRunner().invoke(app, ["predict", "eval", str(tmp_path / "no.csv")])
    assert missing.exit_code == 2
    assert "does not exist" in missing.stderr
    swim = tmp_path / "swim.tsv"
    swim.write_text("".join(f"job{i}\t{i}\t1\t10\t20\t30\n" for i in range(10)))
    timeless = CliRunner().invoke(app, ["predict", "eval", str(swim)])
    assert timeless.exit_code == 2
    assert "none of the 10 jobs with an arrival has a runtime" in timeless.stderr
    converted = tmp_path / "swim.parquet"
    assert CliRunner().invoke(app, ["trace", "convert", str(swim), str(converted)]).exit_code == 0
    again = CliRunner().invoke(app, ["predict", "eval", str(converted)])
    assert again.exit_code == 2
    assert "none of the 10 jobs with an arrival has a runtime" in again.stderr
    header = tmp_path / "jobs.csv"
    header.write_text(write_trace(tmp_path / "some.csv", 4).read_text().splitlines()[0] + "\n")
    empty = CliRunner().invoke(app, ["predict", "eval", str(header)])
    assert empty.exit_code == 2
    assert "has no job:" in empty.stderr


def test_learning_keeps_a_source_once_and_planners_find_it(tmp_path: Path) -> None:
    trace, history = write_trace(tmp_path / "jobs.csv", 60), tmp_path / "history.db"
    command = ["predict", "learn", "--json", "--history", str(history)]
    first = CliRunner().invoke(app, [*command, str(trace)])
    assert first.exit_code == 0, first.stderr
    document = json.loads(first.stdout)
    assert document["jobs"] == 60
    assert document["sources"] == [
        {"path": str(trace), "jobs": 60, "learned": 60, "stages": 0, "known": False}
    ]
    copy = tmp_path / "copy.csv"
    copy.write_text(trace.read_text())
    again = json.loads(CliRunner().invoke(app, [*command, str(copy)]).stdout)
    assert (again["jobs"], again["sources"][0]["known"]) == (60, True)
    told = History(str(history), None).runtimes.load()
    answer = told.predict(told.submit(JobAttributes(user="1", name="1")))
    assert answer is not None
    assert answer.point_s == pytest.approx(30.0, rel=0.05)


def test_learning_needs_to_know_where(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "jobs.csv", 3)
    missing = CliRunner().invoke(app, ["predict", "learn", str(trace)])
    assert missing.exit_code == 2
    assert "--history" in missing.stderr
    wrong = CliRunner().invoke(app, ["predict", "learn", "--history", "mysql://u@h/d", str(trace)])
    assert wrong.exit_code == 2
    assert "postgresql://" in wrong.stderr
