"""Commands on the log of an application that ran nothing: those that describe it succeed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from spark_sched.cli.app import app

_EXECUTOR = {"Host": "h", "Total Cores": 2, "Log Urls": {}, "Attributes": {}, "Resources": {}}
_EVENTS = [
    {"Event": "SparkListenerLogStart", "Spark Version": "4.3.0"},
    {
        "Event": "SparkListenerApplicationStart",
        "App Name": "x",
        "App ID": "local-1",
        "Timestamp": 0,
        "User": "u",
    },
    {
        "Event": "SparkListenerExecutorAdded",
        "Timestamp": 1_000,
        "Executor ID": "driver",
        "Executor Info": {**_EXECUTOR, "Resource Profile Id": 0},
    },
    {"Event": "SparkListenerApplicationEnd", "Timestamp": 61_000},
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log"
    path.write_text("".join(json.dumps(event) + "\n" for event in _EVENTS))
    return path


@pytest.mark.parametrize(
    ("command", "sentence"),
    [(["usage"], "No task ran: 120 slot-seconds were idle."), (["trace", "stats"], "There is no job.")],
    ids=" ".join,
)
def test_commands_that_describe_a_log_say_that_there_is_nothing(log: Path, command, sentence) -> None:
    said = CliRunner().invoke(app, [*command, str(log)])
    assert (said.exit_code, said.stderr) == (0, "")
    assert sentence in said.stdout
    assert "distributions" not in said.stdout


@pytest.mark.parametrize(
    "command", [["whatif"], ["recommend"], ["predict", "eval"], ["predict", "learn"]], ids=" ".join
)
def test_commands_that_need_jobs_refuse_the_log(log: Path, tmp_path: Path, command) -> None:
    options = ["--history", str(tmp_path / "history.db")] if command[-1] == "learn" else []
    refused = CliRunner().invoke(app, [*command, *options, str(log)])
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith(f"error: {log} has no ")
    assert refused.stderr.count("\n") == 1
