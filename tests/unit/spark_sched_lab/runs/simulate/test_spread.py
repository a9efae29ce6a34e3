"""``spark-sched simulate --on``: what it refuses before any Spark is started."""

from __future__ import annotations

import socket
from pathlib import Path

import pyspark
import pytest
from click.testing import CliRunner
from py4j.protocol import Py4JNetworkError

from spark_sched.cli.app import app
from spark_sched.errors import BadInputError
from spark_sched_lab.runs.simulate import spread

EXPERIMENT = """
seeds = [1, 2]
[cluster]
nodes = 2
[[workload]]
stages = [{ tasks = 4, mean = "2s", alpha = 1.6 }]
[[arm]]
policy = "fifo"
"""


def test_places_are_masters_or_the_configured_one() -> None:
    assert spread.check_place("spark") is None
    assert spread.check_place("local[2]") == "local[2]"
    assert spread.check_place("local-cluster[2,1,1024]") == "local-cluster[2,1,1024]"


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("sprak://host:7077", "did you mean 'spark://host:7077'"),
        ("local[0]", "local, local[N]"),
        ("cluster", "give spark for the configured master"),
    ],
)
def test_what_is_no_master_is_refused_in_one_sentence(tmp_path: Path, place: str, words: str) -> None:
    file = tmp_path / "experiment.toml"
    file.write_text(EXPERIMENT)
    result = CliRunner().invoke(
        app, ["simulate", str(file), "--on", place], prog_name="spark-sched", catch_exceptions=False
    )
    assert result.exit_code == 2
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_master_that_does_not_answer_is_named_at_once() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(BadInputError, match=rf"no Spark master answers there \(127.0.0.1:{port}"):
            spread.check_place(f"spark://127.0.0.1:{port}")


def test_without_java_the_sentence_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(BadInputError, match="JAVA_HOME is"):
        spread.check_place("local[2]")


IN_PYTHON = """org.apache.spark.SparkException: Job aborted
Traceback (most recent call last):
ModuleNotFoundError: No module named 'numpy'
\tat org.apache.spark.Foo(Foo.scala:1)"""
IN_JAVA = "org.apache.spark.SparkException: all masters are gone\n\tat x"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (IN_PYTHON, "ModuleNotFoundError: No module named 'numpy'"),
        (IN_JAVA, "org.apache.spark.SparkException: all masters are gone"),
    ],
)
def test_of_a_long_error_the_line_that_says_what_was_wrong_is_told(text: str, said: str) -> None:
    assert spread._last_line(RuntimeError(text)) == said


def test_ctrl_c_stays_ctrl_c_where_it_costs_the_connection_to_the_driver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Lost:
        """A context whose driver answers no more."""

        stopped = False

        def __init__(self, conf: object) -> None:
            pass

        def addPyFile(self, path: str) -> None:
            raise KeyboardInterrupt

        def cancelAllJobs(self) -> None:
            raise Py4JNetworkError("Answer from Java side is empty")

        def stop(self) -> None:
            Lost.stopped = True

    monkeypatch.setattr(pyspark, "SparkContext", Lost)
    with pytest.raises(KeyboardInterrupt), spread._application("local[2]", "local[2]", "test"):
        pass
    assert Lost.stopped
